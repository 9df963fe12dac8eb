//! The storage to which a trace is written and from which it is read. These are traits, so that tests can make any operation fail.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// The bytes of a trace to read. Several threads read at once.
pub trait TraceSource: Send + Sync {
    /// How many bytes there are.
    fn len_bytes(&self) -> io::Result<u64>;
    /// Fills `bytes` from `offset` on, which the length allows.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// What lies beside these bytes, under their name with a suffix; `None` where nothing does, and of bytes without a name.
    fn beside(&self, suffix: &str) -> io::Result<Option<Box<dyn TraceSource>>> {
        let _ = suffix;
        Ok(None)
    }

    /// Whether they are a file of this machine, beside which something can be put under its name.
    fn is_here(&self) -> bool {
        false
    }
}

/// A file that is known by its path.
#[derive(Debug)]
pub(crate) struct NamedFile {
    file: File,
    path: PathBuf,
}

impl NamedFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, path: path.into() })
    }
}

impl TraceSource for NamedFile {
    fn len_bytes(&self) -> io::Result<u64> {
        self.file.len_bytes()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        TraceSource::read_at(&self.file, offset, bytes)
    }

    fn beside(&self, suffix: &str) -> io::Result<Option<Box<dyn TraceSource>>> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        match Self::open(Path::new(&name)) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_here(&self) -> bool {
        true
    }
}

impl TraceSource for File {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }
}

impl TraceSource for Vec<u8> {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let range = start..start.saturating_add(bytes.len());
        bytes.copy_from_slice(self.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

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
