//! The state of the bytes of one page.
//!
//! The page is divided into cells of 8 bytes. A cell keeps one state as long as every access covers whole cells, and gets two or
//! eight states when smaller accesses arrive: words are the common case, and bytes are still exact. States are stored in arrays,
//! so that a state costs one cache line. Rare cases (eight states, reads by several threads) are in separate lists. Bits record
//! which bytes the current thread accessed recently: most accesses repeat earlier ones, and for those no state is looked up.

use memref::VirtAddr;

use super::clock::Epoch;
use super::past::{Past, Present};

pub(super) const CELL_BYTES: u64 = 8;
const CELLS: usize = (VirtAddr::PAGE_BYTES / CELL_BYTES) as usize;

/// What is remembered of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ByteState {
    write: Past,
    /// The last read, where one thread's reads are all; or the number of a list of reads of several threads.
    read: Past,
}

const FRESH: ByteState = ByteState { write: Past::NEVER, read: Past::NEVER };

/// How many states a cell has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Grain {
    #[default]
    Untouched,
    Whole,
    Halves,
    Bytes,
}

impl Grain {
    /// The one that these bytes of a cell need.
    #[inline]
    fn of(from: u64, to: u64) -> Self {
        match (from % 4, to % 4, to - from) {
            (0, 0, 8) => Self::Whole,
            (0, 0, 4) => Self::Halves,
            _ => Self::Bytes,
        }
    }
}

/// Things by number, which are used again.
#[derive(Debug, Default)]
struct Numbered<T> {
    list: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Numbered<T> {
    fn put(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = value;
                number
            }
            None => {
                self.list.push(value);
                self.list.len() as u32 - 1
            }
        }
    }

    fn take(&mut self, number: u32) -> T {
        self.free.push(number);
        std::mem::take(&mut self.list[number as usize])
    }
}

/// Reads of several threads, the last one of each.
type ReadLists = Numbered<Vec<Past>>;

impl ByteState {
    /// Whether this access changes nothing and races with nothing that it did not race with before.
    #[inline]
    fn repeats(&self, now: &Present<'_>) -> bool {
        if now.kind.writes() {
            now.is_epoch_of(self.write)
                && self.write.is_atomic() == now.is_atomic
                && self.read.as_number().is_none()
        } else {
            now.is_epoch_of(self.read) || now.is_epoch_of(self.write)
        }
    }

    /// Notes an access; `found` is told of what it races with.
    fn access(&mut self, now: &Present<'_>, site: u32, lists: &mut ReadLists, mut found: impl FnMut(Past)) {
        if self.repeats(now) {
            return;
        }
        let past = now.past(site);
        if now.races_with(self.write) {
            found(self.write);
        }
        let list = self.read.as_number();
        if now.kind.writes() {
            match list {
                Some(list) => {
                    lists.take(list).into_iter().filter(|read| now.races_with(*read)).for_each(found);
                }
                None if now.races_with(self.read) => found(self.read),
                None => {}
            }
            *self = Self { write: past, read: Past::NEVER };
            return;
        }
        if let Some(list) = list {
            let reads = &mut lists.list[list as usize];
            let by_thread = |read: &&mut Past| now.epoch_of(**read).thread == now.epoch.thread;
            match reads.iter_mut().find(by_thread) {
                Some(read) => *read = past,
                None => reads.push(past),
            }
            return;
        }
        let epoch = now.epoch_of(self.read);
        let is_covered = now.clock.knows(epoch) && (!self.read.is_atomic() || now.is_atomic);
        self.read = if is_covered || epoch.thread == now.epoch.thread {
            past
        } else {
            Past::number(lists.put(vec![self.read, past]))
        };
    }

    /// The same for other bytes.
    fn copy(self, lists: &mut ReadLists) -> Self {
        match self.read.as_number() {
            Some(list) => {
                let reads = lists.list[list as usize].clone();
                Self { read: Past::number(lists.put(reads)), ..self }
            }
            None => self,
        }
    }

    fn release(self, lists: &mut ReadLists) {
        if let Some(list) = self.read.as_number() {
            lists.take(list);
        }
    }
}

/// Bytes of a page, a bit each.
type ByteSet = [u64; VirtAddr::PAGE_BYTES as usize / 64];

/// Some bytes of one cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellBytes {
    pub(super) cell: usize,
    /// Within the cell.
    pub(super) from: u64,
    pub(super) to: u64,
}

impl CellBytes {
    /// Those of a page from an offset on, up to the end of the cell.
    #[inline]
    pub(super) fn at(offset: u64, end: u64) -> Self {
        let from = offset % CELL_BYTES;
        let to = from.saturating_add(end - offset).min(CELL_BYTES);
        Self { cell: (offset / CELL_BYTES) as usize, from, to }
    }

    #[inline]
    pub(super) fn len(self) -> u64 {
        self.to - self.from
    }

    /// Their place in a set, and their bits there.
    #[inline]
    fn bits(self) -> (usize, u64) {
        let bits = (u64::MAX >> (64 - self.len())) << self.from;
        (self.cell / 8, bits << (self.cell % 8 * 8))
    }
}

/// What one thread has accessed since it last gave something up, where the states say so and no other access came since.
#[derive(Debug)]
struct LateAccesses {
    epoch: Epoch,
    /// Plain loads of these change nothing.
    read: ByteSet,
    /// Nor do plain stores of these.
    written: ByteSet,
}

impl LateAccesses {
    const NONE: Self = Self { epoch: Epoch::NEVER, read: [0; 64], written: [0; 64] };

    #[inline]
    fn has(&self, now: &Present<'_>, bytes: CellBytes) -> bool {
        let set = if now.kind.writes() { &self.written } else { &self.read };
        let (at, bits) = bytes.bits();
        self.epoch == now.epoch && !now.is_atomic && set[at] & bits == bits
    }

    fn note(&mut self, now: &Present<'_>, bytes: CellBytes) {
        if self.epoch != now.epoch {
            *self = Self { epoch: now.epoch, ..Self::NONE };
        }
        let (at, bits) = bytes.bits();
        self.read[at] |= bits;
        if now.kind.writes() {
            self.written[at] |= bits;
        }
    }

    fn forget(&mut self, bytes: CellBytes) {
        let (at, bits) = bytes.bits();
        self.read[at] &= !bits;
        self.written[at] &= !bits;
    }
}

/// The cells of a page.
#[derive(Debug)]
pub(super) struct CellStates {
    late: LateAccesses,
    grains: [Grain; CELLS],
    /// Of a whole cell, or of its lower half; of a cell of bytes, the number of its states.
    low: [ByteState; CELLS],
    /// Of upper halves. None before the first.
    high: Option<Box<[ByteState; CELLS]>>,
    bytes: Numbered<[ByteState; CELL_BYTES as usize]>,
    lists: ReadLists,
}

impl Default for CellStates {
    fn default() -> Self {
        Self {
            late: LateAccesses::NONE,
            grains: [Grain::Untouched; CELLS],
            low: [FRESH; CELLS],
            high: None,
            bytes: Numbered::default(),
            lists: Numbered::default(),
        }
    }
}

impl CellStates {
    /// Whether an access of these bytes changes nothing, as [`ByteState::repeats`].
    #[inline]
    pub(super) fn repeats(&mut self, now: &Present<'_>, bytes: CellBytes) -> bool {
        self.is_fine_enough(bytes) && (self.late.has(now, bytes) || self.states_repeat(now, bytes))
    }

    /// Whether a cell has states of its own for these bytes.
    #[inline]
    fn is_fine_enough(&self, CellBytes { cell, from, to }: CellBytes) -> bool {
        self.grains[cell] >= Grain::of(from, to)
    }

    /// The same by the states, which is noted.
    fn states_repeat(&mut self, now: &Present<'_>, bytes: CellBytes) -> bool {
        let CellBytes { cell, from, to } = bytes;
        let low = &self.low[cell];
        let repeats = match self.grains[cell] {
            Grain::Untouched => false,
            Grain::Whole => low.repeats(now),
            Grain::Halves => {
                let high = || self.high.as_ref().is_some_and(|high| high[cell].repeats(now));
                (from > 0 || low.repeats(now)) && (to < CELL_BYTES || high())
            }
            Grain::Bytes => {
                let states = low.write.as_number().and_then(|at| self.bytes.list.get(at as usize));
                states.is_some_and(|states| {
                    states[from as usize..to as usize].iter().all(|state| state.repeats(now))
                })
            }
        };
        if repeats && !now.is_atomic {
            self.late.note(now, bytes);
        }
        repeats
    }

    /// Notes an access of some bytes of a cell; `found` is told of what it races with, and of which bytes that is.
    pub(super) fn access(
        &mut self,
        now: &Present<'_>,
        site: u32,
        bytes: CellBytes,
        found: &mut impl FnMut(Past, u64, u64),
    ) {
        let CellBytes { cell, from, to } = bytes;
        if !self.is_fine_enough(bytes) {
            self.refine(cell, Grain::of(from, to));
        }
        // Another thread's do not hold any more, nor do its own where this is atomic.
        self.late.forget(bytes);
        let lists = &mut self.lists;
        match self.grains[cell] {
            Grain::Untouched => {}
            Grain::Whole => self.low[cell].access(now, site, lists, |past| found(past, 0, CELL_BYTES)),
            Grain::Halves => {
                if from == 0 {
                    self.low[cell].access(now, site, lists, |past| found(past, 0, 4));
                }
                if to == CELL_BYTES
                    && let Some(high) = &mut self.high
                {
                    high[cell].access(now, site, lists, |past| found(past, 4, CELL_BYTES));
                }
            }
            Grain::Bytes => {
                let states = self.low[cell].write.as_number().map(|at| &mut self.bytes.list[at as usize]);
                for (at, state) in
                    (from..to).zip(states.into_iter().flat_map(|all| &mut all[from as usize..]))
                {
                    state.access(now, site, lists, |past| found(past, at, at + 1));
                }
            }
        }
    }

    /// Gives a cell more states, each what that of its bytes was.
    #[cold]
    fn refine(&mut self, cell: usize, grain: Grain) {
        let (low, high) = match self.grains[cell] {
            Grain::Untouched => (FRESH, FRESH),
            Grain::Whole => (self.low[cell], self.low[cell].copy(&mut self.lists)),
            Grain::Halves => (self.low[cell], self.high.as_ref().map_or(FRESH, |high| high[cell])),
            Grain::Bytes => return,
        };
        self.grains[cell] = grain;
        self.low[cell] = low;
        if grain == Grain::Halves {
            self.high.get_or_insert_with(|| Box::new([FRESH; CELLS]))[cell] = high;
        } else if grain == Grain::Bytes {
            let states =
                [low, low, low, low, high, high, high, high].map(|state| state.copy(&mut self.lists));
            [low, high].into_iter().for_each(|state| state.release(&mut self.lists));
            self.low[cell] = ByteState { write: Past::number(self.bytes.put(states)), read: Past::NEVER };
        }
    }

    /// Nothing is remembered of a cell any more.
    pub(super) fn forget(&mut self, cell: usize) {
        self.late.forget(CellBytes { cell, from: 0, to: CELL_BYTES });
        let lists = &mut self.lists;
        match std::mem::take(&mut self.grains[cell]) {
            Grain::Untouched => {}
            Grain::Whole => self.low[cell].release(lists),
            Grain::Halves => {
                self.low[cell].release(lists);
                if let Some(high) = &self.high {
                    high[cell].release(lists);
                }
            }
            Grain::Bytes => {
                if let Some(number) = self.low[cell].write.as_number() {
                    self.bytes.take(number).into_iter().for_each(|state| state.release(lists));
                }
            }
        }
    }
}
