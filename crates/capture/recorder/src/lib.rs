//! Records what a program, a running process or a whole machine does to its memory.
//!
//! [`Recorder`] sets what is recorded, and how; [`MachineRecorder`] does the same for QEMU. Watchpoints on a
//! program are in [`watching`]. The traced processes fill shared buffers (crate `buffers`). This process reads
//! the buffers, gives events their place in the trace, and passes them to the trace store (crate `trace-server`).
//! Nothing is printed: progress is reported by [`Notice`]s, and the outcome is in [`RecordedRun`].
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
//! The tracer's library is searched for in `$MEMTAP_LIB_DIR`, beside the program that uses this crate, and in `../lib/memtap` and `../lib`
//! relative to that program. A release build contains the library, and unpacks it into the user's cache if it is in none of these places.
//!
//! The calling program also handles signals. If a signal should end the recorded program, the caller sends
//! it ([`Notice::Started`]). To detach from a process, the caller sets [`Recorder::stop_flag`]. A file
//! that grows beyond the shell's limit raises SIGXFSZ, which should not be allowed to end a recorder.
//!
//! Start reading with `run::session`, which is the outline of a recording; then `run::drain`, which reads the buffers,
//! and `sink`, which processes each record. The queries on a trace and its file format are in `trace-format`.
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
