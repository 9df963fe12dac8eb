//! Reads a trace that is still being written.

use std::{fs::File, path::Path};

use super::{damage::Damage, file::TraceFile, limits::Limits, trace::Trace};
use crate::{Encoders, Error, TraceSource};

impl Trace {
    /// Opens a trace that may still be written: what is complete can be read, and [`Self::refresh`] finds what came since.
    /// That the trace is not closed, and a frame that is not whole yet, are no damage.
    pub fn open_live(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Io { path: path.into(), operation: "open the file", offset: 0, source };
        let limits = Limits::default();
        Self::open_live_on(Box::new(File::open(path).map_err(failed)?), path, Encoders::default(), limits)
    }

    /// As [`Self::open_live`], from anything that holds the bytes; `path` is what errors call it.
    pub fn open_live_on(
        source: Box<dyn TraceSource>,
        path: &Path,
        encoders: Encoders,
        limits: Limits,
    ) -> Result<Self, Error> {
        let (file, header) = TraceFile::open(path, source, limits)?;
        let mut list = file.list()?;
        if !list.closed {
            list = file.scan_from(crate::file_header::BYTES as u64, true)?.0;
        }
        Self::assemble(file, header, list, encoders)
    }

    /// Looks for frames that were written since the trace was opened or refreshed, and returns whether there were any. Costs
    /// what reading the new frames and the session's tables costs. Cursors that are open go on with what they know; new ones
    /// see the new frames.
    pub fn refresh(&mut self) -> Result<bool, Error> {
        let file = self.inner.file.grown()?;
        if file.len == self.scanned {
            return Ok(false);
        }
        let (mut list, _) = file.scan_from(self.scanned, true)?;
        if list.scanned == self.scanned {
            return Ok(false);
        }
        let mut frames = self.frames.to_vec();
        frames.append(&mut list.frames);
        list.frames = frames;
        let stays = |damage: &&Damage| {
            !matches!(damage, Damage::Missing { .. } | Damage::NotClosed | Damage::Ended { .. })
        };
        list.damage.extend(self.damage.iter().filter(stays).cloned());
        *self = Self::assemble(file, self.header, list, self.inner.encoders.clone())?;
        Ok(true)
    }
}
