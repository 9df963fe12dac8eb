//! Errors in the use of dynamic memory.

use std::io::{self, Write};

use analysis::errors::{MemoryError, MemoryErrorKind, StackPlace};
use serde_json::{Value, json};

use super::look::{Look, Tone, Toned};
use super::{json as write_json, mark_doubt, place, times};
use crate::number::grouped;

/// Functions of a stack that people see.
const FUNCTIONS: usize = 8;

/// Writes them as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn errors_json(errors: &[MemoryError], uncertain: bool, out: &mut dyn Write) -> io::Result<()> {
    let place = |place: &Option<StackPlace>| {
        place.as_ref().map(|place| {
            json!({ "function": place.function, "file": place.file, "line": place.line, "stack": place.stack })
        })
    };
    let all = errors.iter().map(|error| {
        let mut object = json!({
            "kind": error.kind.name(), "what": error.what, "bytes": error.bytes, "name": error.name,
            "access": place(&error.access), "allocated": place(&error.allocated), "freed": place(&error.freed),
            "times": error.times,
        });
        mark_doubt(&mut object, uncertain);
        object
    });
    write_json(&all.collect::<Value>(), out)
}

/// Writes them for people: all errors, and the first `top` calls with blocks that were never released or used, each.
///
/// # Errors
/// Where the output can't be written.
pub fn errors_text(
    errors: &[MemoryError],
    uncertain: bool,
    top: usize,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (wrong, notes): (Vec<&MemoryError>, Vec<&MemoryError>) =
        errors.iter().partition(|error| error.kind.is_error());
    for error in &wrong {
        let head = format!("{}: {}{}", error.kind.name().replace('_', " "), error.what, times(error.times));
        writeln!(out, "{}{}", Toned(look, Tone::Strong, &head), super::doubt(uncertain))?;
        let words = match error.kind {
            MemoryErrorKind::InvalidFree | MemoryErrorKind::MismatchedFree => "released",
            _ => "accessed",
        };
        let places =
            [(words, &error.access), ("allocated", &error.allocated), ("released before", &error.freed)];
        for (words, place) in places {
            stack(words, place.as_ref(), out)?;
        }
    }
    if wrong.is_empty() {
        writeln!(out, "no error was found")?;
    }
    for (kind, words) in
        [(MemoryErrorKind::Leak, "never released"), (MemoryErrorKind::Unused, "never accessed")]
    {
        let of_kind: Vec<&&MemoryError> = notes.iter().filter(|note| note.kind == kind).collect();
        let (blocks, bytes) =
            of_kind.iter().fold((0, 0), |sum, note| (sum.0 + note.times, sum.1 + note.bytes));
        if blocks == 0 {
            continue;
        }
        let head = format!("{words}: {} blocks of {} bytes", grouped(blocks), grouped(bytes));
        writeln!(out, "{}", Toned(look, Tone::Strong, &head))?;
        for note in of_kind.iter().take(top) {
            let words = format!("{} bytes in {} blocks, allocated", grouped(note.bytes), grouped(note.times));
            stack(&words, note.allocated.as_ref(), out)?;
        }
        if let Some(more) = of_kind.len().checked_sub(top).filter(|more| *more > 0) {
            writeln!(
                out,
                "  {}",
                Toned(look, Tone::Faint, &format!("{} more calls (--top N, --json)", grouped(more as u64)))
            )?;
        }
    }
    Ok(())
}

fn stack(words: &str, at: Option<&StackPlace>, out: &mut dyn Write) -> io::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let mut names: Vec<&str> = at.stack.iter().rev().map(String::as_str).take(FUNCTIONS).collect();
    if at.stack.len() > FUNCTIONS {
        names.push("...");
    }
    writeln!(out, "  {words} by {}{}", names.join(" < "), place(at.file.as_deref(), at.line))
}
