//! What a client may do: each token has a role (docs/protocol.md, *Roles*).

use crate::wire::{OpenMode, Request};

/// A role. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads traces.
    Read,
    /// Writes traces.
    Write,
    /// Ends the sessions of others.
    Administrate,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Administrate];

    /// The name for people, and in the names of files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Administrate => "administrate",
        }
    }

    /// The least role that may ask for this. That a reader closes no trace that others write is looked at where it is known.
    pub(crate) const fn needed(request: &Request) -> Self {
        match request {
            Request::CreateTrace { .. }
            | Request::OpenTrace { mode: OpenMode::Append, .. }
            | Request::AddStream { .. }
            | Request::OpenWriter { .. }
            | Request::Submit { .. }
            | Request::CloseWriter { .. }
            | Request::Flush { .. }
            | Request::AddProperty { .. }
            | Request::AddFrame { .. } => Self::Write,
            Request::EndSession { .. } => Self::Administrate,
            Request::Hello { .. }
            | Request::KeepChannel { .. }
            | Request::ResumeChannel { .. }
            | Request::CreateSession { .. }
            | Request::OpenSession { .. }
            | Request::ListSessions
            | Request::LeaveSession
            | Request::OpenTrace { mode: OpenMode::Read, .. }
            | Request::CloseTrace
            | Request::ListStreams
            | Request::OpenReader { .. }
            | Request::Read { .. }
            | Request::Seek { .. }
            | Request::CloseReader { .. }
            | Request::ReadFile { .. } => Self::Read,
        }
    }
}
