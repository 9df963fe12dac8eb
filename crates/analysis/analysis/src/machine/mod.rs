//! Whole machines: physical addresses, memory contents at any time, and which process executed.
//!
//! The trace of a machine has one thread per vCPU. Everything else it needs is in separate streams
//! ([`trace_format::machine`]). All vCPUs share one clock, so their cycles can be compared.

mod access_graph;
mod boot;
mod calls;
mod initcalls;
mod memory;
mod names;
mod part;
mod process;
mod programs;
mod stores;
mod symbols;
mod walk;

pub use access_graph::{GuestLinks, GuestPage, GuestPair};
pub use calls::{GuestCall, GuestCallTree, GuestCode, GuestTotal};
pub use initcalls::{Initcall, initcalls};
pub use memory::{Image, memory_at};
pub use names::{CountsByProcess, Named, by_name, by_process_and_name};
pub use part::{MemoryPart, PartBy, of_part};
pub use process::{GuestMode, Owner, by_process, kernel_since, tasks};
pub use programs::{GuestProgram, ProgramPlaces};
pub use symbols::GuestSymbols;
pub use walk::{Physical, Places, walk, walk_data};

use memref::RamLayout;
use trace_format::machine::{CheckpointEntry, FoundEntry};
use trace_format::{StreamKind, Trace};

use crate::{Error, Session};

/// What is said of a machine in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Where the guest's memory lies; nowhere if it was not shared with the recorder.
    pub ram: RamLayout,
    /// Whether written data was recorded.
    pub written: bool,
    /// Instructions executed.
    pub cycles: u64,
}

impl Machine {
    /// The machine of a trace; `None` where it is a program's.
    pub fn of(session: &Session) -> Option<Self> {
        let properties = session.trace().properties();
        let known = |key: &str| properties.get(key).and_then(|text| text.parse().ok());
        let bytes = known("guest_ram_bytes").unwrap_or(0);
        (properties.get("tracer").map(String::as_str) == Some("qemu")).then(|| Self {
            // Older traces are of machines with one piece.
            ram: RamLayout::new(bytes, known("guest_ram_low_bytes").unwrap_or(bytes)),
            written: properties.get("written_data").map(String::as_str) == Some("yes"),
            cycles: known("instructions").unwrap_or(0),
        })
    }
}

/// The points at which all of memory is known.
///
/// # Errors
/// Where the trace can't be read.
pub fn checkpoints(trace: &Trace) -> Result<Vec<CheckpointEntry>, Error> {
    let mut all = Vec::new();
    if let Some(mut cursor) = trace.typed(StreamKind::Checkpoints, None) {
        while let Some(frame) = cursor.next_frame()? {
            all.extend(frame.bytes.chunks_exact(16).map(CheckpointEntry::from_bytes));
        }
    }
    Ok(all)
}

/// Bytes that were found in memory without an instruction having written them.
///
/// # Errors
/// Where the trace can't be read.
pub fn found(trace: &Trace) -> Result<Vec<FoundEntry>, Error> {
    let mut all = Vec::new();
    if let Some(mut cursor) = trace.typed(StreamKind::Found, None) {
        while let Some(frame) = cursor.next_frame()? {
            all.extend(frame.bytes.chunks_exact(40).map(FoundEntry::from_bytes));
        }
    }
    Ok(all)
}
