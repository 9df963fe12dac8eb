//! Pointers into the middle of a block that count as pointers to its start, because a library refers to its allocations by them.
//!
//! The dynamic loader refers to its tables by their second element (a thread's table of thread-local memory, the
//! objects loaded by dlopen). Raw pointers of Rust's `Arc` and `Rc` (`into_raw`, the handle of a thread) point
//! behind the two counts. memcheck has suppressions for the former, and reports the latter as possibly lost.

use rustc_hash::FxHashMap;

use crate::Owner;
use crate::stack::{CallPlace, StackNames};

/// The two counts of `Arc` and `Rc`.
const COUNTS_BYTES: u64 = 16;
/// The allocator is called through so many functions at most, most of which are inlined.
const MOST_BETWEEN: usize = 8;

/// Which pointers into a block keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum InnerPointers {
    /// None: the program may have lost the start.
    #[default]
    None,
    /// Those to that byte.
    At(u64),
    /// All.
    All,
}

impl InnerPointers {
    /// Whether a pointer to that byte is as good as one to the start.
    pub(super) fn keep(self, offset: u64) -> bool {
        offset == 0 || self == Self::All || self == Self::At(offset)
    }
}

/// Knows it by the calls that allocate.
#[derive(Debug)]
pub(super) struct KeptByLibraries<'a> {
    names: &'a StackNames<'a>,
    known: FxHashMap<CallPlace, InnerPointers>,
}

impl<'a> KeptByLibraries<'a> {
    pub(super) fn new(names: &'a StackNames<'a>) -> Self {
        Self { names, known: FxHashMap::default() }
    }

    /// Of blocks that a call allocates.
    pub(super) fn of(&mut self, allocated: CallPlace) -> InnerPointers {
        let names = self.names;
        *self.known.entry(allocated).or_insert_with(|| {
            let stack = names.stack(allocated);
            let module = stack.last().and_then(|function| function.module.as_deref());
            if module.is_some_and(|module| Owner::of_module(module) == Owner::Linker) {
                return InnerPointers::All;
            }
            let is_counted = |function: &str| function.contains("sync::Arc<") || function.contains("rc::Rc<");
            let is_made_there = stack.iter().rev().take(MOST_BETWEEN).any(|one| is_counted(&one.function));
            if is_made_there { InnerPointers::At(COUNTS_BYTES) } else { InnerPointers::None }
        })
    }
}
