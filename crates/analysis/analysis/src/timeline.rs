//! What each thread did over its time: its stack and the number of its
//! accesses at each sample; and how many bytes each process had allocated.
//!
//! A sample stands for all accesses of its thread since the previous one, so samples add up to what `stat` counts; the stack is
//! that of the last of these accesses. Time is each thread's own count of instructions, because threads have no common clock.

use std::collections::BTreeMap;

use memref::{Access, Allocation, AllocationKind, Event, ProcessId, ThreadId};
use symbols::{BlockId, HeapChange, Resolver};

use crate::stack::{CallPlace, Contexts, Stacks};
use crate::{Count, Error, Moment, Session, Tool};

/// So many samples a timeline has, more or less.
const SAMPLES: u64 = 20_000;

/// What a thread did since its sample before.
#[derive(Clone, Copy, Debug)]
pub struct TimeSample {
    /// Whose.
    pub thread: ThreadId,
    /// Its cycle at the last access.
    pub cycle: u64,
    /// Where it was then.
    pub place: CallPlace,
    /// The accesses.
    pub count: Count,
}

/// Bytes that the allocator had given to a process, at some point of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapSample {
    /// Whose.
    pub process: ProcessId,
    /// The thread of it that was sampled.
    pub thread: ThreadId,
    /// Its cycle.
    pub cycle: u64,
    /// Bytes of live blocks.
    pub live: u64,
    /// The most that they were since the sample before.
    pub most: u64,
}

/// A thread between two samples.
#[derive(Clone, Copy, Debug)]
struct OpenSample {
    process: ProcessId,
    sample: TimeSample,
}

#[derive(Clone, Copy, Debug, Default)]
struct LiveHeap {
    live: u64,
    most: u64,
    changed: bool,
}

/// Samples a replay.
#[derive(Debug)]
pub struct Timeline {
    stacks: Stacks,
    every: u64,
    open: BTreeMap<ThreadId, OpenSample>,
    samples: Vec<TimeSample>,
    heaps: BTreeMap<ProcessId, LiveHeap>,
    heap_samples: Vec<HeapSample>,
}

impl Timeline {
    /// Of that session.
    pub fn new(session: &Session) -> Self {
        Self {
            stacks: Stacks::new(session),
            every: session.accesses().div_ceil(SAMPLES).max(1),
            open: BTreeMap::new(),
            samples: Vec::new(),
            heaps: BTreeMap::new(),
            heap_samples: Vec::new(),
        }
    }

    /// The end of the replay: what is left is sampled, too.
    pub fn finish(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            self.take(open);
        }
    }

    /// The samples, each thread's in their order.
    pub fn samples(&self) -> &[TimeSample] {
        &self.samples
    }

    /// The heap, each process' in their order.
    pub fn heap_samples(&self) -> &[HeapSample] {
        &self.heap_samples
    }

    /// The contexts of the samples.
    pub fn contexts(&self) -> &Contexts {
        self.stacks.contexts()
    }

    fn take(&mut self, open: OpenSample) {
        let TimeSample { thread, cycle, .. } = open.sample;
        if open.sample.count.accesses() > 0 {
            self.samples.push(open.sample);
        }
        if let Some(heap) = self.heaps.get_mut(&open.process).filter(|heap| heap.changed) {
            let LiveHeap { live, most, .. } = *heap;
            self.heap_samples.push(HeapSample { process: open.process, thread, cycle, live, most });
            *heap = LiveHeap { live, most: live, changed: false };
        }
    }

    fn heap(&mut self, process: ProcessId, change: impl FnOnce(u64) -> u64) {
        let heap = self.heaps.entry(process).or_default();
        heap.live = change(heap.live);
        heap.most = heap.most.max(heap.live);
        heap.changed = true;
    }
}

/// The bytes of a block of the allocator.
fn bytes_of(resolver: &Resolver, block: BlockId) -> u64 {
    let block = resolver.heap().block(block);
    let kind = block.and_then(|block| resolver.heap().site(block.site)).map(|site| site.kind);
    match kind {
        Some(AllocationKind::Mmap | AllocationKind::Mremap) | None => 0,
        Some(_) => block.map_or(0, |block| block.len),
    }
}

impl Tool for Timeline {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let Some(first) = accesses.first() else { return Ok(()) };
        let mut open = match self.open.get(&at.thread) {
            Some(open) => *open,
            None => {
                let place = self.stacks.access(at, first);
                let (thread, cycle) = (at.thread, first.cycle);
                let mut sample = TimeSample { thread, cycle, place, count: Count::default() };
                sample.count.add(first);
                self.open.insert(thread, OpenSample { process: at.process, sample });
                return self.accesses(at, &accesses[1..]);
            }
        };
        for access in accesses {
            open.sample.place = self.stacks.access(at, access);
            open.sample.cycle = access.cycle;
            open.sample.count.add(access);
            if open.sample.count.accesses() >= self.every {
                self.take(open);
                open.sample.count = Count::default();
            }
        }
        self.open.insert(at.thread, open);
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.stacks.event(at, event);
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, _: &Allocation, change: HeapChange) {
        let process = resolver.process();
        match change {
            HeapChange::Allocated(new) | HeapChange::AllocatedForFreed { new, .. } => {
                let bytes = bytes_of(resolver, new);
                self.heap(process, |live| live.saturating_add(bytes));
            }
            HeapChange::Replaced { old, new } => {
                let (old, new) = (bytes_of(resolver, old), bytes_of(resolver, new));
                self.heap(process, |live| live.saturating_sub(old).saturating_add(new));
            }
            HeapChange::Released(block) => {
                let bytes = bytes_of(resolver, block);
                self.heap(process, |live| live.saturating_sub(bytes));
            }
            _ => {}
        }
    }
}
