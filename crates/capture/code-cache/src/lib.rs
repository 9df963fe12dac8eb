//! The code cache: a program's code in blocks, copied and extended so that they write down what they access.
//!
//! A block is entered at its start alone. It does not end with a branch or a jump that leads forwards: after a branch it goes on as
//! if that was not taken, after a jump at the jump's target. A loop of one block is repeated a few times. Where a branch goes
//! the other way, code after the block (a *side exit*) makes what was executed a shorter block and leaves.
//!
//! What is executed again and again in the same order becomes one block, a *long path*, through branches that are taken, calls and returns
//! (`paths`). It takes the place of the block that it begins with.
//!
//! A block is decoded once (`plan`): which registers must be kept so that the addresses of all its accesses follow
//! (one value serves all accesses whose registers differ from it by a constant), and where a register is free to point
//! into the buffer. Then it is written into the cache (`emit`): the program's own instructions, and between them a few
//! moves that use no flags. Blocks are linked to each other directly; indirect branches and returns jump to a piece of code
//! that their target's low bits choose and that compares the whole of it, or look it up in a table (`table`).
//! What the cache can't do by itself it leaves to the tracer: through a gate (a routine of the tracer) for a target that
//! is not translated yet, for calls of the tracer's own functions, for system calls ([`CallSite`]) and for an instruction that needs a
//! closer look. A trap stands after the gate's way out for that one, for when its handler is to have the state that a signal brings.
//!
//! Instead of writing down accesses, blocks can look before each whether watched bytes are near (`check`, [`Marks`]).
//!
//! A program's state can be had at every instruction ([`Engine::place`]): native addresses stay on the stack, and the one
//! scratch register of a block is spilled where its handler finds it.
//!
//! The crate knows nothing of signals, system calls and threads: that is the tracer's (crate `tracer`). Start with
//! [`Engine`].
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
