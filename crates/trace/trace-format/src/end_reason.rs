//! Why a trace ends.

use std::fmt;

/// What closed a trace. Only of the first one is nothing missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndReason {
    /// Who wrote it had written all of it.
    #[default]
    Finished,
    /// Who wrote it left without closing it.
    RecorderEnded,
    /// The connection to who wrote it ended: it was killed, or its machine could no longer be reached.
    ClientVanished,
    /// The server that stored it was stopped.
    ServerStopped,
    /// There was no room left for it.
    DiskFull,
    /// It could not be written, for another reason.
    WriteFailed,
}

impl EndReason {
    const ALL: [Self; 6] = [
        Self::Finished,
        Self::RecorderEnded,
        Self::ClientVanished,
        Self::ServerStopped,
        Self::DiskFull,
        Self::WriteFailed,
    ];

    /// Its number in the file.
    pub(crate) fn code(self) -> u64 {
        self as u64
    }

    /// From its number; a later version's reason is one that is not known better.
    pub(crate) fn from_code(code: u64) -> Self {
        let known = usize::try_from(code).ok().and_then(|code| Self::ALL.get(code));
        known.copied().unwrap_or(Self::RecorderEnded)
    }

    /// Whether all was written.
    pub fn is_finished(self) -> bool {
        self == Self::Finished
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "it was finished",
            Self::RecorderEnded => "its recorder ended without closing it",
            Self::ClientVanished => "the connection to its recorder ended",
            Self::ServerStopped => "its server was stopped",
            Self::DiskFull => "the disk was full",
            Self::WriteFailed => "it could not be written on",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_unknown_ones_are_no_whole_trace() {
        for (place, reason) in EndReason::ALL.into_iter().enumerate() {
            assert_eq!((reason.code(), EndReason::from_code(place as u64)), (place as u64, reason));
        }
        assert!(!EndReason::from_code(77).is_finished());
    }
}
