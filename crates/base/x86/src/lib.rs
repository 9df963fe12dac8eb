//! What an instruction accesses, and executing one instruction on saved registers.
//!
//! The engine does not interpret: it copies an instruction into a *stub*, with its memory operand replaced by a register
//! that the instruction does not use, and runs the stub on the saved registers of a signal frame. So flags, roundings,
//! locks and every vector extension are the processor's own. By hand it does what depends on where the instruction is
//! (branches, rip-relative addresses) and what reaches memory without an operand (the stack, string instructions).
//!
//! It allocates only in the decoder's own buffers, takes no lock and never panics: it runs inside a fault handler of a
//! foreign process. It knows nothing of pages and traces: an [`Environment`] says where each access is to be made.
//!
//! [`Oracle`] says what an instruction is about to access, without executing it: for comparing.
//!
//! Start with [`CodeCache::step`].
#![no_std]

#[cfg(test)]
extern crate std;

mod cache;
mod decode;
mod facts;
mod hand;
mod operand;
mod oracle;
mod registers;
mod state_area;
mod stub;
mod vector;

pub use cache::CodeCache;
pub use facts::{accesses, is_locked, is_repeated, kind_of, length, mnemonic, prefetched, repeats};
pub use memref::AccessKind;
pub use operand::{Environment, Operand, Outcome, Reason, Refused};
pub use oracle::{Oracle, Step};
pub use registers::Registers;
pub use vector::is_packed;
