//! The designs by name.

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
}
