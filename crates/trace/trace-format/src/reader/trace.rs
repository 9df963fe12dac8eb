//! An open trace: its streams, and the data of the session.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use memref::{ProcessId, ThreadId};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    damage::Damage,
    file::{FrameError, FrameList, TraceFile},
    limits::Limits,
    session,
    stream::Stream,
};
use crate::{
    Bounds, Encoders, Error, Guid, MAX_THREADS, ProcessRecord, StreamDescription, StreamKind, ThreadRecord,
    TraceSource, directory::FrameRef, file_header::FileHeader, frame::FrameKind, index::IndexPlace,
    storage::NamedFile,
};

/// What all cursors of a trace share; nothing in it changes.
#[derive(Debug)]
pub(crate) struct TraceData {
    pub(crate) file: TraceFile,
    pub(crate) encoders: Encoders,
    pub(crate) streams: BTreeMap<u32, Arc<Stream>>,
    by_kind: BTreeMap<(StreamKind, Option<ThreadId>), Arc<Stream>>,
    /// What an index must have been made of (docs/format.md, *The page index*).
    pub(crate) key: u64,
    pub(crate) index: IndexPlace,
    /// The threads that had not ended when the trace ended early, with the cycles after their last events.
    pub(crate) cut_off: BTreeMap<ThreadId, u64>,
}

impl TraceData {
    /// The stream of that kind; accesses with data are accesses.
    pub(crate) fn stream(&self, kind: StreamKind, thread: Option<ThreadId>) -> Option<Arc<Stream>> {
        let with_data = || match kind {
            StreamKind::Accesses => self.by_kind.get(&(StreamKind::DataAccesses, thread)),
            _ => None,
        };
        self.by_kind.get(&(kind, thread)).or_else(with_data).cloned()
    }

    /// The streams that an index speaks of, by number.
    pub(crate) fn access_streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        let kinds = [Some(StreamKind::Accesses), Some(StreamKind::DataAccesses)];
        let ours =
            move |stream: &&Arc<Stream>| kinds.contains(&stream.kind) && stream.description.thread.is_some();
        self.streams.values().filter(ours)
    }
}

/// What is known of a stream without reading its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its number in the file.
    pub number: u32,
    /// What it holds, and whose.
    pub description: StreamDescription,
    /// Entries that can be read, as far as frame headers tell.
    pub entries: u64,
    /// Frames.
    pub frames: u64,
    /// Bytes of its frames in the file, with headers.
    pub stored_bytes: u64,
    /// What the entries span.
    pub bounds: Bounds,
}

/// An open trace. Cheap to clone; clones and cursors can be used by any thread and do not lock each other.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(super) inner: Arc<TraceData>,
    pub(super) header: Option<FileHeader>,
    /// All frames, in the order of the file, and where the next one would start.
    pub(super) frames: Arc<Vec<FrameRef>>,
    pub(super) scanned: u64,
    pub(super) session: Option<Guid>,
    pub(super) created_ns: u64,
    pub(super) closed: bool,
    pub(super) damage: Arc<Vec<Damage>>,
    pub(super) properties: Arc<BTreeMap<String, String>>,
    pub(super) processes: Arc<Vec<ProcessRecord>>,
    pub(super) threads: Arc<Vec<ThreadRecord>>,
}

impl Trace {
    /// Opens a trace. One that was not closed, or whose directories are damaged, is recovered by scanning, which reads all
    /// of it; [`Self::damage`] says what is lost.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, Encoders::default())
    }

    /// As [`Self::open`], with other encoders than memtap's own.
    pub fn open_with(path: impl AsRef<Path>, encoders: Encoders) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Io { path: path.into(), operation: "open the file", offset: 0, source };
        let file = NamedFile::open(path).map_err(failed)?;
        Self::open_on(Box::new(file), path, encoders, Limits::default())
    }

    /// As [`Self::open_with`], from anything that holds the bytes; `path` is what errors call it. Frames that want more than
    /// the limits are damaged ones.
    pub fn open_on(
        source: Box<dyn TraceSource>,
        path: impl AsRef<Path>,
        encoders: Encoders,
        limits: Limits,
    ) -> Result<Self, Error> {
        let (file, header) = TraceFile::open(path.as_ref(), source, limits)?;
        let list = file.list()?;
        Self::assemble(file, header, list, encoders)
    }

    pub(super) fn assemble(
        file: TraceFile,
        header: Option<FileHeader>,
        mut list: FrameList,
        encoders: Encoders,
    ) -> Result<Self, Error> {
        if header.is_none() {
            list.damage.push(Damage::FileHeader);
        }
        let streams = streams(&file, &list.frames, &mut list.damage)?;
        let by_kind = streams
            .values()
            .filter_map(|stream| {
                let thread = stream.description.thread;
                let kind = stream.kind.filter(|kind| kind.per_thread() == thread.is_some())?;
                Some(((kind, thread), stream.clone()))
            })
            .collect();
        let (key, index) = (key(&list.frames), IndexPlace::default());
        let cut_off = BTreeMap::new();
        let mut inner = Arc::new(TraceData { file, encoders, streams, by_kind, key, index, cut_off });
        let tables = session::tables(&inner, &mut list.damage)?;
        let cut_off = cut_off_threads(&inner, &tables.threads, &list.damage);
        // Nobody has another reference yet.
        if let Some(inner) = Arc::get_mut(&mut inner) {
            inner.cut_off = cut_off;
        }
        list.damage.sort();
        list.damage.dedup();
        Ok(Self {
            inner,
            header,
            frames: Arc::new(list.frames),
            scanned: list.scanned,
            session: header.map(|header| header.session),
            created_ns: header.map_or(0, |header| header.created_ns),
            closed: list.closed,
            damage: Arc::new(list.damage),
            properties: Arc::new(tables.properties),
            processes: Arc::new(tables.processes),
            threads: Arc::new(tables.threads),
        })
    }

    /// The version of the format; the newest one if the file header is damaged.
    pub fn version(&self) -> u16 {
        self.header.map_or(crate::FORMAT_VERSION, |header| header.version)
    }

    /// Whether a thread's accesses carry the bytes that they read or wrote.
    pub fn has_data(&self) -> bool {
        let kinds = [Some(StreamKind::DataAccesses), Some(StreamKind::Values)];
        self.inner.streams.values().any(|stream| kinds.contains(&stream.kind))
    }

    pub(crate) fn inner(&self) -> &TraceData {
        &self.inner
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.file.path
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.inner.file.len
    }

    /// Bytes that its file has by now: more than [`Self::file_bytes`] where it is still being written.
    ///
    /// # Errors
    /// Where its file can't be asked any more.
    pub fn bytes_now(&self) -> std::io::Result<u64> {
        self.inner.file.bytes_now()
    }

    /// Whether it is a file of this machine, rather than an object of a store or a file of a server.
    pub fn is_here(&self) -> bool {
        self.inner.file.is_here()
    }

    /// The session's GUID, unless the file header is damaged.
    pub fn session(&self) -> Option<Guid> {
        self.session
    }

    /// When the trace was created, ns since the Unix epoch; 0 if the file header is damaged.
    pub fn created_ns(&self) -> u64 {
        self.created_ns
    }

    /// Whether the recorder closed the trace.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// What opening found damaged or missing. A closed trace is not read whole when it is opened: damage inside its frames
    /// shows as gaps when a cursor gets there, in [`Self::damage_met`], and in [`Self::check`].
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// What opening, and reading since by any clone or cursor of this trace, found damaged or missing: what figures made
    /// from it lack. In the order of [`Damage`], each thing once.
    pub fn damage_met(&self) -> Vec<Damage> {
        let mut met = self.inner.file.met.all();
        // A frame that the file ends in is no second damage when a reader gets there.
        let torn = |offset| {
            self.damage.iter().any(|d| matches!(d, Damage::Torn { offset: at, .. } if *at == offset))
        };
        met.retain(|damage| !matches!(damage, Damage::Frame { offset, .. } if torn(*offset)));
        met.extend(self.damage.iter().cloned());
        met.into_iter().collect()
    }

    /// What was said about the session.
    pub fn properties(&self) -> &BTreeMap<String, String> {
        &self.properties
    }

    /// The session's processes, by number.
    pub fn processes(&self) -> &[ProcessRecord] {
        &self.processes
    }

    /// The session's threads, by number.
    pub fn threads(&self) -> &[ThreadRecord] {
        &self.threads
    }

    /// A process by its number.
    pub fn process(&self, number: ProcessId) -> Option<&ProcessRecord> {
        let place = self.processes.binary_search_by_key(&number, |record| record.process).ok()?;
        self.processes.get(place)
    }

    /// A thread by its number.
    pub fn thread(&self, number: ThreadId) -> Option<&ThreadRecord> {
        let place = self.threads.binary_search_by_key(&number, |record| record.thread).ok()?;
        self.threads.get(place)
    }

    /// The streams, by number.
    pub fn streams(&self) -> impl Iterator<Item = StreamInfo> + '_ {
        self.inner.streams.values().map(|stream| info(stream, self.inner.file.len))
    }
}

/// Of a trace that ends early: the threads that may have gone on.
fn cut_off_threads(
    inner: &TraceData,
    threads: &[ThreadRecord],
    damage: &[Damage],
) -> BTreeMap<ThreadId, u64> {
    if !damage.iter().any(|damage| matches!(damage, Damage::NotClosed | Damage::Ended { .. })) {
        return BTreeMap::new();
    }
    let mut cycles: BTreeMap<ThreadId, u64> =
        threads.iter().filter(|thread| thread.end_ns.is_none()).map(|thread| (thread.thread, 0)).collect();
    for stream in inner.streams.values() {
        let last = stream.description.thread.and_then(|thread| cycles.get_mut(&thread));
        let frame = stream.frames.last().map(|frame| frame.header.bounds.cycles);
        if let (Some(last), Some(frame)) = (last, frame.filter(|frame| frame.min <= frame.max)) {
            *last = frame.max.saturating_add(1).max(*last);
        }
    }
    cycles
}

/// A checksum of all that the trace holds, from the headers of its frames.
fn key(frames: &[FrameRef]) -> u64 {
    let mut sorted: Vec<[u64; 2]> = frames.iter().map(|frame| [frame.offset, frame.checksum]).collect();
    sorted.sort_unstable();
    let bytes: Vec<u8> = sorted.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

pub(super) fn info(stream: &Stream, file_bytes: u64) -> StreamInfo {
    let mut bounds = Bounds::NONE;
    let (mut entries, mut frames, mut stored_bytes) = (0, 0, 0);
    for frame in stream
        .frames
        .iter()
        .filter(|frame| frame.offset.saturating_add(frame.header.total_bytes) <= file_bytes)
    {
        frames += 1;
        bounds.join(&frame.header.bounds);
        entries += frame.header.entries;
        stored_bytes += frame.header.total_bytes;
    }
    let (number, description) = (stream.number, stream.description.clone());
    StreamInfo { number, description, entries, frames, stored_bytes, bounds }
}

/// Sorts frames by stream and reads the descriptions.
fn streams(
    file: &TraceFile,
    frames: &[FrameRef],
    damage: &mut Vec<Damage>,
) -> Result<BTreeMap<u32, Arc<Stream>>, Error> {
    let mut descriptions: BTreeMap<u32, StreamDescription> = BTreeMap::new();
    let mut data: BTreeMap<u32, Vec<FrameRef>> = BTreeMap::new();
    for frame in frames {
        let stream = frame.header.stream;
        if frame.header.kind == FrameKind::Data {
            data.entry(stream).or_default().push(*frame);
            continue;
        }
        let what = match file.parts(frame, false) {
            Ok(parts) => match StreamDescription::parse(&parts) {
                Some(description) if description.thread.is_some_and(|thread| thread.0 >= MAX_THREADS) => {
                    "the stream's thread has a number that no recorder gives"
                }
                Some(description) if !descriptions.contains_key(&stream) => {
                    descriptions.insert(stream, description);
                    continue;
                }
                Some(_) => "the stream is described twice",
                None => "the description of the stream is malformed",
            },
            Err(FrameError::Damaged(what)) => what,
            Err(FrameError::Failed(error)) => return Err(error),
        };
        damage.push(Damage::Frame { offset: frame.offset, stream, entries: 0, what });
    }
    for (&stream, frames) in data.iter().filter(|(stream, _)| !descriptions.contains_key(stream)) {
        let entries = frames.iter().map(|frame| frame.header.entries).fold(0, u64::saturating_add);
        damage.push(Damage::Undescribed { stream, frames: frames.len() as u64, entries });
    }
    let is_of_definitions = |description: &StreamDescription| {
        let kind = StreamKind::of(&description.entry_type);
        kind == Some(StreamKind::BlockDefinitions) && description.thread.is_none()
    };
    let mut stream = |number, description| {
        Stream::new(number, description, data.remove(&number).unwrap_or_default(), damage)
    };
    let found = descriptions.iter().find(|(_, description)| is_of_definitions(description));
    let definitions = found.map(|(&number, description)| Arc::new(stream(number, description.clone())));
    let mut streams: BTreeMap<u32, Arc<Stream>> = BTreeMap::new();
    for (number, description) in descriptions {
        if definitions.as_ref().is_none_or(|definitions| definitions.number != number) {
            let stream = stream(number, description).with_definitions(definitions.clone());
            streams.insert(number, Arc::new(stream));
        }
    }
    streams.extend(definitions.map(|definitions| (definitions.number, definitions)));
    Ok(streams)
}
