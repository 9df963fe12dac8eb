//! A map from addresses to small numbers that is read and written without a lock, and without the program's allocator.
//!
//! It uses open addressing in memory that is mapped at first use. Keys are never removed; their numbers may be replaced.

use patch::arena;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// How many keys there is room for: at most half of them are taken, so that a search ends.
const SLOTS: usize = 1 << 20;

struct Slot {
    /// An address; 0: free.
    key: AtomicUsize,
    /// 0 until it is known.
    number: AtomicU32,
}

/// The map.
pub(crate) struct AddressIndex {
    base: AtomicUsize,
}

impl AddressIndex {
    pub(crate) const fn new() -> Self {
        Self { base: AtomicUsize::new(0) }
    }

    fn slots(&self) -> Option<&'static [Slot]> {
        let base = mapped_once(&self.base, SLOTS * size_of::<Slot>())?;
        // SAFETY: zeroed memory of that size, never unmapped; zero is a valid value of both atomics.
        Some(unsafe { std::slice::from_raw_parts(base as *const Slot, SLOTS) })
    }

    /// The number of `key`, which is added if it is new; `None` where there is no room.
    pub(crate) fn number(&self, key: usize) -> Option<&'static AtomicU32> {
        let slots = self.slots()?;
        let first = patch::table::place(key, SLOTS);
        (0..SLOTS).map(|step| &slots[(first + step) & (SLOTS - 1)]).find_map(|slot| {
            match slot.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => Some(&slot.number),
                Err(found) => (found == key).then_some(&slot.number),
            }
        })
    }

    /// The number that `key` has; `None` where it was never added.
    pub(crate) fn get(&self, key: usize) -> Option<u32> {
        let slots = self.slots()?;
        let first = patch::table::place(key, SLOTS);
        for step in 0..SLOTS {
            let slot = &slots[(first + step) & (SLOTS - 1)];
            match slot.key.load(Ordering::Acquire) {
                0 => return None,
                found if found == key => return Some(slot.number.load(Ordering::Acquire)),
                _ => {}
            }
        }
        None
    }
}

/// The memory whose address `base` holds, mapped and zeroed by the first who asks; `None` when memory is out.
pub(crate) fn mapped_once(base: &AtomicUsize, len_bytes: usize) -> Option<usize> {
    let known = base.load(Ordering::Acquire);
    if known != 0 {
        return Some(known);
    }
    let fresh = arena::map_anonymous(len_bytes)?;
    Some(match base.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(winner) => winner,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_keys_from_all_threads() {
        static INDEX: AddressIndex = AddressIndex::new();
        assert_eq!(INDEX.get(0x1000), None);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for key in 1..5000usize {
                        INDEX.number(key << 4).unwrap().store(key as u32, Ordering::Release);
                    }
                });
            }
        });
        assert!((1..5000).all(|key| INDEX.get(key << 4) == Some(key as u32)));
        assert_eq!(INDEX.get(8), None);
    }
}
