//! A cache of recently found variables: most accesses go where earlier ones went.

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
const PAGE_BITS: u32 = VirtAddr::PAGE_SHIFT;
/// Larger changes are taken for changes of everything.
const MAX_CHANGED_PAGES: u64 = 1024;
/// Longer ranges are taken for changed.
const MAX_ASKED_PAGES: u64 = 4;

/// A state of what the addresses of one process mean. For others to remember with an answer, which
/// [`Resolver::holds_since`](crate::Resolver::holds_since) tells to hold still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataVersion {
    /// Of each resolver another one.
    resolver: u64,
    /// Rises.
    change: u64,
}

impl DataVersion {
    /// No resolver's.
    pub const NONE: Self = Self { resolver: 0, change: 0 };
}

#[derive(Clone, Copy, Debug)]
struct CachedGranule {
    granule: u64,
    epoch: u32,
    /// When the answer was found. After a change near by it holds within the granule only.
    version: DataVersion,
    found: NamedRange,
}

/// A direct-mapped cache of answers by 64-byte granule, and the last answer whatever its length.
#[derive(Debug)]
pub(crate) struct DataCache {
    last: NamedRange,
    /// None before the first answer: of a trace's thousands of processes most are asked nothing.
    slots: Vec<CachedGranule>,
    epoch: u32,
    version: DataVersion,
    /// The last change of everything.
    all_changed: u64,
    /// The last change of each page, by [`page_index`]. None before the first answer.
    changed: Vec<u64>,
}

/// A resolver of which nothing was asked. Numbers only have to differ, so no order is needed.
fn first_version() -> DataVersion {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    DataVersion { resolver: NEXT.fetch_add(1, Ordering::Relaxed), change: 0 }
}

/// Pages share a place where that is unavoidable: then a change of one is taken for one of both.
fn page_index(page: u64) -> usize {
    (page ^ page >> 12) as usize % SLOTS
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
        let (slots, changed) = (Vec::new(), Vec::new());
        Self { last: NOTHING, slots, epoch: 1, version: first_version(), all_changed: 0, changed }
    }

    /// Another one whenever an answer may be another one than before.
    #[inline]
    pub(crate) fn version(&self) -> DataVersion {
        self.version
    }

    /// Whether what was found then for these addresses is what is found now. False is said of some ranges where it is.
    #[inline]
    pub(crate) fn holds_since(&self, start: VirtAddr, end: VirtAddr, then: DataVersion) -> bool {
        if then == self.version {
            return true;
        }
        let (first, last) = (start.0 >> PAGE_BITS, end.0.saturating_sub(1) >> PAGE_BITS);
        then.resolver == self.version.resolver
            && then.change >= self.all_changed
            && last.wrapping_sub(first) < MAX_ASKED_PAGES
            && (first..=last)
                .all(|page| self.changed.get(page_index(page)).is_some_and(|&change| change <= then.change))
    }

    /// As [`Self::get`], the answer cut to the addresses for which it holds.
    #[inline]
    pub(crate) fn get_range(&mut self, addr: VirtAddr) -> Option<NamedRange> {
        let found = self.get(addr)?;
        if self.last.start <= addr && addr < self.last.end {
            return Some(found);
        }
        let within = |bits: u32| {
            let start = VirtAddr(addr.0 >> bits << bits);
            let end = start.offset(1 << bits);
            NamedRange { start: found.start.max(start), end: found.end.min(end), ..found }
        };
        // The whole range is long, or something changed in it: perhaps not near by.
        let page = within(PAGE_BITS);
        let then = self.slots[slot_index(addr.0 >> GRANULE_BITS)].version;
        Some(if self.holds_since(page.start, page.end, then) { page } else { within(GRANULE_BITS) })
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
            let found = slot.found;
            if self.holds_since(found.start, found.end, slot.version) {
                self.last = found;
            }
            return Some(found);
        }
        None
    }

    pub(crate) fn put(&mut self, addr: VirtAddr, found: NamedRange) {
        self.last = found;
        if self.slots.is_empty() {
            let none = CachedGranule { granule: 0, epoch: 0, version: DataVersion::NONE, found: NOTHING };
            self.slots = vec![none; SLOTS];
            self.changed = vec![self.version.change; SLOTS];
        }
        let granule = addr.0 >> GRANULE_BITS;
        if let Some(slot) = self.slots.get_mut(slot_index(granule)) {
            *slot = CachedGranule { granule, epoch: self.epoch, version: self.version, found };
        }
    }

    /// The meaning of these bytes changed.
    pub(crate) fn forget(&mut self, start: VirtAddr, len: u64) {
        self.last = NOTHING;
        self.version.change += 1;
        let last_byte = start.0.saturating_add(len.max(1) - 1);
        let (first, last) = (start.0 >> PAGE_BITS, last_byte >> PAGE_BITS);
        if last - first >= MAX_CHANGED_PAGES {
            self.all_changed = self.version.change;
        } else if !self.changed.is_empty() {
            for page in first..=last {
                self.changed[page_index(page)] = self.version.change;
            }
        }
        let (first, last) = (start.0 >> GRANULE_BITS, last_byte >> GRANULE_BITS);
        if last - first >= MAX_GRANULES {
            return self.next_epoch();
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
        self.version.change += 1;
        self.all_changed = self.version.change;
        self.next_epoch();
    }

    /// Forgets all answers.
    fn next_epoch(&mut self) {
        match self.epoch.checked_add(1) {
            Some(next) => self.epoch = next,
            None => *self = Self::new(),
        }
    }
}

/// What is known of a copy holds for that alone.
impl Clone for DataCache {
    fn clone(&self) -> Self {
        Self::new()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_around_an_address_as_far_as_nothing_changed() {
        let whole = NamedRange { start: VirtAddr(0x10_0000), end: VirtAddr(0x20_0000), ..NOTHING };
        let addr = VirtAddr(0x12_3456);
        let range = |cache: &mut DataCache| cache.get_range(addr).map(|found| found.start.0..found.end.0);
        let mut cache = DataCache::new();
        assert_eq!(range(&mut cache), None);
        cache.put(addr, whole);
        assert_eq!(range(&mut cache), Some(0x10_0000..0x20_0000));
        // Elsewhere in the variable, in the same page, in the same line.
        cache.forget(VirtAddr(0x15_0000), 8);
        assert_eq!(range(&mut cache), Some(0x12_3000..0x12_4000));
        cache.forget(VirtAddr(0x12_3000), 8);
        assert_eq!(range(&mut cache), Some(0x12_3440..0x12_3480));
        cache.forget(VirtAddr(0x12_3440), 8);
        assert_eq!(range(&mut cache), None);
        // A variable that begins within the page.
        let short = NamedRange { start: VirtAddr(0x12_3400), ..whole };
        cache.put(addr, short);
        cache.forget(VirtAddr(0x15_0000), 8);
        assert_eq!(range(&mut cache), Some(0x12_3400..0x12_4000));
    }
}
