//! The errors of this crate. Each has a message of one line that says where and why.

use std::{io, path::PathBuf};

use crate::BuildId;

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{path}: cannot be read for its symbols: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file can't be copied.
    #[error("{path}: cannot be archived: {source}")]
    Copy {
        /// The file that was read or written.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no ELF file of 64 bits.
    #[error("{path}: no symbols, it is not a 64-bit ELF file")]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// The file is for another processor.
    #[error("{path}: no symbols, it is for another architecture than x86-64 (ELF machine {machine})")]
    OtherArchitecture {
        /// The file.
        path: PathBuf,
        /// `e_machine` of the file.
        machine: u16,
    },
    /// The file is damaged.
    #[error("{path}: no symbols, {what} cannot be read: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was being read.
        what: &'static str,
        /// Why.
        source: object::Error,
    },
    /// The debug information is damaged.
    #[error("{path}: debug information is damaged ({reason}); names come from symbols alone")]
    Dwarf {
        /// The file.
        path: PathBuf,
        /// The first damage that was met.
        reason: String,
    },
    /// The file was built anew since the trace was recorded.
    #[error(
        "{path}: no names taken from it, it is another build ({found}) than the one that was traced ({expected})"
    )]
    BuildIdMismatch {
        /// The file.
        path: PathBuf,
        /// The build that was traced.
        expected: BuildId,
        /// The build that is there now; "none" where it has no build id.
        found: String,
    },
    /// No function has that name.
    #[error("no function {name}{}", suggest(suggestions))]
    NoFunction {
        /// What was looked for.
        name: String,
        /// Names that are near.
        suggestions: Vec<String>,
    },
    /// No variable has that name.
    #[error("no variable {name}{}", suggest(suggestions))]
    NoVariable {
        /// What was looked for.
        name: String,
        /// Names that are near.
        suggestions: Vec<String>,
    },
    /// The variable is there, what was asked of it isn't.
    #[error("{expression}: {reason}")]
    BadExpression {
        /// The whole expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn suggest(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(", ")) }
}
