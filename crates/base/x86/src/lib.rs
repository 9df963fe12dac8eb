//! The effects of instructions, and execution of single instructions on saved registers.
//!
//! This is the workspace's only crate that interprets instructions. Other crates ask it about an instruction and map the answer to their
//! own types: where execution continues ([`Transfer`]), which memory and registers the instruction uses ([`Effects`]), what it does to
//! flags ([`FlagUse`]), which bytes go where ([`DataFlow`]), and how it is re-encoded for another address ([`Instruction::displaced`]).
//! `tests/facts.rs` compares these answers with those of the processor, which executes instructions of all kinds one at a time.
//!
//! The engine ([`CodeCache`]) does not interpret: it copies an instruction into a *stub*, with its memory operand replaced by
//! a register that the instruction does not use, and runs the stub on the saved registers of a signal frame. Flags, rounding,
//! locks and every vector extension are therefore the processor's own. It emulates by hand what depends on the instruction's
//! address (branches, rip-relative addresses) and what accesses memory without an operand (the stack, string instructions).
//! It allocates only in the decoder's own buffers, takes no lock and never panics, because it runs inside a fault handler of
//! a foreign process. It knows nothing of pages and traces: an [`Environment`] decides where each access is made.
//!
//! [`Oracle`] says what an instruction is about to access in a given state of the processor, for comparison.
//!
//! Start with [`Instruction`] for facts, with [`CodeCache::step`] for execution.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod cache;
mod call_before;
mod data_flow;
mod decode;
mod effects;
mod facts;
mod flags;
mod hand;
mod instruction;
mod memory_operand;
mod operand;
mod oracle;
mod register_bytes;
mod registers;
mod relocation;
mod state_area;
mod stub;
mod terms;
mod transfer;
mod vector;

pub use cache::CodeCache;
pub use call_before::call_before;
pub use data_flow::{Assignment, ByteRule, ByteSource, ByteTarget, DataFlow};
pub use effects::{Effects, Examiner, RegisterSum, RegisterUse};
pub use facts::{accesses, is_locked, is_repeated, length, mnemonic};
pub use flags::{ARITHMETIC_FLAGS, FlagUse};
pub use instruction::{
    Disassembler, ElementChoice, ElementMask, Instruction, MAX_INSTRUCTION_BYTES, RipRelative,
};
pub use memory_operand::{MemoryOperand, SegmentBase};
pub use memref::AccessKind;
pub use operand::{Environment, Operand, Refused, StepOutcome, Unsupported};
pub use oracle::{Oracle, StepKind};
pub use register_bytes::{RegisterBytes, RegisterKind, general_name};
pub use registers::Registers;
pub use relocation::{MachineCode, displaced};
pub use terms::RegisterTerms;
pub use transfer::{Condition, Transfer};
