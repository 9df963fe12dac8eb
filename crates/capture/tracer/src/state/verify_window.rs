//! A thread's verification window: the accesses that the oracle saw, until they are reported.

use memref::AccessKind;
use tracee::sys;
use x86::{Oracle, StepKind};

use crate::memory::{code_views, program_memory};

/// Accesses of one stretch, and how many of them are left free for one block: all that it can have, each of 64 elements.
const EXPECTED: usize = 16_384;
const ONE_BLOCK: usize = 8192;

/// Bytes that are kept of an access; of one that has more they are not compared.
pub(crate) const KEPT_BYTES: usize = 64;

/// An access that the oracle saw.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) ip: u64,
    pub(crate) addr: u64,
    pub(crate) executed: u64,
    pub(crate) size: u16,
    pub(crate) kind: AccessKind,
    /// How many of its bytes are known: all or none.
    pub(crate) known: u8,
}

/// An instruction that is about to be executed. Its accesses stand after those that count.
#[derive(Clone, Copy)]
pub(crate) struct AwaitedStep {
    /// Where in the cache it is.
    pub(crate) rip: u64,
    pub(crate) step: StepKind,
    pub(crate) accesses: usize,
    /// The bytes of its accesses are compared.
    pub(crate) looks: bool,
    /// Its registers.
    pub(crate) regs: x86::Registers,
}

/// What is verified of a thread.
pub(crate) struct VerifyWindow {
    /// For this processor; `None` where nothing is verified.
    pub(crate) oracle: Option<Oracle>,
    /// Instructions that are still to be stepped.
    pub(crate) left: u32,
    /// No stretch of the window has begun.
    pub(crate) is_new: bool,
    /// What is recorded just now will be compared.
    pub(crate) is_open: bool,
    /// The trap flag is ours.
    pub(crate) is_stepping: bool,
    /// Everything that was accessed in the stretch is known.
    pub(crate) is_known: bool,
    /// Buffers that the thread has filled.
    pub(crate) buffers: u32,
    /// Instructions of the stretch.
    pub(crate) executed: u64,
    pub(crate) pending: Option<AwaitedStep>,
    /// Room for what the oracle saw: made when it is first needed, and kept.
    pub(crate) list: *mut Expected,
    pub(crate) count: usize,
    /// Room for the bytes of each; null where they are not recorded.
    pub(crate) bytes: *mut [u8; KEPT_BYTES],
}

impl VerifyWindow {
    pub(crate) const NONE: Self = Self {
        oracle: None,
        left: 0,
        is_new: false,
        is_open: false,
        is_stepping: false,
        is_known: true,
        buffers: 0,
        executed: 0,
        pending: None,
        list: core::ptr::null_mut(),
        count: 0,
        bytes: core::ptr::null_mut(),
    };

    /// Whether there is more to compare: a window is open, or begins with the next block.
    pub(crate) fn is_due(&self) -> bool {
        self.left > 0 || self.is_open || self.is_stepping
    }

    /// Whether the trap flag is set for a window.
    pub(crate) fn is_stepping(&self) -> bool {
        self.is_stepping
    }

    pub(crate) fn list(&mut self) -> &mut [Expected] {
        if self.list.is_null() {
            return &mut [];
        }
        // SAFETY: made by `verify::arm` with that many entries, of which zeros are one each; this thread's own.
        unsafe { core::slice::from_raw_parts_mut(self.list, EXPECTED) }
    }

    pub(crate) fn put(&mut self, index: usize, expected: Expected) {
        match self.list().get_mut(index) {
            Some(place) => *place = expected,
            None => self.is_known = false,
        }
    }

    pub(crate) fn room(&mut self, index: usize) -> Option<&mut [u8; KEPT_BYTES]> {
        if self.bytes.is_null() || index >= EXPECTED {
            return None;
        }
        // SAFETY: made by `verify::arm` with that many entries; this thread's own.
        Some(unsafe { &mut *self.bytes.add(index) })
    }

    /// Keeps what lies where an access is made, if nobody else can change it.
    pub(crate) fn look(&mut self, index: usize) {
        let Some(&Expected { addr, size, .. }) = self.list().get(index) else { return };
        let room = self.room(index).and_then(|room| room.get_mut(..size.into()));
        let known = room.is_some_and(|room| {
            !code_views::is_shared(addr, size.into()) && program_memory::read(addr, room)
        });
        if let Some(expected) = self.list().get_mut(index) {
            expected.known = if known { size as u8 } else { 0 };
        }
    }

    /// Looks at those of the accesses from `first` on that store, or at those that load.
    pub(crate) fn look_at(&mut self, first: usize, accesses: usize, stores: bool) {
        for index in first..first + accesses {
            let Some(kind) = self.list().get(index).map(|expected| expected.kind) else { break };
            if kind != AccessKind::Prefetch && kind.writes() == stores {
                self.look(index);
            }
        }
    }

    /// Looks at an element of a repeated instruction of which more were executed since.
    pub(crate) fn look_at_earlier(&mut self, first: usize, accesses: usize) {
        self.look_at(first, accesses, true);
        let store =
            self.list().get(first + 1).filter(|access| accesses == 2 && access.kind.writes()).copied();
        let Some(store) = store else { return self.look_at(first, accesses, false) };
        // What it loaded is what it stored; the next element may have stored in that place.
        let stored = self.room(first + 1).map_or([0; KEPT_BYTES], |room| *room);
        if let Some(room) = self.room(first) {
            *room = stored;
        }
        if let Some(load) = self.list().get_mut(first) {
            load.known = store.known;
        }
    }

    /// The pending instruction was executed, or of a repeated one an element, after which there are more.
    pub(crate) fn commit(&mut self, is_element: bool) {
        if let Some(pending) = self.pending.take() {
            if pending.looks {
                self.look_at(self.count, pending.accesses, true);
            }
            self.count += pending.accesses;
            self.left = self.left.saturating_sub(1);
            self.executed += u64::from(!is_element);
        }
    }

    /// Whether another block's accesses may not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.count + ONE_BLOCK > EXPECTED
    }
}

/// Memory for something of each access, or null.
pub(crate) fn room<T>() -> *mut T {
    let memory = sys::map_anonymous((EXPECTED * size_of::<T>()) as u64, sys::PROT_READ | sys::PROT_WRITE);
    memory.map_or(core::ptr::null_mut(), |memory| memory.cast())
}
