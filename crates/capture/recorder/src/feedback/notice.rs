//! Notices of a running recording; nothing is printed here.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Totals;

/// Something that happens while a program is recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The program was started.
    Started {
        /// Its process.
        pid: u32,
    },
    /// A process that ran already is recorded from here on.
    Attached {
        /// The process.
        pid: u32,
    },
    /// The process that was attached to ended, and so did all that it started.
    Ended {
        /// The process.
        pid: u32,
    },
    /// The program has ended, and processes that it started go on, recorded: told again and again as long as it is so.
    Outlived {
        /// How many they are.
        processes: usize,
    },
    /// Some time has passed: told some twenty times a second.
    Progress {
        /// What was recorded so far.
        totals: Totals,
        /// Where the trace goes.
        output: &'a Path,
    },
    /// The recording goes on, but something should be known of it.
    Warning(Warning),
}

/// What should be known of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// QEMU's arguments don't allow that processes of the guest are told apart.
    NoGuestMemory(String),
    /// Processes of the guest are not told apart: the guest was not understood.
    NoIntrospection(String),
    /// This QEMU may tell another process's address of code that processes share.
    SharedCode,
    /// The bound of the recorder's memory did not hold.
    MoreMemory {
        /// The bound, in MiB.
        bound_mib: usize,
        /// The most that was taken.
        peak_mib: usize,
        /// Of that, what is known of the program's code.
        code_mib: usize,
    },
    /// QEMU was killed, and the trace holds what happened before.
    MachineKilled {
        /// The trace.
        output: PathBuf,
        /// The signal.
        signal: i32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGuestMemory(why) => write!(f, "note: processes of the guest can't be told apart: {why}"),
            Self::NoIntrospection(why) => {
                write!(f, "note: processes of the guest are not told apart: {why}")
            }
            Self::SharedCode => f.write_str(
                "note: for code that processes share, this QEMU may tell another process's address, and the function's name \
                 may be wrong; QEMU 7.2, and 9.0 and later, tell the right one",
            ),
            Self::MoreMemory { bound_mib, peak_mib, code_mib } => write!(
                f,
                "--memory {bound_mib}: the recorder took {peak_mib} MiB, {code_mib} of them to describe the program's code; \
                 no events were lost because of it"
            ),
            Self::MachineKilled { output, signal } => write!(
                f,
                "{}: QEMU was ended by signal {signal}; the trace holds what happened before",
                output.display()
            ),
        }
    }
}
