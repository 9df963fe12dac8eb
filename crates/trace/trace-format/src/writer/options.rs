//! Options for writing a trace.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Encoders, Guid, Level};

/// When the file is forced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncPolicy {
    /// Never: a loss of power may cost what the kernel had not written.
    Never,
    /// When the trace is finished.
    #[default]
    AtFinish,
    /// At each flush as well.
    EachFlush,
}

/// How a trace is to be written.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Whether to overwrite a file that is there already.
    pub force: bool,
    /// Entries of a full segment: 1 to [`crate::MAX_FRAME_ENTRIES`]. Longer ones compress better and take more memory: an
    /// access takes 32 bytes until it is encoded.
    pub segment_entries: usize,
    /// Bytes from which on a frame of blocks is ended ([`crate::BlockFrame::filled_bytes`]); by itself one has at most so many accesses.
    pub frame_bytes: usize,
    /// Whether accesses carry the bytes that they read or wrote.
    pub data: bool,
    /// How much time to spend on how many bytes.
    pub level: Level,
    /// The number of the encoder of accesses, if it is not to follow from `level`.
    pub encoder: Option<u32>,
    /// When to force the file to disk.
    pub sync: SyncPolicy,
    /// The session's GUID; a random one if not given.
    pub session: Option<Guid>,
    /// The wall clock: ns since the Unix epoch.
    pub clock: fn() -> u64,
    /// The encoders to choose from.
    pub encoders: Encoders,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            force: false,
            segment_entries: 1 << 20,
            frame_bytes: usize::MAX,
            data: false,
            level: Level::default(),
            encoder: None,
            sync: SyncPolicy::default(),
            session: None,
            clock: wall_ns,
            encoders: Encoders::default(),
        }
    }
}

fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
