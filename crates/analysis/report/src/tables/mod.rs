//! Tables and lists for a terminal, and the same as JSON: one file a result. Keys of JSON are stable.

pub mod determinism;
pub mod machine;
pub mod races;
pub mod realtime;
pub mod rows;
pub mod stacks;
pub mod taint;
pub mod totals;
pub mod units;

use std::io::{self, Write};

use serde_json::Value;
use symbols::Call;

/// Something that an analysis found.
pub trait Finding {
    /// As a JSON object.
    fn json(&self) -> Value;

    /// As lines.
    ///
    /// # Errors
    /// Where the output can't be written.
    fn text(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Writes what was found: as a JSON array, or one after the other, and `none` where there is nothing.
///
/// # Errors
/// Where the output can't be written.
pub fn findings<T: Finding>(found: &[T], as_json: bool, none: &str, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        return json(&found.iter().map(Finding::json).collect(), out);
    }
    if found.is_empty() {
        return writeln!(out, "{none}");
    }
    found.iter().try_for_each(|one| one.text(out))
}

/// Writes JSON for people and programs.
///
/// # Errors
/// Where the output can't be written.
pub fn json(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{value:#}")
}

/// A function of a stack.
pub fn call_json(call: &Call) -> Value {
    serde_json::json!({ "function": call.function.as_deref(), "file": call.file.as_deref(), "line": call.line })
}

/// File and line in brackets, as far as they are known.
fn place(file: Option<&str>, line: Option<u32>) -> String {
    match (file, line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        _ => String::new(),
    }
}
