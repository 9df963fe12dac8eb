//! Reads traces for clients: segments are decoded once and kept for a while, and the next one is decoded ahead.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use buffers_host::Region;
use memref::VirtAddr;
use trace_format::{EntryFilter, Filter, PageIndex, StreamReader, Trace};

use super::cache::{DecodedSegment, SegmentKey};
use super::resources::Resources;
use super::root::Purpose;
use crate::wire::{By, EntryBlock, MAX_FILE_BYTES, StoredFile, StreamStatistics};
use crate::{Error, RefusalReason, lock};

/// Segments that one request looks into at most, so that a filter that matches nothing does not hold the channel.
const SEGMENTS_A_REQUEST: usize = 16;
/// Bytes of a reader's buffer at least and at most.
const MIN_BUFFER_BYTES: usize = 64 << 10;
const MAX_BUFFER_BYTES: usize = 4 << 20;

/// An open trace.
#[derive(Debug)]
pub(crate) struct ReadTrace {
    resources: Arc<Resources>,
    /// Tells it from others in the cache.
    id: u64,
    trace: Mutex<Trace>,
    /// Its file, and by what name clients know it.
    file: File,
    name: String,
    /// The page index beside it, once somebody asked for it and it was there.
    index: Mutex<Option<Arc<File>>>,
}

impl ReadTrace {
    pub(crate) fn new(resources: &Arc<Resources>, trace: Trace, file: File, name: &str) -> Self {
        Self {
            resources: resources.clone(),
            id: resources.next_id(),
            trace: Mutex::new(trace),
            file,
            name: name.to_owned(),
            index: Mutex::default(),
        }
    }

    fn stream(&self, number: u32) -> Result<StreamReader, Error> {
        let trace = lock(&self.trace);
        trace.stream(number).ok_or_else(|| {
            let text = format!("{}: has no stream {number}", trace.path().display());
            Error::refused(RefusalReason::Unknown, text)
        })
    }

    /// Looks whether the file has grown.
    pub(crate) fn refresh(&self) -> Result<(), Error> {
        lock(&self.trace).refresh().map_err(refused)?;
        Ok(())
    }

    pub(crate) fn statistics(&self) -> Result<Vec<StreamStatistics>, Error> {
        self.refresh()?;
        Ok(lock(&self.trace).streams().map(StreamStatistics::from).collect())
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        lock(&self.trace).file_bytes()
    }

    /// How long a file of the trace is now, and at most so many of its bytes from an offset on.
    pub(crate) fn file_bytes_from(
        &self,
        which: StoredFile,
        offset: u64,
        most: u32,
    ) -> Result<(u64, Vec<u8>), Error> {
        let index;
        let file = match which {
            StoredFile::Trace => &self.file,
            StoredFile::Index => {
                index = self.index()?;
                &*index
            }
        };
        let failed = |cause| Error::Io { what: self.name.clone(), operation: "read the file", cause };
        let len = file.metadata().map_err(failed)?.len();
        let wanted = len.saturating_sub(offset).min(most.into()).min(MAX_FILE_BYTES as u64);
        let mut bytes = vec![0; wanted as usize];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok((len, bytes))
    }

    /// The page index beside the trace: the one that was there when it was first asked for.
    fn index(&self) -> Result<Arc<File>, Error> {
        let mut index = lock(&self.index);
        if let Some(file) = &*index {
            return Ok(file.clone());
        }
        let name = PageIndex::path(self.name.as_ref());
        let opened = self.resources.root.open(&name.to_string_lossy(), Purpose::Read);
        let absent = |_| Error::refused(RefusalReason::Unknown, format!("{}: has no page index", self.name));
        let file = Arc::new(opened.map_err(absent)?);
        *index = Some(file.clone());
        Ok(file)
    }

    fn key(&self, stream: u32, place: usize) -> SegmentKey {
        SegmentKey { trace: self.id, stream, place }
    }

    fn segment(&self, stream: &StreamReader, number: u32, place: usize) -> Result<DecodedSegment, Error> {
        self.resources.cache.get(self.key(number, place), || {
            let mut bytes = Vec::new();
            let entries = stream.segment(place).map_or(0, |segment| segment.entries);
            let entry_bytes = stream.description().entry_type.entry_bytes;
            let _working = self.resources.work(entries.saturating_mul(entry_bytes.into()) as usize);
            Ok(stream.read(place, &mut bytes).map_err(refused)?.then(|| Arc::new(bytes)))
        })
    }

    /// Decodes a segment that will probably be asked for next.
    fn prefetch(self: &Arc<Self>, stream: &StreamReader, number: u32, place: usize) {
        if place >= stream.segments() || self.resources.cache.has(self.key(number, place)) {
            return;
        }
        let (trace, stream) = (self.clone(), stream.clone());
        self.resources.workers.run(move || {
            let _ = trace.segment(&stream, number, place);
        });
    }

    /// The index of the first entry at or after a position.
    pub(crate) fn seek(&self, number: u32, by: By, value: u64) -> Result<u64, Error> {
        let mut stream = self.stream(number)?;
        if stream.end_index() <= value || by != By::Index {
            self.refresh()?;
            stream = self.stream(number)?;
        }
        let end = stream.end_index();
        match by {
            By::Index => Ok(value.min(end)),
            By::WallNs => {
                let segment = stream.segment(stream.place_of_wall_ns(value));
                Ok(segment.map_or(end, |segment| segment.first_index))
            }
            By::Cycle => {
                let entry_type = &stream.description().entry_type;
                let filter = EntryFilter::new(&Filter::default(), entry_type);
                if filter.cycle(&[]).is_none() {
                    let text = format!("stream {number}: its entries have no growing field named cycle");
                    return Err(Error::refused(RefusalReason::Mode, text));
                }
                let width = entry_type.entry_bytes as usize;
                let mut place = stream.place_of_cycle(value);
                while let Some(segment) = stream.segment(place) {
                    let Some(bytes) = self.segment(&stream, number, place)? else {
                        place += 1;
                        continue;
                    };
                    let late = |entry| filter.cycle(entry).is_some_and(|cycle| cycle >= value);
                    if let Some(entry) = bytes.chunks_exact(width).position(late) {
                        return Ok(segment.first_index + entry as u64);
                    }
                    place += 1;
                }
                Ok(end)
            }
        }
    }
}

impl Drop for ReadTrace {
    fn drop(&mut self) {
        self.resources.cache.forget(self.id);
    }
}

fn refused(error: trace_format::Error) -> Error {
    Error::refused(RefusalReason::File, error.to_string())
}

/// A client's reader of one stream.
#[derive(Debug)]
pub(crate) struct ClientReader {
    trace: Arc<ReadTrace>,
    number: u32,
    filter: EntryFilter,
    entry_bytes: usize,
    buffer_bytes: usize,
    region: Option<Arc<Region>>,
    /// The place of the segment that was read last.
    place: Option<usize>,
    scratch: Vec<u8>,
}

impl ClientReader {
    pub(crate) fn open(
        trace: &Arc<ReadTrace>,
        number: u32,
        buffer_bytes: u32,
        filter: &Filter,
        shared: bool,
    ) -> Result<Self, Error> {
        let stream = match trace.stream(number) {
            Ok(stream) => stream,
            Err(_) => {
                trace.refresh()?;
                trace.stream(number)?
            }
        };
        let entry_type = &stream.description().entry_type;
        let entry_bytes = entry_type.entry_bytes as usize;
        let buffer_bytes = (buffer_bytes as usize)
            .clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES)
            .next_multiple_of(VirtAddr::PAGE_BYTES as usize);
        let filter = EntryFilter::new(filter, entry_type);
        let resources = &trace.resources;
        let region = if shared {
            if !resources.rings.try_reserve(buffer_bytes) {
                return Err(Error::refused(RefusalReason::NoRoom, "no memory for more buffers"));
            }
            let region = Region::create(buffer_bytes).map_err(|source| {
                resources.rings.release(buffer_bytes);
                Error::refused(RefusalReason::NoRoom, format!("no shared memory: {source}"))
            })?;
            Some(Arc::new(region))
        } else {
            None
        };
        let trace = trace.clone();
        Ok(Self {
            trace,
            number,
            filter,
            entry_bytes,
            buffer_bytes,
            region,
            place: None,
            scratch: Vec::new(),
        })
    }

    pub(crate) fn region(&self) -> Option<&Arc<Region>> {
        self.region.as_ref()
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    pub(crate) fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// Entries from `index` on.
    pub(crate) fn read(&mut self, index: u64, most: u32) -> Result<EntryBlock, Error> {
        let mut stream = self.trace.stream(self.number)?;
        if index >= stream.end_index() {
            self.trace.refresh()?;
            stream = self.trace.stream(self.number)?;
        }
        let end_index = stream.end_index();
        let whole = self.filter.takes_all();
        let width = self.entry_bytes + if whole { 0 } else { 4 };
        let most = (most as usize).min(self.buffer_bytes / width);
        let mut block =
            EntryBlock { first_index: index, next_index: index, end_index, ..EntryBlock::default() };
        self.scratch.clear();
        for _ in 0..SEGMENTS_A_REQUEST {
            let place = stream.place_of_index(block.next_index);
            let Some(segment) = stream.segment(place).filter(|_| most > 0) else { break };
            block.lost += segment.first_index.saturating_sub(block.next_index);
            let at = block.next_index.max(segment.first_index);
            let end = segment.first_index + segment.entries;
            block.next_index = end;
            if !self.filter.may_match(&segment) {
                continue;
            }
            let Some(bytes) = self.trace.segment(&stream, self.number, place)? else {
                block.lost += end - at;
                continue;
            };
            if self.place.replace(place) != Some(place) {
                self.trace.prefetch(&stream, self.number, place + 1);
            }
            let from = (at - segment.first_index) as usize * self.entry_bytes;
            let rest = bytes.get(from..).unwrap_or(&[]);
            if whole {
                let count = (rest.len() / self.entry_bytes).min(most);
                block.first_index = at;
                block.entries = count as u32;
                block.next_index = at + count as u64;
                self.scratch.extend_from_slice(&rest[..count * self.entry_bytes]);
                break;
            }
            let mut offsets = Vec::new();
            for (offset, entry) in (0u32..).zip(rest.chunks_exact(self.entry_bytes)) {
                if self.filter.matches(entry) {
                    self.scratch.extend_from_slice(entry);
                    offsets.push(offset);
                    if offsets.len() == most {
                        block.next_index = at + u64::from(offset) + 1;
                        break;
                    }
                }
            }
            if let Some(&first) = offsets.first() {
                block.first_index = at + u64::from(first);
                block.entries = offsets.len() as u32;
                block.indexed = true;
                for offset in offsets {
                    self.scratch.extend_from_slice(&(offset - first).to_le_bytes());
                }
                break;
            }
        }
        if block.entries == 0 {
            block.first_index = block.next_index;
        }
        self.deliver(&mut block);
        Ok(block)
    }

    /// Puts the bytes where the client finds them.
    fn deliver(&self, block: &mut EntryBlock) {
        block.bytes = self.scratch.len() as u32;
        match &self.region {
            Some(region) => region.write(0, &self.scratch),
            None => {
                match zstd::bulk::compress(&self.scratch, 1) {
                    Ok(packed) if packed.len() < self.scratch.len() => {
                        block.compressed = true;
                        block.data = packed;
                    }
                    _ => block.data = self.scratch.clone(),
                }
                block.bytes = block.data.len() as u32;
            }
        }
    }
}

impl Drop for ClientReader {
    fn drop(&mut self) {
        if self.region.is_some() {
            self.trace.resources.rings.release(self.buffer_bytes);
        }
    }
}
