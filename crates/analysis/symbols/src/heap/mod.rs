//! Dynamic memory: which allocation owns which byte (MadT, sections II-C and III-F, Table II).
//!
//! [`HeapMap`] applies [`memref::Allocation`] events in order. It gives each new block the next number
//! of its process, keeps released blocks findable until their bytes are allocated again, and forges the
//! names of Table II. It does not use symbols: the caller supplies the name of the allocating function.

mod block;
mod map;
mod rounding;
mod spans;

pub use block::{AllocationSite, BlockHit, BlockId, BlockState, HeapBlock, HeapChange, SiteId};
pub use map::HeapMap;
