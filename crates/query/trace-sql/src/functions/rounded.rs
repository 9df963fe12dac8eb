//! Functions that round addresses down.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use memref::VirtAddr;

/// Bytes of a line of the cache.
const LINE_BYTES: u64 = 64;

/// A function that rounds addresses down.
fn rounded(name: &str, bytes: u64) -> ScalarUDF {
    let round = move |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let addresses = ColumnarValue::values_to_arrays(arguments)?;
        let rounded: UInt64Array = match addresses.first() {
            Some(addresses) => {
                addresses.as_primitive::<UInt64Type>().unary(|address| address / bytes * bytes)
            }
            None => UInt64Array::new_null(0),
        };
        Ok(ColumnarValue::Array(Arc::new(rounded)))
    };
    create_udf(name, vec![DataType::UInt64], DataType::UInt64, Volatility::Immutable, Arc::new(round))
}

/// All of them.
pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![rounded("cache_line", LINE_BYTES), rounded("page", VirtAddr::PAGE_BYTES)]
}
