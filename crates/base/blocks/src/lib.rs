//! Basic blocks: what the code of one accesses, and the accesses to which one execution of it expands.
//!
//! A tracer that translates code does not record accesses. It writes the definition of a block once, as a
//! [`Definition`], and for each execution the block's number and a few *values*: registers at the block's beginning
//! (or where they are known in it), from which all addresses follow. The recorder turns the definition into a
//! [`BasicBlock`], and frames of the file store blocks and values. Executions are [expanded](BasicBlock::expand) to
//! accesses only when a trace is read. Tracer, recorder and file thus share this one meaning of a block.
//!
//! A block here is one or more basic blocks joined in the order of execution, in one
//! function or in several. It has one entry, and is left at its end or at a side exit.
//!
//! The crate does not know where values come from (`code-cache` plans that), which buffers carry them (`buffers`), or how a
//! file predicts them (`trace-format`). It makes no system calls, and needs an allocator only for blocks, not for definitions.
//!
//! Start with [`BlockAccess`], one access of a block; then [`BasicBlock::expand`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod access;
mod block;
mod definition;
mod expansion;
mod masked;
mod shared;

pub use access::{BlockAccess, NO_VALUE, Repeated, data_words};
pub use block::BasicBlock;
pub use definition::{Definition, Extent, MAX_DEFINITION_BYTES, RecordedValues, encode_definition};
pub use expansion::values_of;
pub use masked::{Chosen, Masked};
pub use shared::SharedBlock;

/// Values that one block can have.
pub const MAX_VALUES: usize = 62;
/// Instructions that one block can have.
pub const MAX_INSTRUCTIONS: usize = 64;
/// Accesses that one block can have.
pub const MAX_ACCESSES: usize = 128;

const _: () = assert!(MAX_VALUES < NO_VALUE as usize);
