//! Heap blocks: their addresses and lifetimes, from which the map outlines them.
//!
//! They are known from the calls that allocated and released them, which are events
//! of their own, so no access is read. Naming the blocks is left to the tables.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use analysis::Session;
use memref::{Allocation, AllocationKind, Event, ProcessId, RegionKind, ThreadId, VirtAddr};
use report::heatmap::MapRegion;
use serde_json::{Value, json};
use trace_format::{Batch, EventCursor, Filter, KindSet};

use crate::frames::PAGE_SHIFT;
use crate::map::TraceMap;
use crate::part::{MapPart, TimeAxis};

/// Blocks that are remembered of a trace at most: the first ones.
pub(crate) const MOST_KNOWN: usize = 1 << 20;
/// Smaller blocks are not mapped one by one.
const LEAST_MAPPED: u64 = 64 << 10;
/// Blocks that are sent at most: the largest ones.
const MOST_SENT: usize = 2_000;

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapBlock {
    pub(crate) process: ProcessId,
    /// Who allocated it.
    pub(crate) thread: ThreadId,
    /// By which call, and where that is.
    pub(crate) kind: AllocationKind,
    pub(crate) ip: VirtAddr,
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// When, on the clock of that thread.
    pub(crate) allocated: u64,
    /// By which thread, and when on its clock; `None` where it never was.
    pub(crate) released: Option<(ThreadId, u64)>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlocksRequest {
    pub(crate) part: MapPart,
    /// Smaller blocks are left out.
    pub(crate) least: u64,
}

/// A call that changes what is allocated, and who made it.
struct Called {
    process: ProcessId,
    thread: ThreadId,
    event: Allocation,
}

/// The calls of a thread that are still to come.
struct ThreadCalls {
    process: ProcessId,
    thread: ThreadId,
    cursor: EventCursor,
}

impl ThreadCalls {
    fn next(&mut self) -> Result<Option<Called>, trace_format::Error> {
        while let Some(batch) = self.cursor.next_batch()? {
            if let Batch::Event(Event::Allocation(event)) = batch {
                return Ok(Some(Called { process: self.process, thread: self.thread, event }));
            }
        }
        Ok(None)
    }
}

/// All blocks of a trace.
pub(crate) fn blocks(session: &Session) -> Result<Vec<MapBlock>, trace_format::Error> {
    let filter = Filter { kinds: KindSet::ALLOCATIONS, ..Filter::default() };
    let (mut threads, mut next) = (Vec::new(), BinaryHeap::new());
    for record in session.trace().threads() {
        let cursor = session.trace().shard(record.thread).events(&filter);
        let mut calls = ThreadCalls { process: record.process, thread: record.thread, cursor };
        if let Some(called) = calls.next()? {
            next.push(Reverse((called.event.order, threads.len())));
            threads.push((calls, called));
        }
    }
    let mut lives = Lives::default();
    // Of all threads the call that came first. There may be more calls than memory for them.
    while let Some(Reverse((_, place))) = next.pop() {
        let (calls, called) = &mut threads[place];
        lives.tell(called);
        if let Some(following) = calls.next()? {
            next.push(Reverse((following.event.order, place)));
            *called = following;
        }
    }
    Ok(lives.all)
}

/// What became of each call's block.
#[derive(Default)]
struct Lives {
    all: Vec<MapBlock>,
    /// Places of those that live.
    live: HashMap<(ProcessId, VirtAddr), usize>,
}

impl Lives {
    /// The next call of all threads.
    fn tell(&mut self, Called { process, thread, event }: &Called) {
        let Self { all, live } = self;
        let gone = match event.kind {
            AllocationKind::Free => event.addr,
            AllocationKind::Realloc => event.old_addr,
            _ => VirtAddr(0),
        };
        if let Some(block) = live.remove(&(*process, gone)).and_then(|number| all.get_mut(number)) {
            block.released = Some((*thread, event.cycle));
        }
        let makes =
            matches!(event.kind, AllocationKind::Malloc | AllocationKind::Calloc | AllocationKind::Realloc);
        if makes && event.len > 0 && all.len() < MOST_KNOWN {
            live.insert((*process, event.addr), all.len());
            all.push(MapBlock {
                process: *process,
                thread: *thread,
                kind: event.kind,
                ip: event.ip,
                start: event.addr.0,
                len: event.len,
                allocated: event.cycle,
                released: None,
            });
        }
    }
}

/// Regions of blocks that lie in none: the C library maps large ones itself, and unmaps them at once when they are released.
pub(crate) fn mapped_blocks(blocks: &[MapBlock], regions: &[MapRegion]) -> Vec<MapRegion> {
    let mut sorted: Vec<&MapBlock> = blocks.iter().filter(|block| block.len >= LEAST_MAPPED).collect();
    sorted.sort_by_key(|block| (block.process, block.start, std::cmp::Reverse(block.len)));
    let mut all: Vec<MapRegion> = Vec::new();
    for block in sorted {
        let pages = block.start >> PAGE_SHIFT << PAGE_SHIFT
            ..(block.start.saturating_add(block.len)).next_multiple_of(1 << PAGE_SHIFT);
        let overlaps = |region: &MapRegion| {
            region.process == block.process
                && region.start.0 < pages.end
                && region.start.0.saturating_add(region.len) > pages.start
        };
        match all.last_mut().filter(|last| overlaps(last)) {
            Some(last) => last.len = last.len.max(pages.end - last.start.0),
            None if regions.iter().any(overlaps) => {}
            None => all.push(MapRegion {
                process: block.process,
                start: VirtAddr(pages.start),
                len: pages.end - pages.start,
                kind: RegionKind::Heap,
                traced: true,
                name: "[large blocks]".to_owned(),
            }),
        }
    }
    all
}

impl TraceMap {
    /// From when to when a block lived, on an axis; to the end where that is not known there.
    fn life(&self, axis: TimeAxis, block: &MapBlock) -> Range<u64> {
        let end = self.released_at(axis, block).unwrap_or(u64::MAX);
        self.when(axis, block.thread, block.allocated)..end
    }

    /// When a block was released, on an axis. In cycles nobody knows it of one that another thread released, whose clock is another.
    fn released_at(&self, axis: TimeAxis, block: &MapBlock) -> Option<u64> {
        let (thread, cycle) = block.released?;
        (axis == TimeAxis::Time || thread == block.thread).then(|| self.when(axis, thread, cycle))
    }

    /// When a block lived, as JSON: `from` and `to`.
    pub(crate) fn life_json(&self, axis: TimeAxis, block: &MapBlock) -> [Value; 2] {
        [json!(self.when(axis, block.thread, block.allocated)), json!(self.released_at(axis, block))]
    }

    /// The blocks of a part, the largest first; of equals those that were allocated first.
    pub(crate) fn blocks_in(&self, part: &MapPart, least: u64) -> Vec<&MapBlock> {
        let overlap = |a: Range<u64>, b: &Range<u64>| a.start < b.end && a.end > b.start;
        let mut found: Vec<&MapBlock> = self
            .blocks
            .iter()
            .filter(|block| {
                block.len >= least
                    && block.process == part.process
                    && part.thread.is_none_or(|thread| thread == block.thread)
                    && overlap(block.start..block.start.saturating_add(block.len), &part.addresses)
                    && overlap(self.life(part.axis, block), &part.span)
            })
            .collect();
        found.sort_by_key(|block| std::cmp::Reverse(block.len));
        found
    }

    /// Those to outline.
    pub(crate) fn blocks(&self, request: &BlocksRequest) -> Value {
        let mut found = self.blocks_in(&request.part, request.least);
        let more = found.len().saturating_sub(MOST_SENT);
        found.truncate(MOST_SENT);
        let block = |block: &MapBlock| {
            let [from, to] = self.life_json(request.part.axis, block);
            json!({
                "start": format!("{:#x}", block.start),
                "bytes": block.len,
                "thread": block.thread.0,
                "from": from,
                "to": to,
            })
        };
        json!({"blocks": found.into_iter().map(block).collect::<Vec<_>>(), "more": more})
    }
}

#[cfg(test)]
mod tests {
    use memref::AllocationFunction;

    use super::*;

    fn call(thread: u32, cycle: u64, kind: AllocationKind, addr: u64, len: u64, old: u64) -> Called {
        let event = Allocation {
            cycle,
            order: cycle,
            ip: VirtAddr(1),
            kind,
            function: AllocationFunction::Malloc,
            addr: VirtAddr(addr),
            len,
            old_addr: VirtAddr(old),
            old_len: 0,
        };
        Called { process: ProcessId(0), thread: ThreadId(thread), event }
    }

    #[test]
    fn blocks_live_until_their_release() {
        use AllocationKind::{Free, Malloc, Mmap, Realloc};
        let calls = [
            call(0, 10, Malloc, 0x100, 8, 0),
            call(0, 20, Realloc, 0x200, 16, 0x100),
            call(0, 30, Malloc, 0x100, 4, 0),
            call(1, 40, Free, 0x100, 0, 0),
            call(0, 50, Mmap, 0x1000, 4096, 0),
            call(0, 60, Free, 0x999, 0, 0),
        ];
        let mut lives = Lives::default();
        calls.iter().for_each(|call| lives.tell(call));
        let lived: Vec<String> = lives
            .all
            .iter()
            .map(|block| {
                let released = block.released.map(|(thread, cycle)| (thread.0, cycle));
                format!("{:#x}+{} {}..{released:?}", block.start, block.len, block.allocated)
            })
            .collect();
        assert_eq!(lived, ["0x100+8 10..Some((0, 20))", "0x200+16 20..None", "0x100+4 30..Some((1, 40))"]);
    }

    #[test]
    fn large_blocks_outside_of_regions_are_regions() {
        let block = |start, len| MapBlock {
            process: ProcessId(0),
            thread: ThreadId(0),
            kind: AllocationKind::Malloc,
            ip: VirtAddr(1),
            start,
            len,
            allocated: 0,
            released: None,
        };
        let heap = MapRegion {
            process: ProcessId(0),
            start: VirtAddr(0x10_0000),
            len: 0x10_0000,
            kind: RegionKind::Heap,
            traced: true,
            name: String::new(),
        };
        let blocks = [
            block(0x10_0010, 0x1_8000),
            block(0x80_0010, 0x1_2000),
            block(0x80_1010, 0x1_3000),
            block(0x90_0000, 8),
        ];
        let shown: Vec<_> =
            mapped_blocks(&blocks, &[heap]).iter().map(|region| (region.start.0, region.len)).collect();
        assert_eq!(shown, [(0x80_0000, 0x1_5000)]);
    }
}
