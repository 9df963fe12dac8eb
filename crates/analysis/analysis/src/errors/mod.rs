//! Errors in the use of memory: wild accesses, accesses after release, accesses out of the bounds of
//! blocks, arrays and variables, invalid or mismatched releases, copies whose source and destination
//! overlap, and comparisons of bytes that were never written. Also reported is what is not an error
//! but may indicate one: blocks that were never released, never used, or released again at once.
//!
//! Every reported error is one, as far as the trace tells. Bytes by which the allocator rounded up a block belong to the
//! program, vectors that string functions read past the ends of strings are legitimate, and so are the allocator's own accesses.
//! A read of bytes that were never written is reported where the instruction itself compares them, or where a comparison and a
//! jump follow; if control flow was recorded, wherever the bytes affect a decision. Copying such bytes is not an error. An
//! access that killed the program is not an event of the trace; the death of the process reports it. The absence of a report
//! does not prove that there is no error. Each finding has the stacks of the access, the allocation and the release.

mod arrays;
mod blocks;
mod compares;
mod copies;
mod exact;
mod finding;
mod found;
mod inner;
mod known_code;
mod last_access;
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
pub use found::FoundErrors;
pub use reach::LeakKind;
pub use tool::MemoryErrors;
