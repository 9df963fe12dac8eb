//! Errors with the words of the command line.

use std::error::Error as _;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(memtap, MemtapError, PyException, "What memtap can't do, in one line.");

/// An error with its causes in one line, each said once.
pub(crate) fn raised(error: &memtap_arrow::Error) -> PyErr {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !line.contains(&words) {
            line = format!("{line}: {words}");
        }
        cause = error.source();
    }
    MemtapError::new_err(line)
}
