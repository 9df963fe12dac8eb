//! The objects that order threads, by address: locks, atomic variables and the like, and the clock released to each.

use memref::VirtAddr;
use rustc_hash::FxHashMap;

use super::clock::Clock;

/// What was given up to an object, and by readers.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) written: Clock,
    pub(super) read: Clock,
}

/// The objects of a process, by page: memory that is given back takes those with it that lie there, and looks at no others.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pages: FxHashMap<u64, FxHashMap<VirtAddr, Object>>,
}

impl Objects {
    pub(super) fn get(&self, addr: VirtAddr) -> Option<&Object> {
        self.pages.get(&addr.page_number())?.get(&addr)
    }

    /// The object at an address, to which nothing was given up where it is new.
    pub(super) fn at(&mut self, addr: VirtAddr) -> &mut Object {
        self.pages.entry(addr.page_number()).or_default().entry(addr).or_default()
    }

    /// Forgets the objects that begin in these bytes.
    pub(super) fn forget(&mut self, addr: VirtAddr, len: u64) {
        if len == 0 {
            return;
        }
        let last = VirtAddr(addr.0.saturating_add(len - 1));
        let (first_page, last_page) = (addr.page_number(), last.page_number());
        let is_kept = |object: &VirtAddr| *object < addr || last < *object;
        // A mapping may have more pages than there are pages with objects.
        if last_page - first_page >= self.pages.len() as u64 {
            self.pages.retain(|&page, objects| {
                if first_page <= page && page <= last_page {
                    objects.retain(|object, _| is_kept(object));
                }
                !objects.is_empty()
            });
            return;
        }
        for page in first_page..=last_page {
            if let Some(objects) = self.pages.get_mut(&page) {
                objects.retain(|object, _| is_kept(object));
                if objects.is_empty() {
                    self.pages.remove(&page);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a set of addresses does, of which those in the bytes are taken out.
        #[test]
        fn what_lies_in_the_bytes_is_forgotten(
            steps in prop::collection::vec((any::<bool>(), 0u64..5 * VirtAddr::PAGE_BYTES, 0u64..3 * VirtAddr::PAGE_BYTES), 1..60)
        ) {
            let (mut objects, mut model, mut made) = (Objects::default(), BTreeSet::new(), BTreeSet::new());
            for (makes, addr, len) in steps {
                if makes {
                    objects.at(VirtAddr(addr));
                    model.insert(addr);
                    made.insert(addr);
                } else {
                    objects.forget(VirtAddr(addr), len);
                    model.retain(|object| !(addr..addr + len).contains(object));
                }
                for object in &made {
                    prop_assert_eq!(objects.get(VirtAddr(*object)).is_some(), model.contains(object));
                }
            }
        }
    }

    #[test]
    fn the_end_of_addresses_is_no_limit() {
        let mut objects = Objects::default();
        objects.at(VirtAddr(u64::MAX));
        objects.forget(VirtAddr(u64::MAX - 1), u64::MAX);
        assert!(objects.get(VirtAddr(u64::MAX)).is_none());
    }
}
