//! The kinds of memory that a user wants recorded of a translated program, whose tracer records accesses to all of them.

use std::collections::{BTreeMap, HashMap};

use memref::{Access, RegionChange, RegionKind, VirtAddr};

/// How far a stack may grow.
const STACK_BYTES: u64 = 1 << 30;

/// Whether a mask of kinds, bit n for [`RegionKind`] n, has that one.
pub(crate) fn selects(mask: u32, kind: RegionKind) -> bool {
    mask & 1 << kind.code() != 0
}

/// Memory of one kind, by its first byte.
#[derive(Clone, Copy, Debug)]
struct WantedRange {
    end: VirtAddr,
    kind: RegionKind,
}

/// The kinds that are wanted, and where they are in each process.
#[derive(Debug)]
pub(crate) struct WantedRegions {
    /// Bit n: [`RegionKind`] n.
    mask: u32,
    processes: HashMap<u32, BTreeMap<VirtAddr, WantedRange>>,
}

impl WantedRegions {
    /// Accesses to these kinds of regions; all bits set: to any memory.
    pub(crate) fn new(mask: u32) -> Self {
        Self { mask, processes: HashMap::new() }
    }

    /// Whether all kinds are.
    pub(crate) fn are_all(&self) -> bool {
        self.mask == u32::MAX
    }

    /// Whether that kind is.
    pub(crate) fn has(&self, kind: RegionKind) -> bool {
        selects(self.mask, kind)
    }

    /// A process was forked.
    pub(crate) fn add_process(&mut self, number: u32, parent: Option<u32>) {
        if !self.are_all() {
            let inherited = parent.and_then(|parent| self.processes.get(&parent)).cloned();
            self.processes.insert(number, inherited.unwrap_or_default());
        }
    }

    /// A region of a process changed.
    pub(crate) fn change(
        &mut self,
        process: u32,
        change: RegionChange,
        kind: RegionKind,
        start: VirtAddr,
        len: u64,
    ) {
        if self.are_all() {
            return;
        }
        let regions = self.processes.entry(process).or_default();
        let end = VirtAddr(start.0.saturating_add(len));
        match change {
            RegionChange::Map | RegionChange::Change => {
                remove(regions, start, end);
                regions.insert(start, WantedRange { end, kind });
            }
            RegionChange::Unmap => remove(regions, start, end),
        }
    }

    /// Drops what is not wanted. Where a region is not known (another thread has just mapped it), it is kept.
    pub(crate) fn retain<T>(&self, process: u32, accesses: &mut Vec<T>, of: impl Fn(&T) -> &Access) {
        if self.are_all() {
            return;
        }
        let Some(regions) = self.processes.get(&process) else { return };
        let (mut last, mut is_wanted) = (VirtAddr(0)..VirtAddr(0), true);
        accesses.retain(|access| {
            let addr = of(access).addr;
            if !last.contains(&addr) {
                (last, is_wanted) = match regions.range(..=addr).next_back() {
                    Some((&start, &WantedRange { end, kind })) if addr < end => (start..end, self.has(kind)),
                    _ => match regions.range(addr..).next() {
                        // A stack grows without a call that tells of it.
                        Some((&start, &WantedRange { kind: RegionKind::Stack, .. }))
                            if start.0 - addr.0 <= STACK_BYTES =>
                        {
                            (addr..start, self.has(RegionKind::Stack))
                        }
                        _ => (addr..addr.offset(1), true),
                    },
                };
            }
            is_wanted
        });
    }
}

/// Cuts a range out.
fn remove(regions: &mut BTreeMap<VirtAddr, WantedRange>, start: VirtAddr, end: VirtAddr) {
    let touched: Vec<(VirtAddr, WantedRange)> = regions
        .range(..end)
        .rev()
        .take_while(|(_, region)| region.end > start)
        .map(|(&from, &range)| (from, range))
        .collect();
    for (from, WantedRange { end: to, kind }) in touched {
        regions.remove(&from);
        if from < start {
            regions.insert(from, WantedRange { end: start, kind });
        }
        if to > end {
            regions.insert(end, WantedRange { end: to, kind });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memref::AccessKind;
    use proptest::prelude::*;

    fn seen(wanted: &WantedRegions, process: u32, addr: u64) -> bool {
        let access =
            Access { cycle: 0, ip: VirtAddr(0), addr: VirtAddr(addr), size: 1, kind: AccessKind::Load };
        let mut list = vec![access];
        wanted.retain(process, &mut list, |access| access);
        !list.is_empty()
    }

    proptest! {
        #[test]
        fn as_a_map_of_bytes(changes in prop::collection::vec((any::<bool>(), any::<bool>(), 0..60_u64, 1..20_u64), 0..30)) {
            let mut wanted = WantedRegions::new(1 << RegionKind::Heap.code());
            wanted.add_process(3, None);
            let mut bytes = [None; 100];
            for (map, heap, start, len) in changes {
                let kind = if heap { RegionKind::Heap } else { RegionKind::Stack };
                let change = if map { RegionChange::Map } else { RegionChange::Unmap };
                wanted.change(3, change, kind, VirtAddr(start), len);
                bytes[start as usize..(start + len) as usize].fill(map.then_some(kind));
            }
            wanted.add_process(4, Some(3));
            for (addr, kind) in bytes.iter().enumerate() {
                let above = bytes[addr..].iter().flatten().next();
                let kind = kind.or(above.copied().filter(|kind| *kind == RegionKind::Stack));
                let expected = kind != Some(RegionKind::Stack);
                prop_assert_eq!(seen(&wanted, 3, addr as u64), expected);
                prop_assert_eq!(seen(&wanted, 4, addr as u64), expected);
            }
        }
    }

    #[test]
    fn all_are_wanted_by_default() {
        let mut wanted = WantedRegions::new(u32::MAX);
        wanted.add_process(0, None);
        wanted.change(0, RegionChange::Map, RegionKind::Stack, VirtAddr(0), 100);
        assert!(seen(&wanted, 0, 5));
    }
}
