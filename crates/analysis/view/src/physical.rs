//! The physical memory of a machine on the map: its regions, and how often its pages are accessed.

use std::collections::HashMap;
use std::ops::Range;

use analysis::machine::Machine;
use analysis::{Error, Session};
use memref::{Access, ProcessId, RegionKind, ThreadId, VirtAddr};
use report::heatmap::{MapRegion, physical_regions};
use trace_format::Filter;

use crate::frames::{MapCell, PAGE_SHIFT, kind_number};
use crate::shown::ShownAccesses;

/// Pages whose counts are at hand.
const NEAR: usize = 1 << 12;

/// The regions of physical memory: main memory, and where devices answer.
pub(crate) fn machine_regions(session: &Session, machine: &Machine) -> Vec<MapRegion> {
    let process = session.trace().threads().first().map_or(ProcessId(0), |record| record.process);
    let mut regions = physical_regions(machine, 0);
    // Where it is not known what is main memory, all is one.
    let rest = if regions.is_empty() { "physical memory" } else { "devices" };
    let mut end = 0;
    let mut gaps = Vec::new();
    for region in &mut regions {
        region.process = process;
        gaps.push(end..region.start.0);
        end = region.start.0 + region.len;
    }
    gaps.push(end..1 << 52);
    let device = |gap: Range<u64>| MapRegion {
        process,
        start: VirtAddr(gap.start),
        len: gap.end - gap.start,
        kind: RegionKind::Anonymous,
        traced: true,
        name: rest.into(),
    };
    regions.extend(gaps.into_iter().filter(|gap| !gap.is_empty()).map(device));
    regions
}

/// Counts the frames of vCPUs by pages of physical memory, one after the other.
pub(crate) struct MachineCounter<'a> {
    session: &'a Session,
    reading: Option<(ThreadId, ShownAccesses)>,
    /// What was read and belongs to a later frame, and the number of its first access.
    rest: Vec<Access>,
    first: u64,
}

impl<'a> MachineCounter<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session, reading: None, rest: Vec::new(), first: 0 }
    }

    /// The cells of the frame with these accesses. Frames of a vCPU come in their order.
    pub(crate) fn cells(&mut self, thread: ThreadId, entries: &Range<u64>) -> Result<Vec<MapCell>, Error> {
        if self.reading.as_ref().is_none_or(|(of, _)| *of != thread) {
            let accesses = ShownAccesses::new(self.session, thread, &Filter::default(), true)?;
            self.reading = Some((thread, accesses));
            self.rest.clear();
        }
        let Some((_, accesses)) = &mut self.reading else { return Ok(Vec::new()) };
        let mut counts = PageCounts::default();
        loop {
            let of_frame = self.rest.len().min(entries.end.saturating_sub(self.first) as usize);
            self.rest.drain(..of_frame).for_each(|access| counts.add(&access));
            self.first += of_frame as u64;
            if !self.rest.is_empty() {
                break;
            }
            let Some((first, block)) = accesses.next_block()? else { break };
            self.first = first;
            self.rest.extend_from_slice(block);
        }
        Ok(counts.cells())
    }
}

/// Counts by page.
struct PageCounts {
    near: Box<[(u64, [u32; 3])]>,
    all: HashMap<u64, [u32; 3]>,
}

impl Default for PageCounts {
    fn default() -> Self {
        Self { near: vec![(u64::MAX, [0; 3]); NEAR].into_boxed_slice(), all: HashMap::new() }
    }
}

impl PageCounts {
    #[inline]
    fn add(&mut self, access: &Access) {
        let Some(kind) = kind_number(access) else { return };
        let page = access.addr.0 >> PAGE_SHIFT;
        let near = &mut self.near[page as usize % NEAR];
        if near.0 != page {
            let (page, counts) = std::mem::replace(near, (page, [0; 3]));
            Self::settle(&mut self.all, page, counts);
        }
        near.1[kind] += 1;
    }

    fn settle(all: &mut HashMap<u64, [u32; 3]>, page: u64, more: [u32; 3]) {
        if more != [0; 3] {
            let counts = all.entry(page).or_default();
            counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
    }

    /// In the order of pages.
    fn cells(mut self) -> Vec<MapCell> {
        for (page, counts) in self.near {
            Self::settle(&mut self.all, page, counts);
        }
        let cells = self.all.into_iter().map(|(page, counts)| MapCell { page, counts, slice: 0 });
        let mut cells: Vec<MapCell> = cells.collect();
        cells.sort_unstable_by_key(|cell| cell.page);
        cells
    }
}
