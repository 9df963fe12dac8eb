//! The interface of all watchpoint units.

use std::ops::Range;

use memref::{AccessKind, ThreadId};

use crate::units::{
    MemTracker, MemTrackerOptions, Mondriaan, MondriaanOptions, RangeCache, RangeCacheOptions, SoftwareMap,
    VirtualMemory,
};
use crate::{CostModel, Counters, Watched};

/// How a range of watchpoints changes (Table 2, *Watchpoint Modifications*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Every byte of the range gets exactly these watchpoints.
    Set(Watched),
    /// Every byte of the range is watched for these as well.
    Add(Watched),
    /// Every byte of the range is no longer watched for these.
    Remove(Watched),
}

impl Change {
    /// What becomes of a byte.
    pub const fn apply(self, old: Watched) -> Watched {
        match self {
            Self::Set(new) => new,
            Self::Add(more) => old.with(more),
            Self::Remove(less) => old.without(less),
        }
    }
}

/// Whose instruction changes a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The watching thread's own.
    Local,
    /// Another thread's: the watching core is told, and its lookaside lines are shot down.
    Remote,
}

/// Something that watches bytes for each thread separately. Nothing is watched at first. Ranges are of bytes, end excluded;
/// an empty one changes nothing.
pub trait WatchpointUnit: Send {
    /// Which design it is.
    fn kind(&self) -> UnitKind;

    /// Whether an access of `thread` hits a watchpoint: it touches a byte that is watched for it.
    fn check(&mut self, thread: ThreadId, addr: u64, len: u64, kind: AccessKind) -> bool;

    /// Changes the watchpoints of `thread`. The methods below are the instructions of Table 2 by name.
    fn change(&mut self, thread: ThreadId, range: Range<u64>, change: Change, origin: Origin);

    /// What it had to do so far.
    fn counters(&self) -> &Counters;

    /// What that costs, in cycles (section 4.1.1).
    fn cost(&self, model: &CostModel) -> f64 {
        model.cycles(self.kind(), self.counters())
    }

    /// `set local wp`.
    fn set(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Set(watched), Origin::Local);
    }

    /// `add local wp`.
    fn add(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Add(watched), Origin::Local);
    }

    /// `rm local wp`.
    fn remove(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Remove(watched), Origin::Local);
    }

    /// `set remote wp`.
    fn set_remote(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Set(watched), Origin::Remote);
    }

    /// `add remote wp`.
    fn add_remote(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Add(watched), Origin::Remote);
    }

    /// `rm remote wp`.
    fn remove_remote(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Remove(watched), Origin::Remote);
    }
}

/// The designs that are modelled (section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnitKind {
    /// Page protection.
    VirtualMemory,
    /// A cache of packed watchpoint bits.
    MemTracker,
    /// A trie with a protection lookaside buffer.
    Mondriaan,
    /// A cache of ranges.
    RangeCache,
    /// A smaller cache of ranges, with bitmaps.
    RangeCacheBitmap,
    /// A map that software asks at every access.
    Software,
}

impl UnitKind {
    /// The hardware designs, in the order of the paper's figures.
    pub const ALL: [Self; 5] =
        [Self::VirtualMemory, Self::MemTracker, Self::Mondriaan, Self::RangeCache, Self::RangeCacheBitmap];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VirtualMemory => "vm",
            Self::MemTracker => "memtracker",
            Self::Mondriaan => "mondriaan",
            Self::RangeCache => "range",
            Self::RangeCacheBitmap => "range+bitmap",
            Self::Software => "software",
        }
    }

    /// The design of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::Software]).find(|kind| kind.name() == name)
    }

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
