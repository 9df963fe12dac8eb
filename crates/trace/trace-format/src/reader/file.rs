//! Frames in a file: reads one, and finds all of them, by directories or by scanning.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    damage::{Damage, DamageLog},
    definitions::DefinitionCache,
    limits::Limits,
};
use crate::{
    EndReason, Error, FORMAT_VERSION, TraceSource,
    directory::{Directory, END_BYTES, End, FrameRef},
    encoder::Attribute,
    file_header::{self, FileHeader, Refusal},
    frame::{self, FrameKind, Head},
};

const SEARCH_BYTES: usize = 1 << 20;
/// Bytes of the longest header with its attribute table.
const MAX_HEAD_BYTES: u64 = (frame::HEADER_BYTES + frame::MAX_ATTRIBUTES * frame::ATTRIBUTE_BYTES) as u64;

/// Why a frame could not be read.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The file could not be read at all.
    Failed(Error),
    /// The frame is not what was written.
    Damaged(&'static str),
}

/// An open file.
pub(crate) struct TraceFile {
    pub(crate) path: PathBuf,
    source: Arc<dyn TraceSource>,
    pub(crate) len: u64,
    /// None where the header is damaged and no frame was found yet.
    pub(crate) session: u64,
    pub(crate) limits: Limits,
    /// What readers met.
    pub(crate) met: Arc<DamageLog>,
    /// The definitions that they needed.
    pub(crate) definitions: Arc<DefinitionCache>,
}

/// All frames with entries or descriptions, in the order of the file, and what was wrong on the way.
#[derive(Debug, Default)]
pub(crate) struct FrameList {
    pub(crate) frames: Vec<FrameRef>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) closed: bool,
    /// Where the next frame would start.
    pub(crate) scanned: u64,
}

/// What is missing from a trace that was closed for that reason.
fn early_end(why: EndReason) -> Option<Damage> {
    (!why.is_finished()).then_some(Damage::Ended { why })
}

impl fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceFile").field("path", &self.path).field("len", &self.len).finish_non_exhaustive()
    }
}

impl TraceFile {
    pub(crate) fn open(
        path: &Path,
        source: Box<dyn TraceSource>,
        limits: Limits,
    ) -> Result<(Self, Option<FileHeader>), Error> {
        let failed =
            |source| Error::Io { path: path.into(), operation: "ask for the length", offset: 0, source };
        let len = source.len_bytes().map_err(failed)?;
        let (met, definitions) = (Arc::default(), Arc::default());
        let mut file =
            Self { path: path.into(), source: source.into(), len, session: 0, limits, met, definitions };
        let mut bytes = [0; file_header::BYTES];
        let read = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
        file.read_exact(0, &mut bytes[..read])?;
        let path = || path.to_path_buf();
        match FileHeader::from_bytes(&bytes) {
            Ok(header) => {
                file.session = header.session.session_key();
                Ok((file, Some(header)))
            }
            Err(_) if read < bytes.len() && bytes[..8] == FileHeader::MAGIC => {
                Err(Error::TruncatedHeader { path: path(), len })
            }
            Err(Refusal::NotATrace) => Err(Error::NotATrace { path: path() }),
            Err(Refusal::Newer(version)) => {
                Err(Error::NewerVersion { path: path(), version, supported: FORMAT_VERSION })
            }
            Err(Refusal::Damaged) => {
                let head = file.search(file_header::BYTES as u64, None)?.1;
                let head = head.ok_or_else(|| Error::DamagedHeader { path: path() })?;
                file.session = head.session;
                Ok((file, None))
            }
        }
    }

    /// The same file at its present length.
    pub(crate) fn grown(&self) -> Result<Self, Error> {
        let len = self.source.len_bytes().map_err(|source| Error::Io {
            path: self.path.clone(),
            operation: "ask for the length",
            offset: 0,
            source,
        })?;
        // One that was cut back is read as far as it was known to reach.
        let len = len.max(self.len);
        Ok(Self {
            path: self.path.clone(),
            source: self.source.clone(),
            len,
            session: self.session,
            limits: self.limits,
            met: self.met.clone(),
            definitions: self.definitions.clone(),
        })
    }

    /// Whether something can be put beside the file.
    pub(crate) fn is_here(&self) -> bool {
        self.source.is_here()
    }

    /// How long it is now.
    pub(crate) fn bytes_now(&self) -> io::Result<u64> {
        self.source.len_bytes()
    }

    /// What lies beside the file under its name with a suffix.
    pub(crate) fn beside(&self, suffix: &str) -> io::Result<Option<Box<dyn TraceSource>>> {
        self.source.beside(suffix)
    }

    fn read_exact(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.source.read_at(offset, bytes).map_err(|source| Error::Io {
            path: self.path.clone(),
            operation: "read",
            offset,
            source,
        })
    }

    /// Reads up to `len` bytes; fewer at the end of the file.
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        let len = len.min(self.len.saturating_sub(offset));
        let failed = |source| Error::Io { path: self.path.clone(), operation: "read", offset, source };
        let len = usize::try_from(len).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        let mut bytes = vec![0; len];
        self.read_exact(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The header at `offset`, if a frame of this session (of any, if that is not known) starts there.
    fn head(&self, offset: u64, session: Option<u64>) -> Result<Option<Head>, Error> {
        let fixed = self.read(offset, frame::HEADER_BYTES as u64)?;
        let Some(len) = frame::head_bytes(&fixed) else { return Ok(None) };
        let bytes = if len > fixed.len() { self.read(offset, len as u64)? } else { fixed };
        Ok(frame::parse_head(&bytes).filter(|head| session.is_none_or(|session| session == head.session)))
    }

    /// Reads a frame and verifies that it is the one that the reference speaks of.
    pub(crate) fn parts(&self, frame: &FrameRef, verify_only: bool) -> Result<Vec<Attribute>, FrameError> {
        let end = frame.offset.checked_add(frame.header.total_bytes);
        if end.is_none_or(|end| end > self.len) {
            return Err(FrameError::Damaged("it reaches beyond the end of the file"));
        }
        if frame.header.total_bytes > self.limits.frame_bytes {
            return Err(FrameError::Damaged("it is longer than memory is given for a frame"));
        }
        let bytes = self.read(frame.offset, frame.header.total_bytes).map_err(FrameError::Failed)?;
        match frame::parse_head(&bytes) {
            Some(head)
                if head.session == self.session
                    && head.checksum == frame.checksum
                    && head.header == frame.header =>
            {
                let most = (!verify_only).then_some(self.limits.frame_bytes);
                frame::parts(&bytes, &head.header, most).map_err(FrameError::Damaged)
            }
            Some(_) => Err(FrameError::Damaged("it is not the frame that the directory references")),
            None => Err(FrameError::Damaged("the checksum of its header does not hold")),
        }
    }

    /// All frames: by the directories if the trace was closed and they are intact, by scanning otherwise.
    pub(crate) fn list(&self) -> Result<FrameList, Error> {
        if let Some(end) = self.end()? {
            match self.by_directories(end)? {
                Ok(frames) => {
                    let damage = early_end(end.why).into_iter().collect();
                    return Ok(FrameList { frames, damage, closed: true, scanned: self.len });
                }
                Err(damage) => {
                    let mut list = self.scan()?;
                    if !list.damage.contains(&damage) {
                        list.damage.push(damage);
                    }
                    return Ok(list);
                }
            }
        }
        self.scan()
    }

    fn end(&self) -> Result<Option<End>, Error> {
        let Some(offset) = self.len.checked_sub(END_BYTES as u64) else { return Ok(None) };
        Ok(End::parse(&self.read(offset, END_BYTES as u64)?, self.session))
    }

    /// The end of a closed trace, and how many directories it has.
    pub(crate) fn tail(&self) -> Result<Option<(End, u64)>, Error> {
        let Some(end) = self.end()? else { return Ok(None) };
        let Some(offset) = end.last_directory else { return Ok(Some((end, 0))) };
        // They are numbered from 0.
        let last = self.head(offset, Some(self.session))?;
        Ok(last.map(|head| (end, head.header.sequence.saturating_add(1))))
    }

    fn by_directories(&self, end: End) -> Result<Result<Vec<FrameRef>, Damage>, Error> {
        let mut chain = Vec::new();
        let mut next = end.last_directory;
        let mut below = self.len;
        while let Some(offset) = next {
            let damaged = |what| Damage::Frame { offset, stream: 0, entries: 0, what };
            if offset >= below {
                return Ok(Err(damaged("the directories do not link backwards")));
            }
            below = offset;
            let head = self.head(offset, Some(self.session))?;
            let Some(Head { header, checksum, .. }) =
                head.filter(|head| head.header.kind == FrameKind::Directory)
            else {
                return Ok(Err(damaged("no directory where one should be")));
            };
            let directory = match self.parts(&FrameRef { offset, header, checksum }, false) {
                Ok(parts) => Directory::parse(&parts),
                Err(FrameError::Damaged(what)) => return Ok(Err(damaged(what))),
                Err(FrameError::Failed(error)) => return Err(error),
            };
            let Some(directory) = directory else { return Ok(Err(damaged("its references are malformed"))) };
            next = directory.previous;
            chain.push(directory.frames);
        }
        let frames: Vec<FrameRef> = chain.into_iter().rev().flatten().collect();
        if frames.len() as u64 != end.frames {
            let offset = self.len - END_BYTES as u64;
            let what = "the directories do not have the number of frames that the end says";
            return Ok(Err(Damage::Frame { offset, stream: 0, entries: 0, what }));
        }
        Ok(Ok(frames))
    }

    /// All frames, from header to header. Those whose header is damaged are added from the directories that are intact: they
    /// cannot be decoded, but what they held is known.
    pub(crate) fn scan(&self) -> Result<FrameList, Error> {
        let (mut list, referenced) = self.scan_from(file_header::BYTES as u64, false)?;
        list.frames.extend(referenced.into_values().filter(|frame| frame.header.kind == FrameKind::Data));
        match self.end()?.filter(|_| list.closed) {
            Some(end) => list.damage.extend(early_end(end.why)),
            None if list.closed => {}
            None => list.damage.push(Damage::NotClosed),
        }
        Ok(list)
    }

    /// The frames from `offset` on, and those that only directories name. A `growing` file ends before a frame that is not
    /// whole yet.
    pub(crate) fn scan_from(
        &self,
        mut offset: u64,
        growing: bool,
    ) -> Result<(FrameList, BTreeMap<u64, FrameRef>), Error> {
        let mut list = FrameList::default();
        let mut referenced = BTreeMap::new();
        while offset < self.len {
            let Some(head) = self.head(offset, Some(self.session))? else {
                if growing && self.len - offset < MAX_HEAD_BYTES {
                    break;
                }
                list.closed = false;
                let found = self.search(offset + frame::ALIGN as u64, Some(self.session))?.0;
                list.damage.push(Damage::Bytes { offset, len: found - offset });
                offset = found;
                continue;
            };
            let Head { header, checksum, .. } = head;
            let reference = FrameRef { offset, header, checksum };
            let (stream, entries) = (header.stream, header.entries);
            let Some(end) = offset.checked_add(header.total_bytes).filter(|&end| end <= self.len) else {
                if growing {
                    break;
                }
                list.closed = false;
                list.damage.push(Damage::Torn { offset, stream, entries });
                if header.kind == FrameKind::Data {
                    // It cannot be decoded, so cursors give a gap in its place.
                    list.frames.push(reference);
                }
                break;
            };
            // Directories are small; the content of others is not needed here.
            let directory = header.kind == FrameKind::Directory;
            match self.parts(&reference, !directory) {
                Ok(parts) if directory => {
                    let frames = Directory::parse(&parts).map_or(Vec::new(), |directory| directory.frames);
                    referenced.extend(frames.into_iter().map(|frame| (frame.offset, frame)));
                }
                Ok(_) => {}
                Err(FrameError::Damaged(what)) => {
                    list.damage.push(Damage::Frame { offset, stream, entries, what });
                }
                Err(FrameError::Failed(error)) => return Err(error),
            }
            list.closed = header.kind == FrameKind::End && end == self.len;
            if matches!(header.kind, FrameKind::Description | FrameKind::Data) {
                list.frames.push(reference);
            }
            offset = end;
        }
        for frame in &list.frames {
            referenced.remove(&frame.offset);
        }
        list.scanned = offset.min(self.len);
        Ok((list, referenced))
    }

    /// The next place from `offset` on where a frame starts, or the end of the file.
    fn search(&self, mut offset: u64, session: Option<u64>) -> Result<(u64, Option<Head>), Error> {
        while offset < self.len {
            let bytes = self.read(offset, SEARCH_BYTES as u64)?;
            for (index, word) in bytes.chunks_exact(frame::ALIGN).enumerate() {
                if word == frame::MAGIC {
                    let at = offset + (index * frame::ALIGN) as u64;
                    if let Some(head) = self.head(at, session)? {
                        return Ok((at, Some(head)));
                    }
                }
            }
            offset += SEARCH_BYTES as u64;
        }
        Ok((self.len, None))
    }

    /// The references of every directory in the file, for verification.
    pub(crate) fn end_of_chain(&self) -> Result<Option<Vec<FrameRef>>, Error> {
        Ok(match self.end()? {
            Some(end) => self.by_directories(end)?.ok(),
            None => None,
        })
    }
}
