//! Errors, one line each.

use std::io;

/// Why a server refused (docs/protocol.md, *Messages*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RefusalReason {
    /// The message is malformed or not in its place.
    Malformed = 1,
    /// Token, user or version.
    NotAdmitted = 2,
    /// Outside the root.
    OutsideRoot = 3,
    /// No such session, stream, writer or reader.
    Unknown = 4,
    /// The file.
    File = 5,
    /// Too many channels, sessions or buffers.
    NoRoom = 6,
    /// The trace does not allow it.
    Mode = 7,
    /// The trace could not be written to the end.
    Incomplete = 8,
    /// The token's role.
    Role = 9,
}

impl RefusalReason {
    /// Of its number; numbers of later versions count as malformed.
    pub(crate) fn from_code(code: u16) -> Self {
        let all = [
            Self::NotAdmitted,
            Self::OutsideRoot,
            Self::Unknown,
            Self::File,
            Self::NoRoom,
            Self::Mode,
            Self::Incomplete,
            Self::Role,
        ];
        all.into_iter().find(|reason| *reason as u16 == code).unwrap_or(Self::Malformed)
    }
}

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused.
    #[error("{text}")]
    Refused {
        /// Why.
        reason: RefusalReason,
        /// The same in words.
        text: String,
    },
    /// The operating system refused.
    #[error("{what}: cannot {operation}: {cause}")]
    Io {
        /// A path or address.
        what: String,
        /// What was tried: a verb.
        operation: &'static str,
        /// Why.
        cause: io::Error,
    },
    /// The channel to the server broke.
    #[error("{address}: the connection to the server is lost: {cause}")]
    Gone {
        /// The server's address.
        address: String,
        /// How it showed.
        cause: io::Error,
    },
    /// The server does not speak the protocol.
    #[error("{address}: not a memtap server, or a broken one: {what}")]
    Protocol {
        /// The server's address.
        address: String,
        /// What it said.
        what: &'static str,
    },
    /// The server speaks an earlier version of the protocol, without requests that this client needs.
    #[error("{address}: the server is older than this client; update the server")]
    OlderServer {
        /// The server's address.
        address: String,
    },
    /// The text is no address.
    #[error("{text}: not an address; use unix:PATH or tcp:HOST:PORT")]
    Address {
        /// The text.
        text: String,
    },
    /// The token is none, or was not given.
    #[error("{what}: {problem}; the server printed the name of its token file when it started")]
    Token {
        /// Where it comes from.
        what: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// TLS could not be set up.
    #[error("TLS: {what}")]
    Tls {
        /// Why.
        what: String,
    },
    /// The caller gave something that does not fit the stream.
    #[error("stream {stream}: {what}")]
    Usage {
        /// The stream.
        stream: u32,
        /// What does not fit.
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn refused(reason: RefusalReason, text: impl Into<String>) -> Self {
        Self::Refused { reason, text: text.into() }
    }

    /// As a refusal.
    pub(crate) fn reason(&self) -> RefusalReason {
        match self {
            Self::Refused { reason, .. } => *reason,
            Self::Io { .. } => RefusalReason::File,
            _ => RefusalReason::Malformed,
        }
    }
}
