//! A trace that is being written: buffers arrive, are gathered into segments of the length that the encoder prefers,
//! and leave as jobs of the worker pool (Simutrace, section 2.3, with small buffers before the long segments).
//!
//! Locks are taken in the order ring, open segment of a thread's stream, open segment of a session's table.
//! Code that attends to all streams ([`WriteTrace::tick`], [`WriteTrace::relieve`]) only tries to take them.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memref::{Gap, GapReason, ProcessId, ThreadId, VirtAddr};
use trace_format::{
    Bounds, CodedFrame, CreateOptions, EndReason, EntryType, FinishedFrame, Interval, NewSegment,
    SegmentContent, SegmentSink, StreamDescription, StreamKind, Trace, TraceWriter, gap_entry,
};

use super::resources::{Resources, Spare};

use super::ring::Ring;
use crate::wire::SyncWhen;
use crate::{Error, RefusalReason, lock};

/// How long entries of a stream may wait for more: shortly in its first two segments, so that a server that is killed early
/// leaves something. The times before a segment is looked at come on top of it (`TICK`, twice), and together they are a second.
fn may_wait(sequence: u64) -> Duration {
    Duration::from_millis(match sequence {
        0 => 50,
        1 => 150,
        _ => 900,
    })
}
/// Streams of one trace.
const MAX_STREAMS: usize = 1 << 16;
/// Memory that an open segment starts with.
const FIRST_BYTES: usize = 64 << 10;
/// Frames that wait for each worker, beside the one that it encodes.
const FRAMES_A_WORKER: usize = 2;
/// Segments whose memory is worth keeping for the next one.
const WORTH_KEEPING: usize = 1 << 20;

/// One stream.
#[derive(Debug)]
pub(crate) struct WrittenStream {
    pub(crate) number: u32,
    pub(crate) entry_bytes: usize,
    entry_type: EntryType,
    encoder: u32,
    /// Whether other streams refer to it, so that it is written before them.
    table: bool,
    /// Whether it has data of any length: references to them count its entries.
    variable: bool,
    /// Whether a client's writer of such data is open.
    has_writer: AtomicBool,
    owner: Option<(ProcessId, ThreadId)>,
    segment_bytes: usize,
    /// Where the last entries end that are in the file.
    end: AtomicU64,
    /// Whether a segment could not be written. Those that follow are not: readers would find a hole.
    cut_short: AtomicBool,
    open: Mutex<OpenSegment>,
}

/// The right to write data of any length: a reference is the place where its writer puts a datum, so that there is one writer at a time.
#[derive(Debug)]
pub(crate) struct SoleWriter(Arc<WrittenStream>);

impl SoleWriter {
    /// `None` where the stream has entries, which anybody may write.
    pub(crate) fn of(stream: &Arc<WrittenStream>) -> Result<Option<Self>, Error> {
        if !stream.variable {
            return Ok(None);
        }
        if stream.has_writer.swap(true, Ordering::Acquire) {
            let text = format!("stream {}: its data of any length have a writer already", stream.number);
            return Err(Error::refused(RefusalReason::Mode, text));
        }
        Ok(Some(Self(stream.clone())))
    }
}

impl Drop for SoleWriter {
    fn drop(&mut self) {
        self.0.has_writer.store(false, Ordering::Release);
    }
}

/// The first write that failed.
#[derive(Debug)]
struct WriteFailure {
    text: String,
    why: EndReason,
}

/// What a trace ends for whose write failed so.
fn why(error: &trace_format::Error) -> EndReason {
    match error {
        trace_format::Error::Io { source, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            EndReason::DiskFull
        }
        _ => EndReason::WriteFailed,
    }
}

/// A segment that could not be written.
struct LostSegment {
    stream: u32,
    owner: (ProcessId, ThreadId),
    span: SegmentSpan,
}

/// Which entries of a stream a segment has.
struct SegmentSpan {
    first_index: u64,
    entries: u64,
    /// The first one's; the largest number where entries have none.
    cycle: u64,
}

impl SegmentSpan {
    /// The index after the last entry.
    fn end(&self) -> u64 {
        self.first_index.saturating_add(self.entries)
    }
}

/// Where a stream goes on.
#[derive(Clone, Copy)]
struct StreamPosition {
    /// Of the next frame.
    sequence: u64,
    /// Of the next entry.
    first_index: u64,
}

impl StreamPosition {
    const START: Self = Self { sequence: 0, first_index: 0 };
}

/// The open segment of a stream.
#[derive(Debug)]
struct OpenSegment {
    bytes: Vec<u8>,
    /// What the budget has for `bytes`.
    reserved: usize,
    sequence: u64,
    first_index: u64,
    since: Instant,
    wall_ns: u64,
    /// Whether clients make the stream's frames, which no segment is cut for here.
    is_of_frames: bool,
}

/// What a segment holds.
enum GatheredEntries {
    /// Entries as they are.
    Entries(Vec<u8>),
    /// What an encoder makes of them.
    Coded(Arc<CodedFrame>),
}

impl GatheredEntries {
    /// How many entries of that many bytes.
    fn count(&self, entry_bytes: usize) -> u64 {
        match self {
            Self::Entries(bytes) => (bytes.len() / entry_bytes) as u64,
            Self::Coded(frame) => frame.count(),
        }
    }

    /// What encoding them takes memory for: their bytes, as far as they are not room for more.
    fn bytes(&self) -> usize {
        match self {
            Self::Entries(bytes) => bytes.len(),
            Self::Coded(frame) => frame.filled_bytes(),
        }
    }
}

/// A segment on its way.
struct CutSegment {
    held: GatheredEntries,
    reserved: usize,
    sequence: u64,
    first_index: u64,
    wall_ns: u64,
}

/// The trace.
pub(crate) struct WriteTrace {
    resources: Weak<Resources>,
    sink: Arc<dyn SegmentSink>,
    /// Whether segments must be written in the order in which they are cut.
    in_order: bool,
    sync: SyncWhen,
    segment_entries: usize,
    streams: Mutex<Vec<Arc<WrittenStream>>>,
    rings: Mutex<Vec<Weak<Mutex<Ring>>>>,
    properties: Mutex<Option<TraceWriter>>,
    /// Segments that were cut and are not written.
    pending: Mutex<usize>,
    written: Condvar,
    failed: AtomicBool,
    failure: Mutex<Option<WriteFailure>>,
    /// What could not be written of threads' streams.
    lost: Mutex<Vec<LostSegment>>,
    closed: AtomicBool,
}

impl fmt::Debug for WriteTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTrace").field("sink", &self.sink).finish_non_exhaustive()
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl WriteTrace {
    pub(crate) fn new(
        resources: &Arc<Resources>,
        sink: Arc<dyn SegmentSink>,
        in_order: bool,
        sync: SyncWhen,
        segment_entries: usize,
    ) -> Self {
        Self {
            resources: Arc::downgrade(resources),
            sink,
            in_order,
            sync,
            segment_entries,
            streams: Mutex::default(),
            rings: Mutex::default(),
            properties: Mutex::default(),
            pending: Mutex::new(0),
            written: Condvar::new(),
            failed: AtomicBool::new(false),
            failure: Mutex::default(),
            lost: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.sink.path()
    }

    fn resources(&self) -> Result<Arc<Resources>, Error> {
        self.resources.upgrade().ok_or_else(|| Error::refused(RefusalReason::Mode, "the server stops"))
    }

    /// Fails where entries would not be kept.
    fn check(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Acquire) {
            let text = lock(&self.failure).as_ref().map_or_else(String::new, |failure| failure.text.clone());
            return Err(Error::refused(RefusalReason::Incomplete, text));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::refused(
                RefusalReason::Mode,
                format!("{}: the trace is closed", self.path().display()),
            ));
        }
        Ok(())
    }

    /// The first failure stays: it is where the trace stops being complete.
    fn fail(&self, error: &trace_format::Error, then: &str) {
        let failure = || WriteFailure { text: format!("{error}{then}"), why: why(error) };
        lock(&self.failure).get_or_insert_with(failure);
        self.failed.store(true, Ordering::Release);
    }

    /// Announces a stream.
    pub(crate) fn add_stream(&self, mut description: StreamDescription) -> Result<u32, Error> {
        self.check()?;
        let refuse =
            |reason, text: String| Error::refused(reason, format!("{}: {text}", self.path().display()));
        let mut streams = lock(&self.streams);
        if streams.len() >= MAX_STREAMS {
            return Err(refuse(RefusalReason::NoRoom, format!("{MAX_STREAMS} streams are the most")));
        }
        description.complete();
        if description.encoder == u32::MAX {
            description.encoder = description.entry_type.default_encoder();
        }
        if !self.sink.has_encoder(description.encoder) {
            return Err(refuse(
                RefusalReason::Unknown,
                format!("no encoder has the number {}", description.encoder),
            ));
        }
        if description.is_names() && lock(&self.properties).is_some() {
            return Err(refuse(
                RefusalReason::Mode,
                "the server keeps the stream of names since a property was added".into(),
            ));
        }
        let number = self
            .sink
            .add_stream(&description)
            .map_err(|error| refuse(RefusalReason::Incomplete, error.to_string()))?;
        streams.push(self.new_stream(&*self.resources()?, number, description, StreamPosition::START));
        Ok(number)
    }

    /// A stream that goes on at that sequence number and index.
    fn new_stream(
        &self,
        resources: &Resources,
        number: u32,
        description: StreamDescription,
        StreamPosition { sequence, first_index }: StreamPosition,
    ) -> Arc<WrittenStream> {
        let entry_bytes = description.entry_type.entry_bytes as usize;
        let most = resources.most_of_a_segment() / entry_bytes;
        Arc::new(WrittenStream {
            number,
            entry_bytes,
            encoder: description.encoder,
            table: description.is_session_table(),
            variable: description.variable,
            has_writer: AtomicBool::new(false),
            owner: description.process.zip(description.thread),
            segment_bytes: self.segment_entries.clamp(1, most.max(1)) * entry_bytes,
            end: AtomicU64::new(first_index),
            cut_short: AtomicBool::new(false),
            entry_type: description.entry_type,
            open: Mutex::new(OpenSegment {
                bytes: Vec::new(),
                reserved: 0,
                sequence,
                first_index,
                since: Instant::now(),
                wall_ns: 0,
                is_of_frames: false,
            }),
        })
    }

    /// Goes on with the streams of a trace that was closed.
    pub(crate) fn resume(&self, resources: &Resources, before: &Trace) {
        let mut streams = lock(&self.streams);
        for info in before.streams() {
            let Some(reader) = before.stream(info.number) else { continue };
            let place = StreamPosition { sequence: reader.next_sequence(), first_index: reader.end_index() };
            streams.push(self.new_stream(resources, info.number, info.description, place));
        }
    }

    /// A stream that was announced to this server.
    pub(crate) fn stream(&self, number: u32) -> Result<Arc<WrittenStream>, Error> {
        let found = lock(&self.streams).iter().find(|stream| stream.number == number).cloned();
        found.ok_or_else(|| {
            Error::refused(RefusalReason::Unknown, format!("the trace has no stream {number} to write to"))
        })
    }

    /// Says something about the session.
    pub(crate) fn add_property(&self, key: &str, value: &str) -> Result<(), Error> {
        self.check()?;
        let streams = lock(&self.streams);
        let mut writer = lock(&self.properties);
        if writer.is_none() && streams.iter().any(|stream| stream.entry_type.is_names()) {
            let text = format!("{}: the client keeps the stream of names itself", self.path().display());
            return Err(Error::refused(RefusalReason::Mode, text));
        }
        drop(streams);
        let writer =
            writer.get_or_insert_with(|| TraceWriter::on_sink(self.sink.clone(), CreateOptions::default()));
        let refuse =
            |error: trace_format::Error| Error::refused(RefusalReason::Incomplete, error.to_string());
        writer.set_property(key, value).map_err(refuse)
    }

    /// Keeps an eye on a ring, until it is dropped.
    pub(crate) fn watch(&self, ring: &Arc<Mutex<Ring>>) {
        let mut rings = lock(&self.rings);
        rings.retain(|ring| ring.strong_count() > 0);
        rings.push(Arc::downgrade(ring));
    }

    /// Adds `len` bytes of whole entries; `fill` appends the given part of them. Waits where memory is short.
    pub(crate) fn append(
        self: &Arc<Self>,
        stream: &Arc<WrittenStream>,
        len: usize,
        mut fill: impl FnMut(&mut Vec<u8>, usize, usize),
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let resources = self.resources()?;
        let mut open = lock(&stream.open);
        // Under the lock that closing takes, so nothing is added that it misses.
        self.check()?;
        if open.is_of_frames {
            let text = format!("stream {} has frames of a client, so it takes no entries", stream.number);
            return Err(Error::refused(RefusalReason::Mode, text));
        }
        let mut done = 0;
        while done < len {
            let piece = (stream.segment_bytes - open.bytes.len()).min(len - done);
            if !self.make_room(&resources, stream, &mut open, piece) {
                // The segment was cut, or memory is still short.
                self.check()?;
                continue;
            }
            if open.bytes.is_empty() {
                open.since = Instant::now();
                open.wall_ns = now_ns();
            }
            fill(&mut open.bytes, done, piece);
            done += piece;
            if open.bytes.len() >= stream.segment_bytes {
                self.cut(&resources, stream, &mut open);
            }
        }
        Ok(())
    }

    /// Makes memory for `more` bytes. `false` where the caller has to look again.
    fn make_room(
        self: &Arc<Self>,
        resources: &Arc<Resources>,
        stream: &Arc<WrittenStream>,
        open: &mut OpenSegment,
        more: usize,
    ) -> bool {
        let needed = open.bytes.len() + more;
        if needed <= open.reserved {
            return true;
        }
        let want = needed.max(open.reserved * 2).max(FIRST_BYTES).min(stream.segment_bytes.max(needed));
        if want >= WORTH_KEEPING
            && let Some(Spare { mut bytes, reserved }) = resources.take_spare(want)
        {
            bytes.extend_from_slice(&open.bytes);
            resources.segments.release(open.reserved);
            (open.bytes, open.reserved) = (bytes, reserved);
            return true;
        }
        if resources.segments.try_reserve(want - open.reserved) {
            open.bytes.reserve_exact(want - open.bytes.len());
            open.reserved = want;
            return true;
        }
        if !open.bytes.is_empty() {
            self.cut(resources, stream, open);
        } else if stream.table {
            // Others wait for tables, so these wait for nobody; they are small.
            resources.segments.reserve(want - open.reserved);
            open.bytes.reserve_exact(want);
            open.reserved = want;
            return true;
        } else if !resources.drop_spares() {
            resources.relieve();
            resources.segments.wait();
        }
        false
    }

    /// Sends the open segment on its way.
    fn cut(
        self: &Arc<Self>,
        resources: &Arc<Resources>,
        stream: &Arc<WrittenStream>,
        open: &mut OpenSegment,
    ) {
        if open.bytes.is_empty() {
            return;
        }
        let held = GatheredEntries::Entries(std::mem::take(&mut open.bytes));
        let (reserved, wall_ns) = (std::mem::take(&mut open.reserved), open.wall_ns);
        self.send(resources, stream, open, held, reserved, wall_ns);
    }

    /// Takes a frame that the client has filled, and a worker encodes. Waits where memory is short, and where the workers have enough
    /// to do: what waits longer is no longer in the processor's cache.
    pub(crate) fn add_coded(
        self: &Arc<Self>,
        stream: u32,
        frame: Arc<CodedFrame>,
        wall_ns: u64,
    ) -> Result<(), Error> {
        let resources = self.resources()?;
        let stream = self.stream(stream)?;
        let bytes = frame.bytes();
        self.wait_until_pending(FRAMES_A_WORKER * resources.options.workers.max(1));
        resources.reserve_for_frame(bytes, || self.check())?;
        let mut open = lock(&stream.open);
        if let Err(error) = self.check() {
            resources.segments.release(bytes);
            return Err(error);
        }
        self.cut(&resources, &stream, &mut open);
        self.send(&resources, &stream, &mut open, GatheredEntries::Coded(frame), bytes, wall_ns);
        Ok(())
    }

    /// Takes a frame that the client has made, which says itself where it belongs. A stream has such frames, or entries, not both.
    pub(crate) fn add_frame(&self, bytes: Vec<u8>) -> Result<(), Error> {
        let refuse = |what: String| {
            Error::refused(RefusalReason::Malformed, format!("{}: {what}", self.path().display()))
        };
        let frame =
            FinishedFrame::parse(bytes).map_err(|what| refuse(format!("a frame was refused: {what}")))?;
        let stream = self.stream(frame.stream())?;
        let mut open = lock(&stream.open);
        self.check()?;
        if !open.is_of_frames && (open.sequence > 0 || !open.bytes.is_empty()) {
            let text = format!("stream {} has entries, so it takes no frames", stream.number);
            return Err(Error::refused(RefusalReason::Mode, text));
        }
        let span = SegmentSpan {
            first_index: frame.first_index(),
            entries: frame.count(),
            cycle: frame.bounds().cycles.min,
        };
        open.is_of_frames = true;
        open.sequence = open.sequence.max(frame.sequence().saturating_add(1));
        open.first_index = open.first_index.max(span.end());
        drop(open);
        self.add(&stream, span, || self.sink.add_frame(frame));
        self.check()
    }

    fn send(
        self: &Arc<Self>,
        resources: &Arc<Resources>,
        stream: &Arc<WrittenStream>,
        open: &mut OpenSegment,
        held: GatheredEntries,
        reserved: usize,
        wall_ns: u64,
    ) {
        let (sequence, first_index, count) =
            (open.sequence, open.first_index, held.count(stream.entry_bytes));
        let segment = CutSegment { held, reserved, sequence, first_index, wall_ns };
        open.sequence += 1;
        open.first_index += count;
        if stream.table || self.in_order {
            self.write(resources, stream, segment);
            return;
        }
        if stream.owner.is_some() {
            // What the entries refer to comes before them.
            self.cut_tables(resources);
        }
        *lock(&self.pending) += 1;
        let (trace, stream, pool) = (self.clone(), stream.clone(), resources.clone());
        resources.workers.run(move || {
            trace.write(&pool, &stream, segment);
            *lock(&trace.pending) -= 1;
            trace.written.notify_all();
        });
    }

    /// Writes the tables of the session, in the order of their streams: names come first there.
    fn cut_tables(self: &Arc<Self>, resources: &Arc<Resources>) {
        let tables: Vec<_> = lock(&self.streams).iter().filter(|stream| stream.table).cloned().collect();
        for stream in tables {
            let mut open = lock(&stream.open);
            self.cut(resources, &stream, &mut open);
        }
    }

    fn write(&self, resources: &Resources, stream: &WrittenStream, segment: CutSegment) {
        let count = segment.held.count(stream.entry_bytes);
        let working = resources.work(segment.held.bytes());
        let content = match &segment.held {
            GatheredEntries::Entries(bytes) => SegmentContent::Entries(bytes),
            GatheredEntries::Coded(frame) => SegmentContent::Coded(frame),
        };
        let mut bounds = content.bounds(&stream.entry_type);
        bounds.wall_ns = Interval { min: segment.wall_ns, max: segment.wall_ns };
        let add = || {
            self.sink.add_segment(&NewSegment {
                stream: stream.number,
                entry_type: &stream.entry_type,
                encoder: stream.encoder,
                sequence: segment.sequence,
                first_index: segment.first_index,
                wall_ns: segment.wall_ns,
                bounds: Some(bounds),
                content,
            })
        };
        let span = SegmentSpan { first_index: segment.first_index, entries: count, cycle: bounds.cycles.min };
        self.add(stream, span, add);
        drop(working);
        match segment.held {
            GatheredEntries::Entries(bytes) => resources.give_spare(bytes, segment.reserved),
            GatheredEntries::Coded(_) => resources.segments.release(segment.reserved),
        }
    }

    /// Writes a segment, unless one before it failed: readers would find a hole.
    fn add(
        &self,
        stream: &WrittenStream,
        span: SegmentSpan,
        add: impl FnOnce() -> Result<(), trace_format::Error>,
    ) {
        let added = (!stream.cut_short.load(Ordering::Acquire)).then(add);
        if let Some(Ok(())) = added {
            stream.end.fetch_max(span.end(), Ordering::AcqRel);
        } else if let Some(owner) = stream.owner {
            lock(&self.lost).push(LostSegment { stream: stream.number, owner, span });
        }
        if let Some(Err(error)) = added {
            stream.cut_short.store(true, Ordering::Release);
            self.fail(&error, "; the trace is complete up to there");
        }
    }

    /// Sends all open segments on their way, or those that have waited long enough.
    fn cut_all(self: &Arc<Self>, resources: &Arc<Resources>, only_due: bool) {
        let streams: Vec<_> = lock(&self.streams).clone();
        for stream in streams {
            let open = if only_due { try_lock(&stream.open) } else { Some(lock(&stream.open)) };
            if let Some(mut open) = open
                && (!only_due || open.since.elapsed() >= may_wait(open.sequence))
            {
                self.cut(resources, &stream, &mut open);
            }
        }
    }

    /// Called a few times a second: takes over what clients filled, and sends on what has waited long enough.
    pub(crate) fn tick(self: &Arc<Self>, resources: &Arc<Resources>) {
        let rings: Vec<_> = lock(&self.rings).iter().filter_map(Weak::upgrade).collect();
        for ring in rings {
            if let Some(mut ring) = try_lock(&ring) {
                // A failure is told to the client at its next call.
                let _ = ring.peek(self);
            }
        }
        self.cut_all(resources, true);
        if let Some(properties) = try_lock(&self.properties).as_deref().and_then(Option::as_ref)
            && let Err(error) = properties.flush()
        {
            self.fail(&error, "");
        }
    }

    /// The memory of the largest open segment that nobody uses at this moment, and its stream.
    pub(crate) fn largest(&self) -> Option<(usize, Arc<WrittenStream>)> {
        let streams: Vec<_> = lock(&self.streams).clone();
        let reserved = |stream: &Arc<WrittenStream>| try_lock(&stream.open).map_or(0, |open| open.reserved);
        let largest = streams.into_iter().map(|stream| (reserved(&stream), stream));
        largest.filter(|(reserved, _)| *reserved > 0).max_by_key(|(reserved, _)| *reserved)
    }

    /// Sends a stream's open segment on its way, unless somebody uses it.
    pub(crate) fn relieve(self: &Arc<Self>, resources: &Arc<Resources>, stream: &Arc<WrittenStream>) {
        if let Some(mut open) = try_lock(&stream.open) {
            self.cut(resources, stream, &mut open);
        }
    }

    /// Returns when all that was submitted is in the file.
    pub(crate) fn flush(self: &Arc<Self>, sync: bool) -> Result<(), Error> {
        let resources = self.resources()?;
        let rings: Vec<_> = lock(&self.rings).iter().filter_map(Weak::upgrade).collect();
        for ring in rings {
            lock(&ring).peek(self)?;
        }
        self.cut_all(&resources, false);
        if let Some(properties) = &*lock(&self.properties)
            && let Err(error) = properties.flush()
        {
            self.fail(&error, "");
        }
        self.drain();
        self.check()?;
        let sink = || self.sink.flush().and_then(|()| if sync { self.sink.sync() } else { Ok(()) });
        sink().map_err(|error| Error::refused(RefusalReason::Incomplete, error.to_string()))
    }

    /// Says in the trace what is missing from it. Often a small frame fits where a large one did not.
    fn write_losses(&self) {
        let mut gaps = BTreeMap::new();
        for lost in std::mem::take(&mut *lock(&self.lost)) {
            // A hole before entries that are in the file, where another worker was faster: readers find it by themselves.
            let end = self.stream(lost.stream).map_or(0, |stream| stream.end.load(Ordering::Acquire));
            if lost.span.first_index >= end {
                let (count, cycle) = gaps.entry(lost.owner).or_insert((0, u64::MAX));
                *count += lost.span.entries;
                *cycle = lost.span.cycle.min(*cycle);
            }
        }
        for ((process, thread), (count, cycle)) in gaps {
            let cycle = if cycle == u64::MAX { 0 } else { cycle };
            let gap =
                Gap { process, thread, cycle, count, reason: GapReason::StoreFailed, addr: VirtAddr(0) };
            // Nothing more can be done where this fails too; the client knows that the trace is not complete.
            let _ = self.write_gap(&gap);
        }
    }

    fn write_gap(&self, gap: &Gap) -> Result<(), trace_format::Error> {
        let entry_type = StreamKind::Gaps.entry_type();
        let entries = gap_entry(gap);
        let now = now_ns();
        let bounds = Bounds { wall_ns: Interval { min: now, max: now }, ..Bounds::of(&entry_type, &entries) };
        let owner = Some((gap.process, gap.thread));
        let known = lock(&self.streams)
            .iter()
            .find(|stream| stream.owner == owner && stream.entry_type.guid == entry_type.guid)
            .cloned();
        let mut open = known.as_ref().map(|stream| lock(&stream.open));
        let (stream, encoder) = match &known {
            Some(stream) => (stream.number, stream.encoder),
            None => {
                let description = StreamDescription::of_kind(StreamKind::Gaps, owner);
                (self.sink.add_stream(&description)?, description.encoder)
            }
        };
        let place = open.as_deref_mut().map_or((0, 0), |open| {
            let place = (open.sequence, open.first_index);
            open.sequence += 1;
            open.first_index += 1;
            place
        });
        self.sink.add_segment(&NewSegment {
            stream,
            entry_type: &entry_type,
            encoder,
            sequence: place.0,
            first_index: place.1,
            wall_ns: now,
            bounds: Some(bounds),
            content: SegmentContent::Entries(&entries),
        })
    }

    fn drain(&self) {
        self.wait_until_pending(0);
    }

    /// Returns when at most so many segments are on their way.
    fn wait_until_pending(&self, most: usize) {
        let mut pending = lock(&self.pending);
        while *pending > most {
            pending = self.written.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a flush forces the file to disk.
    pub(crate) fn syncs_at_flush(&self) -> bool {
        self.sync == SyncWhen::Flushed
    }

    /// Closes the trace, for that reason. Even one that is not complete gets its directories and its end.
    pub(crate) fn close(self: &Arc<Self>, why: EndReason) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            return self.check();
        }
        let flushed = self.flush(false);
        if self.closed.swap(true, Ordering::AcqRel) {
            return flushed;
        }
        // Whoever appended before the flag was set is in.
        if let Ok(resources) = self.resources() {
            self.cut_all(&resources, false);
            self.drain();
        }
        self.write_losses();
        let why = lock(&self.failure).as_ref().map_or(why, |failure| failure.why);
        let finished = self.sink.end(self.sync != SyncWhen::Never, why);
        flushed?;
        finished.map_err(|error| Error::refused(RefusalReason::Incomplete, error.to_string()))
    }
}
