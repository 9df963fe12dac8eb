//! Which threads have written and read what, and so which accesses carry news from one thread to another.
//!
//! Atomic variables need no call and often no special instruction, so their accesses can only be ordered where they
//! happen. Drawing an order for each access would double the trace. As in the demand-driven race detector of Unlimited
//! Watchpoints (section 3.3), only accesses that can carry news need one: a load of what another thread wrote last and
//! this one has not read since, and a store to what others have read or written since this thread's last store. Those
//! are performed one at a time, under a lock, and each has an order of its own. All others take no lock:
//!
//! - An unordered store has the order that was current before it was performed. An ordered load that saw it drew its order later.
//! - An unordered load has an order that was current after it was performed, and after the holder of
//!   the lock at that time, if any, had drawn its order: an ordered store that it saw comes first.
//!
//! Cells of 8 bytes are looked up in a table by address. A cell that no thread has touched since the process became multi-threaded is taken
//! without a lock: what happened to it before is ordered by the creation of the threads. A cell whose place is taken by another counts as
//! news, so a small table costs time but never an order. The table is 16 MiB of address space; parts that are never touched cost nothing.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memref::AccessKind;
use tracee::sys;

const CELLS: usize = 1 << INDEX_BITS;
const CELL_BITS: u32 = 3;
const INDEX_BITS: u32 = 21;

/// Readers that have a bit of their own; others' loads always count as news.
const READERS: u32 = 28;

/// Looks at a held lock before the waiter gives its time away.
const SPINS: u32 = 64;

/// The writer's number where nobody is known to have written.
const NOBODY: u64 = 1023;
const WRITER_SHIFT: u32 = READERS;
const TAG_SHIFT: u32 = WRITER_SHIFT + 10;

/// The table's address; zero while the process has had one thread only.
static TABLE: AtomicUsize = AtomicUsize::new(0);

/// 1 while an ordered access is performed. Taken by acquire, given back by release.
static HELD: AtomicU32 = AtomicU32::new(0);

/// The table of a process that has, or had, several threads.
#[derive(Clone, Copy)]
pub(crate) struct Sharing {
    table: *const AtomicU64,
}

/// A second thread is about to be made.
pub(crate) fn begin() {
    if TABLE.load(Ordering::Acquire) == 0
        && let Some(memory) = sys::map_anonymous((CELLS * 8) as u64, sys::PROT_READ | sys::PROT_WRITE)
    {
        // Two threads may both be the first to make one: one of the tables is never used.
        let _ = TABLE.compare_exchange(0, memory as usize, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// In a forked child: the holder of the lock, if there was one, is not in this process.
pub(crate) fn reset() {
    HELD.store(0, Ordering::Release);
}

/// The table, if accesses can carry news.
#[inline]
pub(crate) fn current() -> Option<Sharing> {
    let table = TABLE.load(Ordering::Acquire);
    (table != 0).then_some(Sharing { table: table as *const AtomicU64 })
}

/// Waits until nobody performs an ordered access.
#[inline]
pub(crate) fn settle() {
    let mut rounds = 0_u32;
    while HELD.load(Ordering::Acquire) != 0 {
        rounds += 1;
        if rounds.is_multiple_of(SPINS) {
            // The holder may have lost its processor.
            // SAFETY: sched_yield has no arguments.
            unsafe { sys::syscall(libc::SYS_sched_yield as usize, [0; 6]) };
        }
        core::hint::spin_loop();
    }
}

/// Begins an ordered access.
pub(crate) fn lock() {
    while HELD.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        settle();
    }
}

/// Ends it.
pub(crate) fn unlock() {
    HELD.store(0, Ordering::Release);
}

impl Sharing {
    fn cell(self, number: u64) -> (&'static AtomicU64, u64) {
        let index = (number & ((1 << INDEX_BITS) - 1)) as usize;
        let tag = number >> INDEX_BITS & ((1 << (64 - TAG_SHIFT)) - 1);
        // SAFETY: the table has that many cells and is never unmapped.
        (unsafe { &*self.table.add(index) }, tag)
    }

    fn cells(addr: u64, len: u32) -> core::ops::RangeInclusive<u64> {
        addr >> CELL_BITS..=addr.wrapping_add(u64::from(len.max(1)) - 1) >> CELL_BITS
    }

    /// Whether an access can carry news to or from this thread.
    #[inline]
    pub(crate) fn is_news(self, thread: u32, addr: u64, len: u32, kind: AccessKind) -> bool {
        Self::cells(addr, len).any(|number| {
            let (cell, tag) = self.cell(number);
            let word = cell.load(Ordering::Acquire);
            let writer = word >> WRITER_SHIFT & NOBODY;
            let readers = word & ((1 << READERS) - 1);
            if word != 0 && word >> TAG_SHIFT != tag {
                return true;
            }
            if word == 0 {
                // Nobody's: it becomes this thread's, without an order.
                let own = Self::word(tag, thread, kind, None);
                return cell.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_err();
            }
            let mine = writer == Self::writer(thread) && writer != NOBODY;
            let read = thread < READERS && readers >> thread & 1 != 0;
            if kind.writes() { !mine || readers != 0 } else { !mine && !read }
        })
    }

    /// Notes an ordered access. The caller holds the lock.
    pub(crate) fn note(self, thread: u32, addr: u64, len: u32, kind: AccessKind) {
        for number in Self::cells(addr, len) {
            let (cell, tag) = self.cell(number);
            let old = cell.load(Ordering::Relaxed);
            let known = old != 0 && old >> TAG_SHIFT == tag;
            cell.store(Self::word(tag, thread, kind, known.then_some(old)), Ordering::Release);
        }
    }

    /// How a cell names a writer: never zero, so that no cell in use is zero; threads beyond the last number are nobody.
    fn writer(thread: u32) -> u64 {
        (u64::from(thread) + 1).min(NOBODY)
    }

    /// What a cell holds after an access.
    fn word(tag: u64, thread: u32, kind: AccessKind, old: Option<u64>) -> u64 {
        let writer = Self::writer(thread);
        let reader = if thread < READERS { 1 << thread } else { 0 };
        match old {
            _ if kind.writes() => tag << TAG_SHIFT | writer << WRITER_SHIFT,
            Some(old) => old | reader,
            None => tag << TAG_SHIFT | NOBODY << WRITER_SHIFT | reader,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_news_is_ordered() {
        begin();
        let sharing = current().expect("a table");
        let access = |thread, addr, kind| {
            let news = sharing.is_news(thread, addr, 4, kind);
            if news {
                sharing.note(thread, addr, 4, kind);
            }
            news
        };
        let (load, store, modify) = (AccessKind::Load, AccessKind::Store, AccessKind::Modify);
        // At a low address, whose tag is zero.
        assert!(!access(0, 0x40_4000, store));
        assert!(access(1, 0x40_4000, load));
        let x = 0x7f00_0000_1000;
        // The first of all, then nothing new.
        assert!(!access(0, x, store));
        assert!(!access(0, x, store) && !access(0, x + 4, modify) && !access(0, x, load));
        assert!(access(1, x, load));
        assert!(!access(1, x, load));
        // The writer has a reader since: its next store is news, and then so is the reader's load.
        assert!(access(0, x, store));
        assert!(!access(0, x, store));
        assert!(access(1, x, load));
        assert!(access(1, x, modify));
        assert!(access(0, x, load));
        // Nobody has written: reading is no news, the first write is.
        assert!(!access(0, x + 16, load) && access(1, x + 16, load) && access(1, x + 16, store));
        // A thread without a bit of its own is never taken for one that has read.
        assert!(access(40, x, load) && access(40, x, load));
        // Another address at the same place of the table takes it.
        let far = x + ((CELLS as u64) << CELL_BITS);
        assert!(access(0, far, load));
        assert!(access(1, x, load));
        // An access to two cells is news where one of them is.
        assert!(!access(0, x + 64, store) && !access(1, x + 56, store));
        assert!(access(0, x + 62, store));
        assert!(!access(0, x + 62, store));
    }
}
