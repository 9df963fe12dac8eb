//! All sites of the process, found by address without a lock: the trap handler looks them up here.
//!
//! This is an open-addressing table of fixed capacity that only grows; a retired site stays as a tombstone.

use crate::{arena, site::Cell};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const CAPACITY: usize = 1 << 20;
type Slot = AtomicPtr<Cell>;

/// The slots; null before the first use. Set once.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());
/// Slots in use, tombstones included.
static USED: AtomicUsize = AtomicUsize::new(0);

fn slots() -> Option<&'static [Slot]> {
    let mut base = SLOTS.load(Ordering::Acquire);
    if base.is_null() {
        let fresh = arena::allocate(CAPACITY * size_of::<Slot>())?.cast::<Slot>();
        base = match SLOTS.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => fresh,
            Err(winner) => winner,
        };
    }
    // SAFETY: the arena gave CAPACITY zeroed slots (null pointers) that are never freed.
    Some(unsafe { std::slice::from_raw_parts(base, CAPACITY) })
}

/// A place for `addr` in a table of `capacity` slots, a power of two: addresses of the same 64 KiB of code stay together,
/// so that filling the table for a program touches few pages.
#[inline]
#[must_use]
pub fn place(addr: usize, capacity: usize) -> usize {
    const SLOTS_A_BLOCK: usize = 1 << 10;
    let block = (addr >> 16).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (block.wrapping_mul(SLOTS_A_BLOCK) + (addr >> 6) % SLOTS_A_BLOCK) & (capacity - 1)
}

/// The site that begins at `addr` and is not retired. Safe in a signal handler.
#[must_use]
pub fn find(addr: usize) -> Option<&'static Cell> {
    if SLOTS.load(Ordering::Acquire).is_null() {
        return None;
    }
    let slots = slots()?;
    let mut index = place(addr, CAPACITY);
    loop {
        // SAFETY: a non-null slot points to a cell of the arena that is never freed.
        let cell = unsafe { slots[index].load(Ordering::Acquire).as_ref() }?;
        if cell.addr() == addr && !cell.is_gone() {
            return Some(cell);
        }
        index = (index + 1) & (CAPACITY - 1);
    }
}

/// Adds a cell; an earlier one for the same address that is still alive is returned instead.
pub fn insert(cell: &'static Cell) -> Option<&'static Cell> {
    let slots = slots()?;
    if USED.fetch_add(1, Ordering::Relaxed) > CAPACITY / 4 * 3 {
        USED.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let mut index = place(cell.addr(), CAPACITY);
    loop {
        let expect = std::ptr::null_mut();
        match slots[index].compare_exchange(
            expect,
            std::ptr::from_ref(cell).cast_mut(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => return Some(cell),
            Err(other) => {
                // SAFETY: non-null, hence a cell of the arena that is never freed.
                let other: &'static Cell = unsafe { &*other };
                if other.addr() == cell.addr() && !other.is_gone() {
                    USED.fetch_sub(1, Ordering::Relaxed);
                    return Some(other);
                }
            }
        }
        index = (index + 1) & (CAPACITY - 1);
    }
}

/// Retires every site in `[start, end)`: its code was unloaded.
pub fn retire_range(start: usize, end: usize) {
    if SLOTS.load(Ordering::Acquire).is_null() {
        return;
    }
    for slot in slots().unwrap_or(&[]) {
        // SAFETY: a non-null slot points to a cell of the arena that is never freed.
        if let Some(cell) = unsafe { slot.load(Ordering::Acquire).as_ref() }
            && (start..end).contains(&cell.addr())
        {
            cell.retire();
        }
    }
}
