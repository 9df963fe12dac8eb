//! A site: one instruction that may be changed while threads execute it.
//!
//! [`Site::open`] checks everything that can be checked once (mapped, executable, length, overlap, not the patcher itself); [`Site::patch`]
//! is then a claim, a store and a release. Asynchronous patches and batches are in [`crate::wordpatch`] and [`crate::batch`].

use crate::{
    MAX_PATCH_BYTES, arena, barrier,
    error::{CodeAddr, PatchError, Refusal},
    pages::{self, Access},
    protocol::{Code, Progress, Protocol, Taken},
    store, sys, table,
    tier::{self, Tier},
    trap,
};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// What holds back threads that arrive at a straddling site while it is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// `int3`: the trap handler lets the thread wait, and finishes the patch if its owner does not.
    Int3,
    /// A two-byte jump to itself, for programs that forbid a SIGTRAP handler; only for patches made at once, and only
    /// where both bytes lie before the boundary (otherwise `int3` is taken).
    SelfJump,
}

/// The halves of a straddling site, as `dirty` counts them.
const NO_HALF: u8 = 0;
const FRONT: u8 = 1;
const BACK: u8 = 2;

/// The description of a site; lives as long as the process.
pub struct Cell {
    protocol: Protocol,
    addr: usize,
    len_bytes: u8,
    /// Bytes before the boundary that the site straddles; 0: it straddles none.
    front_bytes: u8,
    access: Access,
    /// The half of a straddling site that the last single-line patch changed and no barrier followed. Written by the
    /// holder of the site. A patch of the other half needs a barrier first, or a core could fetch the older of both.
    dirty: AtomicU8,
    /// Length of the guard in bytes. Written by the holder.
    guard_bytes: AtomicU8,
    /// The bytes that a patch under way writes. Written by the holder.
    pending: AtomicU64,
    /// When the last step of a patch under way was made, in TSC ticks. Written by the holder.
    stamp: AtomicU64,
    /// Where an `int3` that is the site's own instruction leads; 0: none. See [`Site::set_trap_target`].
    trap_target: AtomicUsize,
}

impl Cell {
    pub(crate) fn addr(&self) -> usize {
        self.addr
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.protocol.is_gone()
    }

    pub(crate) fn retire(&self) {
        while !self.protocol.retire() && !self.protocol.is_gone() {
            // Somebody holds it for the length of a store or a barrier.
            sys::yield_now();
        }
    }

    pub(crate) fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    pub(crate) fn trap_target(&self) -> usize {
        self.trap_target.load(Ordering::Acquire)
    }

    fn len(&self) -> usize {
        usize::from(self.len_bytes)
    }

    fn read(&self) -> u64 {
        // SAFETY: the site was mapped and executable when opened, and a retired site is not claimed any more.
        unsafe { store::read(self.addr, self.len()) }
    }

    /// Notes when a step was made, where a wait counts from it: once the store has left the store buffer. A barrier
    /// needs neither.
    fn stamp_step(&self) {
        if matches!(barrier::separation(), barrier::Separation::Wait { .. }) {
            sys::drain_stores();
            self.stamp.store(sys::ticks(), Ordering::Relaxed);
        }
    }

    /// One store of the bytes `low..high` of `value`, all inside one unit.
    #[inline]
    fn write(&self, low: usize, high: usize, value: u64) {
        let bytes = value >> (8 * low);
        // SAFETY: the range belongs to this opened site, lies in one unit, and the caller holds the site.
        unsafe {
            match self.access {
                Access::Direct => store::store(self.addr + low, high - low, bytes),
                Access::ProcMem => store::store_proc_mem(self.addr + low, high - low, bytes),
            }
        }
    }
}

impl Code for Cell {
    fn write_guard(&self) {
        if self.guard_bytes.load(Ordering::Relaxed) == 2 {
            self.write(0, 2, 0xfeeb);
        } else {
            self.write(0, 1, u64::from(crate::INT3));
        }
        self.stamp_step();
    }

    fn write_tail(&self) {
        let value = self.pending.load(Ordering::Relaxed);
        for at in usize::from(self.guard_bytes.load(Ordering::Relaxed))..self.len() {
            self.write(at, at + 1, value);
        }
        self.stamp_step();
    }

    fn write_head(&self) {
        let guard = usize::from(self.guard_bytes.load(Ordering::Relaxed));
        self.write(0, guard, self.pending.load(Ordering::Relaxed));
        self.dirty.store(NO_HALF, Ordering::Relaxed);
    }

    fn separate(&self) -> bool {
        match barrier::separation() {
            barrier::Separation::Wait { ticks } => {
                sys::ticks().wrapping_sub(self.stamp.load(Ordering::Relaxed)) >= ticks
            }
            barrier::Separation::Membarrier | barrier::Separation::Unavailable => barrier::pass(),
        }
    }
}

/// One patchable place.
#[derive(Clone, Copy)]
pub struct Site(pub(crate) &'static Cell);

impl Site {
    /// Opens the `len_bytes` bytes at `addr` for patching, or says why not. Opening the same bytes again gives the
    /// same site.
    pub fn open(addr: CodeAddr, len_bytes: usize) -> Result<Self, PatchError> {
        let refuse = |refusal| PatchError::new(addr, refusal);
        if !(1..=MAX_PATCH_BYTES).contains(&len_bytes) {
            return Err(refuse(Refusal::Length { len_bytes }));
        }
        if let Some(cell) = table::find(addr.0)
            && cell.len() == len_bytes
        {
            return Ok(Self(cell));
        }
        if addr.0.checked_add(len_bytes).is_none() {
            return Err(refuse(Refusal::NotMapped));
        }
        if store::is_own_code(addr.0, len_bytes) {
            return Err(refuse(Refusal::InsidePatcher));
        }
        if let Some(with) = overlapping(addr.0, len_bytes) {
            return Err(refuse(Refusal::Overlap { with }));
        }
        let access = pages::open(addr.0, len_bytes).map_err(refuse)?;
        let boundary = addr.bytes_to_boundary(tier::unit_bytes(access));
        let place = arena::allocate(size_of::<Cell>()).ok_or(refuse(Refusal::TableFull))?.cast::<Cell>();
        let cell = Cell {
            protocol: Protocol::new(),
            addr: addr.0,
            len_bytes: len_bytes as u8,
            front_bytes: if boundary < len_bytes { boundary as u8 } else { 0 },
            access,
            dirty: AtomicU8::new(NO_HALF),
            guard_bytes: AtomicU8::new(1),
            pending: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
            trap_target: AtomicUsize::new(0),
        };
        // SAFETY: the arena gave this thread alone room for a cell, aligned to 64, for ever.
        let cell: &'static Cell = unsafe {
            place.write(cell);
            &*place
        };
        let kept = table::insert(cell).ok_or(refuse(Refusal::TableFull))?;
        if kept.len() != len_bytes {
            return Err(refuse(Refusal::Overlap { with: kept.addr }));
        }
        // Two overlapping sites opened at the same time see each other here, and both give up.
        if let Some(with) = overlapping(addr.0, len_bytes) {
            kept.retire();
            return Err(refuse(Refusal::Overlap { with }));
        }
        Ok(Self(kept))
    }

    /// Where the site begins.
    #[must_use]
    pub fn addr(self) -> CodeAddr {
        CodeAddr(self.0.addr)
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len_bytes(self) -> usize {
        self.0.len()
    }

    /// Bytes before the boundary it straddles (its *split*); `None` for a site inside one line.
    #[must_use]
    pub fn split(self) -> Option<usize> {
        (self.0.front_bytes != 0).then_some(usize::from(self.0.front_bytes))
    }

    /// The bytes that stand there now, the first in the lowest byte.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0.read()
    }

    /// Whether its code was unloaded.
    #[must_use]
    pub fn is_gone(self) -> bool {
        self.0.is_gone()
    }

    /// Says where an `int3` leads that is itself this site's instruction (a probe on an instruction too short for a
    /// jump). With `None` such an `int3` is the program's.
    pub fn set_trap_target(self, target: Option<CodeAddr>) {
        trap::ensure_installed();
        self.0.trap_target.store(target.map_or(0, |t| t.0), Ordering::Release);
    }

    /// Replaces the instruction by the low bytes of `value`, at once (Figure 4). Returns the tier that was used.
    ///
    /// # Safety
    /// Before and after, the site must hold one whole instruction, possibly followed by bytes that are never executed
    /// (the paper's layout equivalence), and the program must be able to bear the new one.
    pub unsafe fn patch(self, value: u64) -> Result<Tier, PatchError> {
        self.patch_guarded(value, Guard::Int3)
    }

    /// As [`Self::patch`], choosing what holds threads back should the site straddle.
    ///
    /// # Safety
    /// As for [`Self::patch`].
    pub unsafe fn patch_with(self, value: u64, guard: Guard) -> Result<Tier, PatchError> {
        self.patch_guarded(value, guard)
    }

    fn patch_guarded(self, value: u64, guard: Guard) -> Result<Tier, PatchError> {
        let tier = self.claim_for(value, guard)?;
        if tier == Tier::Straddler {
            let _quiet = sys::SignalsBlocked::new();
            self.0.protocol.complete(self.0);
        }
        Ok(tier)
    }

    /// Claims the site; a patch that fits a single store is made and the site given back, a straddler stays claimed
    /// with its new bytes pending.
    pub(crate) fn claim_for(self, value: u64, guard: Guard) -> Result<Tier, PatchError> {
        if self.0.front_bytes != 0 && (guard == Guard::Int3 || self.0.front_bytes < 2) {
            trap::ensure_installed();
        }
        self.claim_with_trap_handler(value, guard)
    }

    /// As [`Self::claim_for`]; the trap handler has been looked after.
    pub(crate) fn claim_with_trap_handler(self, value: u64, guard: Guard) -> Result<Tier, PatchError> {
        let cell = self.0;
        self.claim()?;
        let old = cell.read();
        let give_up = |refusal| {
            cell.protocol.release();
            Err(PatchError::new(self.addr(), refusal))
        };
        if old as u8 == crate::INT3 && cell.trap_target() == 0 {
            return give_up(Refusal::ForeignTrap);
        }
        let changed = tier::changed(old, value, cell.len());
        let tier = tier::tier(cell.addr, &changed, cell.access);
        match tier {
            Tier::Unchanged => {}
            Tier::Straddler => {
                if barrier::separation() == barrier::Separation::Unavailable {
                    return give_up(Refusal::NoSeparation);
                }
                let two_bytes = guard == Guard::SelfJump && cell.front_bytes >= 2;
                cell.guard_bytes.store(1 + u8::from(two_bytes), Ordering::Relaxed);
                cell.pending.store(value, Ordering::Relaxed);
                return Ok(tier);
            }
            _ => {
                if self.settle_other_half(changed.start).is_err() {
                    return give_up(Refusal::NoSeparation);
                }
                cell.write(changed.start, changed.end, value);
            }
        }
        cell.protocol.release();
        Ok(tier)
    }

    #[inline]
    pub(crate) fn claim(self) -> Result<(), PatchError> {
        self.0.protocol.claim().map_err(|taken| {
            let refusal = match taken {
                Taken::Busy => Refusal::Busy,
                Taken::Gone => Refusal::Gone,
            };
            PatchError::new(self.addr(), refusal)
        })
    }

    /// Before a store into one half of a straddling site: a barrier if the other half was the last to change.
    #[inline]
    fn settle_other_half(self, low: usize) -> Result<(), ()> {
        let cell = self.0;
        if cell.front_bytes == 0 {
            return Ok(());
        }
        let half = if low < usize::from(cell.front_bytes) { FRONT } else { BACK };
        let dirty = cell.dirty.load(Ordering::Relaxed);
        if dirty != NO_HALF && dirty != half && !barrier::pass() {
            return Err(());
        }
        cell.dirty.store(half, Ordering::Relaxed);
        Ok(())
    }

    /// The fast way of callpatch: one store of the bytes `low..high` of `value`, all inside one line.
    #[inline]
    pub(crate) fn store_part(self, low: usize, high: usize, value: u64) -> Result<(), PatchError> {
        self.claim()?;
        let settled = self.settle_other_half(low);
        if settled.is_ok() {
            self.0.write(low, high, value);
        }
        self.0.protocol.release();
        settled.map_err(|()| PatchError::new(self.addr(), Refusal::NoSeparation))
    }

    /// Moves an asynchronous patch of this site on (Figure 7).
    pub fn finish(self) -> Progress {
        let _quiet = sys::SignalsBlocked::new();
        self.0.protocol.advance(self.0)
    }
}

/// The start of a live site that shares a byte with `[addr, addr + len)` but does not begin at `addr`, or begins there
/// with another length.
fn overlapping(addr: usize, len_bytes: usize) -> Option<usize> {
    (addr.saturating_sub(MAX_PATCH_BYTES - 1)..addr + len_bytes).find(|start| {
        table::find(*start).is_some_and(|cell| {
            cell.addr + cell.len() > addr && (cell.addr != addr || cell.len() != len_bytes)
        })
    })
}
