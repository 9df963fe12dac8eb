//! Real-time virtual memory: memory management in which unmapping takes constant time.
//!
//! After Böhnert and Scholl, *A Dynamic Virtual Memory Management under Real-Time Constraints* (2014). An
//! [`AddressSpace`] maps, unmaps and translates; the number of words it touches depends only on its
//! number of pages. [`Conventional`] is the page table with which it is compared. Both implement [`Mmu`].
//!
//! The structures are generic over the storage of their words ([`WordStore`]), so that every touched word
//! can be counted ([`Counted`]). Without the feature `std` the crate needs neither std nor an allocator.
//!
//! Start with [`AddressSpace`].
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

mod conventional;
mod error;
mod frames;
mod header;
pub mod heap;
mod init_free;
mod mmu;
#[cfg(feature = "std")]
pub mod model;
#[cfg(feature = "std")]
mod munmap;
mod pva;
mod random;
#[cfg(feature = "std")]
pub mod replay;
mod space;
pub mod tlsf;
mod tree;
mod units;
mod vrc;
mod words;

pub use conventional::Conventional;
pub use error::Error;
pub use frames::{FrameList, PhysicalMemory};
pub use header::{RegionHeader, RegionHeaders};
pub use heap::RtHeap;
pub use init_free::InitFreeArray;
pub use mmu::Mmu;
#[cfg(feature = "std")]
pub use munmap::munmap_ns;
pub use pva::{PagesValidityArray, StackPointer};
pub use random::Random;
pub use space::{AddressSpace, Lookups, SpaceWords};
pub use tree::{BitTrie, LayeredTree, VirtualRegionsTree};
pub use units::{FrameNumber, HOST_PAGE_BYTES, Page, Rights};
pub use vrc::VirtualRegionsCache;
pub use words::{Counted, Lane, TwoLevel, WordStore};
