//! The events of a thread's ordered stream.

use crate::{Access, Allocation, BlockOp, Cycle, Gap, Order, Sync, VirtAddr, coded::coded};

coded! {
    /// What a marker marks.
    MarkerKind: u8 {
        /// Recording was switched on.
        Start = 0 "start",
        /// Recording was switched off.
        Stop = 1 "stop",
        /// The program called `memtap_mark`; the name is in `name`.
        Mark = 2 "mark",
    }
}

/// A point that the program or the user named. `Name` is how the name is held: a reference in buffers and files, a
/// string elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marker<Name> {
    /// When, on the thread's own clock.
    pub cycle: Cycle,
    /// When, in the session.
    pub order: Order,
    /// Where it was called from.
    pub ip: VirtAddr,
    /// What it marks.
    pub kind: MarkerKind,
    /// Its name, empty for start and stop.
    pub name: Name,
}

/// From `cycle` on, all events of this thread happened after `order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OrderMark {
    /// The first event it holds for.
    pub cycle: Cycle,
    /// The last ordered event that the thread is known to have come after.
    pub order: Order,
}

/// One event of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event<Name> {
    /// A single access.
    Access(Access),
    /// A block operation.
    Block(BlockOp),
    /// An allocation or a release.
    Allocation(Allocation),
    /// A named point.
    Marker(Marker<Name>),
    /// Synchronisation with other threads.
    Sync(Sync),
    /// The order that later events come after.
    Order(OrderMark),
    /// Missing events.
    Gap(Gap),
}

impl<Name> Event<Name> {
    /// The instruction that made it, or the call; order marks and gaps have none.
    pub fn ip(&self) -> Option<VirtAddr> {
        match self {
            Self::Access(e) => Some(e.ip),
            Self::Block(e) => Some(e.ip),
            Self::Allocation(e) => Some(e.ip),
            Self::Marker(e) => Some(e.ip),
            Self::Sync(e) => Some(e.ip),
            Self::Order(_) | Self::Gap(_) => None,
        }
    }

    /// When, on the thread's own clock.
    pub fn cycle(&self) -> Cycle {
        match self {
            Self::Access(e) => e.cycle,
            Self::Block(e) => e.cycle,
            Self::Allocation(e) => e.cycle,
            Self::Marker(e) => e.cycle,
            Self::Sync(e) => e.cycle,
            Self::Order(e) => e.cycle,
            Self::Gap(e) => e.cycle,
        }
    }
}
