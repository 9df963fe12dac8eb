//! All cache levels of all cores: what an access misses, and what it does to the copies of other cores.

use rustc_hash::{FxHashMap, FxHashSet};

use super::CacheSetup;
use super::store::CacheStore;
use super::streams::StreamPrefetcher;

/// What one access missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedLevels {
    /// The first level.
    pub l1: bool,
    /// The second one, too.
    pub l2: bool,
    /// The last one, too: it went to memory.
    pub ll: bool,
    /// The private levels, because another thread had taken the line.
    pub coherence: bool,
}

impl MissedLevels {
    /// Whether it missed anything.
    pub fn any(self) -> bool {
        self.l1
    }
}

impl std::ops::BitOrAssign for MissedLevels {
    fn bitor_assign(&mut self, other: Self) {
        self.l1 |= other.l1;
        self.l2 |= other.l2;
        self.ll |= other.ll;
        self.coherence |= other.coherence;
    }
}

/// What happened besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Dirty lines that left the first level.
    pub l1_write_backs: u64,
    /// Dirty lines that were written to memory.
    pub memory_writes: u64,
    /// Copies that a write took from other cores.
    pub invalidations: u64,
    /// Dirty lines that another core got from the one that had written them.
    pub transfers: u64,
    /// Lines that the prefetcher brought.
    pub prefetched: u64,
    /// Of these, how many were asked for afterwards.
    pub prefetched_used: u64,
}

impl std::ops::AddAssign for CacheTotals {
    fn add_assign(&mut self, other: Self) {
        self.l1_write_backs += other.l1_write_backs;
        self.memory_writes += other.memory_writes;
        self.invalidations += other.invalidations;
        self.transfers += other.transfers;
        self.prefetched += other.prefetched;
        self.prefetched_used += other.prefetched_used;
    }
}

/// The private levels of one core.
#[derive(Clone, Debug)]
struct CacheCore {
    l1: CacheStore,
    l2: Option<CacheStore>,
    streams: Option<StreamPrefetcher>,
    /// Lines that others took away, of those that threads share.
    lost: FxHashSet<u64>,
}

/// A copy that a core gave up or cleaned.
#[derive(Clone, Copy, Debug, Default)]
struct GivenUp {
    was_there: bool,
    was_dirty: bool,
}

impl CacheCore {
    fn remove(&mut self, line: u64) -> GivenUp {
        let mut copy = GivenUp::default();
        for victim in
            [self.l1.remove(line), self.l2.as_mut().and_then(|l2| l2.remove(line))].into_iter().flatten()
        {
            copy.was_there = true;
            copy.was_dirty |= victim.is_dirty;
        }
        copy
    }

    fn clean(&mut self, line: u64) -> bool {
        let l1 = self.l1.clean(line);
        self.l2.as_mut().is_some_and(|l2| l2.clean(line)) || l1
    }
}

/// Caches of several cores.
#[derive(Debug)]
pub struct CacheModel {
    setup: CacheSetup,
    cores: Vec<CacheCore>,
    ll: Option<CacheStore>,
    /// Cores that may have copies of lines that threads share: a bit for each number modulo 64.
    holders: FxHashMap<u64, u64>,
    totals: CacheTotals,
}

impl CacheModel {
    /// Empty caches, and no core yet.
    pub fn new(setup: CacheSetup) -> Self {
        Self {
            setup,
            cores: Vec::new(),
            ll: setup.ll.map(|ll| CacheStore::new(&ll, setup.replacement)),
            holders: FxHashMap::default(),
            totals: CacheTotals::default(),
        }
    }

    /// What happened besides misses.
    pub fn totals(&self) -> CacheTotals {
        self.totals
    }

    /// Adds what happened in another one.
    pub(super) fn add_totals(&mut self, other: CacheTotals) {
        self.totals += other;
    }

    /// What its caches are like.
    pub(super) fn setup(&self) -> CacheSetup {
        self.setup
    }

    /// One core more; gives its number.
    pub fn add_core(&mut self) -> usize {
        let CacheSetup { l1, l2, replacement, prefetch, .. } = self.setup;
        self.cores.push(CacheCore {
            l1: CacheStore::new(&l1, replacement),
            l2: l2.map(|l2| CacheStore::new(&l2, replacement)),
            streams: prefetch.then(|| StreamPrefetcher::new(l1.line_bytes)),
            lost: FxHashSet::default(),
        });
        self.cores.len() - 1
    }

    /// A core accesses a line. `is_shared`: others may have it, too, and one writes it.
    #[inline]
    pub fn access(&mut self, core: usize, line: u64, writes: bool, is_shared: bool) -> MissedLevels {
        if is_shared {
            return self.access_shared(core, line, writes);
        }
        match self.cores[core].l1.access(line, writes) {
            Some(_) => MissedLevels::default(),
            None => self.miss(core, line, writes),
        }
    }

    fn access_shared(&mut self, core: usize, line: u64, writes: bool) -> MissedLevels {
        let own = 1 << (core % 64);
        let holders = self.holders.entry(line).or_default();
        let others = *holders & !own != 0 || self.cores.len() > 64;
        *holders = if writes { own } else { *holders | own };
        if writes && others {
            self.take(core, line);
        }
        if self.cores[core].l1.access(line, writes).is_some() {
            return MissedLevels::default();
        }
        if !writes && others {
            self.share(core, line);
        }
        let coherence = self.cores[core].lost.remove(&line);
        let missed = self.miss(core, line, writes);
        // A miss of the first level alone is no other core's doing.
        MissedLevels { coherence: coherence && (missed.l2 || self.setup.l2.is_none()), ..missed }
    }

    /// A write takes the line from all others.
    fn take(&mut self, core: usize, line: u64) {
        let mut dirty = false;
        for (_, other) in self.cores.iter_mut().enumerate().filter(|(number, _)| *number != core) {
            let copy = other.remove(line);
            if copy.was_there {
                self.totals.invalidations += 1;
                other.lost.insert(line);
            }
            dirty |= copy.was_dirty;
        }
        if dirty {
            self.hand_over(line);
        }
    }

    /// A read that misses gets what another core has written.
    fn share(&mut self, core: usize, line: u64) {
        let mut dirty = false;
        for (_, other) in self.cores.iter_mut().enumerate().filter(|(number, _)| *number != core) {
            dirty |= other.clean(line);
        }
        if dirty {
            self.hand_over(line);
        }
    }

    /// A line that a core had written is in the last level for the other one.
    fn hand_over(&mut self, line: u64) {
        self.totals.transfers += 1;
        let Some(ll) = &mut self.ll else {
            self.totals.memory_writes += 1;
            return;
        };
        if !ll.soil(line)
            && let Some(victim) = ll.fill(line, true, false)
            && victim.is_dirty
        {
            self.totals.memory_writes += 1;
        }
    }

    #[cold]
    fn miss(&mut self, core: usize, line: u64, writes: bool) -> MissedLevels {
        let mut missed = MissedLevels { l1: true, ..MissedLevels::default() };
        let own = &mut self.cores[core];
        let mut fetched = false;
        let in_l2 = own.l2.as_mut().map(|l2| l2.access(line, false));
        match in_l2 {
            Some(Some(found)) => fetched = found.was_fetched,
            private => {
                missed.l2 = private.is_some();
                match self.ll.as_mut().map(|ll| ll.access(line, false)) {
                    Some(Some(found)) => fetched |= found.was_fetched,
                    last => {
                        missed.ll = last.is_some();
                        self.fill_last(line, false);
                    }
                }
                if missed.l2 {
                    self.fill_second(core, line, false);
                }
            }
        }
        self.fill_first(core, line, writes);
        self.totals.prefetched_used += u64::from(fetched);
        if let Some(streams) = &mut self.cores[core].streams {
            for ahead in streams.miss(line) {
                self.prefetch(core, ahead);
            }
        }
        missed
    }

    /// Brings a line into the level after the first one.
    fn prefetch(&mut self, core: usize, line: u64) {
        let own = &self.cores[core];
        let has_second = own.l2.as_ref().map(|l2| l2.has(line));
        let in_last = self.ll.as_ref().is_none_or(|ll| ll.has(line));
        if own.l1.has(line) || has_second == Some(true) || has_second.is_none() && in_last {
            return;
        }
        self.totals.prefetched += 1;
        if !in_last {
            self.fill_last(line, has_second.is_none());
        }
        if has_second.is_some() {
            self.fill_second(core, line, true);
        }
    }

    fn fill_first(&mut self, core: usize, line: u64, writes: bool) {
        let own = &mut self.cores[core];
        let Some(victim) = own.l1.fill(line, writes, false).filter(|victim| victim.is_dirty) else { return };
        self.totals.l1_write_backs += 1;
        if !own.l2.as_mut().is_some_and(|l2| l2.soil(victim.line)) {
            self.write_back(victim.line);
        }
    }

    fn fill_second(&mut self, core: usize, line: u64, was_fetched: bool) {
        let Some(l2) = &mut self.cores[core].l2 else { return };
        if let Some(victim) = l2.fill(line, false, was_fetched).filter(|victim| victim.is_dirty) {
            self.write_back(victim.line);
        }
    }

    fn fill_last(&mut self, line: u64, was_fetched: bool) {
        let victim = self.ll.as_mut().and_then(|ll| ll.fill(line, false, was_fetched));
        self.totals.memory_writes += u64::from(victim.is_some_and(|victim| victim.is_dirty));
    }

    /// A dirty line leaves the private levels.
    fn write_back(&mut self, line: u64) {
        if !self.ll.as_mut().is_some_and(|ll| ll.soil(line)) {
            self.totals.memory_writes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::{CacheShape, Replacement};

    fn shape(lines: u64) -> CacheShape {
        CacheShape { bytes: lines * 64, ways: lines as u32, line_bytes: 64 }
    }

    fn model(prefetch: bool) -> CacheModel {
        let (l1, l2, ll) = (shape(2), Some(shape(4)), Some(shape(16)));
        let mut model = CacheModel::new(CacheSetup { l1, l2, ll, replacement: Replacement::Lru, prefetch });
        model.add_core();
        model.add_core();
        model
    }

    /// A letter for each level that is missed, `c` where another core took the line.
    fn letters(missed: MissedLevels) -> String {
        let letters = [(missed.l1, '1'), (missed.l2, '2'), (missed.ll, 'm'), (missed.coherence, 'c')];
        letters.into_iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect()
    }

    #[test]
    fn what_one_level_loses_the_next_has() {
        let mut model = model(false);
        let mut check =
            |line, expect: &str| assert_eq!(letters(model.access(0, line, false, false)), expect, "{line}");
        check(0, "12m");
        check(0, "");
        check(1, "12m");
        check(2, "12m");
        check(0, "1");
        (3..10).for_each(|line| check(line, "12m"));
        check(0, "12");
        assert_eq!(model.totals(), CacheTotals::default());
    }

    #[test]
    fn dirty_lines_are_written_back() {
        let mut model = model(false);
        (0..40).for_each(|line| {
            model.access(0, line, true, false);
        });
        // Two are in the first level still, two of their predecessors are dirty in the second, and so on.
        assert_eq!(model.totals().l1_write_backs, 38);
        assert_eq!(model.totals().memory_writes, 40 - 16);
    }

    #[test]
    fn a_write_takes_the_line_from_the_others() {
        let mut model = model(false);
        let mut check =
            |core, writes, expect: &str| assert_eq!(letters(model.access(core, 7, writes, true)), expect);
        check(0, true, "12m");
        check(0, true, "");
        check(1, false, "12");
        check(0, false, "");
        check(1, true, "");
        check(0, false, "12c");
        check(1, true, "");
        check(0, true, "12c");
        let CacheTotals { invalidations, transfers, .. } = model.totals();
        assert_eq!((invalidations, transfers), (3, 3));
    }

    #[test]
    fn a_run_is_fetched_ahead() {
        let mut model = model(true);
        let lines = 0..16;
        let missed: Vec<String> = lines.map(|line| letters(model.access(0, line, false, false))).collect();
        assert_eq!(missed[..3], ["12m", "12m", "12m"]);
        assert!(missed[3..].iter().all(|missed| missed == "1"), "{missed:?}");
        let CacheTotals { prefetched, prefetched_used, .. } = model.totals();
        assert_eq!((prefetched, prefetched_used), (15, 13));
    }

    proptest! {
        /// What the sets of one share do, others have nothing to do with.
        #[test]
        fn shares_miss_what_the_whole_misses(
            accesses in prop::collection::vec((0..3_usize, 0..200_u64, any::<bool>()), 1..2000),
            replacement in prop_oneof![Just(Replacement::Lru), Just(Replacement::PseudoLru)],
            most in 2..9_usize,
        ) {
            let level = |sets: u64, ways: u32| CacheShape { bytes: sets * u64::from(ways) * 64, ways, line_bytes: 64 };
            let (l1, l2, ll) = (level(4, 2), Some(level(8, 3)), Some(level(12, 4)));
            let setup = CacheSetup { l1, l2, ll, replacement, prefetch: false };
            let new = || {
                let mut model = CacheModel::new(setup);
                (0..3).for_each(|_| _ = model.add_core());
                model
            };
            let mut whole = new();
            let mut shares: Vec<_> = setup.shares(most).into_iter().map(|share| (share, new())).collect();
            prop_assert_eq!(shares.len(), if most < 4 { 2 } else { 4 });
            for (core, line, writes) in accesses {
                let is_shared = line % 3 == 0;
                let (_, share) = shares.iter_mut().find(|(share, _)| share.has(line)).unwrap();
                prop_assert_eq!(
                    share.access(core, line, writes, is_shared),
                    whole.access(core, line, writes, is_shared)
                );
            }
            let mut sum = new();
            shares.iter().for_each(|(_, share)| sum.add_totals(share.totals()));
            prop_assert_eq!(sum.totals(), whole.totals());
        }
    }
}
