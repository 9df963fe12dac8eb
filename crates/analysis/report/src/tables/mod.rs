//! Tables and lists for a terminal, and the same as JSON: one file per result. The JSON keys are stable.

pub mod appearance;
pub mod caches;
pub mod choice;
pub mod compared;
pub mod deaths;
pub mod determinism;
pub mod errors;
mod grid;
pub mod layouts;
pub mod lines;
pub mod machine;
pub mod offsets;
pub mod pairs;
pub mod races;
pub mod realtime;
pub mod rows;
pub mod shorten;
pub mod source;
pub mod stacks;
pub mod taint;
pub mod totals;
pub mod units;
pub mod unused;

use std::io::{self, Write};

use analysis::FirstPlace;
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

/// Where a finding was seen first.
fn first_place_json(first: &FirstPlace) -> Value {
    serde_json::json!({
        "process": first.process.0, "thread": first.thread.map(|thread| thread.0), "cycle": first.cycle,
        "addr": format!("{:#x}", first.addr.0),
    })
}

/// `, 3 times`; nothing of what happened once.
fn times(count: u64) -> String {
    if count == 1 { String::new() } else { format!(", {count} times") }
}

/// What is said of a finding that missing events could have decided otherwise.
fn doubt(uncertain: bool) -> &'static str {
    if uncertain { " (uncertain: events are missing)" } else { "" }
}

/// The same in JSON, where such a finding alone has the key.
fn mark_doubt(object: &mut Value, uncertain: bool) {
    if uncertain && let Some(object) = object.as_object_mut() {
        object.insert("uncertain".into(), Value::Bool(true));
    }
}

/// File and line in brackets, as far as they are known.
fn place(file: Option<&str>, line: Option<u32>) -> String {
    match (file, line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        _ => String::new(),
    }
}
