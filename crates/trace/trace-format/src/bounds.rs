//! Bounds: the smallest and largest values in a frame header, so that a filter can skip the frame.

use std::ops::Range;

use memref::VirtAddr;

use crate::KindSet;

/// A closed interval, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The smallest value; all ones where there is none.
    pub min: u64,
    /// The largest value; 0 where there is none.
    pub max: u64,
}

impl Interval {
    /// Without a value.
    pub const NONE: Self = Self { min: u64::MAX, max: 0 };

    /// Whether there is no value.
    pub const fn is_none(self) -> bool {
        self.min > self.max
    }

    /// Widens the interval to hold `value`.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Widens the interval to hold a range of bytes; an empty range counts as its first byte.
    #[inline]
    pub fn add_bytes(&mut self, addr: VirtAddr, len_bytes: u64) {
        self.add(addr.0);
        self.add(addr.0.saturating_add(len_bytes.saturating_sub(1)));
    }

    /// Whether a value of `range` may be among those of the interval.
    pub const fn meets(self, range: &Range<u64>) -> bool {
        !self.is_none() && self.min < range.end && self.max >= range.start
    }

    /// Whether all values of the interval are in `range`.
    pub const fn within(self, range: &Range<u64>) -> bool {
        self.min >= range.start && self.max < range.end
    }
}

/// What a frame's entries span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Cycles.
    pub cycles: Interval,
    /// Wall clock, ns since the Unix epoch: from the first entry's arrival to the encoding.
    pub wall_ns: Interval,
    /// Orders.
    pub orders: Interval,
    /// Addresses of the bytes that the entries speak of.
    pub addrs: Interval,
    /// Addresses of instructions.
    pub ips: Interval,
    /// Kinds.
    pub kinds: KindSet,
}

impl Bounds {
    /// Of no entry.
    pub const NONE: Self = Self {
        cycles: Interval::NONE,
        wall_ns: Interval::NONE,
        orders: Interval::NONE,
        addrs: Interval::NONE,
        ips: Interval::NONE,
        kinds: KindSet::NONE,
    };
}

impl Interval {
    /// Widens the interval to hold another one.
    pub fn join(&mut self, other: Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Whether all of `other` is in this interval.
    pub const fn holds(self, other: Self) -> bool {
        other.is_none() || (self.min <= other.min && self.max >= other.max)
    }
}

impl Bounds {
    /// Widens the bounds to hold others.
    pub fn join(&mut self, other: &Self) {
        self.cycles.join(other.cycles);
        self.wall_ns.join(other.wall_ns);
        self.orders.join(other.orders);
        self.addrs.join(other.addrs);
        self.ips.join(other.ips);
        self.kinds = self.kinds | other.kinds;
    }

    /// Whether all of `other` but its wall clock is in these bounds.
    pub(crate) fn hold(&self, other: &Self) -> bool {
        self.cycles.holds(other.cycles)
            && self.orders.holds(other.orders)
            && self.addrs.holds(other.addrs)
            && self.ips.holds(other.ips)
            && self.kinds.contains(other.kinds)
    }
}
