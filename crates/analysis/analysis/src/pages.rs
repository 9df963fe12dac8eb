//! Accesses by page: the footprint, and the data of the heat map.

use std::collections::HashMap;

use memref::{Access, ProcessId, VirtAddr};

use crate::Count;

/// Pages in a leaf of the table.
const LEAF: usize = 512;

/// Counts for each page of each process.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    leaves: HashMap<(ProcessId, u64), Box<[Count; LEAF]>>,
}

impl Pages {
    /// Counts accesses. One that crosses pages belongs to the page of its first byte.
    pub fn add(&mut self, process: ProcessId, accesses: &[Access]) {
        let mut rest = accesses;
        while let Some(first) = rest.first() {
            let number = first.addr.page_number() / LEAF as u64;
            let same =
                rest.iter().take_while(|access| access.addr.page_number() / LEAF as u64 == number).count();
            let (now, later) = rest.split_at(same);
            let leaf =
                self.leaves.entry((process, number)).or_insert_with(|| Box::new([Count::default(); LEAF]));
            for access in now {
                leaf[(access.addr.page_number() % LEAF as u64) as usize].add(access);
            }
            rest = later;
        }
    }

    /// Adds counts of a page.
    pub fn add_count(&mut self, process: ProcessId, page: VirtAddr, count: Count) {
        let number = page.page_number();
        let leaf = self.leaves.entry((process, number / LEAF as u64));
        let leaf = leaf.or_insert_with(|| Box::new([Count::default(); LEAF]));
        leaf[(number % LEAF as u64) as usize] += count;
    }

    /// Adds counts of other accesses.
    pub(crate) fn join(&mut self, other: Self) {
        for (leaf, counts) in other.leaves {
            let own = self.leaves.entry(leaf).or_insert_with(|| Box::new([Count::default(); LEAF]));
            for (own, count) in own.iter_mut().zip(*counts) {
                *own += count;
            }
        }
    }

    /// The counts of one page.
    pub fn get(&self, process: ProcessId, page: VirtAddr) -> Count {
        let number = page.page_number();
        self.leaves
            .get(&(process, number / LEAF as u64))
            .map_or_else(Count::default, |leaf| leaf[(number % LEAF as u64) as usize])
    }

    /// All pages that were accessed, in the order of processes and addresses.
    pub fn touched(&self) -> Vec<(ProcessId, VirtAddr, Count)> {
        let mut keys: Vec<_> = self.leaves.keys().copied().collect();
        keys.sort_unstable();
        let mut all = Vec::new();
        for key in keys {
            for (index, count) in self.leaves[&key].iter().enumerate() {
                if count.accesses() > 0 {
                    let page = VirtAddr((key.1 * LEAF as u64 + index as u64) * VirtAddr::PAGE_BYTES);
                    all.push((key.0, page, *count));
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memref::AccessKind;

    #[test]
    fn pages_are_counted_apart() {
        let at = |addr: u64| Access {
            cycle: 0,
            ip: VirtAddr(1),
            addr: VirtAddr(addr),
            size: 4,
            kind: AccessKind::Load,
        };
        let mut pages = Pages::default();
        pages.add(ProcessId(1), &[at(0x1ffe), at(0x1000), at(0x7f00_0000_0000)]);
        pages.add(ProcessId(0), &[at(0x1000)]);
        assert_eq!(pages.get(ProcessId(1), VirtAddr(0x1000)).loads, 2);
        assert_eq!(pages.get(ProcessId(1), VirtAddr(0x2000)).loads, 0);
        let touched: Vec<_> = pages.touched().into_iter().map(|(p, a, c)| (p.0, a.0, c.loads)).collect();
        assert_eq!(touched, [(0, 0x1000, 1), (1, 0x1000, 2), (1, 0x7f00_0000_0000, 1)]);
    }
}
