//! Labels that move with data through memory and registers, instruction by instruction. Taint analysis uses them for the bytes
//! of an input, and error detection for bytes that were never written. The users define where a label affects a decision.
//!
//! Propagation is demand-driven: as long as no register of a thread
//! has a label, its accesses are only checked for labelled bytes.

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
