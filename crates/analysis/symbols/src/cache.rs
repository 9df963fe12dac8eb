//! Which variable was found lately: most accesses go where others went before.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use memref::VirtAddr;

use crate::{RegionId, VariableId};

/// One answer, for each byte of `start..end` within its granule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedRange {
    pub(crate) start: VirtAddr,
    pub(crate) end: VirtAddr,
    /// The variable's first byte.
    pub(crate) base: VirtAddr,
    pub(crate) variable: VariableId,
    pub(crate) region: Option<RegionId>,
}

const GRANULE_BITS: u32 = 6;
const SLOTS: usize = 4096;
/// Larger changes empty the whole cache.
const MAX_GRANULES: u64 = 1024;

#[derive(Clone, Copy, Debug)]
struct CachedGranule {
    granule: u64,
    epoch: u32,
    /// How many changes had been told: after another one the answer holds within the granule only.
    changes: u64,
    found: NamedRange,
}

/// A direct-mapped cache of answers by 64-byte granule, and the last answer whatever its length.
#[derive(Clone, Debug)]
pub(crate) struct DataCache {
    last: NamedRange,
    /// None before the first answer: of a trace's thousands of processes most are asked nothing.
    slots: Vec<CachedGranule>,
    epoch: u32,
    changes: u64,
    /// Another number after each change, in this cache or another one.
    version: u64,
}

/// Versions only have to differ, so no order is needed.
fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

const NOTHING: NamedRange = NamedRange {
    start: VirtAddr(1),
    end: VirtAddr(0),
    base: VirtAddr(0),
    variable: VariableId(0),
    region: None,
};

fn slot_index(granule: u64) -> usize {
    (granule ^ granule >> 12 ^ granule >> 24) as usize % SLOTS
}

impl DataCache {
    pub(crate) fn new() -> Self {
        Self { last: NOTHING, slots: Vec::new(), epoch: 1, changes: 0, version: next_version() }
    }

    /// Another number whenever an answer may be another one than before. Never 0.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// As [`Self::get`], the answer cut to the addresses for which it holds.
    #[inline]
    pub(crate) fn get_range(&mut self, addr: VirtAddr) -> Option<NamedRange> {
        let found = self.get(addr)?;
        if self.last.start <= addr && addr < self.last.end {
            return Some(found);
        }
        let start = VirtAddr(addr.0 >> GRANULE_BITS << GRANULE_BITS);
        let end = start.offset(1 << GRANULE_BITS);
        Some(NamedRange { start: found.start.max(start), end: found.end.min(end), ..found })
    }

    #[inline]
    pub(crate) fn get(&mut self, addr: VirtAddr) -> Option<NamedRange> {
        let holds = |found: &NamedRange| found.start <= addr && addr < found.end;
        if holds(&self.last) {
            return Some(self.last);
        }
        let granule = addr.0 >> GRANULE_BITS;
        let slot = self.slots.get(slot_index(granule))?;
        if slot.granule == granule && slot.epoch == self.epoch && holds(&slot.found) {
            if slot.changes == self.changes {
                self.last = slot.found;
            }
            return Some(slot.found);
        }
        None
    }

    pub(crate) fn put(&mut self, addr: VirtAddr, found: NamedRange) {
        self.last = found;
        if self.slots.is_empty() {
            self.slots = vec![CachedGranule { granule: 0, epoch: 0, changes: 0, found: NOTHING }; SLOTS];
        }
        let granule = addr.0 >> GRANULE_BITS;
        if let Some(slot) = self.slots.get_mut(slot_index(granule)) {
            *slot = CachedGranule { granule, epoch: self.epoch, changes: self.changes, found };
        }
    }

    /// The meaning of these bytes changed.
    pub(crate) fn forget(&mut self, start: VirtAddr, len: u64) {
        self.last = NOTHING;
        self.changes += 1;
        self.version = next_version();
        let first = start.0 >> GRANULE_BITS;
        let last = start.0.saturating_add(len.max(1) - 1) >> GRANULE_BITS;
        if last - first >= MAX_GRANULES {
            return self.clear();
        }
        for granule in first..=last {
            if let Some(slot) = self.slots.get_mut(slot_index(granule)).filter(|slot| slot.granule == granule)
            {
                slot.epoch = 0;
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.last = NOTHING;
        self.version = next_version();
        match self.epoch.checked_add(1) {
            Some(next) => self.epoch = next,
            None => *self = Self::new(),
        }
    }
}

/// Hashes small keys in a few cycles; not against keys that someone chose to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QuickHasher(u64);

/// Makes [`QuickHasher`]s.
pub(crate) type Quick = BuildHasherDefault<QuickHasher>;

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
