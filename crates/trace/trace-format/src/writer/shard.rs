//! The writer of one thread's events.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use blocks::SharedBlock;
use memref::{Access, Cycle, Event, Gap, GapReason, Marker, ProcessId, ThreadId, VirtAddr};

use super::{lock::lock, options::CreateOptions, segment::PendingSegment, writer_core::WriterCore};
use crate::{
    BlockFrame, DataAccess, Error, MAX_FRAME_ENTRIES, StreamKind, Trace,
    encoder::number::BLOCKS,
    entry::{MarkerEntry, REFERENCE, StreamEntry},
};

/// Buffers of one thread, in the order in which they are written: what accesses need comes before them.
#[derive(Debug)]
pub(crate) struct ShardState {
    process: ProcessId,
    thread: ThreadId,
    segments: Vec<PendingSegment>,
    /// Accesses by the blocks that made them, in place of those buffered in the segment.
    blocks: Option<BufferedBlocks>,
    /// From when on accesses that are added now could have been made, where that is known.
    since_ns: Option<u64>,
    last_cycle: Cycle,
    /// The cycle of the last gap entry, which the next one must not precede.
    last_gap: Cycle,
    /// Events that could not be written and are not yet in a gap entry.
    lost: Option<LostEvents>,
}

/// Executions of blocks that wait to be written.
#[derive(Debug, Default)]
struct BufferedBlocks {
    frame: BlockFrame,
    /// From when on the first one could have been made, or when it came.
    wall_ns: u64,
}

/// Events that could not be written.
#[derive(Clone, Copy, Debug)]
struct LostEvents {
    count: u64,
    first_cycle: Cycle,
}

const KINDS: [StreamKind; 8] = [
    StreamKind::Gaps,
    StreamKind::Orders,
    StreamKind::Markers,
    StreamKind::Syncs,
    StreamKind::Allocations,
    StreamKind::BlockOps,
    StreamKind::ValuesData,
    StreamKind::Accesses,
];

/// A thread's accesses are in one stream, with data or without.
fn place(kind: StreamKind) -> usize {
    let kind = if kind == StreamKind::DataAccesses { StreamKind::Accesses } else { kind };
    KINDS.iter().position(|&other| other == kind).expect("a stream of a thread")
}

impl ShardState {
    /// Whether accesses are to be kept by the blocks that made them.
    pub(super) fn keeps_blocks(core: &WriterCore) -> bool {
        let (options, sink) = (&core.options, &core.sink);
        options.encoder == Some(BLOCKS) && !options.data && sink.takes_coded() && sink.has_encoder(BLOCKS)
    }

    fn new(process: ProcessId, thread: ThreadId, data: bool) -> Self {
        let with_data = |kind| match kind {
            StreamKind::Accesses if data => StreamKind::DataAccesses,
            kind => kind,
        };
        let segments = KINDS.map(|kind| PendingSegment::new(with_data(kind), Some((process, thread)))).into();
        Self {
            process,
            thread,
            segments,
            blocks: None,
            since_ns: None,
            last_cycle: 0,
            last_gap: 0,
            lost: None,
        }
    }

    /// Goes on with a thread of the trace.
    fn resume(process: ProcessId, thread: ThreadId, data: bool, trace: &Trace) -> Self {
        let mut state = Self::new(process, thread, data);
        for segment in &mut state.segments {
            *segment = PendingSegment::resume(segment.kind(), Some((process, thread)), trace);
        }
        let streams = trace.streams().filter(|stream| stream.description.thread == Some(thread));
        for stream in streams.filter(|stream| !stream.bounds.cycles.is_none()) {
            state.last_cycle = state.last_cycle.max(stream.bounds.cycles.max);
        }
        state.last_gap = state.last_cycle;
        state
    }

    /// Writes what is buffered. What fails is dropped, and becomes a gap as soon as that can be written.
    pub(crate) fn flush(&mut self, core: &WriterCore) -> Result<(), Error> {
        let mut result = core.flush_session();
        for kind in KINDS {
            result = result.and(self.write(kind, core));
        }
        if self.lost.is_some() {
            // Often the large frame did not fit, and the small one that says so does.
            let _ = self.write(StreamKind::Gaps, core);
        }
        result
    }

    fn write(&mut self, kind: StreamKind, core: &WriterCore) -> Result<(), Error> {
        let gaps = place(StreamKind::Gaps);
        if kind == StreamKind::Gaps
            && let Some(LostEvents { count, first_cycle }) = self.lost.take()
        {
            let (process, thread) = (self.process, self.thread);
            let cycle = first_cycle.max(self.last_gap);
            self.last_gap = cycle;
            let gap =
                Gap { process, thread, cycle, count, reason: GapReason::StoreFailed, addr: VirtAddr(0) };
            self.segments[gaps].push(&gap, core.options.clock);
        }
        let segment = &mut self.segments[place(kind)];
        let blocks = self.blocks.as_mut();
        let blocks = blocks.filter(|blocks| kind == StreamKind::Accesses && !blocks.frame.is_empty());
        let (count, cycle, result) = match blocks {
            Some(BufferedBlocks { frame, wall_ns }) => {
                let (cycle, coded) = (frame.first_cycle(), Arc::new(frame.finish()));
                let written = segment.write_coded(&*core.sink, &core.options, *wall_ns, &coded);
                (coded.count(), cycle, written)
            }
            None => {
                let (count, cycle) = (segment.len() as u64, segment.first_cycle());
                // Gaps are few, and the last thing to be lost.
                let keep = kind == StreamKind::Gaps;
                (count, cycle, segment.write(&*core.sink, &core.options, keep))
            }
        };
        let event = !matches!(kind, StreamKind::Gaps | StreamKind::ValuesData);
        if result.is_err() && event && count > 0 {
            let lost = self.lost.get_or_insert(LostEvents { count: 0, first_cycle: cycle });
            lost.count += count;
            lost.first_cycle = lost.first_cycle.min(cycle);
        }
        result
    }

    /// Bytes of memory that what is buffered takes.
    fn memory(&self) -> usize {
        let frame = self.blocks.as_ref().map_or(0, |blocks| blocks.frame.memory_bytes());
        frame + self.segments.iter().map(PendingSegment::memory).sum::<usize>()
    }

    /// Writes what is buffered, and gives its memory back.
    fn relieve(&mut self, core: &WriterCore) -> Result<(), Error> {
        let result = self.flush(core);
        self.shrink();
        result
    }

    /// Gives memory back that nothing is in.
    fn shrink(&mut self) {
        self.segments.iter_mut().for_each(PendingSegment::shrink);
        if let Some(blocks) = self.blocks.as_mut().filter(|blocks| blocks.frame.is_empty()) {
            *blocks = BufferedBlocks::default();
        }
    }

    fn full(&self, kind: StreamKind, options: &CreateOptions) -> bool {
        self.segments[place(kind)].len() >= options.segment_entries.clamp(1, MAX_FRAME_ENTRIES)
    }

    fn push<E: StreamEntry>(&mut self, entry: &E, core: &WriterCore) -> Result<(), Error> {
        self.segments[place(E::KIND)].push(entry, core.options.clock);
        if !self.full(E::KIND, &core.options) {
            return Ok(());
        }
        // First the announcement of the thread, and names.
        let mut result = core.flush_session();
        if E::KIND == StreamKind::DataAccesses {
            result = result.and(self.write(StreamKind::ValuesData, core));
        }
        result.and(self.write(E::KIND, core))
    }

    fn push_access(&mut self, access: &Access, core: &WriterCore) -> Result<(), Error> {
        if core.options.data {
            return self.push(&DataAccess { access: *access, value: 0, value_bytes: 0 }, core);
        }
        if self.blocks.is_some() {
            return self.push_all(std::slice::from_ref(access), core);
        }
        self.push(access, core)
    }

    /// Writes the frame of blocks, and what it refers to before it.
    fn write_blocks(&mut self, core: &WriterCore) -> Result<(), Error> {
        core.flush_session().and(self.write(StreamKind::Accesses, core))
    }

    /// Makes room in the frame of blocks for that many accesses.
    fn blocks_with_room(
        &mut self,
        count: u64,
        base: u64,
        core: &WriterCore,
    ) -> (Result<(), Error>, Option<&mut BlockFrame>) {
        let Some(BufferedBlocks { frame, .. }) = &self.blocks else { return (Ok(()), None) };
        let is_full = frame.is_full() || has_all_bytes(frame, &core.options);
        let result = if is_full || !frame.is_empty() && !frame.takes(count, base) {
            self.write_blocks(core)
        } else {
            Ok(())
        };
        let since_ns = self.since_ns;
        let frame = self.blocks.as_mut().map(|blocks| {
            if blocks.frame.is_empty() {
                blocks.wall_ns = since_ns.unwrap_or_else(core.options.clock);
            }
            &mut blocks.frame
        });
        (result, frame)
    }

    /// Adds accesses whose cycles do not fall, segment by segment.
    fn push_all(&mut self, mut accesses: &[Access], core: &WriterCore) -> Result<(), Error> {
        let mut result = Ok(());
        if self.blocks.is_some() {
            for access in accesses {
                let base = self.blocks.as_ref().map_or(0, |blocks| blocks.frame.base());
                let (written, frame) = self.blocks_with_room(1, base, core);
                result = result.and(written);
                if let Some(frame) = frame {
                    frame.push_single(access);
                }
                self.last_cycle = access.cycle;
            }
            return result;
        }
        let place = place(StreamKind::Accesses);
        let most = core.options.segment_entries.clamp(1, MAX_FRAME_ENTRIES);
        while !accesses.is_empty() {
            let room = most.saturating_sub(self.segments[place].len()).max(1);
            let (now, later) = accesses.split_at(room.min(accesses.len()));
            if core.options.data {
                for access in now {
                    result = result.and(self.push_access(access, core));
                }
            } else {
                self.segments[place].push_all(now, core.options.clock);
                if self.full(StreamKind::Accesses, &core.options) {
                    let flushed = core.flush_session();
                    result = result.and(flushed).and(self.write(StreamKind::Accesses, core));
                }
            }
            if let Some(last) = now.last() {
                self.last_cycle = last.cycle;
            }
            accesses = later;
        }
        result
    }

    fn advance(&mut self, cycle: Cycle, core: &WriterCore) -> Result<(), Error> {
        if cycle < self.last_cycle {
            let (thread, last) = (self.thread, self.last_cycle);
            return Err(Error::OutOfOrder { path: core.sink.path().into(), thread, cycle, last });
        }
        self.last_cycle = cycle;
        Ok(())
    }
}

/// Writes the events of one thread. Cheap to clone and [`Send`]; meant to be used by one thread at a time.
///
/// Full segments are encoded in the caller's thread. What is buffered when the last writer of the trace is dropped without
/// [`flush`](Self::flush) or [`TraceWriter::finish`](super::TraceWriter::finish) is lost.
#[derive(Clone, Debug)]
pub struct ShardWriter {
    core: Arc<WriterCore>,
    state: Arc<Mutex<ShardState>>,
}

impl ShardWriter {
    pub(crate) fn open(core: &Arc<WriterCore>, thread: ThreadId) -> Result<Self, Error> {
        let unknown = || Error::UnknownThread { path: core.sink.path().into(), thread };
        let process = lock(&core.session).process_of(thread).ok_or_else(unknown)?;
        let mut shards = lock(&core.shards);
        let known = shards.get(&thread).cloned();
        let state = known.unwrap_or_else(|| {
            let data = core.options.data;
            let mut state = match &core.before {
                Some(trace) => ShardState::resume(process, thread, data, trace),
                None => ShardState::new(process, thread, data),
            };
            if core.before.is_none() && ShardState::keeps_blocks(core) {
                state.blocks = Some(BufferedBlocks::default());
            }
            let state = Arc::new(Mutex::new(state));
            shards.insert(thread, state.clone());
            state
        });
        Ok(Self { core: core.clone(), state })
    }

    /// Adds an event. Cycles must not decrease. An error of the store means that events were lost: they are counted, and
    /// a later flush that succeeds writes them as a [`Gap`].
    pub fn push(&mut self, event: &Event<&str>) -> Result<(), Error> {
        let mut state = lock(&self.state);
        self.core.check_open()?;
        state.advance(event.cycle(), &self.core)?;
        match event {
            Event::Access(access) => state.push_access(access, &self.core),
            Event::Block(block) => state.push(block, &self.core),
            Event::Allocation(allocation) => state.push(allocation, &self.core),
            Event::Marker(Marker { cycle, order, ip, kind, name }) => {
                let name = lock(&self.core.session).name(name);
                let entry = MarkerEntry { cycle: *cycle, order: *order, ip: *ip, kind: *kind, name };
                state.push(&entry, &self.core)
            }
            Event::Order(mark) => state.push(mark, &self.core),
            Event::Sync(sync) => state.push(sync, &self.core),
            Event::Gap(gap) => {
                state.last_gap = gap.cycle;
                state.push(gap, &self.core)
            }
        }
    }

    /// Adds accesses: the fast path. Of accesses that are out of order, those before the first such one are kept.
    pub fn push_accesses(&mut self, accesses: &[Access]) -> Result<(), Error> {
        let mut state = lock(&self.state);
        self.core.check_open()?;
        let sorted = accesses
            .iter()
            .scan(state.last_cycle, |last, access| (access.cycle >= *last).then(|| *last = access.cycle))
            .count();
        let (kept, rest) = accesses.split_at(sorted);
        let result = state.push_all(kept, &self.core);
        match rest.first() {
            // Says what is wrong.
            Some(first) => state.advance(first.cycle, &self.core),
            None => result,
        }
    }

    /// To add accesses by the blocks that made them; `None` where the trace is not written with the encoder `blocks`.
    pub fn blocks(&self) -> Result<Option<BlockWriter<'_>>, Error> {
        let state = lock(&self.state);
        self.core.check_open()?;
        Ok(state.blocks.is_some().then_some(BlockWriter { core: &self.core, state }))
    }

    /// Accesses that are added from here on by the blocks that made them could have been made from then on (ns since the Unix epoch).
    /// A frame that begins with one of them says so. Without this, it says when its first access was added.
    pub fn begin_from(&mut self, wall_ns: u64) {
        lock(&self.state).since_ns = Some(wall_ns);
    }

    fn check_data(&self) -> Result<(), Error> {
        if self.core.options.data {
            return Ok(());
        }
        Err(Error::WithoutData { path: self.core.sink.path().into() })
    }

    /// Adds accesses with the bytes that they read or wrote: the fast path. As [`Self::push_accesses`] otherwise.
    pub fn push_data_accesses(&mut self, accesses: &[DataAccess]) -> Result<(), Error> {
        self.check_data()?;
        let mut state = lock(&self.state);
        self.core.check_open()?;
        let mut result = Ok(());
        for entry in accesses {
            state.advance(entry.access.cycle, &self.core)?;
            let value_bytes = entry.value_bytes.min(8);
            result = result.and(state.push(&DataAccess { value_bytes, ..*entry }, &self.core));
        }
        result
    }

    /// Adds an access with any number of bytes that it read or wrote. Those that do not fit 8 go to a stream of their own.
    pub fn push_with_bytes(&mut self, access: &Access, bytes: &[u8]) -> Result<(), Error> {
        let mut word = [0; 8];
        if let Some(place) = word.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
            let (value, value_bytes) = (u64::from_le_bytes(word), bytes.len() as u8);
            return self.push_data_accesses(&[DataAccess { access: *access, value, value_bytes }]);
        }
        self.check_data()?;
        let mut state = lock(&self.state);
        self.core.check_open()?;
        state.advance(access.cycle, &self.core)?;
        let mut result = Ok(());
        if state.full(StreamKind::ValuesData, &self.core.options) {
            result = state.write(StreamKind::ValuesData, &self.core);
        }
        let value = state.segments[place(StreamKind::ValuesData)].push_data(bytes, self.core.options.clock);
        let entry = DataAccess { access: *access, value, value_bytes: REFERENCE };
        result.and(state.push(&entry, &self.core))
    }

    /// The index that the next access will have.
    pub fn next_access_index(&self) -> u64 {
        let state = lock(&self.state);
        let in_blocks = state.blocks.as_ref().map_or(0, |blocks| blocks.frame.len());
        state.segments[place(StreamKind::Accesses)].next_index() + in_blocks
    }

    /// Writes what is buffered as (small) frames. What was flushed survives the recorder's death; called about once a
    /// second, no more than that is lost.
    pub fn flush(&mut self) -> Result<(), Error> {
        let flushed = lock(&self.state).flush(&self.core);
        flushed.and(self.core.sink.flush()).and(self.core.sync_flushed())
    }

    /// As [`Self::flush`], for a thread that has come to its end: what was kept to encode more is given back.
    pub fn end(&mut self) -> Result<(), Error> {
        let flushed = self.flush();
        lock(&self.state).shrink();
        flushed
    }

    /// Bytes of memory that what is buffered takes, with the room that there is for more.
    pub fn memory_bytes(&self) -> usize {
        lock(&self.state).memory()
    }

    /// Hands what is buffered to the store, and gives its memory back. Unlike [`Self::flush`], it does not wait for the store.
    pub fn relieve(&mut self) -> Result<(), Error> {
        lock(&self.state).relieve(&self.core)
    }

    /// Whether the frame of blocks has as many bytes as the options allow.
    pub fn is_frame_full(&self) -> bool {
        let state = lock(&self.state);
        state.blocks.as_ref().is_some_and(|blocks| has_all_bytes(&blocks.frame, &self.core.options))
    }
}

/// Whether a frame has as many bytes as it may have, where there is a bound: adding them up costs as much as an access.
fn has_all_bytes(frame: &BlockFrame, options: &CreateOptions) -> bool {
    options.frame_bytes < usize::MAX && frame.filled_bytes() >= options.frame_bytes
}

/// Adds accesses of one thread by the blocks that made them: the fastest path of all.
pub struct BlockWriter<'a> {
    core: &'a WriterCore,
    state: MutexGuard<'a, ShardState>,
}

impl fmt::Debug for BlockWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockWriter").field("thread", &self.state.thread).finish_non_exhaustive()
    }
}

impl BlockWriter<'_> {
    /// Adds the accesses of one execution that began at `cycle`, which must not be before that of the last event. `id` is the
    /// number of the block, of one at a time; `values` are those that it recorded, and `base` is the thread's fs base. Returns
    /// how many accesses it made.
    #[inline]
    pub fn push(
        &mut self,
        id: u32,
        block: &SharedBlock,
        cycle: Cycle,
        values: &[[u8; 8]],
        base: u64,
    ) -> Result<u64, Error> {
        let count = block.count_words(values);
        if count == 0 {
            return Ok(0);
        }
        match &mut self.state.blocks {
            Some(BufferedBlocks { frame, .. })
                if !frame.is_empty() && !frame.is_full() && frame.takes(count, base) =>
            {
                frame.push(id, block, cycle, values, base, count);
                Ok(count)
            }
            _ => self.push_slowly(id, block, cycle, values, base, count),
        }
    }

    /// Takes the frame that grows, for who goes on with it elsewhere and gives it back ([`Self::put_frame`]) before anything else is
    /// added. From when on the first of its executions could have been made, or when it came, is told beside it: ns since the Unix epoch, nothing of an empty one.
    pub fn take_frame(&mut self) -> (BlockFrame, u64) {
        self.state.blocks.as_mut().map_or_else(Default::default, |blocks| {
            let BufferedBlocks { frame, wall_ns } = std::mem::take(blocks);
            (frame, wall_ns)
        })
    }

    /// Has a frame that was filled elsewhere grow on from here. All that was added before came before it, and is written.
    pub fn put_frame(&mut self, frame: BlockFrame, wall_ns: u64) -> Result<(), Error> {
        if frame.is_empty() {
            return Ok(());
        }
        let waits = self.state.blocks.as_ref().is_some_and(|blocks| !blocks.frame.is_empty());
        let written = if waits { self.state.write_blocks(self.core) } else { Ok(()) };
        self.state.last_cycle = self.state.last_cycle.max(frame.first_cycle());
        self.state.blocks = Some(BufferedBlocks { frame, wall_ns });
        written
    }

    #[cold]
    fn push_slowly(
        &mut self,
        id: u32,
        block: &SharedBlock,
        cycle: Cycle,
        values: &[[u8; 8]],
        base: u64,
        count: u64,
    ) -> Result<u64, Error> {
        self.state.advance(cycle, self.core)?;
        let (mut result, frame) = self.state.blocks_with_room(count, base, self.core);
        match frame.filter(|frame| frame.takes(count, base)) {
            Some(frame) => frame.push(id, block, cycle, values, base, count),
            // Too many for one frame.
            None => block.expand_in_pieces(cycle, values, base, |accesses| {
                let pushed = self.state.push_all(accesses, self.core);
                result = std::mem::replace(&mut result, Ok(())).and(pushed);
            }),
        }
        result.map(|()| count)
    }
}
