//! The regions of one process at one point of its run.

use std::sync::Arc;

use memref::{Order, RegionChange, RegionEvent, RegionKind, VirtAddr};

/// A region of one process: an index into all regions it ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u32);

/// One mapping, or a part of one that has a kind and rights of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: VirtAddr,
    /// Bytes, at its largest; parts of it may be unmapped or replaced since.
    pub len: u64,
    /// What it is for.
    pub kind: RegionKind,
    /// Bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
    /// Whether the tracer records accesses to it.
    pub traced: bool,
    /// Offset of the first byte in the mapped file.
    pub file_offset: u64,
    /// Path of the mapped file, or a bracketed name; empty for anonymous memory.
    pub name: Arc<str>,
    /// When it appeared.
    pub since: Order,
    /// When its last byte disappeared, if it has.
    pub until: Option<Order>,
}

/// A stretch of addresses that belongs to one region now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: VirtAddr,
    end: VirtAddr,
    id: RegionId,
}

/// All regions of one process, and which of them is where now.
#[derive(Clone, Debug, Default)]
pub struct RegionMap {
    /// Sorted and disjoint.
    ranges: Vec<Range>,
    regions: Vec<Region>,
}

impl RegionMap {
    /// Applies one event. Events come in the session's order; one that wraps around the address space is cut at its end.
    ///
    /// Returns the region that the range belongs to now, if it belongs to one.
    pub fn apply(&mut self, event: &RegionEvent<String>) -> Option<RegionId> {
        let (start, end) = (event.start, VirtAddr(event.start.0.saturating_add(event.len)));
        if start >= end {
            return None;
        }
        match event.change {
            RegionChange::Unmap => {
                self.cut(start, end, event.order);
                None
            }
            RegionChange::Map => {
                self.cut(start, end, event.order);
                Some(self.add(event, start, end))
            }
            RegionChange::Change => {
                // Each region keeps its name and its place in the file.
                let touched: Vec<Range> = self.overlapping(start, end).to_vec();
                self.cut(start, end, event.order);
                let mut last = None;
                for range in touched {
                    let Some(old) = self.region(range.id) else { continue };
                    let from = range.start.max(start);
                    let part = RegionEvent {
                        file_offset: old.file_offset.wrapping_add(from.0.wrapping_sub(old.start.0)),
                        name: if event.name.is_empty() { old.name.to_string() } else { event.name.clone() },
                        ..event.clone()
                    };
                    last = Some(self.add(&part, from, range.end.min(end)));
                }
                last
            }
        }
    }

    /// The region of an address.
    #[inline]
    pub fn find(&self, addr: VirtAddr) -> Option<RegionId> {
        self.find_range(addr).2
    }

    /// As [`find`](Self::find), with the range around `addr` (first byte, first byte after) that has the same answer.
    pub fn find_range(&self, addr: VirtAddr) -> (VirtAddr, VirtAddr, Option<RegionId>) {
        let after = self.ranges.partition_point(|range| range.start <= addr);
        let before = after.checked_sub(1).and_then(|i| self.ranges.get(i));
        if let Some(range) = before.filter(|range| addr < range.end) {
            return (range.start, range.end, Some(range.id));
        }
        let start = before.map_or(VirtAddr(0), |range| range.end);
        let end = self.ranges.get(after).map_or(VirtAddr(u64::MAX), |range| range.start);
        (start, end, None)
    }

    /// A region, mapped now or before.
    pub fn region(&self, id: RegionId) -> Option<&Region> {
        self.regions.get(id.0 as usize)
    }

    /// All regions the process ever had, in the order of their appearance.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// What is mapped now, in the order of addresses: first byte, first byte after, region.
    pub fn ranges(&self) -> impl Iterator<Item = (VirtAddr, VirtAddr, RegionId)> {
        self.ranges.iter().map(|range| (range.start, range.end, range.id))
    }

    fn overlap_indices(&self, start: VirtAddr, end: VirtAddr) -> std::ops::Range<usize> {
        let first = self.ranges.partition_point(|range| range.end <= start);
        let last = self.ranges.partition_point(|range| range.start < end);
        first..last.max(first)
    }

    fn overlapping(&self, start: VirtAddr, end: VirtAddr) -> &[Range] {
        self.ranges.get(self.overlap_indices(start, end)).unwrap_or_default()
    }

    fn cut(&mut self, start: VirtAddr, end: VirtAddr, order: Order) {
        let indices = self.overlap_indices(start, end);
        let mut kept = Vec::new();
        let mut gone = Vec::new();
        for range in self.ranges.get(indices.clone()).unwrap_or_default() {
            gone.push(range.id);
            if range.start < start {
                kept.push(Range { end: start, ..*range });
            }
            if range.end > end {
                kept.push(Range { start: end, ..*range });
            }
        }
        self.ranges.splice(indices, kept);
        for id in gone {
            if !self.ranges.iter().any(|range| range.id == id)
                && let Some(region) = self.regions.get_mut(id.0 as usize)
            {
                region.until = Some(order);
            }
        }
    }

    /// Puts a region where nothing is.
    fn add(&mut self, event: &RegionEvent<String>, start: VirtAddr, end: VirtAddr) -> RegionId {
        let at = self.ranges.partition_point(|range| range.start < start);
        // The heap grows at its end: it stays one region.
        if event.kind == RegionKind::Heap
            && let Some(before) = at.checked_sub(1).and_then(|i| self.ranges.get_mut(i))
            && before.end == start
            && let Some(region) = self.regions.get_mut(before.id.0 as usize)
            && region.kind == event.kind
            && (region.rights, region.traced) == (event.rights, event.traced)
            && *region.name == *event.name
        {
            before.end = end;
            region.len = region.len.max(end.0 - region.start.0);
            return before.id;
        }
        let id = RegionId(self.regions.len() as u32);
        self.regions.push(Region {
            start,
            len: end.0 - start.0,
            kind: event.kind,
            rights: event.rights,
            traced: event.traced,
            file_offset: event.file_offset,
            name: event.name.as_str().into(),
            since: event.order,
            until: None,
        });
        self.ranges.insert(at, Range { start, end, id });
        id
    }
}
