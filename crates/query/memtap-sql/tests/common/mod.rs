//! Asks recordings of real programs through the real binary.

use std::path::Path;
use std::process::Command;

use e2e::{Finished, Recording, memtap, run};
use serde_json::Value;

/// Asks traces in SQL.
pub(crate) fn ask(files: &[&Path], rest: &[&str]) -> Finished {
    run(Command::new(memtap()).arg("sql").args(files).args(rest), b"")
}

/// The rows of a query. Nothing is noted beside them.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn rows(recording: &Recording, query: &str) -> Vec<Value> {
    let outcome = ask(&[&recording.trace.path], &[query, "--format", "json"]);
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{query}");
    serde_json::from_slice(&outcome.stdout).expect("an array")
}

/// A number of a row.
pub(crate) fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {row}"))
}
