//! Records what a program, a running process or a whole machine does to its memory.
//!
//! [`Recorder`] says what is recorded, and how; [`MachineRecorder`] the same of QEMU. Watchpoints on a program are in
//! [`watching`]. The traced processes fill shared buffers (crate `buffers`); this process reads them, gives events their place
//! in the trace, and hands them to the trace store (crate `trace-server`). Nothing is printed: what happens is told by
//! [`Notice`]s, and what should be known at the end is in [`RecordedRun`].
//!
//! ```no_run
//! use memref::RegionKind;
//! use recorder::{Notice, Recorder};
//!
//! # fn main() -> Result<(), recorder::Error> {
//! let recorder = Recorder::of_program("ls")
//!     .args(["-l", "/tmp"])
//!     .regions([RegionKind::Heap, RegionKind::Stack])
//!     .output("ls.memtap");
//! let run = recorder.record_with(|notice| {
//!     if let Notice::Progress { totals, .. } = notice {
//!         println!("{} accesses so far", totals.accesses);
//!     }
//! })?;
//! println!("{:?}: {} accesses, {} missing", run.end, run.totals.accesses, run.totals.gaps);
//! # Ok(())
//! # }
//! ```
//!
//! The tracer's library is looked for where `$MEMTAP_LIB_DIR` says, beside the program that uses this crate, and in
//! `../lib/memtap`; a release build has it inside and unpacks it into the user's cache where it is in none of these. Signals are left to that program, too: those that should end the recorded program are its to send
//! ([`Notice::Started`]), and a process that is attached to is left when [`Recorder::stop_flag`] is set. A file that grows beyond
//! the shell's limit raises SIGXFSZ, which a recorder should not die of.
//!
//! Start reading with `run::session`, which is the outline of a recording; then `run::drain`, which reads the buffers, and `sink`, which
//! knows what becomes of each record. What a trace can be asked, and how it is written, is left to `trace-format`.
#![forbid(unsafe_code)]

mod buffer_service;
mod clock;
mod command_line;
mod feedback;
mod flushes;
mod host;
mod library;
mod listener;
mod machine;
mod plan;
mod recorder;
mod run;
mod sink;
mod store;
mod target;
pub mod watching;

pub use feedback::error::{Error, Feature};
pub use feedback::notice::{Notice, Warning};
pub use feedback::program_end::ProgramEnd;
pub use feedback::recorded_run::RecordedRun;
pub use feedback::totals::{GapCause, MissingEvents, Totals, Verified};
pub use host::{HostFinding, HostState, examine_host};
pub use library::find_library;
pub use machine::{Direction, MachineFilter, MachineRecorder};
pub use recorder::{Mechanism, Recorder, Tracer};
pub use store::remote_store::RemoteStore;

/// The least bound of a recording's memory ([`Recorder::memory`]), in bytes.
pub const LEAST_MEMORY_BYTES: usize = store::memory_plan::MemoryPlan::LEAST_BYTES;
