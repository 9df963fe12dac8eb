//! Why attaching to a process failed. Each error is one line: what went wrong, and what to do about it.

use std::io;

/// An error of attaching; the process was left as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// It ended meanwhile.
    #[error("process {0} ended")]
    Ended(u32),
    /// It is this process.
    #[error("process {0} is memtap itself")]
    Own(u32),
    /// A kernel thread, or a zombie.
    #[error("process {0} has no program: it is a kernel thread, or it ended and waits for its parent")]
    NoProgram(u32),
    /// No permission.
    #[error(
        "no permission to attach to process {pid}: run as its user with /proc/sys/kernel/yama/ptrace_scope 0{scope}, or as root"
    )]
    Permission {
        /// The process.
        pid: u32,
        /// What the file says now, if it exists.
        scope: String,
    },
    /// A debugger has it.
    #[error("process {pid} is already traced by process {tracer}; end that one first")]
    Traced {
        /// The process.
        pid: u32,
        /// Its tracer.
        tracer: u32,
    },
    /// It is stopped by a signal.
    #[error("process {0} is stopped: continue it first (kill -CONT {0})")]
    StoppedBySignal(u32),
    /// Not a 64-bit program of this machine.
    #[error("process {0} is not an x86-64 program")]
    Architecture(u32),
    /// No loader.
    #[error("process {0} is statically linked: it has no loader that could load memtap's library")]
    Static(u32),
    /// Another C library.
    #[error(
        "process {0} has no glibc, or its file was replaced since it started: there is no dlopen to call. Start the program under memtap instead"
    )]
    NoLoader(u32),
    /// SIGSEGV is ignored.
    #[error("process {0} ignores SIGSEGV, which tells memtap that a call in the process has ended")]
    IgnoresSegv(u32),
    /// No safe place.
    #[error(
        "no thread of process {0} came to a place where a library can be loaded within {1} seconds: try again"
    )]
    NoSafePlace(u32, u64),
    /// dlopen failed.
    #[error("process {pid} cannot load {library}: {reason}")]
    Load {
        /// The process.
        pid: u32,
        /// The library.
        library: String,
        /// What its loader says.
        reason: String,
    },
    /// The injected call crashed.
    #[error("a call inside process {pid} ended with signal {signal}; the thread was put back where it was")]
    Crashed {
        /// The process.
        pid: u32,
        /// The signal.
        signal: i32,
    },
    /// It took too long.
    #[error(
        "a call inside process {0} did not return within {1} seconds; the thread was put back where it was"
    )]
    Timeout(u32, u64),
    /// Anything else.
    #[error("process {pid}: {what}: {source}")]
    System {
        /// The process.
        pid: u32,
        /// What was done.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}
