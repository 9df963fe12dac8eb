//! Cache lines that several threads of a process use and at least one of them writes: which threads share them truly (the
//! same bytes) or falsely (different bytes), how often a line changes its owner, and what would have to be moved apart.
//!
//! There are two passes. The first (`touched`) finds the lines, on all cores and without names; most programs
//! have few. The second ([`LineUses`]) replays the trace and follows these lines alone (`state`). Each line has
//! the set of threads that hold a copy of it, as in caches that never evict. A line *changes its owner* when a
//! thread writes it while others hold it, or reads it after another one wrote it. The trace orders threads by
//! marks; the order of their accesses between two marks (in a *stretch*) is unknown. Therefore two figures are
//! reported: the changes in replay order, in which stretches follow one another, and an upper bound (`stretch`).
//!
//! Memory that one thread released before another one used it is not shared, and neither is the stack of a
//! thread that has ended. Memory shared between processes is left out. `group` sums up the shared lines.

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
