//! An upstream server, which stores what this one encodes: the interface for reaching it.

use std::fmt;
use std::sync::Arc;

use trace_format::SegmentSink;

use crate::Error;
use crate::wire::SyncWhen;

/// How a trace is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// Whether to replace a file that is there.
    pub replace: bool,
    /// When to force it to disk.
    pub sync: SyncWhen,
    /// Entries of a segment; 0 leaves it to the server.
    pub segment_entries: u32,
}

/// Keeps traces for an [`Engine`](crate::Engine) that has no files of its own ([`EngineOptions`](crate::EngineOptions)).
pub trait Upstream: fmt::Debug + Send + Sync {
    /// Creates a trace of that specifier, which takes encoded segments.
    ///
    /// # Errors
    /// Where it can't be reached, or refuses.
    fn create_trace(&self, specifier: &str, options: &TraceOptions) -> Result<Arc<dyn SegmentSink>, Error>;
}
