//! How a process joins the session: under which identity, and why it may run on without a tracer.
//!
//! A program is announced before it is executed, under a number that its process is given
//! ([`crate::Control::next_announcement`]). An arriving process names that number. Programs that never
//! arrive ran without any part of the tracer, and the recorder finds them by their unclaimed numbers.

/// The number of the program that the recorder starts.
pub const FIRST_ANNOUNCEMENT: u32 = 0;

/// What a process says of itself when it enters its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its process id in the recorder's name space, or zero where it does not know that.
    pub pid: u32,
    /// Its process id in its own name space.
    pub own_pid: u32,
    /// The number of the process that made it, where that is of this session.
    pub parent: Option<u32>,
    /// Under which number its program was announced; a forked process executes none.
    pub announcement: Option<u32>,
    /// When, in nanoseconds of CLOCK_REALTIME.
    pub start_ns: u64,
}

/// Why a process that has reached the recorder can't be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// There is no room for what describes its pages.
    NoAddressSpace = 1,
    /// There is no memory for the tracer.
    NoMemory = 2,
    /// The kernel does not hand its system calls to the tracer.
    NoDispatch = 3,
    /// The static program can't be mapped.
    NotMapped = 4,
    /// A sanitizer's table of its memory lies where page protection has second views of it.
    Sanitizer = 5,
    /// The list of its mappings can't be read.
    NoProc = 6,
    /// It was traced, and a fault of the tracer ended it.
    Bug = 7,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NoAddressSpace,
        Self::NoMemory,
        Self::NoDispatch,
        Self::NotMapped,
        Self::Sanitizer,
        Self::NoProc,
        Self::Bug,
    ];

    /// From a word; zero and what is no refusal is none.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u32 == code)
    }
}
