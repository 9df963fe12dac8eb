//! Errors in the use of memory as SARIF: one result per error, located at the access or
//! the release. For blocks that were never released or used, it is located at the allocation.

use std::io::{self, Write};
use std::path::Path;

use analysis::errors::{MemoryError, MemoryErrorKind, StackPlace};

use super::{SarifFinding, SarifFrame, SarifPlace, SarifRule, write};
use crate::tables::errors::thing;

/// One for each kind, in their order.
const RULES: [SarifRule; 10] = [
    SarifRule { id: "wild", text: "An access that ended the program", level: "error" },
    SarifRule { id: "use_after_free", text: "An access to a block after its release", level: "error" },
    SarifRule { id: "out_of_bounds", text: "An access between blocks", level: "error" },
    SarifRule { id: "invalid_free", text: "The release of something that is not a block", level: "error" },
    SarifRule {
        id: "mismatched_free",
        text: "A release that does not go with the allocation",
        level: "error",
    },
    SarifRule { id: "overlap", text: "A copy whose source and destination overlap", level: "error" },
    SarifRule { id: "uninitialised", text: "A comparison of bytes that nobody wrote", level: "error" },
    SarifRule { id: "leak", text: "A block that was never released", level: "note" },
    SarifRule { id: "unused", text: "A block that was never accessed", level: "note" },
    SarifRule {
        id: "temporary",
        text: "A block that was released before anything else was allocated",
        level: "note",
    },
];

/// Writes errors; names of files below `root` are relative to it.
///
/// # Errors
/// Where the output can't be written.
pub fn errors(errors: &[MemoryError], uncertain: bool, root: &Path, out: &mut dyn Write) -> io::Result<()> {
    let found: Vec<SarifFinding> = errors.iter().map(|error| finding(error, uncertain)).collect();
    write(&RULES, &found, root, out)
}

fn finding(error: &MemoryError, uncertain: bool) -> SarifFinding {
    let name = error.kind.name();
    let rule = RULES.iter().position(|rule| rule.id == name).expect("each kind has a rule");
    let access = match error.kind {
        MemoryErrorKind::InvalidFree | MemoryErrorKind::MismatchedFree => "released here",
        _ => "accessed here",
    };
    let places =
        [(access, &error.access), ("allocated here", &error.allocated), ("released before", &error.freed)];
    let mut places: Vec<SarifPlace> =
        places.into_iter().filter_map(|(words, place)| Some(described(words, place.as_ref()?))).collect();
    if places.is_empty() {
        // Nothing is known of where it was, and a result has a location.
        places.push(SarifPlace { words: access.to_owned(), stack: Vec::new() });
    }
    let functions: Vec<&str> =
        places.iter().filter_map(|place| Some(&place.stack.first()?.function[..])).collect();
    let times = if error.times == 1 { String::new() } else { format!(", {} times", error.times) };
    SarifFinding {
        rule,
        message: format!("{}: {}{}{times}", RULES[rule].text, error.what, thing(error)),
        fingerprint: functions.join("|"),
        places,
        times: error.times,
        uncertain,
    }
}

fn described(words: &str, place: &StackPlace) -> SarifPlace {
    // The innermost function alone has a line; the others are names.
    let innermost =
        SarifFrame { function: place.function.clone(), file: place.file.clone(), line: place.line };
    let callers = place.stack.iter().rev().skip(1);
    let callers = callers.map(|function| SarifFrame { function: function.clone(), file: None, line: None });
    SarifPlace { words: words.to_owned(), stack: [innermost].into_iter().chain(callers).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_rule_of_its_level() {
        for kind in [
            MemoryErrorKind::Wild,
            MemoryErrorKind::UseAfterFree,
            MemoryErrorKind::OutOfBounds,
            MemoryErrorKind::InvalidFree,
            MemoryErrorKind::MismatchedFree,
            MemoryErrorKind::Overlap,
            MemoryErrorKind::Uninitialised,
            MemoryErrorKind::Leak,
            MemoryErrorKind::Unused,
            MemoryErrorKind::Temporary,
        ] {
            let rule = RULES.iter().find(|rule| rule.id == kind.name()).expect("a rule");
            assert_eq!(rule.level == "error", kind.is_error(), "{}", rule.id);
        }
    }
}
