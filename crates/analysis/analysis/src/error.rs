//! The errors of an analysis.

/// An error of an analysis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace can't be read.
    #[error(transparent)]
    Trace(#[from] trace_format::Error),
    /// A file with symbols can't be read or copied.
    #[error(transparent)]
    Symbols(#[from] symbols::Error),
    /// The result can't be written.
    #[error("the result can't be written: {0}")]
    Output(#[from] std::io::Error),
    /// There are no more threads.
    #[error("can't start a thread that counts: {0}; --jobs 1 needs none")]
    Thread(#[source] std::io::Error),
    /// Nobody wants the result any more.
    #[error("cancelled")]
    Cancelled,
    /// The replay of real-time virtual memory can't be set up.
    #[error(transparent)]
    Realtime(#[from] rtvm::Error),
    /// The trace has no synchronisation events.
    #[error(
        "the trace has no synchronisation events, so nothing is known of the order of its threads; record the program from its beginning with memtap record --tracer protect or translate"
    )]
    NoSynchronisation,
    /// The trace has no control flow.
    #[error(
        "the trace has accesses but no control flow, so nothing is known of what went through registers; record the program with memtap record --tracer translate"
    )]
    NoControlFlow,
    /// The user asked for a thread that the trace has not.
    #[error("there is no thread {thread}; the trace has threads 0 to {last}")]
    NoThread {
        /// The number asked for.
        thread: u32,
        /// The last number there is.
        last: u32,
    },
    /// A machine was expected.
    #[error("this is not the trace of a machine; record one with memtap record --tracer qemu")]
    NoMachine,
    /// Written data was expected.
    #[error("written data was not recorded; record with --data")]
    NoData,
    /// The range is not in the guest's memory.
    #[error("{start:#x}..{end:#x}: not in the guest's memory, which is 0..{last:#x}")]
    NoMemory {
        /// The first byte asked for.
        start: u64,
        /// The end of the range.
        end: u64,
        /// The end of the memory.
        last: u64,
    },
}
