//! Why a probe could not be created or switched. Messages name the probe or the function, the address and the reason.

use crate::ProbeId;
use patch::{CodeAddr, PatchError};

/// An error of the probe layer; nothing was switched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No probe has this identifier.
    #[error("there is no probe {0}: identifiers are handed to the discovery callback")]
    Unknown(ProbeId),
    /// The code of the site could not be changed.
    #[error("probe {id} of {function}: {source}")]
    Patch {
        /// The probe.
        id: ProbeId,
        /// The function it belongs to.
        function: String,
        /// The reason.
        source: PatchError,
    },
    /// A site could not become a probe.
    #[error("{function} at {addr} cannot be probed: {reason}")]
    Unprobeable {
        /// The function.
        function: String,
        /// Its address.
        addr: CodeAddr,
        /// The reason.
        reason: Reason,
    },
    /// The table of probes is full.
    #[error("no room for another probe: there are {0} already")]
    Full(usize),
}

/// Why a function is not probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The symbol has no size, so its end is unknown.
    #[error("its symbol has no size")]
    NoSize,
    /// The bytes do not decode.
    #[error("its first instruction does not decode")]
    Undecodable,
    /// The first instruction cannot be moved.
    #[error("its first instruction cannot be relocated")]
    NotRelocatable,
    /// A loop jumps back to the first instruction, which a probe would count as calls.
    #[error("a loop jumps back to its entry")]
    LoopToEntry,
    /// The function returns twice, has no return address, or belongs to the start-up code.
    #[error("it has no ordinary return address")]
    NoReturnAddress,
    /// The module brings its own unwinder, which would meet replaced return addresses.
    #[error(
        "its module has the unwinder linked in (-static-libgcc), which cannot be told of replaced return addresses"
    )]
    StaticUnwinder,
    /// The space left by the compiler is shorter than a call.
    #[error("the space left by the compiler is shorter than five bytes")]
    SpaceTooShort,
    /// A trap would be needed where it may kill.
    #[error(
        "only a trap fits its first instruction, and it may be executed with all signals blocked, where a trap kills"
    )]
    NeedsTrap,
    /// Nowhere to put the probe's code.
    #[error(
        "no memory near it can be made writable and executable: none is free, or the system forbids it (MemoryDenyWriteExecute, SELinux)"
    )]
    NoRoom,
    /// The patch was refused.
    #[error("{0}")]
    Patch(patch::Refusal),
}
