//! The code cache: a program's code in blocks, copied and extended so that the blocks record their own accesses.
//!
//! A block is entered only at its start. A forward branch or jump does not end it: after a branch the block continues as if the
//! branch was not taken, after a jump at the jump's target. A loop that consists of one block is repeated a few times. Where a
//! branch goes the other way, code after the block (a *side exit*) marks the executed part as a shorter block and leaves.
//!
//! Code that is executed again and again in the same order becomes one block, a *long path*,
//! through taken branches, calls and returns (`paths`). It replaces the block with which it begins.
//!
//! A block is decoded once (`plan`). The plan says which registers must be saved so that the addresses of all accesses of the
//! block follow (one value serves all accesses whose registers differ from it by a constant), and where a register is free to
//! point into the buffer. Then the block is written into the cache (`emit`): the program's own instructions, and between them a
//! few moves that use no flags. Blocks are linked to each other directly. Indirect branches and returns jump to a piece of code
//! that is chosen by the target's low bits and compares the whole target, or else look the target up in a table (`table`).
//!
//! What the cache can't do itself it leaves to the tracer. It goes through a gate (a routine of the
//! tracer) for a target that is not translated yet, for calls of the tracer's own functions, for system
//! calls ([`CallSite`]), and for an instruction that needs special handling. For such an instruction, a
//! trap follows the gate's way out, for cases where its handler needs the state that a signal provides.
//!
//! Instead of recording accesses, blocks can check before each one whether watched bytes are near (`check`, [`Marks`]).
//!
//! The program's state is available at every instruction ([`Engine::place`]): native addresses stay
//! on the stack, and the one scratch register of a block is spilled where its handler finds it.
//!
//! The crate knows nothing of signals, system calls and threads: these belong to the tracer (crate `tracer`). Start with [`Engine`].
#![no_std]

extern crate alloc;

mod area;
mod assembler;
mod call_site;
mod capture;
mod check;
mod code_pages;
mod emit;
mod engine;
mod exit_reason;
mod filter;
#[cfg(test)]
mod listing;
mod marks;
mod mode;
mod paths;
mod place;
mod plan;
mod processor;
mod register;
mod slot;
mod table;

pub use call_site::{CallSite, SPECIAL_INSTRUCTION, SYSTEM_CALL};
pub use check::{Checked, CheckedAccess};
pub use engine::{Defined, Engine, Environment, Exit, TranslatedAmount, Trap, Untranslatable, Via, changes};
pub use marks::{LINE_BYTES, LOADS, Marks, STORES};
pub use mode::{Flow, Mode, Task};
pub use paths::Sample;
pub use place::{Front, Place, Record};
pub use slot::FS_SPILL;
