//! A trace as actions: allocations in the order of the session, with accesses between them in replay order.

use std::path::Path;

use memref::{
    Access, AccessKind, Allocation, AllocationFunction, AllocationKind, BlockFunction, BlockOp, Event,
    VirtAddr,
};
use rtvm::replay::{Action, Replay, ReplayOptions, with_replay};
use symbols::{HeapChange, Resolver};

use super::blocks::{NumberedBlocks, PlacedRange, RangeKind, Target};
use super::{ComparedRun, Findings};
use crate::{Error, Moment, Session, Tool};

/// Actions that the systems take turns with.
const BATCH: usize = 8192;

/// Replays a trace, or only the blocks of its heap.
///
/// # Errors
/// Where the trace can't be read, or there is no memory for the systems.
pub fn run(options: &ReplayOptions, session: &Session, heap_only: bool) -> Result<ComparedRun, Error> {
    let properties = session.trace().properties();
    // An imported trace may not know its program.
    let program = properties.get("program").map(String::as_str).filter(|name| !["", "-"].contains(name));
    let program =
        program.map_or_else(|| session.trace().path().to_string_lossy().into_owned(), str::to_owned);
    let workload =
        Path::new(&program).file_name().map_or(program.clone(), |n| n.to_string_lossy().into_owned());
    let spaces = session.trace().processes().len().max(1);
    with_replay(options, spaces, |replay| {
        let mut tool = Feeder {
            replay,
            processes: (0..spaces).map(|_| NumberedBlocks::default()).collect(),
            batch: Vec::with_capacity(BATCH),
            space: 0,
            findings: Findings::default(),
            heap_only,
            page_bytes: 1 << options.page_bits,
        };
        session.replay(&Default::default(), None, &mut tool)?;
        tool.flush();
        let findings = tool.findings;
        Ok(ComparedRun::new(workload, None, tool.replay, findings))
    })?
}

/// Turns events into actions.
struct Feeder<'r, 'a> {
    replay: &'r mut Replay<'a>,
    processes: Vec<NumberedBlocks>,
    batch: Vec<Action>,
    /// Whose actions the batch has.
    space: usize,
    findings: Findings,
    heap_only: bool,
    page_bytes: u64,
}

impl Feeder<'_, '_> {
    fn flush(&mut self) {
        self.replay.run(self.space, &self.batch);
        self.batch.clear();
    }

    fn enter(&mut self, process: u32) {
        let space = (process as usize).min(self.processes.len() - 1);
        if space != self.space {
            self.flush();
            self.space = space;
        }
    }

    #[inline]
    fn push(&mut self, action: Action) {
        self.batch.push(action);
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    #[inline]
    fn access(&mut self, addr: VirtAddr, store: bool) {
        let (id, offset) = match self.processes[self.space].target(addr) {
            Target::Known(id, offset) => (id, offset),
            Target::Released => {
                self.findings.accesses_after_free += 1;
                return;
            }
            Target::NewChunk(id, bytes, offset) => {
                if !self.heap_only {
                    self.push(Action::Map { id, counted: false, bytes });
                }
                (id, offset)
            }
        };
        if self.heap_only && !self.processes[self.space].is_heap(id) {
            self.findings.accesses_beside_heap += 1;
            return;
        }
        self.push(Action::Access { id, store, offset });
    }

    /// A range as accesses to each of its pages.
    fn range(&mut self, start: VirtAddr, len: u64, store: bool) {
        if len == 0 {
            return;
        }
        let Some(last) = start.0.checked_add(len - 1).map(VirtAddr) else {
            self.findings.accesses_outside += 1;
            return;
        };
        // A page of the model may begin anywhere in a block, so both ends count, and each page's bytes between them.
        let mut at = start;
        while at < last {
            self.access(at, store);
            at = VirtAddr(at.0.saturating_add(self.page_bytes));
        }
        self.access(last, store);
    }

    fn block(&mut self, block: &BlockOp) {
        // The systems of the model copy for themselves where a block moves.
        if block.function == BlockFunction::Allocator && block.kind == memref::BlockKind::Copy {
            return;
        }
        self.findings.block_operations += 1;
        for (start, len) in [block.read(), block.compared()].into_iter().flatten() {
            self.range(start, len, false);
        }
        if let Some((start, len)) = block.written() {
            self.range(start, len, true);
        }
    }

    /// Ends what a new block lies over.
    fn clear(&mut self, start: VirtAddr, len: u64) {
        for PlacedRange { id, kind, .. } in self.processes[self.space].overlapping(start, len) {
            // An allocator of the program's own puts blocks into its mappings.
            if kind == RangeKind::Block {
                self.findings.overlapping_blocks += 1;
                self.release(id, kind, false);
            }
        }
    }

    fn release(&mut self, id: u32, kind: RangeKind, remember: bool) {
        self.processes[self.space].remove(id, remember);
        match kind {
            RangeKind::Block => self.push(Action::Free { id }),
            RangeKind::Mapping if !self.heap_only => self.push(Action::Unmap { id }),
            _ => {}
        }
    }

    fn allocate(&mut self, event: &Allocation, kind: RangeKind) {
        if kind == RangeKind::Block {
            self.clear(event.addr, event.len.max(1));
        } else if !self.processes[self.space].overlapping(event.addr, event.len).is_empty() {
            // It takes the place of a part of another one, which keeps its pages together.
            self.findings.partial_mappings += 1;
            return;
        }
        let id = self.processes[self.space].insert(event.addr, event.len, kind);
        match kind {
            RangeKind::Block => {
                let aligned = matches!(
                    event.function,
                    AllocationFunction::PosixMemalign
                        | AllocationFunction::AlignedAlloc
                        | AllocationFunction::Memalign
                        | AllocationFunction::Valloc
                );
                // The trace has the address, not the alignment that was asked for.
                let align_bits = if aligned { event.addr.0.trailing_zeros().min(12) as u8 } else { 4 };
                self.push(Action::Malloc { id, align_bits, bytes: event.len });
            }
            _ if self.heap_only => {}
            _ => self.push(Action::Map { id, counted: true, bytes: event.len.max(1) }),
        }
    }

    fn unmap(&mut self, start: VirtAddr, len: u64) {
        let overlapping = self.processes[self.space].overlapping(start, len);
        for PlacedRange { id, kind, start: from, len: bytes } in overlapping {
            if kind != RangeKind::Mapping {
                continue;
            }
            if start <= from && from.0.saturating_add(bytes) <= start.0.saturating_add(len) {
                // Not every mapping that comes after it is an event, so accesses there say nothing.
                self.release(id, kind, false);
            } else {
                self.findings.partial_mappings += 1;
            }
        }
    }
}

impl Tool for Feeder<'_, '_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.enter(at.process.0);
        for access in accesses {
            if access.kind != AccessKind::Prefetch {
                self.access(access.addr, access.kind.writes());
            }
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Block(block) => {
                self.enter(at.process.0);
                self.block(block);
            }
            Event::Gap(gap) => self.findings.gaps += gap.count,
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, _: HeapChange) {
        self.enter(resolver.process().0);
        let blocks = &mut self.processes[self.space];
        match event.kind {
            AllocationKind::Malloc | AllocationKind::Calloc => self.allocate(event, RangeKind::Block),
            AllocationKind::Realloc => match blocks.starting_at(event.old_addr) {
                Some((id, RangeKind::Block)) => {
                    if event.addr != event.old_addr {
                        self.clear(event.addr, event.len.max(1));
                    }
                    self.processes[self.space].replace(id, event.addr, event.len);
                    self.push(Action::Realloc { id, bytes: event.len });
                }
                _ => {
                    self.findings.unknown_frees += u64::from(event.old_addr.0 != 0);
                    self.allocate(event, RangeKind::Block);
                }
            },
            AllocationKind::Free => match blocks.starting_at(event.addr) {
                Some((id, RangeKind::Block)) => self.release(id, RangeKind::Block, true),
                _ if blocks.was_released(event.addr) => self.findings.double_frees += 1,
                _ => self.findings.unknown_frees += u64::from(event.addr.0 != 0),
            },
            AllocationKind::Mmap => {
                // A mapping over another one takes its place, which is no mistake.
                self.unmap(event.addr, event.len);
                self.allocate(event, RangeKind::Mapping);
            }
            AllocationKind::Mremap => {
                self.unmap(event.old_addr, event.old_len);
                self.unmap(event.addr, event.len);
                self.allocate(event, RangeKind::Mapping);
            }
            AllocationKind::Munmap => self.unmap(event.addr, event.len),
            AllocationKind::Brk => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memref::{Gap, GapReason, ProcessId, ThreadId};
    use rtvm::replay::ReplayOutcome;
    use trace_format::{CreateOptions, ProcessRecord, ThreadRecord, TraceWriter};

    /// What one thread did, with its times filled in.
    fn trace(events: &[Event<&'static str>]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.memtap");
        let writer = TraceWriter::create(&path, CreateOptions::default()).unwrap();
        let process = writer.add_process(&ProcessRecord { pid: 1, ..Default::default() }).unwrap();
        let thread = writer.add_thread(&ThreadRecord { process, tid: 1, ..Default::default() }).unwrap();
        let mut shard = writer.shard(thread).unwrap();
        for (index, event) in events.iter().enumerate() {
            let cycle = index as u64 + 1;
            let mut event = event.clone();
            match &mut event {
                Event::Access(e) => e.cycle = cycle,
                Event::Block(e) => (e.cycle, e.order) = (cycle, cycle),
                Event::Allocation(e) => (e.cycle, e.order) = (cycle, cycle),
                Event::Gap(e) => e.cycle = cycle,
                _ => {}
            }
            shard.push(&event).unwrap();
        }
        drop(shard);
        writer.finish().unwrap();
        (dir, path)
    }

    fn allocation(kind: AllocationKind, addr: u64, len: u64, old: (u64, u64)) -> Event<&'static str> {
        let function = match kind {
            AllocationKind::Free => AllocationFunction::Free,
            AllocationKind::Mmap => AllocationFunction::Mmap,
            AllocationKind::Munmap => AllocationFunction::Munmap,
            _ => AllocationFunction::Malloc,
        };
        Event::Allocation(Allocation {
            cycle: 0,
            order: 0,
            ip: VirtAddr(0x1000),
            kind,
            function,
            addr: VirtAddr(addr),
            len,
            old_addr: VirtAddr(old.0),
            old_len: old.1,
        })
    }

    fn malloc(addr: u64, len: u64) -> Event<&'static str> {
        allocation(AllocationKind::Malloc, addr, len, (0, 0))
    }

    fn free(addr: u64) -> Event<&'static str> {
        allocation(AllocationKind::Free, addr, 0, (0, 0))
    }

    fn store(addr: u64) -> Event<&'static str> {
        let access =
            Access { cycle: 0, ip: VirtAddr(0x1000), addr: VirtAddr(addr), size: 8, kind: AccessKind::Store };
        Event::Access(access)
    }

    fn check(events: &[Event<&'static str>], heap_only: bool) -> ComparedRun {
        let (_dir, path) = trace(events);
        let options = ReplayOptions {
            pages: 1 << 20,
            heap_pages: 1 << 19,
            frames: 1 << 20,
            ..ReplayOptions::default()
        };
        let session = Session::open(&path).unwrap();
        let run = run(&options, &session, heap_only).unwrap();
        assert_eq!(run.points_above, 0);
        for outcome in [&run.rtmmu, &run.conventional] {
            assert_eq!(outcome.failures, Default::default());
        }
        run
    }

    fn counts(outcome: &ReplayOutcome) -> (u64, u64, u64) {
        (outcome.allocations, outcome.frees, outcome.accesses)
    }

    const HEAP: u64 = 0x5555_0000_0000;

    #[test]
    fn blocks_live_where_the_trace_says() {
        let events = [
            malloc(HEAP, 10 << 12),
            store(HEAP),
            store(HEAP + (5 << 12)),
            malloc(HEAP + (16 << 12), 64),
            free(HEAP),
            store(HEAP + (16 << 12)),
            allocation(AllocationKind::Realloc, HEAP + (20 << 12), 3 << 12, (HEAP + (16 << 12), 64)),
            store(HEAP + (22 << 12)),
            free(HEAP + (20 << 12)),
        ];
        let run = check(&events, false);
        assert_eq!(counts(&run.rtmmu), (3, 2, 4));
        assert_eq!(run.findings.named().iter().map(|n| n.1).sum::<u64>(), 0, "{:?}", run.findings);
        // The last release gives back the page that was written, and that of the tag after it.
        assert_eq!(run.rtmmu.max_pages_unmapped_by_one_free, 2);
        assert!(run.conventional.peak_pages > run.rtmmu.peak_pages);
    }

    #[test]
    fn what_is_wrong_in_a_trace_is_counted() {
        let events = [
            free(HEAP + 0x9000),
            malloc(HEAP, 100),
            free(HEAP),
            free(HEAP),
            store(HEAP + 8),
            malloc(HEAP + 0x1000, 100),
            malloc(HEAP + 0x1010, 100),
            allocation(AllocationKind::Realloc, HEAP + 0x5000, 10, (HEAP + 0x7000, 0)),
            Event::Gap(Gap {
                process: ProcessId(0),
                thread: ThreadId(0),
                cycle: 0,
                count: 17,
                reason: GapReason::Killed,
                addr: VirtAddr(0),
            }),
        ];
        let findings = check(&events, false).findings;
        assert_eq!(findings.unknown_frees, 2, "the first one, and the old block of the realloc");
        assert_eq!(findings.double_frees, 1);
        assert_eq!(findings.accesses_after_free, 1);
        assert_eq!(findings.overlapping_blocks, 1);
        assert_eq!(findings.gaps, 17);
    }

    #[test]
    fn mappings_and_static_data_are_regions() {
        let map = 0x7f00_0000_0000;
        let events = [
            store(0x40_0000),
            allocation(AllocationKind::Mmap, map, 8 << 12, (0, 0)),
            store(map),
            store(map + (7 << 12)),
            allocation(AllocationKind::Munmap, map + (4 << 12), 1 << 12, (0, 0)),
            allocation(AllocationKind::Munmap, map, 8 << 12, (0, 0)),
            store(0x40_0008),
        ];
        let run_ = check(&events, false);
        assert_eq!(run_.workload, "t.memtap", "the trace does not say its program");
        assert_eq!(counts(&run_.rtmmu), (1, 1, 4));
        assert_eq!(run_.findings.partial_mappings, 1);
        assert_eq!(
            (run_.rtmmu.max_pages_unmapped_by_one_free, run_.conventional.max_pages_unmapped_by_one_free),
            (2, 2)
        );
        // The first tag, static data, two pages of the mapping.
        assert_eq!(run_.rtmmu.peak_pages, 4);
        let alone = check(&events, true);
        assert_eq!(counts(&alone.rtmmu), (0, 0, 0));
        assert_eq!(alone.findings.accesses_beside_heap, 4);
    }

    #[test]
    fn a_block_operation_is_an_access_to_each_page() {
        let fill = Event::Block(BlockOp {
            cycle: 0,
            order: 0,
            ip: VirtAddr(0x1000),
            kind: memref::BlockKind::Fill,
            function: BlockFunction::Memset,
            dst: VirtAddr(HEAP + 100),
            src: VirtAddr(0),
            len: 3 << 12,
        });
        let run = check(&[malloc(HEAP, 4 << 12), fill], false);
        assert_eq!(run.findings.block_operations, 1);
        assert_eq!(counts(&run.rtmmu), (1, 0, 4));
        assert!(run.rtmmu.peak_pages >= 4);
    }
}
