//! The two systems as models: TLSF over an address space whose pages, tags and touches are counted.

mod heap;
mod meter;
mod paging;
mod tags;

pub use heap::{ModelHeap, ModelMemory};
pub use meter::{Memories, Meter, Touches};
pub use paging::Paging;
pub use tags::TagMap;
