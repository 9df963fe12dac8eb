//! Errors in the use of memory, for people and as JSON.

use std::io::{self, Write};

use analysis::errors::{LeakKind, MemoryError, MemoryErrorKind, StackPlace};
use serde_json::{Value, json};

use super::appearance::{Look, Tone, Toned};
use super::rows::{conflicts_json, doubt_of_type};
use super::shorten::shorten;
use super::{first_place_json, json as write_json, mark_doubt, place, times};
use crate::number::amount;

/// Functions of a stack that people see, in lines that have an end.
const FUNCTIONS: usize = 8;
/// The width of their names there.
const NAME_COLUMNS: usize = 50;
/// The width of the path of a file that is not the user's.
const LIBRARY_FILE_COLUMNS: usize = 30;

/// Writes them as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn errors_json(errors: &[MemoryError], uncertain: bool, out: &mut dyn Write) -> io::Result<()> {
    let place = |place: &Option<StackPlace>| {
        place.as_ref().map(|place| {
            let own = place.own.as_ref();
            let own = own.map(|own| json!({ "function": own.function, "file": own.file, "line": own.line }));
            json!({
                "function": place.function, "file": place.file, "line": place.line, "stack": place.stack,
                "own": own,
            })
        })
    };
    let all = errors.iter().map(|error| {
        let mut object = json!({
            "kind": error.kind.name(), "what": error.what, "bytes": error.bytes, "name": error.name,
            "type": error.type_name, "field": error.field, "conflicts": conflicts_json(&error.conflicts),
            "access": place(&error.access), "allocated": place(&error.allocated), "freed": place(&error.freed),
            "last_access": place(&error.last_access),
            "leak_kind": error.leak_kind.map(LeakKind::name), "times": error.times,
            "first_seen": error.first_seen.as_ref().map(first_place_json),
        });
        mark_doubt(&mut object, uncertain);
        object
    });
    write_json(&all.collect::<Value>(), out)
}

/// Writes them for people: all errors, and the first `top` calls with blocks that were never released or used, each. Stacks are cut to
/// `width` characters; without it they are whole.
///
/// # Errors
/// Where the output can't be written.
pub fn errors_text(
    errors: &[MemoryError],
    uncertain: bool,
    top: usize,
    width: Option<usize>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (wrong, notes): (Vec<&MemoryError>, Vec<&MemoryError>) =
        errors.iter().partition(|error| error.kind.is_error());
    for error in &wrong {
        let head = format!(
            "{}: {}{}{}",
            error.kind.name().replace('_', " "),
            error.what,
            thing(error),
            times(error.times)
        );
        writeln!(out, "{}{}", Toned(look, Tone::Strong, &head), super::doubt(uncertain))?;
        let words = match error.kind {
            MemoryErrorKind::InvalidFree | MemoryErrorKind::MismatchedFree => "released",
            MemoryErrorKind::Wild | MemoryErrorKind::Overlap => "made",
            _ => "accessed",
        };
        let places =
            [(words, &error.access), ("allocated", &error.allocated), ("released before", &error.freed)];
        for (words, place) in places {
            stack(words, place.as_ref(), width, out)?;
        }
    }
    if wrong.is_empty() {
        writeln!(out, "no error was found")?;
    }
    for (kind, words) in [
        (MemoryErrorKind::Leak, "never released"),
        (MemoryErrorKind::Unused, "never accessed"),
        (MemoryErrorKind::Temporary, "released before anything else was allocated"),
    ] {
        let of_kind: Vec<&&MemoryError> = notes.iter().filter(|note| note.kind == kind).collect();
        let (blocks, bytes) =
            of_kind.iter().fold((0, 0), |sum, note| (sum.0 + note.times, sum.1 + note.bytes));
        if blocks == 0 {
            continue;
        }
        let head = format!("{words}: {} of {}", amount(blocks, "block"), amount(bytes, "byte"));
        writeln!(out, "{}", Toned(look, Tone::Strong, &head))?;
        for note in of_kind.iter().take(top) {
            let of = match (&note.type_name, doubt_of_type(&note.conflicts)) {
                (None, _) => String::new(),
                (Some(name), doubt) if doubt.is_empty() => format!(" of {name}"),
                (Some(name), doubt) => format!(" of {name} ({doubt})"),
            };
            let how = note.leak_kind.map_or_else(String::new, |kind| format!(", {}", kind.words()));
            let words = format!(
                "{} in {}{of}{how}, allocated",
                amount(note.bytes, "byte"),
                amount(note.times, "block")
            );
            stack(&words, note.allocated.as_ref(), width, out)?;
            if note.last_access.is_some() {
                stack("  last accessed", note.last_access.as_ref(), width, out)?;
            }
        }
        if let Some(more) = of_kind.len().checked_sub(top).filter(|more| *more > 0) {
            writeln!(
                out,
                "  {}",
                Toned(look, Tone::Faint, &format!("{} (--top N, --json)", amount(more as u64, "more call")))
            )?;
        }
    }
    Ok(())
}

/// The field that was accessed, or the block's type.
pub(crate) fn thing(error: &MemoryError) -> String {
    let Some(thing) = error.field.as_ref().or(error.type_name.as_ref()) else { return String::new() };
    match doubt_of_type(&error.conflicts) {
        doubt if doubt.is_empty() => format!(" (`{thing}`)"),
        doubt => format!(" (`{thing}`, {doubt})"),
    }
}

fn stack(words: &str, at: Option<&StackPlace>, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let file = at.file.as_deref().map(|file| match (&at.own, width) {
        // A library's, which nobody opens.
        (Some(_), Some(_)) => shorten(file, LIBRARY_FILE_COLUMNS),
        _ => file.to_owned(),
    });
    let place = place(file.as_deref(), at.line);
    let most = width.map_or(usize::MAX, |_| FUNCTIONS);
    let mut names = String::new();
    let mut functions = at.folded().enumerate().peekable();
    while let Some((index, (function, count))) = functions.next() {
        let function = if width.is_some() { shorten(function, NAME_COLUMNS) } else { function.to_owned() };
        let recursive = if count > 1 { " (recursive)" } else { "" };
        let before = if index == 0 { "" } else { " < " };
        let name = format!("{before}{function}{recursive}");
        let rest = if functions.peek().is_some() { " < ..." } else { "" };
        // The place comes behind, however long its path is: how much of a stack is shown does not depend on where the source lies.
        let parts = ["  ", words, " by ", &names, &name, rest];
        let columns: usize = parts.iter().map(|part| part.chars().count()).sum();
        let is_cut = index > 0 && width.is_some_and(|width| columns > width);
        if index == most || is_cut {
            names.push_str(" < ...");
            break;
        }
        names.push_str(&name);
    }
    writeln!(out, "  {words} by {names}{place}")?;
    let Some(own) = at.own.as_ref().filter(|_| width.is_some()) else { return Ok(()) };
    let indent = words.len() - words.trim_start().len() + 4;
    let function = shorten(&own.function, NAME_COLUMNS);
    writeln!(out, "{:indent$}called from {function}{}", "", super::place(Some(&own.file), own.line))
}
