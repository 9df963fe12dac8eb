//! Where a trace goes, and how it is written.

use std::path::PathBuf;

use trace_format::SyncPolicy;

use crate::store::remote_store::RemoteStore;

/// A trace as it will be written.
#[derive(Clone, Debug)]
pub(crate) struct TracePlan {
    /// The file; on a server it is relative to the server's root.
    pub(crate) output: PathBuf,
    /// Whether a file that is there is replaced.
    pub(crate) replace: bool,
    /// The number of the encoder of accesses.
    pub(crate) encoder: u32,
    /// When it is forced to disk.
    pub(crate) sync: SyncPolicy,
    /// Who writes it, if not this process.
    pub(crate) server: Option<RemoteStore>,
    /// Bytes of memory that the recording may take, if there is a bound.
    pub(crate) memory_bytes: Option<usize>,
}
