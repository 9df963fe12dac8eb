//! Functions that memtap adds to SQL. `rounded` computes with addresses alone; `looked_up` asks the traces what they mean.

pub(crate) mod looked_up;
mod rounded;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use crate::provider::NamedTrace;

/// All of them, about these traces.
pub(crate) fn functions(traces: &Arc<[NamedTrace]>) -> Vec<ScalarUDF> {
    let mut all = without_traces();
    all.extend(looked_up::functions(traces));
    all
}

/// Those that need no trace, but numbers.
pub fn without_traces() -> Vec<ScalarUDF> {
    rounded::functions()
}
