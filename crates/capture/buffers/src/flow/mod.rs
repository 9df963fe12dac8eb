//! The format in which a translated thread fills its buffers: for each execution of a block, the block's identifier and the registers from
//! which the addresses of its accesses follow. What the block does is written once, in a definition (crate `blocks`), in a separate buffer.
//!
//! A buffer is a sequence of *entries*. Each is a header word followed by a payload of words. Bits 0..22 of the header identify the
//! entry; the upper 42 bits are a number. A buffer can therefore be read in one pass from its beginning. The thread's slot holds the
//! place of the last header ([`LAST_AT`]): code without accesses adds the number of instructions that it executes to that header.
//!
//! | low bits | payload | number |
//! |---|---|---|
//! | 0 [`PAD`] | - | instructions that follow without an access |
//! | 1 [`EMBED`] | a [`crate::Record`], padded to words | words of the payload |
//! | 2 [`CUT`] | one word: instructions of the block before that were executed; bit 32: all its accesses count | unused |
//! | 16 and up | the values of that block, a word each | instructions that follow without an access |
//!
//! The thread's position is a word of its [`Live`] slot, in shared memory, so the
//! filled part is known even when the thread is killed at an arbitrary instruction.

mod definitions;
mod entry;
mod live;
mod writer;

pub use definitions::DefinitionWriter;
pub use entry::{Entries, Entry, EntryHeader};
pub use live::{
    GATE_AT, IN_GATE_AT, LAST_AT, Live, ORDER_AT, POSITION_AT, QUIET_AT, RSP_AT, SPILLS_AT, STACK_AT,
    TARGET_AT, THREAD_AT,
};
pub use writer::FLOW_BYTES;

/// Bits of a header that say what the entry is.
pub const ID_BITS: u32 = 22;
/// Header of an entry without payload: instructions without accesses.
pub const PAD: u64 = 0;
/// Header of a record.
pub const EMBED: u64 = 1;
/// Header of a cut: how much of the block before was executed.
pub const CUT: u64 = 2;
/// The first number of a block.
pub const FIRST_BLOCK: u32 = 16;
/// In a cut: the accesses of the whole block count.
pub const CUT_ALL: u64 = 1 << 32;
