//! Errors that prevent a trace from being viewed, and errors in a request.

use std::net::SocketAddr;

/// Why a trace can't be viewed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace can't be read.
    #[error(transparent)]
    Analysis(#[from] analysis::Error),
    /// One of two is that of a machine.
    #[error("the traces of machines are shown one at a time")]
    Machine,
    /// It has nothing to show.
    #[error("the trace has no accesses, so there is nothing to see")]
    Empty,
    /// The index can't be built.
    #[error("the page index of the trace can't be used: {0}; build it again with memtap index")]
    NoIndex(trace_format::NoIndex),
    /// Nobody can connect.
    #[error("{address}: can't listen: {source}; --listen 127.0.0.1:0 takes a free port")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// There is no secret.
    #[error("can't get random numbers for the address's token: {0}")]
    NoToken(std::io::Error),
}

impl From<trace_format::Error> for Error {
    fn from(error: trace_format::Error) -> Self {
        Self::Analysis(error.into())
    }
}

/// What is answered in place of what was asked for: a status and one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) line: String,
}

impl Refusal {
    pub(crate) fn new(status: u16, line: impl Into<String>) -> Self {
        Self { status, line: line.into() }
    }

    /// The request makes no sense.
    pub(crate) fn wrong(line: impl Into<String>) -> Self {
        Self::new(400, line)
    }
}

impl From<analysis::Error> for Refusal {
    fn from(error: analysis::Error) -> Self {
        // What the trace does not have is not our failure.
        let status = if matches!(error, analysis::Error::NoSynchronisation) { 404 } else { 500 };
        Self::new(status, error.to_string())
    }
}

impl From<trace_format::Error> for Refusal {
    fn from(error: trace_format::Error) -> Self {
        Self::new(500, error.to_string())
    }
}
