//! Counters of touches, one for each memory that holds structures of the RTMMU (section IV-B).

use core::cell::Cell;
use core::ops::Sub;

/// One value for each memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memories<T> {
    /// Virtual Regions Cache and stack pointers: the first port.
    pub cache: T,
    /// Helper array and stacks: the second port.
    pub helper: T,
    /// The page table: the third port.
    pub table: T,
    /// The Virtual Regions Tree and the headers of regions.
    pub regions: T,
    /// The links of the frames.
    pub frames: T,
    /// Bitmaps and list heads of the allocator.
    pub control: T,
    /// Tags: words of the program's own memory.
    pub tags: T,
}

/// Touches by memory.
pub type Touches = Memories<u64>;

/// Running counters, shared by the stores of one system.
pub type Meter = Memories<Cell<u64>>;

impl Meter {
    /// The counts so far.
    #[inline]
    pub fn read(&self) -> Touches {
        Memories {
            cache: self.cache.get(),
            helper: self.helper.get(),
            table: self.table.get(),
            regions: self.regions.get(),
            frames: self.frames.get(),
            control: self.control.get(),
            tags: self.tags.get(),
        }
    }
}

impl Touches {
    /// All touches.
    #[inline]
    pub const fn total(&self) -> u64 {
        self.cache + self.helper + self.table + self.regions + self.frames + self.control + self.tags
    }
}

impl Sub for Touches {
    type Output = Self;
    #[inline]
    fn sub(self, before: Self) -> Self {
        Memories {
            cache: self.cache - before.cache,
            helper: self.helper - before.helper,
            table: self.table - before.table,
            regions: self.regions - before.regions,
            frames: self.frames - before.frames,
            control: self.control - before.control,
            tags: self.tags - before.tags,
        }
    }
}
