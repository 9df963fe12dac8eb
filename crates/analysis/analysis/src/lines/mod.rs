//! Cache lines that several threads of a process use, at least one of which writes: who shares them truly (the same bytes), who falsely
//! (different bytes), how often the line changes its owner, and what would have to lie apart.
//!
//! Two passes. The first (`touched`) finds the lines, by all cores and without names; most programs have few. The second ([`LineUses`])
//! replays, and follows these lines alone (`state`): each has the threads that hold a copy of it, as in caches that never evict. A line
//! *changes its owner* where a thread writes it while others hold it, or reads it after another one wrote it. The trace orders threads by
//! marks; between two marks (a *stretch*) nobody knows how their accesses lay. So two figures are told: the changes in the order
//! of the replay, in which stretches come one after the other, and the most there can have been (`stretch`).
//!
//! Memory that a thread gave back before another one used it is not shared, nor is the stack of a thread that has ended. Memory shared
//! by processes is left out. What is shared is summed up by `group`.

mod group;
mod replayed;
mod state;
mod stretch;
mod touched;

use std::ops::Range;

use memref::VirtAddr;

pub use group::{ApartFrom, LineGroup, LinePart, SharedBy};
pub use replayed::LineUses;
pub use touched::TouchedLines;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 64;

/// Bytes of one line, as bits.
fn bits_of(bytes: &Range<VirtAddr>) -> u64 {
    (u64::MAX >> (LINE_BYTES - bytes.end.distance(bytes.start))) << (bytes.start.0 % LINE_BYTES)
}
