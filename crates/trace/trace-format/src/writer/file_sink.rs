//! A file as a sink of segments: encodes them in the calling thread, and appends their frames (`log.rs`).

use std::{
    fmt,
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
};

use super::{
    definitions::DefinitionWriter,
    finished::FinishedFrame,
    log::Log,
    options::CreateOptions,
    sink::{NewSegment, SegmentSink, encoded, header, zstd_level},
};
use crate::{Encoder, EndReason, Error, FileStorage, Guid, Storage, StreamDescription, Trace};

/// A trace file: encodes segments in the caller's thread and appends them.
pub struct FileSink {
    log: Log,
    options: CreateOptions,
    /// Of a trace that is added to there are none: frames of blocks define them themselves.
    definitions: Option<DefinitionWriter>,
}

impl fmt::Debug for FileSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSink").field("log", &self.log).finish_non_exhaustive()
    }
}

impl FileSink {
    /// Creates the file. One that is there already is kept unless `options.force` is set, and then replaced.
    pub fn create(path: impl Into<PathBuf>, options: CreateOptions) -> Result<Self, Error> {
        let path = path.into();
        let mut open = OpenOptions::new();
        open.write(true);
        if options.force {
            open.create(true).truncate(true);
        } else {
            open.create_new(true);
        }
        let file = open.open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists if !options.force => Error::Exists { path: path.clone() },
            _ => Error::Io { path: path.clone(), operation: "create the file", offset: 0, source },
        })?;
        Self::create_on(Box::new(FileStorage(file)), &path, options)
    }

    /// Writes the trace to an empty storage; `path` is what errors call it.
    pub fn create_on(storage: Box<dyn Storage>, path: &Path, options: CreateOptions) -> Result<Self, Error> {
        let session = options.session.unwrap_or_else(Guid::random);
        let log = Log::create(storage, path, session, options.clock)?;
        Ok(Self { log, options, definitions: Some(DefinitionWriter::default()) })
    }

    /// Opens a closed trace to add to it.
    pub(crate) fn append(trace: &Trace, options: CreateOptions) -> Result<Self, Error> {
        let failed =
            |source| Error::Io { path: trace.path().into(), operation: "open the file", offset: 0, source };
        let file = OpenOptions::new().write(true).open(trace.path()).map_err(failed)?;
        Self::append_on(Box::new(FileStorage(file)), trace, options)
    }

    /// Adds to a closed trace, whose bytes the storage has. Its streams go on where [`crate::StreamReader::next_sequence`] says.
    pub fn append_on(
        storage: Box<dyn Storage>,
        trace: &Trace,
        options: CreateOptions,
    ) -> Result<Self, Error> {
        let log = Log::append(storage, trace)?;
        Ok(Self { log, options, definitions: None })
    }

    /// With epochs of definitions of so many stored bytes.
    #[cfg(test)]
    pub(super) fn with_epochs_of(self, bytes: u64) -> Self {
        Self { definitions: Some(DefinitionWriter::with_epochs_of(bytes)), ..self }
    }

    fn known(&self, encoder: u32) -> Option<&dyn Encoder> {
        self.options.encoders.get(encoder).map(AsRef::as_ref)
    }
}

impl SegmentSink for FileSink {
    fn path(&self) -> &Path {
        self.log.path()
    }

    fn has_encoder(&self, number: u32) -> bool {
        self.known(number).is_some()
    }

    fn takes_coded(&self) -> bool {
        true
    }

    fn add_stream(&self, description: &StreamDescription) -> Result<u32, Error> {
        self.log.add_stream(description)
    }

    fn add_segment(&self, segment: &NewSegment<'_>) -> Result<(), Error> {
        let definitions = self.definitions.as_ref();
        let named = definitions.map_or(Ok(None), |definitions| definitions.name(segment, self))?;
        let parts = encoded(segment, &self.options, named.as_ref());
        let level = zstd_level(&self.options, segment.encoder);
        let bytes = self.log.add_data(header(segment, &self.options), &parts, level)?;
        if let Some(definitions) = definitions {
            definitions.stored(named.as_ref(), bytes);
        }
        Ok(())
    }

    fn add_frame(&self, frame: FinishedFrame) -> Result<(), Error> {
        self.log.add_finished(frame)
    }

    fn flush(&self) -> Result<(), Error> {
        // Each frame was handed to the kernel when it was added.
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        self.log.sync()
    }

    fn is_finished(&self) -> bool {
        self.log.is_finished()
    }

    fn finish(&self, sync: bool) -> Result<(), Error> {
        self.log.finish(sync, EndReason::Finished)
    }

    fn end(&self, sync: bool, why: EndReason) -> Result<(), Error> {
        self.log.finish(sync, why)
    }
}
