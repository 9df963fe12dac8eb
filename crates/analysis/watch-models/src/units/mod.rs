//! The designs (section 4.1.1).

mod map;
mod memtracker;
mod mondriaan;
mod per_thread;
mod range;
mod vm;

pub use map::SoftwareMap;
pub use memtracker::{MemTracker, MemTrackerOptions};
pub use mondriaan::{Mondriaan, MondriaanOptions};
pub use range::{RangeCache, RangeCacheOptions};
pub use vm::VirtualMemory;

use crate::{UnitKind, WatchpointUnit};

impl UnitKind {
    /// A unit with the paper's sizes.
    pub fn build(self) -> Box<dyn WatchpointUnit> {
        match self {
            Self::VirtualMemory => Box::new(VirtualMemory::new(4096)),
            Self::MemTracker => Box::new(MemTracker::new(MemTrackerOptions::default())),
            Self::Mondriaan => Box::new(Mondriaan::new(MondriaanOptions::default())),
            Self::RangeCache => Box::new(RangeCache::new(RangeCacheOptions::range_cache())),
            Self::RangeCacheBitmap => Box::new(RangeCache::new(RangeCacheOptions::hybrid())),
            Self::Software => Box::new(SoftwareMap::default()),
        }
    }
}
