//! Labels that move as data does, through memory and registers, instruction by instruction: for taint, whose labels are bytes of an
//! input, and for bytes that nobody wrote. Where a label decides something is for them to say.
//!
//! It is demand-driven: as long as no register of a thread has a label, its accesses are only asked whether they touch a byte with one.

mod code;
mod labels;
mod propagate;
mod registers;
mod system_calls;
mod thread;

pub(crate) use code::{KnownInstruction, ProgramCode, Successor};
pub(crate) use labels::{Label, LabelledBytes, Labels};
pub(crate) use propagate::{LabelRules, LabelledMemory, Propagation};
pub(crate) use registers::{RegisterLabels, RegisterSet};
pub(crate) use system_calls::{CALL_NUMBER, SYSCALL_ARGUMENTS, arguments_of, call_number};
pub(crate) use thread::{LabelledThread, LastAccess, OpenCall, RecordedFlow};
