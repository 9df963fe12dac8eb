//! The shadow memory of a process: the last write of each byte, and the reads since.

use memref::VirtAddr;
use rustc_hash::FxHashMap;

use super::cell_states::{CELL_BYTES, CellBytes, CellStates};
use super::clock::Epoch;
use super::past::Present;

const PAGE_BYTES: u64 = VirtAddr::PAGE_BYTES;
/// Pages that are found without a look at the table: a power of two.
const RECENT: usize = 512;

/// An earlier access that a later one races with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlierAccess {
    pub(crate) addr: VirtAddr,
    pub(crate) len: u64,
    pub(crate) epoch: Epoch,
    pub(crate) site: u32,
}

/// A page, and its place among all.
#[derive(Clone, Copy, Debug)]
struct FoundPage {
    number: u64,
    place: u32,
}

/// All bytes of a process.
#[derive(Debug, Default)]
pub(crate) struct AccessHistory {
    places: FxHashMap<u64, u32>,
    pages: Vec<Box<CellStates>>,
    /// Places of pages that were forgotten.
    free: Vec<u32>,
    /// By the low bits of their numbers. Empty before the first.
    recent: Vec<FoundPage>,
}

impl AccessHistory {
    /// Whether an access changes nothing and races with nothing, by a quick look: false is said of some where it is so.
    #[inline]
    pub(super) fn repeats(&mut self, now: &Present<'_>, addr: VirtAddr, len: u64) -> bool {
        let offset = addr.0 % PAGE_BYTES;
        let end = offset.saturating_add(len);
        if end > PAGE_BYTES {
            return false;
        }
        let Some(place) = self.find(addr.0 / PAGE_BYTES) else { return false };
        let page = &mut self.pages[place as usize];
        let mut at = offset;
        while at < end {
            let bytes = CellBytes::at(at, end);
            if !page.repeats(now, bytes) {
                return false;
            }
            at += bytes.len();
        }
        true
    }

    /// Notes an access of `len` bytes and appends what it races with, once for each earlier access.
    pub(super) fn access(
        &mut self,
        now: &Present<'_>,
        addr: VirtAddr,
        len: u64,
        site: u32,
        found: &mut Vec<EarlierAccess>,
    ) {
        let end = addr.0.saturating_add(len);
        let mut at = addr.0;
        while at < end {
            let number = at / PAGE_BYTES;
            let place = match self.find(number) {
                Some(place) => place,
                None => self.add(number),
            };
            let page = &mut self.pages[place as usize];
            let base = at & !(CELL_BYTES - 1);
            let offset = at % PAGE_BYTES;
            let bytes = CellBytes::at(offset, offset.saturating_add(end - at));
            page.access(now, site, bytes, &mut |past, from, to| {
                let (addr, len) = (VirtAddr(base + from), to - from);
                let (site, epoch) = (past.site(), now.epoch_of(past));
                match found.last_mut() {
                    Some(last)
                        if last.site == site && last.epoch == epoch && last.addr.offset(last.len) == addr =>
                    {
                        last.len += len;
                    }
                    _ => found.push(EarlierAccess { addr, len, epoch, site }),
                }
            });
            at += bytes.len();
        }
    }

    /// The place of a page that was accessed.
    #[inline]
    fn find(&mut self, number: u64) -> Option<u32> {
        let slot = number as usize % RECENT;
        if let Some(recent) = self.recent.get(slot).filter(|recent| recent.number == number) {
            return Some(recent.place);
        }
        let place = *self.places.get(&number)?;
        self.recent[slot] = FoundPage { number, place };
        Some(place)
    }

    #[cold]
    fn add(&mut self, number: u64) -> u32 {
        if self.recent.is_empty() {
            // No page has that number.
            self.recent = vec![FoundPage { number: u64::MAX, place: 0 }; RECENT];
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.pages.push(Box::default());
            self.pages.len() as u32 - 1
        });
        self.places.insert(number, place);
        place
    }

    /// The bytes are no longer what they were.
    pub(crate) fn forget(&mut self, addr: VirtAddr, len: u64) {
        let end = addr.0.saturating_add(len);
        let mut at = addr.0;
        while at < end {
            let number = at / PAGE_BYTES;
            let stop = end.min((number + 1).saturating_mul(PAGE_BYTES));
            if at.is_multiple_of(PAGE_BYTES) && stop - at == PAGE_BYTES {
                self.forget_page(number);
            } else if let Some(place) = self.find(number) {
                let first = (at % PAGE_BYTES / CELL_BYTES) as usize;
                let last = ((stop - 1) % PAGE_BYTES / CELL_BYTES) as usize;
                // Blocks of allocators begin at cells and no other block ends in the same one.
                let page = &mut self.pages[place as usize];
                (first..=last).for_each(|cell| page.forget(cell));
            }
            at = stop;
        }
    }

    fn forget_page(&mut self, number: u64) {
        let Some(place) = self.places.remove(&number) else { return };
        *self.pages[place as usize] = CellStates::default();
        self.free.push(place);
        let recent = &mut self.recent[number as usize % RECENT];
        if recent.number == number {
            recent.number = u64::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use memref::{AccessKind, ThreadId};
    use proptest::prelude::*;

    use super::super::access_site::AccessSite;
    use super::super::clock::Clock;
    use super::*;

    const THREADS: u32 = 4;
    const SITES: u32 = 8;

    fn clock(times: &[u32]) -> Clock {
        let mut clock = Clock::default();
        for (thread, &time) in times.iter().enumerate() {
            clock.set(ThreadId(thread as u32), time);
        }
        clock
    }

    /// Those of number n are thread n's, and so on.
    fn sites() -> Vec<AccessSite> {
        let site = |number: u32| AccessSite {
            ip: VirtAddr(number.into()),
            thread: ThreadId(number % THREADS),
            kind: AccessKind::Load,
            locks: 0,
            row: 0,
        };
        (0..SITES).map(site).collect()
    }

    #[derive(Clone, Copy, Debug)]
    struct TestAccess {
        addr: u64,
        len: u64,
        kind: AccessKind,
        is_atomic: bool,
        site: u32,
    }

    fn access(shadow: &mut AccessHistory, clock: &Clock, access: TestAccess) -> Vec<EarlierAccess> {
        let TestAccess { addr, len, kind, is_atomic, site } = access;
        let (sites, mut found) = (sites(), Vec::new());
        let now = Present::new(clock, ThreadId(site % THREADS), (kind, is_atomic), &sites);
        let repeats = shadow.repeats(&now, VirtAddr(addr), len);
        shadow.access(&now, VirtAddr(addr), len, site, &mut found);
        assert!(!repeats || found.is_empty());
        found
    }

    fn plain(addr: u64, len: u64, kind: AccessKind, site: u32) -> TestAccess {
        TestAccess { addr, len, kind, is_atomic: false, site }
    }

    #[test]
    fn bytes_race_and_neighbours_do_not() {
        let mut shadow = AccessHistory::default();
        let (first, second) = (clock(&[1, 0]), clock(&[0, 1]));
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        let mut access = |clock: &Clock, thread, addr, len, kind, is_atomic| {
            access(&mut shadow, clock, TestAccess { addr, len, kind, is_atomic, site: thread })
        };
        assert!(access(&first, 0, 100, 4, store, false).is_empty());
        assert!(access(&second, 1, 104, 4, store, false).is_empty());
        assert!(access(&second, 1, 96, 4, load, false).is_empty());
        let races = access(&second, 1, 102, 4, load, false);
        assert_eq!(races.len(), 1);
        assert_eq!((races[0].addr, races[0].len, races[0].site), (VirtAddr(102), 2, 0));
        // After a join there is none.
        let joined = clock(&[1, 2]);
        assert!(access(&joined, 1, 100, 1, store, false).is_empty());
        // Reads of both threads, then a write that knows one of them only.
        assert!(access(&first, 0, 200, 8, load, false).is_empty());
        assert!(access(&second, 1, 200, 8, load, false).is_empty());
        assert_eq!(access(&second, 1, 200, 8, store, false).len(), 1);
        // Atomic accesses race with plain ones alone.
        assert!(access(&first, 0, 300, 4, store, true).is_empty());
        assert!(access(&second, 1, 300, 4, store, true).is_empty());
        assert_eq!(access(&first, 0, 300, 4, load, false).len(), 1);
    }

    #[test]
    fn a_new_block_knows_nothing_of_the_old_one() {
        let mut shadow = AccessHistory::default();
        let (block, part) = (8192, 8192 + 16);
        let (first, second) = (clock(&[1]), clock(&[0, 1]));
        access(&mut shadow, &first, plain(block, 8192, AccessKind::Store, 0));
        shadow.forget(VirtAddr(part), 8192 - 16);
        assert!(access(&mut shadow, &second, plain(part, 8192 - 16, AccessKind::Store, 1)).is_empty());
        let found = access(&mut shadow, &second, plain(block, 16, AccessKind::Load, 1));
        assert_eq!(found.len(), 1, "one stretch: {found:?}");
    }

    /// One access in the plainest form: its thread's time and its site, and whether it is atomic.
    type Made = (Epoch, u32, bool);

    /// What is remembered of some bytes that have one state: where one thread's reads are all, `reads` is the last one.
    #[derive(Clone, Debug, Default)]
    struct ModelState {
        write: Option<Made>,
        reads: Vec<Made>,
        /// Whether reads of several threads came since the last write.
        are_several: bool,
    }

    impl ModelState {
        fn access(&mut self, clock: &Clock, kind: AccessKind, made: Made) -> Vec<Made> {
            let (epoch, _, is_atomic) = made;
            let is_now = |other: &Made| other.0 == epoch;
            let one_read = self.reads.first().filter(|_| !self.are_several);
            if kind.writes() {
                let same = self.write.is_some_and(|write| is_now(&write) && write.2 == is_atomic);
                if same && !self.are_several {
                    return Vec::new();
                }
            } else if self.write.as_ref().is_some_and(is_now) || one_read.is_some_and(is_now) {
                return Vec::new();
            }
            let races = |other: &&Made| {
                other.0.thread != epoch.thread && !(other.2 && is_atomic) && !clock.knows(other.0)
            };
            let mut found: Vec<Made> = self.write.iter().filter(races).copied().collect();
            if kind.writes() {
                found.extend(self.reads.iter().filter(races));
                *self = Self { write: Some(made), ..Self::default() };
            } else if self.are_several {
                match self.reads.iter_mut().find(|read| read.0.thread == epoch.thread) {
                    Some(read) => *read = made,
                    None => self.reads.push(made),
                }
            } else {
                let is_replaced = |read: &Made| {
                    read.0.thread == epoch.thread || clock.knows(read.0) && (!read.2 || is_atomic)
                };
                if one_read.is_none_or(is_replaced) {
                    self.reads.clear();
                }
                self.reads.push(made);
                self.are_several = self.reads.len() > 1;
            }
            found
        }
    }

    /// Cells by their first bytes, each of 1, 2 or 8 states; 0 before the first access.
    #[derive(Debug, Default)]
    struct Model(std::collections::BTreeMap<u64, Vec<ModelState>>);

    impl Model {
        fn access(&mut self, clock: &Clock, access: TestAccess) -> Vec<EarlierAccess> {
            let TestAccess { addr, len, kind, is_atomic, site } = access;
            let thread = ThreadId(site % THREADS);
            let made = (Epoch { thread, time: clock.get(thread) }, site, is_atomic);
            let mut found: Vec<EarlierAccess> = Vec::new();
            let mut at = addr;
            while at < addr + len {
                let (base, from) = (at / 8 * 8, at % 8);
                let to = (addr + len - base).min(8);
                let parts = match to - from {
                    8 => 1,
                    4 if from % 4 == 0 => 2,
                    _ => 8,
                };
                let cell = self.0.entry(base).or_default();
                if cell.len() < parts {
                    let was = if cell.is_empty() { vec![ModelState::default()] } else { cell.clone() };
                    *cell = (0..parts).map(|part| was[part * was.len() / parts].clone()).collect();
                }
                let bytes = 8 / cell.len() as u64;
                for (part, state) in (0..).zip(cell.iter_mut()) {
                    let (start, end) = (part * bytes, part * bytes + bytes);
                    if end <= from || to <= start {
                        continue;
                    }
                    for (epoch, site, _) in state.access(clock, kind, made) {
                        let (addr, len) = (VirtAddr(base + start), bytes);
                        match found.last_mut() {
                            Some(last)
                                if (last.site, last.epoch) == (site, epoch)
                                    && last.addr.offset(last.len) == addr =>
                            {
                                last.len += len;
                            }
                            _ => found.push(EarlierAccess { addr, len, epoch, site }),
                        }
                    }
                }
                at = base + to;
            }
            found
        }

        /// Whole cells, as blocks of allocators are.
        fn forget(&mut self, addr: u64, len: u64) {
            self.0.retain(|&base, _| base + 8 <= addr || addr + len <= base);
        }
    }

    #[derive(Clone, Debug)]
    enum Do {
        Access(TestAccess),
        /// A thread gives something up, and another one takes it up.
        Order(usize, usize),
        Forget(u64, u64),
    }

    fn what() -> impl Strategy<Value = Do> {
        // Around the end of a page, most of them in few cells.
        let addr = || prop_oneof![4 => 4080u64..4104, 1 => 4000u64..4200];
        let len = prop_oneof![2 => Just(8u64), 2 => Just(4), 2 => 1u64..8, 1 => 9u64..40];
        let aligned = prop_oneof![3 => Just(true), 1 => Just(false)];
        let kind = prop::sample::select(&[AccessKind::Load, AccessKind::Store, AccessKind::Modify]);
        let access = (addr(), len, aligned, kind, prop::bool::weighted(0.2), 0..SITES);
        prop_oneof![
            12 => access.prop_map(|(addr, len, aligned, kind, is_atomic, site)| {
                let addr = if aligned { addr / len * len } else { addr };
                Do::Access(TestAccess { addr, len, kind, is_atomic, site })
            }),
            3 => (0..THREADS as usize, 0..THREADS as usize).prop_map(|(from, to)| Do::Order(from, to)),
            1 => (addr(), 1u64..40).prop_map(|(addr, len)| Do::Forget(addr, len)),
            1 => Just(Do::Forget(4096, 4096)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn it_remembers_what_a_map_of_bytes_does(list in prop::collection::vec(what(), 1..60)) {
            let (mut shadow, mut model) = (AccessHistory::default(), Model::default());
            let mut clocks: Vec<Clock> = (0..THREADS as usize)
                .map(|thread| clock(&(0..THREADS as usize).map(|of| u32::from(of == thread)).collect::<Vec<_>>()))
                .collect();
            for what in list {
                match what {
                    Do::Access(made) => {
                        let clock = &clocks[(made.site % THREADS) as usize];
                        prop_assert_eq!(access(&mut shadow, clock, made), model.access(clock, made));
                    }
                    Do::Order(from, to) => {
                        let given = clocks[from].clone();
                        clocks[from].tick(ThreadId(from as u32));
                        clocks[to].join(&given);
                    }
                    Do::Forget(addr, len) => {
                        shadow.forget(VirtAddr(addr), len);
                        model.forget(addr, len);
                    }
                }
            }
        }
    }
}
