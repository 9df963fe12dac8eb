//! What a trace is written to. A trait, so that tests can make any write fail.

use std::{fs::File, io, os::unix::fs::FileExt};

/// A growing sequence of bytes. One writer at a time: the trace holds its lock.
pub trait Storage: Send {
    /// Writes all of `bytes` at `offset`, which is never beyond the end. May have written a part when it fails.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts everything from `len_bytes` on.
    fn truncate(&mut self, len_bytes: u64) -> io::Result<()>;
    /// Returns when all that was written would survive a loss of power.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file.
#[derive(Debug)]
pub struct FileStorage(pub File);

impl Storage for FileStorage {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn truncate(&mut self, len_bytes: u64) -> io::Result<()> {
        self.0.set_len(len_bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
