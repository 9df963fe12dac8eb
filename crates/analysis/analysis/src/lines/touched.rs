//! The first pass: the lines that more than one thread touches and at least
//! one of them writes. Threads are read in parallel, and nothing is named.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use memref::{Event, ProcessId, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use trace_format::{Batch, Filter, KindSet};

use super::LINE_BYTES;
use crate::{Error, Session, threads};

const PAGE_LINES: u64 = VirtAddr::PAGE_BYTES / LINE_BYTES;
const QUICK: usize = 1024;

/// Lines of a page, as bits.
#[derive(Clone, Copy, Debug, Default)]
struct LineMasks {
    touched: u64,
    written: u64,
}

/// A page that was looked up, and its number.
#[derive(Clone, Copy, Debug)]
struct QuickPage {
    page: u64,
    number: u32,
}

/// What one thread touches.
struct ThreadPages {
    number_of: FxHashMap<u64, u32>,
    pages: Vec<LineMasks>,
    quick: Box<[QuickPage]>,
}

impl ThreadPages {
    fn new() -> Self {
        Self {
            number_of: FxHashMap::default(),
            pages: Vec::new(),
            quick: vec![QuickPage { page: u64::MAX, number: 0 }; QUICK].into_boxed_slice(),
        }
    }

    #[inline]
    fn page(&mut self, page: u64) -> &mut LineMasks {
        let slot = &mut self.quick[(page % QUICK as u64) as usize];
        if slot.page != page {
            let next = self.pages.len() as u32;
            let number = *self.number_of.entry(page).or_insert(next);
            if number == next {
                self.pages.push(LineMasks::default());
            }
            *slot = QuickPage { page, number };
        }
        &mut self.pages[slot.number as usize]
    }

    #[inline]
    fn touch(&mut self, addr: VirtAddr, len: u64, writes: bool) {
        if len == 0 {
            return;
        }
        let first = addr.0 / LINE_BYTES;
        let last = addr.0.saturating_add(len - 1) / LINE_BYTES;
        for line in first..=last {
            let bit = 1 << (line % PAGE_LINES);
            let page = self.page(line / PAGE_LINES);
            page.touched |= bit;
            page.written |= if writes { bit } else { 0 };
        }
    }

    fn read(session: &Session, thread: ThreadId) -> Result<Self, Error> {
        let mut all = Self::new();
        let kinds = KindSet(KindSet::ACCESSES.0 | KindSet::BLOCKS.0);
        let mut cursor = session.trace().shard(thread).events(&Filter { kinds, ..Filter::default() });
        while let Some(batch) = cursor.next_batch()? {
            session.note_seen(&batch)?;
            match batch {
                Batch::Accesses(accesses) => {
                    for access in accesses.iter().filter(|a| a.kind != memref::AccessKind::Prefetch) {
                        all.touch(access.addr, access.size.into(), access.kind.writes());
                    }
                }
                Batch::Event(Event::Block(block)) => {
                    for (addr, len) in [block.read(), block.compared()].into_iter().flatten() {
                        all.touch(addr, len, false);
                    }
                    if let Some((addr, len)) = block.written() {
                        all.touch(addr, len, true);
                    }
                }
                Batch::Event(_) => {}
            }
        }
        Ok(all)
    }
}

/// Lines that several threads of a process touch, and at least one writes.
#[derive(Clone, Debug, Default)]
pub struct TouchedLines {
    shared: FxHashMap<(ProcessId, u64), u64>,
    quick: Vec<(ProcessId, u64, u64)>,
}

impl TouchedLines {
    /// Reads all threads of each process that has several, side by side.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn read(session: &Session) -> Result<Self, Error> {
        let mut by_process: BTreeMap<ProcessId, Vec<ThreadId>> = BTreeMap::new();
        for record in session.trace().threads() {
            by_process.entry(record.process).or_default().push(record.thread);
        }
        let mut all = Self::default();
        for (process, members) in by_process.iter().filter(|(_, members)| members.len() > 1) {
            for (page, masks) in Folded::read(session, members)?.pages {
                let shared = masks.twice & masks.written;
                if shared != 0 {
                    all.shared.insert((*process, page), shared);
                }
            }
        }
        Ok(all)
    }

    /// Several shares, each line in one of them; neighbours are in different ones.
    pub(super) fn shares(&self, count: usize) -> Vec<Self> {
        let mask = |share: usize, page: u64| {
            let is_in_share = |line: &u64| (page * PAGE_LINES + line) % count as u64 == share as u64;
            (0..PAGE_LINES).filter(is_in_share).fold(0, |mask, line| mask | 1 << line)
        };
        let share = |share: usize| {
            let own = |(&(process, page), &lines): (&(ProcessId, u64), &u64)| {
                let own = lines & mask(share, page);
                (own != 0).then_some(((process, page), own))
            };
            Self { shared: self.shared.iter().filter_map(own).collect(), quick: Vec::new() }
        };
        (0..count).map(share).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Whether one of the lines that a range has bytes of is one of them.
    #[inline]
    pub(crate) fn has_any(&mut self, process: ProcessId, addr: VirtAddr, len: u64) -> bool {
        (addr.0 / LINE_BYTES..=addr.0.saturating_add(len.max(1) - 1) / LINE_BYTES)
            .any(|line| self.has(process, line))
    }

    /// Whether that line is one of them.
    #[inline]
    pub(super) fn has(&mut self, process: ProcessId, line: u64) -> bool {
        let page = line / PAGE_LINES;
        if self.quick.is_empty() {
            self.quick.resize(QUICK, (process, u64::MAX, 0));
        }
        let slot = &mut self.quick[(page % QUICK as u64) as usize];
        if slot.1 != page || slot.0 != process {
            *slot = (process, page, self.shared.get(&(process, page)).copied().unwrap_or(0));
        }
        slot.2 >> (line % PAGE_LINES) & 1 != 0
    }
}

/// A page after some threads.
#[derive(Clone, Copy, Debug, Default)]
struct FoldedMasks {
    once: u64,
    twice: u64,
    written: u64,
}

/// The pages of a process.
#[derive(Default)]
struct Folded {
    pages: FxHashMap<u64, FoldedMasks>,
}

impl Folded {
    fn read(session: &Session, members: &[ThreadId]) -> Result<Self, Error> {
        let next = AtomicUsize::new(0);
        let all = Mutex::new((Self::default(), None));
        std::thread::scope(|scope| {
            for _ in 0..threads().min(members.len()) {
                scope.spawn(|| {
                    while let Some(&thread) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let read = ThreadPages::read(session, thread);
                        let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        match read {
                            Ok(pages) => all.0.add(&pages),
                            Err(error) => all.1 = Some(error),
                        }
                    }
                });
            }
        });
        let (folded, error) = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        error.map_or(Ok(folded), Err)
    }

    fn add(&mut self, thread: &ThreadPages) {
        for (&page, &number) in &thread.number_of {
            let masks = thread.pages[number as usize];
            let folded = self.pages.entry(page).or_default();
            folded.twice |= folded.once & masks.touched;
            folded.once |= masks.touched;
            folded.written |= masks.written;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shared_where_two_touch_it_and_one_writes() {
        let mut folded = Folded::default();
        for (addr, len, writes) in [(0x1000, 8, true), (0x1078, 16, false), (0x2000, 8, false)] {
            let mut thread = ThreadPages::new();
            thread.touch(VirtAddr(addr), len, writes);
            thread.touch(VirtAddr(0x1040), 1, false);
            thread.touch(VirtAddr(0x2000), 1, false);
            folded.add(&thread);
        }
        let shared = |page: u64| folded.pages[&page].twice & folded.pages[&page].written;
        assert_eq!((shared(1), shared(2)), (0, 0));
        let mut thread = ThreadPages::new();
        thread.touch(VirtAddr(0x10bf), 2, true);
        folded.add(&thread);
        // Of 0x1080 and 0x10c0, the second is the writer's alone.
        assert_eq!(folded.pages[&1].twice & folded.pages[&1].written, 0b100);
    }

    #[test]
    fn each_line_is_in_one_share() {
        let process = ProcessId(3);
        let all = [(0x7f12, u64::MAX), (5, 0b1011), (6, 1 << 63)];
        let shared = all.map(|(page, lines)| ((process, page), lines)).into_iter().collect();
        let mut whole = TouchedLines { shared, quick: Vec::new() };
        for count in 1..=5 {
            let mut shares = whole.shares(count);
            for line in all.iter().flat_map(|(page, _)| page * PAGE_LINES..(page + 1) * PAGE_LINES) {
                let of = shares.iter_mut().filter_map(|share| share.has(process, line).then_some(())).count();
                assert_eq!(of, usize::from(whole.has(process, line)), "{line} of {count}");
            }
        }
    }
}
