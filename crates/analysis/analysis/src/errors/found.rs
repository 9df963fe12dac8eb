//! What was found, with names.

use std::collections::BTreeMap;

use crate::stack::{CallPlace, CalledFunction, StackNames};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryErrorKind {
    /// An access to a block after its release.
    UseAfterFree,
    /// An access between blocks.
    OutOfBounds,
    /// A release of what is no block, or none any more.
    InvalidFree,
    /// A release by another function than goes with the one that allocated.
    MismatchedFree,
    /// A comparison of bytes that nobody wrote.
    Uninitialised,
    /// A block that was never released. No error by itself.
    Leak,
    /// A block that was never accessed. No error by itself.
    Unused,
}

impl MemoryErrorKind {
    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::UseAfterFree => "use_after_free",
            Self::OutOfBounds => "out_of_bounds",
            Self::InvalidFree => "invalid_free",
            Self::MismatchedFree => "mismatched_free",
            Self::Uninitialised => "uninitialised",
            Self::Leak => "leak",
            Self::Unused => "unused",
        }
    }

    /// Whether it is an error whatever the program is for.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Leak | Self::Unused)
    }
}

/// Where something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackPlace {
    /// The function, as far as known.
    pub function: String,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The functions from the outermost one on, this one last.
    pub stack: Vec<String>,
}

/// Something that is wrong, as often as it happened in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryError {
    /// What.
    pub kind: MemoryErrorKind,
    /// In words: `8 bytes at 40 in a block of 24`.
    pub what: String,
    /// Bytes of the access; of blocks all theirs.
    pub bytes: u64,
    /// The block's forged name, or what lies there.
    pub name: String,
    /// The access or the release.
    pub access: Option<StackPlace>,
    /// Where the block was allocated.
    pub allocated: Option<StackPlace>,
    /// Where it was released.
    pub freed: Option<StackPlace>,
    /// How often; of blocks how many.
    pub times: u64,
}

/// The same before it has names. Grouped by what happened where.
#[derive(Clone, Debug)]
pub(super) struct FoundError {
    pub(super) what: String,
    pub(super) bytes: u64,
    pub(super) name: String,
    pub(super) freed: Option<CallPlace>,
    pub(super) times: u64,
}

/// What makes two findings one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ErrorKey {
    pub(super) kind: MemoryErrorKind,
    pub(super) access: Option<CallPlace>,
    pub(super) allocated: Option<CallPlace>,
}

pub(super) fn named(found: &BTreeMap<ErrorKey, FoundError>, namer: &StackNames<'_>) -> Vec<MemoryError> {
    let place = |place: CallPlace| -> StackPlace {
        let stack = namer.stack(place);
        let last: Option<&CalledFunction> = stack.last();
        StackPlace {
            function: last.map_or_else(|| "[unknown]".to_owned(), |last| last.function.to_string()),
            file: last.and_then(|last| last.file.as_ref().map(ToString::to_string)),
            line: last.and_then(|last| last.line),
            stack: stack.iter().map(|function| function.function.to_string()).collect(),
        }
    };
    let all = found.iter().map(|(key, found)| MemoryError {
        kind: key.kind,
        what: found.what.clone(),
        bytes: found.bytes,
        name: found.name.clone(),
        access: key.access.map(place),
        allocated: key.allocated.map(place),
        freed: found.freed.map(place),
        times: found.times,
    });
    let mut all = joined(all);
    all.sort_by(|a, b| {
        let most =
            |one: &MemoryError| std::cmp::Reverse(if one.kind.is_error() { one.times } else { one.bytes });
        a.kind.cmp(&b.kind).then_with(|| most(a).cmp(&most(b))).then_with(|| a.name.cmp(&b.name))
    });
    all
}

/// Instructions of one source line, as of a loop that was unrolled, are one.
fn joined(all: impl Iterator<Item = MemoryError>) -> Vec<MemoryError> {
    let mut joined: Vec<MemoryError> = Vec::new();
    for one in all {
        let is_same = |other: &&mut MemoryError| {
            (other.kind, &other.access, &other.allocated) == (one.kind, &one.access, &one.allocated)
        };
        match joined.iter_mut().rev().find(is_same) {
            Some(other) => {
                other.times += one.times;
                other.bytes += if one.kind.is_error() { 0 } else { one.bytes };
            }
            None => joined.push(one),
        }
    }
    joined
}
