//! Damage: what is missing from a trace, or wrong with it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Mutex, PoisonError},
};

use crate::EndReason;

/// The damage that readers of one file met so far. Whoever decodes a frame notes here what it had to leave out, so that
/// whoever shows figures can say that they lack something, whichever reader they come from.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    met: Mutex<BTreeSet<Damage>>,
}

impl DamageLog {
    pub(crate) fn note(&self, damage: Damage) {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).insert(damage);
    }

    pub(crate) fn all(&self) -> BTreeSet<Damage> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One thing that was found damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Damage {
    /// The recorder did not close the trace: what it had not flushed is missing.
    NotClosed,
    /// The trace was closed before all of it was written.
    Ended {
        /// What closed it.
        why: EndReason,
    },
    /// The file header does not fit its checksum; the session was taken from a frame.
    FileHeader,
    /// Bytes that belong to no frame.
    Bytes {
        /// Where.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// A frame that the file ends in: the one that was being written.
    Torn {
        /// Where.
        offset: u64,
        /// Its stream; 0 for directories and the end.
        stream: u32,
        /// The entries that it would have had.
        entries: u64,
    },
    /// A frame whose content is not what was written.
    Frame {
        /// Where.
        offset: u64,
        /// Its stream; 0 for directories and the end.
        stream: u32,
        /// The entries that it should have.
        entries: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Frames of a stream that are nowhere in the file.
    Missing {
        /// The stream.
        stream: u32,
        /// How many frames.
        frames: u64,
        /// How many entries they had.
        entries: u64,
        /// The index of the first missing entry.
        first_index: u64,
    },
    /// Frames of a stream whose description is missing or damaged: they cannot be read.
    Undescribed {
        /// The stream.
        stream: u32,
        /// How many frames.
        frames: u64,
        /// How many entries they have.
        entries: u64,
    },
}

impl Damage {
    /// The stream that it struck; `None` where that is the file as a whole, a directory or the end.
    pub fn stream(&self) -> Option<u32> {
        match *self {
            Self::NotClosed | Self::Ended { .. } | Self::FileHeader | Self::Bytes { .. } => None,
            Self::Torn { stream, .. }
            | Self::Frame { stream, .. }
            | Self::Missing { stream, .. }
            | Self::Undescribed { stream, .. } => (stream != 0).then_some(stream),
        }
    }

    /// Whether all that is there is whole, and only more is missing.
    pub(crate) fn is_early_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// The entries that are known to be lost with it.
    pub fn lost_entries(&self) -> u64 {
        match *self {
            Self::NotClosed | Self::Ended { .. } | Self::FileHeader | Self::Bytes { .. } => 0,
            Self::Torn { entries, .. }
            | Self::Frame { entries, .. }
            | Self::Missing { entries, .. }
            | Self::Undescribed { entries, .. } => entries,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotClosed => {
                f.write_str("the trace was not closed; what the recorder had not flushed is missing")
            }
            Self::Ended { why } => write!(f, "the trace ends early: {why}; what came after that is missing"),
            Self::FileHeader => {
                f.write_str("offset 0: the file header is damaged; the frames were found without it")
            }
            Self::Bytes { offset, len } => write!(f, "offset {offset}: {len} bytes are not a frame"),
            Self::Torn { offset, stream, entries } => {
                write!(
                    f,
                    "offset {offset}: the file ends inside a frame of stream {stream}; {entries} entries are lost"
                )
            }
            Self::Frame { offset, stream, entries, what } => {
                write!(f, "offset {offset}: frame of stream {stream}: {what}; {entries} entries are lost")
            }
            Self::Missing { stream, frames, entries, first_index } => {
                write!(
                    f,
                    "stream {stream}: {frames} frames with {entries} entries from index {first_index} are missing"
                )
            }
            Self::Undescribed { stream, frames, entries } => {
                write!(
                    f,
                    "stream {stream}: its description is missing; {frames} frames with {entries} entries cannot be read"
                )
            }
        }
    }
}
