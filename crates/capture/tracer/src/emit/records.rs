//! Writes records: each thread has its own writer, refilled from the pool. A full pool causes back-pressure, never loss.

use core::sync::atomic::Ordering;

use buffers::{Pool, Record};
use memref::{AccessKind, GapReason, VirtAddr};
use tracee::sys;

use crate::emit::recorder;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

impl TracedThread {
    /// Records one access.
    #[inline]
    pub(crate) fn emit_access(&mut self, pool: &Pool, ip: u64, addr: u64, size: u32, kind: AccessKind) {
        self.note_order(pool);
        let size = size.min(u16::MAX.into()) as u16;
        if let Some(live) = self.filled_live() {
            let (ip, addr) = (VirtAddr(ip), VirtAddr(addr));
            return self.write_flow(live, pool, &Record::Access { ip, addr, size, kind });
        }
        while self.writer.access(VirtAddr(ip), VirtAddr(addr), size, kind).is_err() {
            if !self.refill(pool) {
                return;
            }
        }
    }

    /// Records one access that has an order of its own, or that came after one only.
    pub(crate) fn emit_access_at(
        &mut self,
        pool: &Pool,
        order: u64,
        (ip, addr, size, kind): (u64, u64, u32, AccessKind),
    ) {
        if order > self.order {
            self.write(pool, &Record::Order { order });
            self.order = order;
        }
        let size = size.min(u16::MAX.into()) as u16;
        while self.writer.access(VirtAddr(ip), VirtAddr(addr), size, kind).is_err() {
            if !self.refill(pool) {
                return;
            }
        }
    }

    /// Records anything else.
    pub(crate) fn emit(&mut self, record: &Record<'_>) {
        let Some(pool) = PROCESS.pool() else { return };
        if PROCESS.is_watched() && matches!(record, Record::Sync { .. } | Record::Block { .. }) {
            return;
        }
        let ordered = matches!(
            record,
            Record::Allocation { .. }
                | Record::Sync { .. }
                | Record::Region { .. }
                | Record::Order { .. }
                | Record::Hit { .. }
        );
        if !ordered && !self.calls.keeps_order {
            self.note_order(&pool);
        }
        self.write(&pool, record);
    }

    /// Records that something is missing.
    pub(crate) fn emit_gap(&mut self, reason: GapReason, count: u64, addr: u64, name: &[u8]) {
        self.emit(&Record::Gap { reason, count, addr: VirtAddr(addr), name });
    }

    /// Where others have moved the session's order on, later records of this thread come after that.
    #[inline]
    fn note_order(&mut self, pool: &Pool) {
        let order = pool.control().current_order();
        if order != self.order {
            self.order = order;
            self.write(pool, &Record::Order { order });
        }
    }

    /// Where others have moved the session's order on, says so at the beginning of a new buffer, in which code is about to go on.
    pub(crate) fn note_order_now(&mut self, pool: &Pool) {
        self.note_order(pool);
    }

    #[inline(never)]
    fn write(&mut self, pool: &Pool, record: &Record<'_>) {
        if let Some(live) = self.filled_live() {
            return self.write_flow(live, pool, record);
        }
        while self.writer.record(record).is_err() {
            if !self.refill(pool) {
                return;
            }
        }
    }

    /// Gets an empty buffer, waiting for the recorder where none is free. `false` when the recorder is gone.
    #[inline(never)]
    fn refill(&mut self, pool: &Pool) -> bool {
        let control = pool.control();
        loop {
            if control.is_closed() {
                return false;
            }
            let freed = control.freed_word().load(Ordering::Acquire);
            let got = self.writer.refill(pool, self.process, self.number, self.tid);
            if got {
                sys::futex_wake(control.submitted_word().as_ptr());
                return true;
            }
            recorder::wait_for_free(control, freed);
        }
    }

    /// Hands over what is there.
    pub(crate) fn submit(&mut self) {
        let Some(pool) = PROCESS.pool() else { return };
        let some = match self.filled_live() {
            Some(live) => self.submit_flow(live, &pool),
            None => self.writer.submit(&pool),
        };
        if some {
            sys::futex_wake(pool.control().submitted_word().as_ptr());
        }
    }
}
