//! Atomic accesses whose order the trace does not fix.
//!
//! The events of a translated thread lie between *marks*, which are points in the one sequence of the session: around each locked
//! instruction and each synchronisation event, and at the end of each buffer. Of two *stretches* between marks of different
//! threads, either one lies wholly before the other, or they overlap. If they overlap, an atomic load in one may or may not have
//! seen a store in the other. The replay takes the stretch with the lower mark first, so such a load can come too early: the
//! store it saw is replayed later. Then the store counts as seen ([`Races::publish`]) by everything that came after the load, by
//! everything that the loading thread wrote to atomic variables in that stretch, and by every thread that loads those.
//!
//! A race found in the meantime waits until the stretches of both accesses are over. It
//! is reported only if no such late store has ordered the two accesses. Therefore every
//! reported race is a race, whatever happened inside a stretch, but races may be missed.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use memref::{Order, ProcessId, ThreadId, VirtAddr};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::{Clock, Epoch};
use super::{ProcessClocks, Race, RaceKey, Races};

/// What a thread did between two marks.
#[derive(Debug, Default)]
struct MarkedStretch {
    /// The mark before it.
    order: Order,
    /// The thread's own time when it began, and when it first loaded an atomic variable.
    start: u32,
    loaded: Option<u32>,
    /// Atomic variables that it loaded and stored.
    loads: FxHashSet<VirtAddr>,
    stores: FxHashSet<VirtAddr>,
    /// What it may know by stores that were replayed later.
    late: Clock,
    /// What was found of its accesses, by number, and what must not be known for it to be a race.
    waiting: Vec<(u64, Epoch)>,
}

/// A thread's stretches: the present one, and the one before, which what has the same mark as its end may overlap.
#[derive(Debug, Default)]
struct Lane {
    present: MarkedStretch,
    before: MarkedStretch,
}

impl Lane {
    /// The stretch in which the thread did something at that time of its own, if it did so after an atomic load that could
    /// have seen more than the replay has shown so far.
    fn after_load(&mut self, time: u32) -> Option<&mut MarkedStretch> {
        let Self { present, before, .. } = self;
        let after = |stretch: &MarkedStretch| stretch.loaded.is_some_and(|loaded| loaded < time);
        if time >= present.start {
            (after(present) || before.loaded.is_some()).then_some(present)
        } else {
            (time >= before.start && after(before)).then_some(before)
        }
    }
}

/// A race, unless one of its sides' stretches orders them.
#[derive(Debug)]
struct Waiting {
    key: RaceKey,
    race: Race,
    /// Stretches that have to end.
    open: u8,
}

/// What has to be known while stretches overlap.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    lanes: Vec<Lane>,
    /// Who loaded an atomic variable in a stretch that may not be over; some may be.
    readers: FxHashMap<(ProcessId, VirtAddr), Vec<ThreadId>>,
    waiting: FxHashMap<u64, Waiting>,
    next: u64,
    /// Found at least once between accesses that may be ordered.
    ordered: BTreeSet<RaceKey>,
}

impl Overlap {
    fn lane(&mut self, thread: ThreadId) -> &mut Lane {
        let index = thread.0 as usize;
        if index >= self.lanes.len() {
            self.lanes.resize_with(index + 1, Lane::default);
        }
        &mut self.lanes[index]
    }

    /// Notes an atomic load at a thread's time; whether it is the stretch's first.
    fn load(&mut self, process: ProcessId, thread: ThreadId, addr: VirtAddr, time: u32) -> bool {
        let stretch = &mut self.lane(thread).present;
        let is_first = stretch.loaded.is_none();
        if is_first {
            stretch.loaded = Some(time);
        }
        if stretch.loads.insert(addr) {
            let readers = self.readers.entry((process, addr)).or_default();
            if !readers.contains(&thread) {
                readers.push(thread);
            }
        }
        is_first
    }

    /// Which of those that found something can no longer be ordered by it, and which are.
    fn settle(&mut self, stretch: &mut MarkedStretch) -> Vec<(RaceKey, Race)> {
        let mut races = Vec::new();
        for (number, other) in stretch.waiting.drain(..) {
            let Entry::Occupied(mut waiting) = self.waiting.entry(number) else { continue };
            if stretch.late.knows(other) {
                self.ordered.insert(waiting.remove().key);
            } else if waiting.get().open > 1 {
                waiting.get_mut().open -= 1;
            } else {
                let Waiting { key, race, .. } = waiting.remove();
                races.push((key, race));
            }
        }
        races
    }
}

impl Races {
    /// A thread does something after that mark.
    pub(super) fn pass(&mut self, thread: ThreadId, order: Order) {
        let Some(overlap) = &mut self.overlap else { return };
        let lane = overlap.lane(thread);
        if lane.present.order == order {
            return;
        }
        let state = &mut self.threads[thread.0 as usize];
        state.clock.tick(thread);
        let next = MarkedStretch { order, start: state.clock.get(thread), ..MarkedStretch::default() };
        let ended = std::mem::replace(&mut lane.present, next);
        let mut over = std::mem::replace(&mut lane.before, ended);
        for (key, race) in overlap.settle(&mut over) {
            self.keep(key, race);
        }
    }

    /// No more comes: all stretches are over.
    pub(super) fn pass_all(&mut self) -> u64 {
        let Some(mut overlap) = self.overlap.take() else { return 0 };
        for mut lane in std::mem::take(&mut overlap.lanes) {
            for stretch in [&mut lane.before, &mut lane.present] {
                for (key, race) in overlap.settle(stretch) {
                    self.keep(key, race);
                }
            }
        }
        overlap.ordered.iter().filter(|&key| !self.races.contains_key(key)).count() as u64
    }

    /// A thread loaded an atomic variable. Whether its time goes on: what comes after the load is told from what came before.
    pub(super) fn note_load(&mut self, process: ProcessId, thread: ThreadId, addr: VirtAddr) -> bool {
        let time = self.threads[thread.0 as usize].clock.get(thread);
        self.overlap.as_mut().is_some_and(|overlap| overlap.load(process, thread, addr, time))
    }

    /// A thread stored to an atomic variable: loads of overlapping stretches may have seen that.
    pub(super) fn publish(&mut self, process: ProcessId, thread: ThreadId, addr: VirtAddr) {
        let Some(overlap) = &mut self.overlap else { return };
        let lane = overlap.lane(thread);
        lane.present.stores.insert(addr);
        let order = lane.present.order;
        let mut todo = vec![(thread, addr)];
        while let Some((from, addr)) = todo.pop() {
            let clock = self.threads[from.0 as usize].clock.clone();
            if from != thread
                && let Some(ProcessClocks { objects, .. }) = self.processes.get_mut(&process)
            {
                objects.at(addr).written.join(&clock);
            }
            let Some(readers) = overlap.readers.get_mut(&(process, addr)) else { continue };
            readers.retain(|&reader| {
                let lane = &mut overlap.lanes[reader.0 as usize];
                let (now, then) = (lane.present.loads.contains(&addr), lane.before.loads.contains(&addr));
                // The mark after the stretch before is the present one's.
                let overlaps_then = then && order <= lane.present.order;
                if reader != from && (now || overlaps_then) {
                    let known = &mut self.threads[reader.0 as usize].clock;
                    let is_news = !known.knows_all(&clock) || !lane.present.late.knows_all(&clock);
                    if is_news {
                        known.join(&clock);
                        lane.present.late.join(&clock);
                        let mut stores: Vec<VirtAddr> = lane.present.stores.iter().copied().collect();
                        if overlaps_then {
                            lane.before.late.join(&clock);
                            stores.extend(&lane.before.stores);
                        }
                        todo.extend(stores.into_iter().map(|addr| (reader, addr)));
                    }
                }
                now || then
            });
        }
    }

    /// Keeps what was found until nothing can order the two any more, or at once.
    pub(super) fn find(&mut self, key: RaceKey, race: Race, first: Epoch, second: Epoch) {
        let Some(overlap) = &mut self.overlap else { return self.keep(key, race) };
        let number = overlap.next;
        overlap.next += 1;
        let mut open = 0;
        for (side, other) in [(first, second), (second, first)] {
            if let Some(stretch) = overlap.lane(side.thread).after_load(side.time) {
                stretch.waiting.push((number, other));
                open += 1;
            }
        }
        if open == 0 {
            return self.keep(key, race);
        }
        overlap.waiting.insert(number, Waiting { key, race, open });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use memref::AccessKind;
    use proptest::prelude::*;

    use super::super::access_site::AccessSite;
    use super::super::{RaceAccess, Side};
    use super::*;
    use crate::layout::VariableAddress;

    /// What a thread of a small program does. Atomic variables and plain ones have different addresses.
    #[derive(Clone, Copy, Debug)]
    enum Do {
        Load(u64),
        Store(u64),
        Locked(u64),
        Read(u64),
        Write(u64),
        Mark,
        Sync,
    }

    /// As the processor and the tracer see it.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Access(u64, AccessKind, bool),
        /// Draws an order that nobody else sees.
        Draw,
        /// Draws one that others may see.
        Order,
        /// Reads the last one.
        Look,
    }

    impl Do {
        fn steps(self) -> Vec<Step> {
            use AccessKind as K;
            match self {
                Self::Load(addr) => vec![Step::Access(addr, K::Load, true)],
                Self::Store(addr) => vec![Step::Access(addr, K::Store, true)],
                Self::Locked(addr) => vec![Step::Draw, Step::Access(addr, K::Modify, true), Step::Look],
                Self::Read(addr) => vec![Step::Access(addr, K::Load, false)],
                Self::Write(addr) => vec![Step::Access(addr, K::Store, false)],
                Self::Mark => vec![Step::Look],
                Self::Sync => vec![Step::Order],
            }
        }
    }

    /// An access as it happened: when, and after which mark of its thread.
    struct Happened {
        thread: usize,
        order: Order,
        access: (u64, AccessKind, bool),
        clock: Clock,
    }

    /// Runs the threads' steps in the order of the schedule, then what is left of each.
    fn run(threads: &[Vec<Do>], schedule: &[usize]) -> Vec<Happened> {
        let mut rest: Vec<Vec<Step>> = threads
            .iter()
            .map(|list| list.iter().rev().flat_map(|what| what.steps().into_iter().rev()).collect())
            .collect();
        let mut clocks: Vec<Clock> = Vec::new();
        for thread in 0..threads.len() {
            let mut clock = Clock::default();
            clock.set(ThreadId(thread as u32), 1);
            clocks.push(clock);
        }
        let mut orders = vec![0; threads.len()];
        let (mut last, mut written) = (0, BTreeMap::<u64, Clock>::new());
        let mut all = Vec::new();
        let left: Vec<usize> =
            (0..threads.len()).flat_map(|thread| vec![thread; rest[thread].len()]).collect();
        for thread in schedule.iter().map(|number| number % threads.len()).chain(left) {
            match rest[thread].pop() {
                None => {}
                Some(Step::Draw) => {
                    orders[thread] = last + 1;
                    last += 2;
                }
                Some(Step::Order) => {
                    last += 1;
                    orders[thread] = last;
                }
                Some(Step::Look) => orders[thread] = last,
                Some(Step::Access(addr, kind, atomic)) => {
                    let clock = &mut clocks[thread];
                    if atomic && kind.reads() {
                        clock.join(written.entry(addr).or_default());
                    }
                    let (access, order) = ((addr, kind, atomic), orders[thread]);
                    all.push(Happened { thread, order, access, clock: clock.clone() });
                    if atomic && kind.writes() {
                        written.entry(addr).or_default().join(clock);
                    }
                    clock.tick(ThreadId(thread as u32));
                }
            }
        }
        all
    }

    /// The pairs that nothing orders.
    fn races_of(all: &[Happened]) -> BTreeSet<(usize, usize)> {
        let mut races = BTreeSet::new();
        for (second, b) in all.iter().enumerate() {
            for (first, a) in all[..second].iter().enumerate() {
                let conflict = a.access.0 == b.access.0 && (a.access.1.writes() || b.access.1.writes());
                let thread = ThreadId(a.thread as u32);
                let epoch = Epoch { thread, time: a.clock.get(thread) };
                let plain = !a.access.2 && !b.access.2;
                if a.thread != b.thread && conflict && plain && !b.clock.knows(epoch) {
                    races.insert((first, second));
                }
            }
        }
        races
    }

    fn side(thread: u32, number: usize) -> Side {
        Side {
            function: number.to_string(),
            file: None,
            line: None,
            thread: ThreadId(thread),
            kind: AccessKind::Load,
            locks: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// What the analysis finds where it sees stretch by stretch, as a replay does.
    fn found_in(all: &[Happened]) -> BTreeSet<(usize, usize)> {
        let mut numbers: Vec<usize> = (0..all.len()).collect();
        numbers.sort_by_key(|&number| (all[number].order, all[number].thread, number));
        let mut races = Races::without_order_of_atomics();
        for number in numbers {
            let Happened { thread, order, access: (addr, kind, atomic), .. } = all[number];
            let thread = ThreadId(thread as u32);
            races.thread(thread);
            races.pass(thread, order);
            let mut found = Vec::new();
            let access = RaceAccess { addr: VirtAddr(addr), len: 8, kind, atomic };
            let site = races.sites.len() as u32;
            races.sites.push(AccessSite { ip: VirtAddr(number as u64), thread, kind, locks: 0, row: 0 });
            let now = races.apply(ProcessId(0), thread, access, site, &mut found);
            for hit in found {
                let other = races.sites[hit.site as usize].ip.0 as usize;
                let (first, second) = (side(hit.epoch.thread.0, other), side(thread.0, number));
                let place = |side: &Side| (side.function.clone(), None, None);
                let key = (hit.addr.to_string(), place(&first), place(&second));
                let race = Race {
                    variable: String::new(),
                    type_name: None,
                    field: None,
                    inside: None,
                    place: VariableAddress { variable: symbols::VariableId(0), addr: VirtAddr(0) },
                    process: ProcessId(0),
                    len: 8,
                    first,
                    second,
                    times: 1,
                    uncertain: false,
                };
                races.find(key, race, hit.epoch, now);
            }
        }
        let number = |side: &Side| side.function.parse().expect("a number");
        let pair = |race: Race| {
            let (first, second): (usize, usize) = (number(&race.first), number(&race.second));
            (first.min(second), first.max(second))
        };
        races.into_races().0.into_iter().map(pair).collect()
    }

    fn what() -> impl Strategy<Value = Do> {
        let variable = || prop::sample::select(&[0x100u64, 0x108]);
        prop_oneof![
            3 => variable().prop_map(Do::Load),
            3 => variable().prop_map(Do::Store),
            2 => variable().prop_map(Do::Locked),
            3 => variable().prop_map(|addr| Do::Read(addr + 0x1000)),
            3 => variable().prop_map(|addr| Do::Write(addr + 0x1000)),
            1 => Just(Do::Mark),
            1 => Just(Do::Sync),
        ]
    }

    fn programs() -> impl Strategy<Value = (Vec<Vec<Do>>, Vec<usize>)> {
        (
            prop::collection::vec(prop::collection::vec(what(), 1..10), 2..4),
            prop::collection::vec(0usize..12, 0..60),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn what_is_reported_is_a_race((threads, schedule) in programs()) {
            let all = run(&threads, &schedule);
            let (real, found) = (races_of(&all), found_in(&all));
            let wrong: Vec<_> = found.difference(&real).collect();
            prop_assert!(wrong.is_empty(), "{:?} of {:?}", wrong, all.iter().map(|one| (one.thread, one.order, one.access)).collect::<Vec<_>>());
        }

        #[test]
        fn without_atomic_accesses_some_race_is_reported((threads, schedule) in programs()) {
            let plain = |list: &Vec<Do>| {
                list.iter().copied().filter(|what| matches!(what, Do::Read(_) | Do::Write(_) | Do::Mark | Do::Sync)).collect()
            };
            let threads: Vec<Vec<Do>> = threads.iter().map(plain).collect();
            let all = run(&threads, &schedule);
            prop_assert_eq!(found_in(&all).is_empty(), races_of(&all).is_empty());
        }
    }

    #[test]
    fn locked_instructions_that_do_not_overlap_order_what_is_around_them() {
        let (word, data) = (0x100, 0x1100);
        let threads = [vec![Do::Write(data), Do::Locked(word)], vec![Do::Locked(word), Do::Read(data)]];
        let all = run(&threads, &[0, 0, 0, 0, 1, 1, 1, 1]);
        assert!(found_in(&all).is_empty());
        let all = run(&threads, &[1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(found_in(&all), BTreeSet::from([(1, 2)]));
    }

    #[test]
    fn a_late_store_is_handed_on_by_what_its_reader_stored() {
        let (first, second, data) = (0x100, 0x108, 0x1100);
        let threads = [
            vec![Do::Locked(first), Do::Read(data), Do::Store(first)],
            vec![Do::Load(first), Do::Store(second)],
            vec![Do::Mark, Do::Load(second), Do::Write(data)],
        ];
        let all = run(&threads, &[]);
        assert!(races_of(&all).is_empty() && found_in(&all).is_empty());
    }
}
