//! The file of a trace at a server, read like one of this machine: all that reads traces can read it, with what names need.

use std::io;

use trace_format::{PageIndex, TraceSource};

use crate::wire::{FILES_MINOR_VERSION, OpenMode, StoredFile};
use crate::{Client, Error, RefusalReason};

/// A trace's file, or the page index beside it. It may grow while it is read.
#[derive(Clone, Debug)]
pub struct ServerFile {
    client: Client,
    which: StoredFile,
}

impl ServerFile {
    /// Opens a trace, in a session of its own. The specifier is a path below the server's root.
    ///
    /// # Errors
    /// Where the server has no such trace, does not let this client read, or is older than this request.
    pub fn open(client: Client, specifier: &str) -> Result<Self, Error> {
        client.connection.needs(FILES_MINOR_VERSION)?;
        client.create_session("reader")?;
        client.open_trace(specifier, OpenMode::Read)?;
        Ok(Self { client, which: StoredFile::Trace })
    }

    fn read(&self, offset: u64, most: usize) -> Result<(u64, Vec<u8>), Error> {
        self.client.read_file(self.which, offset, u32::try_from(most).unwrap_or(u32::MAX))
    }
}

impl TraceSource for ServerFile {
    fn len_bytes(&self) -> io::Result<u64> {
        let (len, _) = self.read(0, 0).map_err(io::Error::other)?;
        Ok(len)
    }

    fn read_at(&self, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (_, read) = self.read(offset, bytes.len()).map_err(io::Error::other)?;
            if read.is_empty() || read.len() > bytes.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (now, later) = bytes.split_at_mut(read.len());
            now.copy_from_slice(&read);
            offset += read.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn beside(&self, suffix: &str) -> io::Result<Option<Box<dyn TraceSource>>> {
        if suffix != PageIndex::SUFFIX {
            return Ok(None);
        }
        let index = Self { client: self.client.clone(), which: StoredFile::Index };
        match index.read(0, 0) {
            Ok(_) => Ok(Some(Box::new(index))),
            Err(Error::Refused { reason: RefusalReason::Unknown, .. }) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
