//! The contents of a session, with names as strings: processes, threads, modules, counters, values.

use memref::{Access, Order, ProcessId, ThreadId, VirtAddr};

/// A process of the session.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProcessRecord {
    /// Its number; given by `add_process`, whatever is said here.
    pub process: ProcessId,
    /// The kernel's number.
    pub pid: u32,
    /// The process that forked it, if that was traced.
    pub parent: Option<ProcessId>,
    /// Start, ns since the Unix epoch.
    pub start_ns: u64,
    /// End, ns since the Unix epoch, once it ended.
    pub end_ns: Option<u64>,
    /// Exit status, or minus the signal that killed it, once it ended.
    pub exit_status: Option<i32>,
    /// Path of the executable.
    pub exe: String,
    /// Arguments, with the program's name, quoted for a shell.
    pub args: String,
}

/// A thread of the session.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ThreadRecord {
    /// Its number; given by `add_thread`, whatever is said here.
    pub thread: ThreadId,
    /// Its process.
    pub process: ProcessId,
    /// The kernel's number.
    pub tid: u32,
    /// Start, ns since the Unix epoch.
    pub start_ns: u64,
    /// End, ns since the Unix epoch, once it ended.
    pub end_ns: Option<u64>,
}

/// A program or library that a process loaded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ModuleRecord {
    /// Whose.
    pub process: ProcessId,
    /// When, in the session.
    pub order: Order,
    /// What is added to the addresses of the file's symbols.
    pub base: VirtAddr,
    /// Bytes from the first to the last mapped one.
    pub len: u64,
    /// Path.
    pub path: String,
    /// Build id in hexadecimal, or empty.
    pub build_id: String,
}

/// The code of a counter that counts instructions on the tracer's slow path.
pub const COUNTER_SLOW_PATH: u32 = 0;
/// The code of a counter whose name is a program that could not be traced.
pub const COUNTER_UNTRACED_PROGRAM: u32 = 1;
/// The code of a counter of the tracer's own work.
pub const COUNTER_WORK: u32 = 2;
/// The code of a counter of missing events: its name is their reason, as [`GapReason`](memref::GapReason) names it, a colon, a space
/// and the cause in words.
pub const COUNTER_GAP_CAUSE: u32 = 3;
/// The code of a counter of signals that ended a process, by the instruction and the thread: its name is that of the signal (`SIGSEGV`), and where
/// the thread told why it came, after a space, that (`SEGV_MAPERR`), and after another one the address concerned (`0x10`).
pub const COUNTER_DEATH: u32 = 4;

/// How often something happened at an instruction. Records that differ in `count` alone add up.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CounterRecord {
    /// Whose.
    pub process: ProcessId,
    /// Whose, where it is counted by thread.
    pub thread: Option<ThreadId>,
    /// The instruction.
    pub ip: VirtAddr,
    /// What is counted: the writer's number.
    pub code: u32,
    /// How often.
    pub count: u64,
    /// What is counted, in words.
    pub name: String,
}

/// The bytes that an access read or wrote.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DataValue {
    /// Which of the thread's accesses, from 0.
    pub access_index: u64,
    /// The bytes; for a modify those after it.
    pub bytes: Vec<u8>,
}

/// An access with the bytes that it read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAccess {
    /// The access.
    pub access: Access,
    /// Its bytes as a little-endian number; for a modify those after it.
    pub value: u64,
    /// How many bytes of it were recorded: at most 8, 0 where nothing was.
    pub value_bytes: u8,
}
