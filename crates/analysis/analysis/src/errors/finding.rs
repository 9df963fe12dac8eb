//! The findings, with names.

use std::collections::BTreeMap;

use super::reach::LeakKind;
use crate::layout::{BlockAddress, FieldNames, TypeConflict};
use crate::stack::{CallPlace, CalledFunction, StackNames};
use crate::{FirstPlace, Owner};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryErrorKind {
    /// An access that a signal answered, by which the process ended.
    Wild,
    /// An access to a block after its release.
    UseAfterFree,
    /// An access between blocks.
    OutOfBounds,
    /// A release of what is no block, or none any more.
    InvalidFree,
    /// A release by another function than goes with the one that allocated.
    MismatchedFree,
    /// A copy whose source and destination overlap, by a function that does not allow it.
    Overlap,
    /// A comparison of bytes that nobody wrote.
    Uninitialised,
    /// A block that was never released. No error by itself.
    Leak,
    /// A block that was never accessed. No error by itself.
    Unused,
    /// A block that was released before its thread allocated anything else. No error, but work that could be saved.
    Temporary,
}

impl MemoryErrorKind {
    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wild => "wild",
            Self::UseAfterFree => "use_after_free",
            Self::OutOfBounds => "out_of_bounds",
            Self::InvalidFree => "invalid_free",
            Self::MismatchedFree => "mismatched_free",
            Self::Overlap => "overlap",
            Self::Uninitialised => "uninitialised",
            Self::Leak => "leak",
            Self::Unused => "unused",
            Self::Temporary => "temporary",
        }
    }

    /// Whether it is an error whatever the program is for.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Leak | Self::Unused | Self::Temporary)
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
    /// The innermost function whose source is the user's, and where in it, where that is another one.
    pub own: Option<SourcePlace>,
}

/// A function, and a place in its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// Its name.
    pub function: String,
    /// The source file.
    pub file: String,
    /// The line.
    pub line: Option<u32>,
}

impl SourcePlace {
    /// The innermost function of a stack that is the user's, unless that is the innermost of all.
    fn own(stack: &[CalledFunction]) -> Option<Self> {
        let index = stack.iter().rposition(is_users)?;
        let function = stack.get(index).filter(|_| index + 1 < stack.len())?;
        let file = function.file.as_ref()?.to_string();
        Some(Self { function: function.function.to_string(), file, line: function.line })
    }
}

/// Whether a function's source is one that the user has: not that of a compiler's or a system's library.
fn is_users(function: &CalledFunction) -> bool {
    const SYSTEM: [&str; 3] = ["/rustc/", "/usr/", "/build/"];
    const FETCHED: [&str; 2] = ["/.cargo/", "/registry/src/"];
    let is_library = |file: &str| {
        SYSTEM.iter().any(|start| file.starts_with(start)) || FETCHED.iter().any(|part| file.contains(part))
    };
    let is_program = |module: &str| Owner::of_module(module) == Owner::Program;
    function.module.as_deref().is_none_or(is_program)
        && function.file.as_deref().is_some_and(|file| file.starts_with('/') && !is_library(file))
}

impl StackPlace {
    /// Where it is in the user's source; where that is not known, or it has no part in it, in what source it is.
    fn source(&self) -> (Option<&str>, Option<u32>) {
        match &self.own {
            Some(own) => (Some(&own.file), own.line),
            None => (self.file.as_deref(), self.line),
        }
    }

    /// The functions from the innermost one on, each with how often it stands there in a row: it called itself.
    pub fn folded(&self) -> impl Iterator<Item = (&str, usize)> {
        self.stack.chunk_by(|a, b| a == b).rev().filter_map(|row| Some((&**row.first()?, row.len())))
    }
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
    /// The block's forged name with the field, or what lies there.
    pub name: String,
    /// The type of the block, where it is known.
    pub type_name: Option<String>,
    /// The type's field that was accessed: `cell.alive`.
    pub field: Option<String>,
    /// What else accesses to the block take it for, most first.
    pub conflicts: Vec<TypeConflict>,
    /// The access or the release.
    pub access: Option<StackPlace>,
    /// Where the block was allocated.
    pub allocated: Option<StackPlace>,
    /// Where it was released.
    pub freed: Option<StackPlace>,
    /// Of a block that was never released: where it was accessed last, before that was forgotten.
    pub last_access: Option<StackPlace>,
    /// Of such a block: whether a pointer to it was still stored, where values were recorded.
    pub leak_kind: Option<LeakKind>,
    /// How often; of blocks how many.
    pub times: u64,
    /// Where in the run it was seen first, where that is known.
    pub first_seen: Option<FirstPlace>,
}

/// The same before it has names. Grouped by what happened where.
#[derive(Clone, Debug)]
pub(super) struct FoundError {
    pub(super) what: String,
    pub(super) bytes: u64,
    pub(super) name: String,
    /// In a block, or next to it.
    pub(super) place: Option<BlockAddress>,
    pub(super) freed: Option<CallPlace>,
    pub(super) last: Option<CallPlace>,
    pub(super) times: u64,
    pub(super) first_seen: Option<FirstPlace>,
}

impl FoundError {
    /// Not once yet.
    pub(super) fn new(what: String, bytes: u64, name: String, place: Option<BlockAddress>) -> Self {
        Self { what, bytes, name, place, freed: None, last: None, times: 0, first_seen: None }
    }
}

/// What makes two findings one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ErrorKey {
    pub(super) kind: MemoryErrorKind,
    pub(super) access: Option<CallPlace>,
    pub(super) allocated: Option<CallPlace>,
    pub(super) leak_kind: Option<LeakKind>,
}

impl ErrorKey {
    pub(super) fn new(
        kind: MemoryErrorKind,
        access: Option<CallPlace>,
        allocated: Option<CallPlace>,
    ) -> Self {
        Self { kind, access, allocated, leak_kind: None }
    }
}

pub(super) fn named(
    found: &BTreeMap<ErrorKey, FoundError>,
    namer: &StackNames<'_>,
    fields: &FieldNames,
) -> Vec<MemoryError> {
    let place = |place: CallPlace| -> StackPlace {
        let stack = namer.stack(place);
        let last: Option<&CalledFunction> = stack.last();
        StackPlace {
            function: last.map_or_else(|| "[unknown]".to_owned(), |last| last.function.to_string()),
            file: last.and_then(|last| last.file.as_ref().map(ToString::to_string)),
            line: last.and_then(|last| last.line),
            stack: stack.iter().map(|function| function.function.to_string()).collect(),
            own: SourcePlace::own(&stack),
        }
    };
    let all = found.iter().map(|(key, found)| {
        let typed = found.place.and_then(|place| fields.typed(place));
        let of_block = |kind: MemoryErrorKind| !kind.is_error();
        let path = found.place.filter(|_| !of_block(key.kind)).and_then(|place| fields.path(place));
        MemoryError {
            kind: key.kind,
            what: found.what.clone(),
            bytes: found.bytes,
            name: format!("{}{}", found.name, path.unwrap_or_default()),
            type_name: typed.as_ref().map(|typed| typed.type_name.to_string()),
            conflicts: typed.as_ref().map_or_else(Vec::new, |typed| typed.conflicts.clone()),
            field: typed.and_then(|typed| typed.field).filter(|_| !of_block(key.kind)),
            access: key.access.map(place),
            allocated: key.allocated.map(place),
            freed: found.freed.map(place),
            last_access: found.last.map(place),
            leak_kind: key.leak_kind,
            times: found.times,
            first_seen: found.first_seen,
        }
    });
    let mut all = joined(all);
    all.sort_by(|a, b| {
        let most =
            |one: &MemoryError| std::cmp::Reverse(if one.kind.is_error() { one.times } else { one.bytes });
        a.kind.cmp(&b.kind).then_with(|| most(a).cmp(&most(b))).then_with(|| a.name.cmp(&b.name))
    });
    all
}

/// Whether two places differ in nothing but how deep a function has called itself, or where a library's function was.
fn is_one_place(one: Option<&StackPlace>, other: Option<&StackPlace>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    one.function == other.function
        && one.source() == other.source()
        && one.folded().map(|(function, _)| function).eq(other.folded().map(|(function, _)| function))
}

/// Instructions of one source line, as of a loop that was unrolled, are one.
fn joined(all: impl Iterator<Item = MemoryError>) -> Vec<MemoryError> {
    let mut joined: Vec<MemoryError> = Vec::new();
    for one in all {
        let is_same = |other: &&mut MemoryError| {
            (other.kind, other.leak_kind, &other.field) == (one.kind, one.leak_kind, &one.field)
                && is_one_place(other.access.as_ref(), one.access.as_ref())
                && is_one_place(other.allocated.as_ref(), one.allocated.as_ref())
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
