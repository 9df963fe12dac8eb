//! Shared-memory buffers and the records in them: the only interface between tracers and the recorder.
//!
//! A session has one *pool*: a shared memory object that the recorder creates and each traced process maps. It holds
//! a [`Control`] block, a table of processes, and a few thousand small buffers. (Simutrace, section 2.3, calls these
//! the segments of a stream buffer; the segments of our file are longer and gathered from many buffers.) A traced
//! thread owns one buffer at a time, fills it with [`Record`]s, hands it over and takes another one.
//!
//! The protocol survives the death of either side at any instruction. The state of a buffer is one word, and a record becomes
//! visible by a single store of the filled length. Neither side waits for a peer that may be dead, except for a free buffer, and
//! that wait has a time-out. There is no queue that a killed producer could leave half linked: the consumer scans the states.
//!
//! The crate maps nothing and makes no system calls: the caller provides
//! the memory and the means to wait. Start with [`Pool`], then [`Record`].
#![no_std]

#[cfg(test)]
extern crate std;

mod arrival;
pub mod attach;
mod config;
pub mod flow;
mod layout;
pub mod list;
mod machine;
mod pool;
mod record;
mod record_room;
mod slots;
mod sync;
mod writer;

pub use arrival::{Arrival, FIRST_ANNOUNCEMENT, Refusal};
pub use config::{
    Breakpoint, BreakpointKind, CONFIG_BYTES, Config, MAX_BREAKPOINTS, MAX_LIST_PATH_BYTES, MAX_PATH_BYTES,
};
pub use flow::{DefinitionWriter, FLOW_BYTES};
pub use layout::{
    BUFFER_BYTES, BUFFER_COUNT, Control, POOL_BYTES, PROCESS_COUNT, ProcessSlot, ProcessState, VERSION,
};
pub use machine::{
    MAX_BLOCK_INSTRUCTIONS, MAX_FOUND_BYTES, MAX_MACHINE_WORDS, MachineRecord, MachineRecords, MachineWriter,
    PAGE_SLOTS, Task, TaskChange, access_word, encode_machine, enter_words, page_slot, page_word,
};
pub use pool::{Buffer, BufferHeader, BufferState, Content, Pool};
pub use record::{DecodeError, MAX_NAME_BYTES, Record, Records, encode};
pub use record_room::RecordRoom;
pub use slots::Slots;
pub use writer::{Full, Writer};
