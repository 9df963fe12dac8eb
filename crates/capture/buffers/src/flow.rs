//! What a translated thread writes into its buffers: for each block of code an identifier and the registers from which the
//! addresses of its accesses follow. What the block is stands once, in a definition (crate `blocks`), in a buffer of its own.
//!
//! A buffer is a row of *entries*, each a payload of words and then one header word behind it: bits 0..22 say what the
//! entry is, the upper 42 bits are a number. So the last header always stands in front of the write position, where code
//! without accesses adds the instructions that it executes, and a buffer is read from its end.
//!
//! | low bits | payload | number |
//! |---|---|---|
//! | 0 [`PAD`] | - | instructions that follow without an access |
//! | 1 [`EMBED`] | a [`crate::Record`], padded to words | words of the payload |
//! | 2 [`CUT`] | one word: instructions of the block before that were executed; bit 32: all its accesses count | unused |
//! | 16 and up | the values of that block, a word each | instructions that follow without an access |
//!
//! The thread's position is a word of its [`Live`] slot, in shared memory: what it filled is known even when it is killed
//! at any instruction.

use crate::layout::BUFFER_BYTES;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bits of a header that say what the entry is.
pub const ID_BITS: u32 = 22;
/// See the table above.
pub const PAD: u64 = 0;
/// See the table above.
pub const EMBED: u64 = 1;
/// See the table above.
pub const CUT: u64 = 2;
/// The first number of a block.
pub const FIRST_BLOCK: u32 = 16;
/// In a cut: the accesses of the whole block count.
pub const CUT_ALL: u64 = 1 << 32;
/// The part of a translated thread that its recording code and the recorder share. The recording code reaches it through
/// the gs segment, by the offsets below.
#[repr(C, align(512))]
#[derive(Debug)]
pub struct Live {
    /// Where the next byte goes: an address in the thread's process.
    position: AtomicU64,
    /// The address of the first byte of the present buffer.
    base: AtomicU64,
    /// The process's number plus one; zero: the slot is free. Taken by compare-and-swap.
    owner: AtomicU32,
    /// The present buffer's number in the pool, or all ones.
    buffer: AtomicU32,
    /// Instructions executed inside functions that are one event.
    quiet: AtomicU64,
    /// Where an indirect branch goes.
    target: AtomicU64,
    /// Registers put aside.
    spills: [AtomicU64; 8],
    /// The routine through which the cache is left, the end of the stack that it uses, the program's stack pointer
    /// meanwhile, and whether the thread is in it.
    gate: AtomicU64,
    stack: AtomicU64,
    rsp: AtomicU64,
    in_gate: AtomicU64,
    /// The tracer's state of the thread, in its process.
    thread: AtomicU64,
    /// Where the session's order is, in its process; zero while it is the only thread.
    order: AtomicU64,
}

/// Offsets of [`Live`]'s words.
pub const POSITION_AT: u32 = 0;
/// As above.
pub const QUIET_AT: u32 = 24;
/// As above.
pub const TARGET_AT: u32 = 32;
/// Offset of the first of the eight spills.
pub const SPILLS_AT: u32 = 40;
/// As above.
pub const GATE_AT: u32 = 104;
/// As above.
pub const STACK_AT: u32 = 112;
/// As above.
pub const RSP_AT: u32 = 120;
/// As above.
pub const IN_GATE_AT: u32 = 128;
/// As above.
pub const THREAD_AT: u32 = 136;
/// As above.
pub const ORDER_AT: u32 = 144;

#[cfg(not(loom))]
const _: () = {
    assert!(core::mem::offset_of!(Live, position) == POSITION_AT as usize);
    assert!(core::mem::offset_of!(Live, quiet) == QUIET_AT as usize);
    assert!(core::mem::offset_of!(Live, target) == TARGET_AT as usize);
    assert!(core::mem::offset_of!(Live, spills) == SPILLS_AT as usize);
    assert!(core::mem::offset_of!(Live, gate) == GATE_AT as usize);
    assert!(core::mem::offset_of!(Live, in_gate) == IN_GATE_AT as usize);
    assert!(core::mem::offset_of!(Live, thread) == THREAD_AT as usize);
    assert!(core::mem::offset_of!(Live, order) == ORDER_AT as usize);
    assert!(size_of::<Live>() == 512);
};

impl Live {
    /// Takes a free slot for a process.
    pub(crate) fn take(&self, process: u32) -> bool {
        if self.owner.compare_exchange(0, process + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.buffer.store(u32::MAX, Ordering::Relaxed);
        self.position.store(0, Ordering::Relaxed);
        self.base.store(0, Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        self.in_gate.store(0, Ordering::Relaxed);
        self.order.store(0, Ordering::Relaxed);
        true
    }

    /// Sets the routine through which the cache is left, and the end of its stack.
    pub fn set_gate(&self, gate: u64, stack: u64) {
        self.gate.store(gate, Ordering::Relaxed);
        self.stack.store(stack, Ordering::Relaxed);
    }

    /// Sets the address of the tracer's state of the thread.
    pub fn set_thread(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The thread is no longer alone: what it writes of its locked instructions are orders of the session, from the word at that
    /// address.
    pub fn set_order(&self, word: u64) {
        self.order.store(word, Ordering::Relaxed);
    }

    /// Whether the process has had this one thread only.
    pub fn is_alone(&self) -> bool {
        self.order.load(Ordering::Relaxed) == 0
    }

    /// Whether the thread is in that routine.
    pub fn is_in_gate(&self) -> bool {
        self.in_gate.load(Ordering::Relaxed) != 0
    }

    /// It left that routine by another way.
    pub fn leave_gate(&self) {
        self.in_gate.store(0, Ordering::Relaxed);
    }

    /// Gives it back.
    pub fn release(&self) {
        self.owner.store(0, Ordering::Release);
    }

    /// The process that has it.
    pub fn owner(&self) -> Option<u32> {
        self.owner.load(Ordering::Acquire).checked_sub(1)
    }

    /// The buffer that it fills.
    pub fn buffer(&self) -> u32 {
        self.buffer.load(Ordering::Acquire)
    }

    /// Bytes filled of the present buffer.
    pub fn filled(&self) -> usize {
        let bytes = self.position.load(Ordering::Acquire).wrapping_sub(self.base.load(Ordering::Acquire));
        if bytes <= BUFFER_BYTES as u64 { bytes as usize & !7 } else { 0 }
    }

    /// Begins to fill a buffer (all ones: one that nobody reads) that is mapped at `base`.
    pub fn begin(&self, buffer: u32, base: u64) {
        self.buffer.store(u32::MAX, Ordering::Release);
        self.base.store(base, Ordering::Relaxed);
        self.position.store(base, Ordering::Relaxed);
        self.buffer.store(buffer, Ordering::Release);
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Makes what is before that address visible.
    pub fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Release);
    }

    /// Instructions executed inside functions that are one event, since the last call.
    pub fn take_quiet(&self) -> u64 {
        let count = self.quiet.load(Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        count
    }

    /// Takes back instructions that were counted before they were executed.
    pub fn uncount_quiet(&self, count: u64) {
        let present = self.quiet.load(Ordering::Relaxed);
        self.quiet.store(present.wrapping_sub(count), Ordering::Relaxed);
    }

    /// Where an indirect branch wanted to go.
    pub fn target(&self) -> u64 {
        self.target.load(Ordering::Relaxed)
    }

    /// A register that was put aside.
    pub fn spill(&self, index: usize) -> u64 {
        self.spills.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// What the spill holds from now on: for a child that goes on in its parent's place.
    pub fn set_spill(&self, index: usize, value: u64) {
        if let Some(word) = self.spills.get(index) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// One entry of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Instructions without accesses.
    Instructions(u64),
    /// A record.
    Record(&'a [u8]),
    /// An execution of a block: its number, its values (eight bytes each), and the instructions without accesses that
    /// followed it.
    Block(u32, &'a [u8], u64),
    /// Only that many instructions of the block before were executed; `true`: but all its accesses were made.
    Cut(u64, bool),
}

/// Finds the entries of a buffer, from its end. `values` says how many values a block has. `starts` gets the place behind
/// each header, last entry first; `false` where the bytes are no entries.
#[inline]
pub fn find_entries(
    bytes: &[u8],
    values: impl Fn(u32) -> Option<u8>,
    mut found: impl FnMut(usize, usize),
) -> bool {
    let mut end = bytes.len() & !7;
    while end > 0 {
        let Some(header) = word_at(bytes, end - 8) else { return false };
        let id = header & ((1 << ID_BITS) - 1);
        let payload = match id {
            PAD => 0,
            EMBED => (header >> ID_BITS) as usize,
            CUT => 1,
            id => match values(id as u32) {
                Some(values) => usize::from(values),
                None => return false,
            },
        };
        let Some(start) = payload.checked_mul(8).and_then(|bytes| (end - 8).checked_sub(bytes)) else {
            return false;
        };
        found(start, end);
        end = start;
    }
    true
}

/// Whether the entry that ends there is a [`CUT`], and whether it says nothing at all.
#[inline]
pub fn is_cut_or_empty(bytes: &[u8], end: usize) -> (bool, bool) {
    let header = end.checked_sub(8).and_then(|at| word_at(bytes, at)).unwrap_or(0);
    (header & ((1 << ID_BITS) - 1) == CUT, header == PAD)
}

/// The entry between two places that [`find_entries`] found.
#[inline]
pub fn entry(bytes: &[u8], start: usize, end: usize) -> Option<Entry<'_>> {
    let header = word_at(bytes, end.checked_sub(8)?)?;
    let payload = bytes.get(start..end - 8)?;
    let number = header >> ID_BITS;
    Some(match header & ((1 << ID_BITS) - 1) {
        PAD => Entry::Instructions(number),
        EMBED => Entry::Record(payload),
        CUT => {
            let word = word_at(payload, 0)?;
            Entry::Cut(word & 0xffff_ffff, word & CUT_ALL != 0)
        }
        id => Entry::Block(id as u32, payload, number),
    })
}

/// The little-endian word at that place.
#[inline]
pub fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn entries_are_found_from_the_end() {
        let words =
            [5u64 << ID_BITS, 11, 22, 17 | 3 << ID_BITS, 9, 8, EMBED | 2 << ID_BITS, 1 | CUT_ALL, CUT];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut places = Vec::new();
        assert!(find_entries(&bytes, |id| (id == 17).then_some(2), |start, end| places.push((start, end))));
        places.reverse();
        let entries: Vec<_> = places.iter().map(|&(start, end)| entry(&bytes, start, end).unwrap()).collect();
        assert_eq!(
            entries,
            [
                Entry::Instructions(5),
                Entry::Block(17, &bytes[8..24], 3),
                Entry::Record(&bytes[32..48]),
                Entry::Cut(1, true)
            ]
        );
        assert!(!find_entries(&bytes[8..], |_| None, |_, _| {}));
    }
}
