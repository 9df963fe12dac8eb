//! What a cursor returns. The filter is tested against frame headers first, so
//! that a frame without a match is never read, and then against each entry.

use std::ops::Range;

use memref::{Access, Allocation, BlockOp, Event, Gap, OrderMark, Sync, VirtAddr};

use crate::{
    DataAccess, KindSet,
    entry::{MarkerEntry, StreamEntry, ValueEntry, allocation_ranges},
    frame::FrameHeader,
};

/// Which events to give. The default asks for all. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// Accesses with these indices among the thread's accesses. Other events are not tested.
    pub index: Option<Range<u64>>,
    /// Events in these cycles.
    pub cycles: Option<Range<u64>>,
    /// Events of segments that were recorded in this time, at least in part (ns since the Unix epoch). Entries carry no wall
    /// clock, so this is as exact as the segments are short: about a second where the recorder flushes once a second.
    pub wall_ns: Option<Range<u64>>,
    /// Events of these kinds.
    pub kinds: KindSet,
    /// Accesses, block operations and allocations that touch a byte in one of these ranges; all if there is none. Markers,
    /// order marks and gaps are not tested.
    pub addresses: Vec<Range<VirtAddr>>,
    /// Accesses, block operations, allocations, markers and synchronisation whose instruction is in one of these ranges; all if there is none.
    /// Order marks and gaps are not tested.
    pub ips: Vec<Range<VirtAddr>>,
}

fn touches(range: &Range<VirtAddr>, addr: VirtAddr, len_bytes: u64) -> bool {
    addr < range.end && addr.0.saturating_add(len_bytes.saturating_sub(1)) >= range.start.0
}

impl Filter {
    fn cycle(&self, cycle: u64) -> bool {
        self.cycles.as_ref().is_none_or(|range| range.contains(&cycle))
    }

    fn ip(&self, ip: VirtAddr) -> bool {
        self.ips.is_empty() || self.ips.iter().any(|range| range.contains(&ip))
    }

    fn bytes(&self, mut ranges: impl Iterator<Item = (VirtAddr, u64)>) -> bool {
        self.addresses.is_empty()
            || ranges.any(|(addr, len)| self.addresses.iter().any(|range| touches(range, addr, len)))
    }

    /// Whether an access matches which is the `index`th of its thread, the wall clock apart: for those who have to read more than
    /// they are asked for.
    #[inline]
    pub fn admits_access(&self, index: u64, access: &Access) -> bool {
        self.index.as_ref().is_none_or(|range| range.contains(&index)) && access.matches(self)
    }

    /// Whether an event that is no access matches, the wall clock apart.
    pub fn admits<Name>(&self, event: &Event<Name>) -> bool {
        match event {
            Event::Access(access) => access.matches(self),
            Event::Block(op) => op.matches(self),
            Event::Allocation(event) => event.matches(self),
            Event::Marker(marker) => {
                self.cycle(marker.cycle)
                    && self.kinds.intersects(KindSet::marker(marker.kind))
                    && self.ip(marker.ip)
            }
            Event::Gap(gap) => gap.matches(self),
            Event::Sync(sync) => sync.matches(self),
            Event::Order(mark) => mark.matches(self),
        }
    }

    /// Whether a frame may hold a match.
    pub(crate) fn may_match<E: Filtered>(&self, header: &FrameHeader) -> bool {
        let bounds = &header.bounds;
        let raw = |range: &Range<VirtAddr>| range.start.0..range.end.0;
        let index = |range: &Range<u64>| header.first_index < range.end && header.end_index() > range.start;
        (!E::BY_INDEX || self.index.as_ref().is_none_or(index))
            && (!E::BY_CYCLE || self.cycles.as_ref().is_none_or(|range| bounds.cycles.meets(range)))
            && self.wall_ns.as_ref().is_none_or(|range| bounds.wall_ns.meets(range))
            && (!E::BY_CYCLE || self.kinds.intersects(bounds.kinds))
            && (!E::BY_ADDRESS
                || self.addresses.is_empty()
                || self.addresses.iter().any(|range| bounds.addrs.meets(&raw(range))))
            && (!E::BY_IP
                || self.ips.is_empty()
                || self.ips.iter().any(|range| bounds.ips.meets(&raw(range))))
    }

    /// Whether all entries of a frame that may match do match, their indices apart.
    pub(crate) fn must_match<E: Filtered>(&self, header: &FrameHeader) -> bool {
        (!E::BY_CYCLE
            || self.cycles.as_ref().is_none_or(|range| header.bounds.cycles.within(range))
                && self.kinds.contains(header.bounds.kinds))
            && (!E::BY_ADDRESS || self.addresses.is_empty())
            && (!E::BY_IP || self.ips.is_empty())
    }
}

/// Entries that a filter knows.
pub(crate) trait Filtered: StreamEntry + std::fmt::Debug + Send + 'static {
    /// Whether the filter's indices speak of this type.
    const BY_INDEX: bool = false;
    /// Whether the entries have cycles and kinds.
    const BY_CYCLE: bool = true;
    /// Whether they have addresses of data.
    const BY_ADDRESS: bool = false;
    /// Whether they have addresses of instructions.
    const BY_IP: bool = false;

    /// Whether the page index speaks of them.
    const IS_INDEXED: bool = false;

    /// Its cycle.
    fn cycle(&self) -> u64;

    /// Its place in the session, where it has one that order marks are compared with.
    fn order(&self) -> Option<u64> {
        None
    }

    /// Whether all but the index holds.
    fn matches(&self, filter: &Filter) -> bool;
}

impl Filtered for Access {
    const BY_INDEX: bool = true;
    const BY_ADDRESS: bool = true;
    const BY_IP: bool = true;
    const IS_INDEXED: bool = true;

    fn cycle(&self) -> u64 {
        self.cycle
    }

    #[inline]
    fn matches(&self, filter: &Filter) -> bool {
        filter.cycle(self.cycle)
            && filter.kinds.intersects(KindSet::access(self.kind))
            && filter.ip(self.ip)
            && filter.bytes([(self.addr, self.size.into())].into_iter())
    }
}

impl Filtered for DataAccess {
    const BY_INDEX: bool = true;
    const BY_ADDRESS: bool = true;
    const BY_IP: bool = true;
    const IS_INDEXED: bool = true;

    fn cycle(&self) -> u64 {
        self.access.cycle
    }

    #[inline]
    fn matches(&self, filter: &Filter) -> bool {
        self.access.matches(filter)
    }
}

impl Filtered for BlockOp {
    const BY_ADDRESS: bool = true;
    const BY_IP: bool = true;

    fn cycle(&self) -> u64 {
        self.cycle
    }

    fn order(&self) -> Option<u64> {
        Some(self.order)
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.cycle(self.cycle)
            && filter.kinds.intersects(KindSet::block(self.kind))
            && filter.ip(self.ip)
            && filter.bytes([self.written(), self.read(), self.compared()].into_iter().flatten())
    }
}

impl Filtered for Allocation {
    const BY_ADDRESS: bool = true;
    const BY_IP: bool = true;

    fn cycle(&self) -> u64 {
        self.cycle
    }

    fn order(&self) -> Option<u64> {
        Some(self.order)
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.cycle(self.cycle)
            && filter.kinds.intersects(KindSet::allocation(self.kind))
            && filter.ip(self.ip)
            && filter.bytes(allocation_ranges(self))
    }
}

impl Filtered for MarkerEntry {
    const BY_IP: bool = true;

    fn cycle(&self) -> u64 {
        self.cycle
    }

    fn order(&self) -> Option<u64> {
        Some(self.order)
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.cycle(self.cycle) && filter.kinds.intersects(KindSet::marker(self.kind)) && filter.ip(self.ip)
    }
}

impl Filtered for Sync {
    const BY_IP: bool = true;

    fn cycle(&self) -> u64 {
        self.cycle
    }

    fn order(&self) -> Option<u64> {
        Some(self.order)
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.cycle(self.cycle) && filter.kinds.intersects(KindSet::SYNCS) && filter.ip(self.ip)
    }
}

impl Filtered for OrderMark {
    fn cycle(&self) -> u64 {
        self.cycle
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.cycle(self.cycle) && filter.kinds.intersects(KindSet::ORDERS)
    }
}

impl Filtered for Gap {
    fn cycle(&self) -> u64 {
        self.cycle
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.cycle(self.cycle) && filter.kinds.intersects(KindSet::GAPS)
    }
}

/// Values are chosen by the index of their access alone, which their frames do not tell.
impl Filtered for ValueEntry {
    const BY_CYCLE: bool = false;

    fn cycle(&self) -> u64 {
        0
    }

    fn matches(&self, filter: &Filter) -> bool {
        filter.index.as_ref().is_none_or(|range| range.contains(&self.index))
    }
}
