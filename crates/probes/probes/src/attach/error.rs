//! Why a running process cannot be profiled. Each error is one line: what went wrong, and what to do about it.

/// An error of attaching; the process was left as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// It cannot be attached to.
    #[error(transparent)]
    Process(#[from] attach::Error),
    /// Profiled by someone else.
    #[error("process {0} is being profiled already")]
    Busy(u32),
    /// The unwinder has no probe.
    #[error(
        "process {0} has an unwinder that cannot be probed: exceptions would not find their way; nothing was switched on"
    )]
    Unwinder(u32),
    /// The library gave up.
    #[error("the probes in process {0} did not start")]
    NotStarted(u32),
    /// Threads were never all outside.
    #[error(
        "probes of process {0} are off, but a thread stays inside one: some return addresses remain replaced, the program goes on as usual"
    )]
    Unsettled(u32),
}
