//! Errors in the use of dynamic memory: accesses after a release and between blocks, releases that are none, copies to what
//! they are made from, comparisons of bytes that nobody wrote; and what is no error but may be one: blocks that were never released, or never used.
//!
//! What is told is one, as far as the trace tells: bytes that the allocator rounded a block up by are the program's, vectors that
//! string functions read past the ends of strings are right, and so is the allocator's own work. A read of bytes that were
//! never written is told where an instruction compares them right there, or a comparison and a jump follow it; where control flow was
//! recorded, wherever they decide. Copies of them are none. An access that ended the program is no event of the trace; the death of the
//! process tells of it. What is not told may be
//! an error all the same. Each finding comes with the stacks of the access, the allocation and the release.

mod arrays;
mod blocks;
mod compares;
mod copies;
mod exact;
mod finding;
mod inner;
mod leaks;
mod operators;
mod overruns;
mod pointers;
mod reach;
mod tool;
mod unwritten;
mod values;
mod wild;

pub use finding::{MemoryError, MemoryErrorKind, SourcePlace, StackPlace};
pub use reach::LeakKind;
pub use tool::MemoryErrors;
