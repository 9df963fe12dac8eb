//! The file as a log of frames: one lock, one append at a time (docs/format.md, *Write order*).

use std::{
    borrow::Cow,
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::finished::{FinishedFrame, SessionFrame};
use super::lock::lock;
use crate::{
    Damage, EndReason, Error, FORMAT_VERSION, Guid, Storage, StreamDescription, Trace,
    directory::{CAPACITY, Directory, End, FrameRef},
    encoder::Attribute,
    file_header::FileHeader,
    frame::{self, FrameHeader, FrameKind},
};

/// The file.
pub(crate) struct Log {
    path: PathBuf,
    session: u64,
    state: Mutex<LogState>,
    /// Set once, under the lock of `state`, which orders it.
    finished: AtomicBool,
}

struct LogState {
    storage: Box<dyn Storage>,
    /// Where the next frame goes: the end of the last complete one.
    end: u64,
    /// Whether bytes of a torn frame may follow `end`.
    torn: bool,
    /// Frames that no directory references yet.
    due: Vec<FrameRef>,
    last_directory: Option<u64>,
    directories: u64,
    referenced: u64,
    streams: u32,
    /// Why it ended before it was appended to.
    ended_before: EndReason,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("path", &self.path).finish_non_exhaustive()
    }
}

impl LogState {
    /// Appends all of `bytes` or nothing.
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        if self.torn {
            self.storage.truncate(self.end)?;
            self.torn = false;
        }
        let offset = self.end;
        if let Err(error) = self.storage.write_at(offset, bytes) {
            self.torn = self.storage.truncate(offset).is_err();
            return Err(error);
        }
        self.end += bytes.len() as u64;
        Ok(offset)
    }

    fn append_frame(&mut self, session: u64, header: FrameHeader, parts: &[Attribute]) -> io::Result<u64> {
        let (header, bytes, checksum) = frame::build(session, header, parts, frame::ZSTD_STANDARD);
        self.append_built(session, header, &bytes, checksum)
    }

    fn append_built(
        &mut self,
        session: u64,
        header: FrameHeader,
        bytes: &[u8],
        checksum: u64,
    ) -> io::Result<u64> {
        // A directory that could not be written is tried again before the next frame. That it fails does not keep the
        // frame out: readers fall back to scanning.
        if self.due.len() >= CAPACITY {
            let _ = self.append_directory(session);
        }
        let offset = self.append(bytes)?;
        self.due.push(FrameRef { offset, header, checksum });
        Ok(offset)
    }

    /// Writes the due references, up to a directory's capacity.
    fn append_directory(&mut self, session: u64) -> io::Result<()> {
        let count = self.due.len().min(CAPACITY);
        let frames = self.due[..count].to_vec();
        let directory = Directory { previous: self.last_directory, frames };
        let header = FrameHeader::plain(FrameKind::Directory, 0, self.directories);
        let (_, bytes, _) = frame::build(session, header, &[directory.part()], frame::ZSTD_STANDARD);
        self.last_directory = Some(self.append(&bytes)?);
        self.due.drain(..count);
        self.directories += 1;
        self.referenced += count as u64;
        Ok(())
    }
}

impl Log {
    pub(crate) fn create(
        mut storage: Box<dyn Storage>,
        path: &Path,
        session: Guid,
        clock: fn() -> u64,
    ) -> Result<Self, Error> {
        let header = FileHeader { version: FORMAT_VERSION, session, created_ns: clock() }.to_bytes();
        storage.write_at(0, &header).map_err(|source| Error::Io {
            path: path.into(),
            operation: "write the file header",
            offset: 0,
            source,
        })?;
        let state = LogState {
            storage,
            end: header.len() as u64,
            torn: false,
            due: Vec::new(),
            last_directory: None,
            directories: 0,
            referenced: 0,
            ended_before: EndReason::Finished,
            streams: 0,
        };
        let (session, finished) = (session.session_key(), AtomicBool::new(false));
        Ok(Self { path: path.into(), session, state: Mutex::new(state), finished })
    }

    /// Goes on after the end of a closed trace, which means nothing from then on.
    pub(crate) fn append(storage: Box<dyn Storage>, trace: &Trace) -> Result<Self, Error> {
        let file = &trace.inner().file;
        let path = trace.path().to_path_buf();
        let refused = |what| Error::NotAppendable { path: path.clone(), what };
        if trace.version() != FORMAT_VERSION {
            return Err(refused("it has an older version of the format; copy it and append to the copy"));
        }
        let tail = file.tail()?.filter(|_| trace.closed() && trace.damage().iter().all(Damage::is_early_end));
        let (end, directories) =
            tail.ok_or_else(|| refused("it is damaged or not closed; repair it first"))?;
        let state = LogState {
            storage,
            end: file.len,
            torn: false,
            due: Vec::new(),
            last_directory: end.last_directory,
            directories,
            referenced: end.frames,
            ended_before: end.why,
            streams: trace.inner().streams.keys().next_back().copied().unwrap_or(0),
        };
        let finished = AtomicBool::new(false);
        Ok(Self { path, session: file.session, state: Mutex::new(state), finished })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn act<T>(
        &self,
        operation: &'static str,
        act: impl FnOnce(&mut LogState) -> io::Result<T>,
    ) -> Result<T, Error> {
        let mut state = lock(&self.state);
        if self.is_finished() {
            return Err(Error::Finished { path: self.path.clone() });
        }
        act(&mut state).map_err(|source| {
            let (path, offset) = (self.path.clone(), state.end);
            Error::Io { path, operation, offset, source }
        })
    }

    /// Whether the trace is closed.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// Writes the description of a new stream and returns its number.
    pub(crate) fn add_stream(&self, description: &StreamDescription) -> Result<u32, Error> {
        let part = description.part();
        self.act("write a stream description", |state| {
            let stream = state.streams + 1;
            let header = FrameHeader::plain(FrameKind::Description, stream, 0);
            state.append_frame(self.session, header, std::slice::from_ref(&part))?;
            state.streams = stream;
            Ok(stream)
        })
    }

    /// Compresses in the caller's thread, then appends under the lock. Returns the bytes of the frame.
    pub(crate) fn add_data(
        &self,
        header: FrameHeader,
        parts: &[Cow<'_, Attribute>],
        zstd_level: i32,
    ) -> Result<usize, Error> {
        let (header, bytes, checksum) = frame::build(self.session, header, parts, zstd_level);
        self.act("write a frame", |state| state.append_built(self.session, header, &bytes, checksum))?;
        Ok(bytes.len())
    }

    /// Appends a frame that was made elsewhere.
    pub(crate) fn add_finished(&self, frame: FinishedFrame) -> Result<(), Error> {
        let SessionFrame { header, bytes, checksum } = frame.for_session(self.session);
        self.act("write a frame", |state| state.append_built(self.session, header, &bytes, checksum))?;
        Ok(())
    }

    /// Waits until what was written is on disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.act("sync", |state| state.storage.sync())
    }

    /// Writes directories and the end. A trace whose end could not be written stays open for another try.
    pub(crate) fn finish(&self, sync: bool, why: EndReason) -> Result<(), Error> {
        self.act("close the trace", |state| {
            while !state.due.is_empty() {
                state.append_directory(self.session)?;
            }
            // What was missing before it was appended to is still missing.
            let why = if why.is_finished() { state.ended_before } else { why };
            let end = End { last_directory: state.last_directory, frames: state.referenced, why };
            let header = FrameHeader::plain(FrameKind::End, 0, why.code());
            let (_, bytes, _) = frame::build(self.session, header, &[end.part()], frame::ZSTD_STANDARD);
            state.append(&bytes)?;
            self.finished.store(true, Ordering::Relaxed);
            if sync { state.storage.sync() } else { Ok(()) }
        })
    }
}
