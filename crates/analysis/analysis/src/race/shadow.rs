//! What is remembered of each byte: its last write and the reads since.
//!
//! Bytes are kept in cells of 8, which stay one state as long as all accesses are of whole cells, and become two or eight
//! where smaller ones come: words are the rule, and bytes are exact.

use memref::{AccessKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;

use super::clock::{Clock, Epoch};

const PAGE_BYTES: u64 = VirtAddr::PAGE_BYTES;
const CELL_BYTES: u64 = 8;
const CELLS: usize = (PAGE_BYTES / CELL_BYTES) as usize;

/// One access as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Past {
    epoch: Epoch,
    site: u32,
    atomic: bool,
}

const NEVER: Past = Past { epoch: Epoch::NEVER, site: 0, atomic: false };

/// What is remembered of some bytes.
#[derive(Clone, Debug, PartialEq)]
struct ByteAccesses {
    write: Past,
    /// The last read, where one thread's reads are all.
    read: Past,
    /// Reads of several threads.
    reads: Option<Vec<Past>>,
}

const FRESH: ByteAccesses = ByteAccesses { write: NEVER, read: NEVER, reads: None };

#[derive(Clone, Debug, Default)]
enum WordAccesses {
    #[default]
    Untouched,
    Whole(Box<ByteAccesses>),
    Halves(Box<[ByteAccesses; 2]>),
    Bytes(Box<[ByteAccesses; 8]>),
}

/// An earlier access that a later one races with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlierAccess {
    pub(crate) addr: VirtAddr,
    pub(crate) len: u64,
    pub(crate) epoch: Epoch,
    pub(crate) site: u32,
}

/// The present access.
struct Now<'a> {
    clock: &'a Clock,
    epoch: Epoch,
    kind: AccessKind,
    site: u32,
    atomic: bool,
}

impl ByteAccesses {
    /// Notes an access; `found` is told of what it races with.
    #[inline]
    fn access(&mut self, now: &Now<'_>, mut found: impl FnMut(Past)) {
        let past = Past { epoch: now.epoch, site: now.site, atomic: now.atomic };
        let races = |other: &Past| {
            other.epoch.thread != now.epoch.thread
                && !(other.atomic && now.atomic)
                && !now.clock.knows(other.epoch)
        };
        if now.kind.writes() {
            if self.write.epoch == now.epoch && self.write.atomic == now.atomic && self.reads.is_none() {
                return;
            }
            if races(&self.write) {
                found(self.write);
            }
            if races(&self.read) {
                found(self.read);
            }
            if let Some(reads) = self.reads.take() {
                reads.iter().filter(|read| races(read)).for_each(|read| found(*read));
            }
            self.write = past;
            self.read = NEVER;
            return;
        }
        if self.read.epoch == now.epoch || self.write.epoch == now.epoch {
            return;
        }
        if races(&self.write) {
            found(self.write);
        }
        match &mut self.reads {
            Some(reads) => match reads.iter_mut().find(|read| read.epoch.thread == now.epoch.thread) {
                Some(read) => *read = past,
                None => reads.push(past),
            },
            None if now.clock.knows(self.read.epoch)
                && (!self.read.atomic || now.atomic || self.read == NEVER) =>
            {
                self.read = past;
            }
            None if self.read.epoch.thread == now.epoch.thread => self.read = past,
            None => {
                self.reads = Some(vec![self.read, past]);
                self.read = NEVER;
            }
        }
    }
}

/// All bytes of a process.
#[derive(Debug, Default)]
pub(crate) struct AccessHistory {
    pages: FxHashMap<u64, Box<[WordAccesses]>>,
}

impl AccessHistory {
    /// Notes an access of `len` bytes and appends what it races with, once for each earlier access.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn access(
        &mut self,
        clock: &Clock,
        thread: ThreadId,
        addr: VirtAddr,
        len: u64,
        kind: AccessKind,
        site: u32,
        atomic: bool,
        found: &mut Vec<EarlierAccess>,
    ) {
        let now = Now { clock, epoch: Epoch { thread, time: clock.get(thread) }, kind, site, atomic };
        let end = addr.0.saturating_add(len);
        let mut at = addr.0;
        while at < end {
            let page = self
                .pages
                .entry(at / PAGE_BYTES)
                .or_insert_with(|| vec![WordAccesses::Untouched; CELLS].into_boxed_slice());
            let cell = &mut page[(at % PAGE_BYTES / CELL_BYTES) as usize];
            let base = at & !(CELL_BYTES - 1);
            let stop = end.min(base.saturating_add(CELL_BYTES));
            cell.access(&now, at - base, stop - base, &mut |past, from, to| {
                let (addr, len) = (VirtAddr(base + from), to - from);
                match found.last_mut() {
                    Some(last)
                        if last.site == past.site
                            && last.epoch == past.epoch
                            && last.addr.offset(last.len) == addr =>
                    {
                        last.len += len;
                    }
                    _ => found.push(EarlierAccess { addr, len, epoch: past.epoch, site: past.site }),
                }
            });
            at = stop;
        }
    }

    /// The bytes are no longer what they were.
    pub(crate) fn forget(&mut self, addr: VirtAddr, len: u64) {
        let end = addr.0.saturating_add(len);
        let mut at = addr.0;
        while at < end {
            let number = at / PAGE_BYTES;
            let stop = end.min((number + 1).saturating_mul(PAGE_BYTES));
            if at.is_multiple_of(PAGE_BYTES) && stop - at == PAGE_BYTES {
                self.pages.remove(&number);
            } else if let Some(page) = self.pages.get_mut(&number) {
                let first = (at % PAGE_BYTES / CELL_BYTES) as usize;
                let last = ((stop - 1) % PAGE_BYTES / CELL_BYTES) as usize;
                // Blocks of allocators begin at cells and no other block ends in the same one.
                page[first..=last].fill(WordAccesses::Untouched);
            }
            at = stop;
        }
    }
}

impl WordAccesses {
    fn access(&mut self, now: &Now<'_>, from: u64, to: u64, found: &mut impl FnMut(Past, u64, u64)) {
        if matches!(self, Self::Untouched) {
            *self = match (from % 4, to % 4, to - from) {
                (0, 0, 8) => Self::Whole(Box::new(FRESH)),
                (0, 0, 4) => Self::Halves(Box::new([FRESH, FRESH])),
                _ => Self::Bytes(Box::new([const { FRESH }; 8])),
            };
        }
        if let Self::Whole(state) = self
            && to - from != 8
        {
            *self = if from.is_multiple_of(4) && to - from == 4 {
                Self::Halves(Box::new([(**state).clone(), (**state).clone()]))
            } else {
                Self::Bytes(Box::new(std::array::from_fn(|_| (**state).clone())))
            };
        }
        if let Self::Halves(states) = self
            && !(from.is_multiple_of(4) && to.is_multiple_of(4))
        {
            *self = Self::Bytes(Box::new(std::array::from_fn(|at| states[at / 4].clone())));
        }
        match self {
            Self::Untouched => {}
            Self::Whole(state) => state.access(now, |past| found(past, 0, 8)),
            Self::Halves(states) => {
                for half in from / 4..to.div_ceil(4) {
                    states[half as usize].access(now, |past| found(past, half * 4, half * 4 + 4));
                }
            }
            Self::Bytes(states) => {
                for at in from..to {
                    states[at as usize].access(now, |past| found(past, at, at + 1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(times: &[u32]) -> Clock {
        let mut clock = Clock::default();
        for (thread, &time) in times.iter().enumerate() {
            clock.set(ThreadId(thread as u32), time);
        }
        clock
    }

    #[test]
    fn bytes_race_and_neighbours_do_not() {
        let mut shadow = AccessHistory::default();
        let (first, second) = (clock(&[1, 0]), clock(&[0, 1]));
        let mut found = Vec::new();
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        let mut access = |clock: &Clock, thread, addr, len, kind, atomic| {
            found.clear();
            let addr = VirtAddr(addr);
            shadow.access(clock, ThreadId(thread), addr, len, kind, thread, atomic, &mut found);
            found.clone()
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
        let mut found = Vec::new();
        let (block, part) = (VirtAddr(8192), VirtAddr(8192 + 16));
        shadow.access(&clock(&[1]), ThreadId(0), block, 8192, AccessKind::Store, 0, false, &mut found);
        shadow.forget(part, 8192 - 16);
        shadow.access(&clock(&[0, 1]), ThreadId(1), part, 8192 - 16, AccessKind::Store, 1, false, &mut found);
        assert!(found.is_empty());
        shadow.access(&clock(&[0, 1]), ThreadId(1), block, 16, AccessKind::Load, 1, false, &mut found);
        assert_eq!(found.len(), 1, "one stretch: {found:?}");
    }
}
