//! A file that may grow only to a given number of bytes, so that one client does not use up the disk for all others.

use std::io;

use trace_format::{FileStorage, Storage};

/// What a trace may have beyond its quota, for the gaps, directories and the end that say how far it got.
const FOR_THE_END: u64 = 1 << 20;
/// The longest piece of that.
const PIECE: usize = 256 << 10;

/// The file of a trace.
#[derive(Debug)]
pub(crate) struct LimitedFile {
    pub(crate) file: FileStorage,
    /// Bytes at most, if there is a limit.
    pub(crate) most: Option<u64>,
}

impl Storage for LimitedFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        let fits = |most: u64| end <= most || bytes.len() <= PIECE && end <= most.saturating_add(FOR_THE_END);
        if let Some(most) = self.most.filter(|&most| !fits(most)) {
            let text = format!("the server gives a trace {most} bytes at most");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        self.file.write_at(offset, bytes)
    }

    fn truncate(&mut self, len_bytes: u64) -> io::Result<()> {
        self.file.truncate(len_bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}
