//! The columns that batches consist of, and the sink that takes batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};

use crate::Error;

/// Takes batches, and says whether it wants more.
pub(crate) type Sink<'a> = dyn FnMut(RecordBatch) -> bool + 'a;

/// The columns of a table, all of them and whole.
pub(crate) type WholeColumns = Result<Vec<ArrayRef>, Error>;

/// A column of numbers.
pub(crate) fn numbers(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(arrow_array::UInt64Array::from_iter_values(values))
}

/// A column of numbers, some of them missing.
pub(crate) fn some_numbers(values: impl IntoIterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(arrow_array::UInt64Array::from_iter(values))
}

/// A column of numbers of 32 bits.
pub(crate) fn numbers32(values: impl IntoIterator<Item = u32>) -> ArrayRef {
    Arc::new(arrow_array::UInt32Array::from_iter_values(values))
}

/// A column of numbers of 32 bits, some of them missing.
pub(crate) fn some_numbers32(values: impl IntoIterator<Item = Option<u32>>) -> ArrayRef {
    Arc::new(arrow_array::UInt32Array::from_iter(values))
}

/// A column of texts.
pub(crate) fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(arrow_array::StringArray::from_iter(values))
}
