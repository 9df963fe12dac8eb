//! Counts of accesses: the one kind of figure that every table, page and picture shows.

use memref::{Access, AccessKind};

/// How often something was accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// Read-modify-writes, counted once each.
    pub modifies: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Count {
    /// Adds an access. Prefetches change nothing and are not counted.
    #[inline]
    pub fn add(&mut self, access: &Access) {
        match access.kind {
            AccessKind::Load => self.loads += 1,
            AccessKind::Store => self.stores += 1,
            AccessKind::Modify => self.modifies += 1,
            AccessKind::Prefetch => return,
        }
        self.bytes += u64::from(access.size);
    }

    /// So many of them.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        let Self { loads, stores, modifies, bytes } = self;
        let [loads, stores, modifies, bytes] =
            [loads, stores, modifies, bytes].map(|figure| figure.wrapping_mul(times));
        Self { loads, stores, modifies, bytes }
    }

    /// What is left of it without others.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self {
            loads: self.loads.saturating_sub(others.loads),
            stores: self.stores.saturating_sub(others.stores),
            modifies: self.modifies.saturating_sub(others.modifies),
            bytes: self.bytes.saturating_sub(others.bytes),
        }
    }

    /// The smaller one of each figure: where rows share accesses, their sum may be more than there are.
    #[must_use]
    pub fn at_most(self, most: Self) -> Self {
        Self {
            loads: self.loads.min(most.loads),
            stores: self.stores.min(most.stores),
            modifies: self.modifies.min(most.modifies),
            bytes: self.bytes.min(most.bytes),
        }
    }

    /// Loads, stores and modifies together.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores + self.modifies
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.modifies += other.modifies;
        self.bytes += other.bytes;
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |mut sum, count| {
            sum += count;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memref::VirtAddr;

    #[test]
    fn a_modify_counts_once_and_a_prefetch_not_at_all() {
        let mut count = Count::default();
        for (kind, size) in [
            (AccessKind::Load, 4),
            (AccessKind::Store, 8),
            (AccessKind::Modify, 1),
            (AccessKind::Prefetch, 64),
        ] {
            count.add(&Access { cycle: 0, ip: VirtAddr(1), addr: VirtAddr(2), size, kind });
        }
        assert_eq!(count, Count { loads: 1, stores: 1, modifies: 1, bytes: 13 });
        assert_eq!(count.accesses(), 3);
    }
}
