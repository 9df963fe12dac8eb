//! The executable memory: code is read only from there.
//!
//! The processor would fault if a program jumped to data. Anything that executes the program's code
//! in another way must do the same: the code cache, whose copies can be executed whatever is at
//! their original addresses, and the engine of page protection. Both check here before they read.
//!
//! The list contains only what was reported to it: what the program maps itself (`translate::code_changes`), and
//! what `/proc/self/maps` held when another address was asked for. Memory that loses a right is removed at once.

use alloc::collections::BTreeMap;

use tracee::lock::{Guard, Lock};
use tracee::{maps, sys};

use crate::memory::code_views::CodeStretch;
use crate::memory::pages::{PAGE_BYTES, start_of_page};

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executable {
    /// All of this can be read and executed, and the address is in it.
    Within(CodeStretch),
    /// The address can't be executed, or its code not be read.
    Not,
    /// Nobody knows: the list of mappings can't be read.
    Unknown,
}

/// Memory that can be read and executed: ends by starts. Neighbours are one.
pub(crate) struct CodeRanges {
    list: BTreeMap<u64, u64>,
}

static RANGES: Lock<CodeRanges> = Lock::new(CodeRanges { list: BTreeMap::new() });

impl CodeRanges {
    fn around(&self, addr: u64) -> Option<CodeStretch> {
        let (&start, &end) = self.list.range(..=addr).next_back()?;
        (addr < end).then_some(CodeStretch { start, end })
    }

    fn remove(&mut self, start: u64, end: u64) {
        while let Some((&at, &until)) =
            self.list.range(..end).next_back().filter(|(_, until)| **until > start)
        {
            self.list.remove(&at);
            if until > end {
                self.list.insert(end, until);
            }
            if at < start {
                self.list.insert(at, start);
            }
        }
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        self.remove(start, end);
        if let Some(until) = self.list.remove(&end) {
            end = until;
        }
        if let Some((&at, _)) = self.list.range(..start).next_back().filter(|(_, until)| **until == start) {
            self.list.remove(&at);
            start = at;
        }
        self.list.insert(start, end);
    }

    fn set(&mut self, start: u64, end: u64, prot: i32) {
        if can_be_executed(prot) { self.insert(start, end) } else { self.remove(start, end) }
    }
}

fn can_be_executed(prot: i32) -> bool {
    let both = sys::PROT_READ | sys::PROT_EXEC;
    prot & both == both
}

/// Whether an address can be executed, and what around it.
pub(crate) fn around(addr: u64) -> Executable {
    let mut ranges = RANGES.lock();
    if let Some(stretch) = ranges.around(addr) {
        return Executable::Within(stretch);
    }
    let is_read = maps::each(|mapping| {
        if can_be_executed(mapping.prot) {
            ranges.insert(mapping.start, mapping.end);
        }
    });
    match ranges.around(addr) {
        Some(stretch) => Executable::Within(stretch),
        None if is_read => Executable::Not,
        None => Executable::Unknown,
    }
}

/// What can be executed around an instruction that the processor has come to; where nobody knows, its page.
pub(crate) fn around_executed(rip: u64) -> CodeStretch {
    match around(rip) {
        Executable::Within(stretch) => stretch,
        Executable::Not | Executable::Unknown => {
            let start = start_of_page(rip);
            CodeStretch { start, end: start.saturating_add(PAGE_BYTES) }
        }
    }
}

/// Memory has these rights now.
pub(crate) fn set(CodeStretch { start, end }: CodeStretch, prot: i32) {
    RANGES.lock().set(start, end, prot);
}

/// Memory is gone, or nobody knows its rights.
pub(crate) fn forget(CodeStretch { start, end }: CodeStretch) {
    RANGES.lock().remove(start, end);
}

/// Keeps the list as it is while it is held.
pub(crate) fn hold() -> Guard<'static, CodeRanges> {
    RANGES.lock()
}

/// Nothing is known any more.
pub(crate) fn forget_all() {
    RANGES.lock().list = BTreeMap::new();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The list says what a plain set of pages says, and neighbours are one stretch.
        #[test]
        fn ranges_are_pages_that_can_be_executed(
            changes in prop::collection::vec((0u64..24, 1u64..12, any::<bool>()), 1..30)
        ) {
            let mut ranges = CodeRanges { list: BTreeMap::new() };
            let mut model = BTreeSet::new();
            for (first, count, executable) in changes {
                let prot = if executable { sys::PROT_READ | sys::PROT_EXEC } else { sys::PROT_READ };
                ranges.set(first * PAGE_BYTES, (first + count) * PAGE_BYTES, prot);
                for page in first..first + count {
                    if executable { model.insert(page) } else { model.remove(&page) };
                }
                for page in 0..40u64 {
                    let found = ranges.around(page * PAGE_BYTES + 7);
                    let expect = model.contains(&page).then(|| CodeStretch {
                        start: (0..=page).rev().take_while(|page| model.contains(page)).last().unwrap() * PAGE_BYTES,
                        end: (page..).take_while(|page| model.contains(page)).last().unwrap() * PAGE_BYTES + PAGE_BYTES,
                    });
                    prop_assert_eq!(found, expect, "page {}", page);
                }
            }
        }
    }

    #[test]
    fn code_can_be_executed_and_data_not() {
        let here = code_can_be_executed_and_data_not as *const () as u64;
        assert!(
            matches!(around(here), Executable::Within(stretch) if (stretch.start..stretch.end).contains(&here))
        );
        let data = [0u8; 16];
        assert_eq!(around(data.as_ptr() as u64), Executable::Not);
        assert_eq!(around(8), Executable::Not);
    }
}
