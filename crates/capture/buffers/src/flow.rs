//! What a translated thread writes into its buffers: for each block of code an identifier and the registers from which the
//! addresses of its accesses follow. A block is one or more basic blocks that ran on into each other: it is left at its end. What the block is stands once, in a [`Definition`].
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
use memref::{AccessKind, VirtAddr};

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
/// Values and instructions that one block can have.
pub const MAX_VALUES: usize = 62;
/// As above.
pub const MAX_INSTRUCTIONS: usize = 64;
/// Accesses that one block can have.
pub const MAX_ACCESSES: usize = 128;
/// No value.
pub const NO_VALUE: u8 = 0xff;

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

/// Which elements of a vector are accessed: each is an access of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked {
    /// The value that holds the mask register.
    pub value: u8,
    /// Bytes of an element.
    pub bytes: u8,
    /// What the mask's bits mean.
    pub chosen: Chosen,
}

/// What the bits of a mask mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// A bit an element.
    Each,
    /// As many elements as bits are set, one behind the other.
    Packed,
    /// The only element, if any bit is set.
    Any,
}

impl Masked {
    /// The bits of the elements that are accessed, of `size` bytes in all.
    #[inline]
    pub fn elements(&self, size: u16, values: &[u64]) -> u64 {
        let mask = values.get(usize::from(self.value)).copied().unwrap_or(0);
        let count = u32::from(size / u16::from(self.bytes.max(1)));
        let low = |count: u32| if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        match self.chosen {
            Chosen::Each => mask & low(count),
            Chosen::Packed => low((mask & low(count)).count_ones()),
            Chosen::Any => u64::from(mask != 0),
        }
    }
}

/// One access of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAccess {
    /// Which instruction of the block makes it, from 0.
    pub instruction: u16,
    /// The instruction's distance from the block's address.
    pub offset: u16,
    /// Bytes.
    pub size: u16,
    /// What is done.
    pub kind: AccessKind,
    /// The value to start from; for repeated ones where they begin.
    pub base: u8,
    /// The value that is scaled; for repeated ones the count before.
    pub index: u8,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Whether the thread's fs base is added.
    pub fs: bool,
    /// Whether the address wraps at 32 bits.
    pub short: bool,
    /// For repeated ones: the count afterwards, and the place afterwards.
    pub repeated: Option<(u8, u8)>,
    /// For vectors under a mask: which of their elements are accessed.
    pub masked: Option<Masked>,
    /// The value from which on its bytes are, [`data_words`] of them; 0: they are not recorded.
    pub data: u8,
    /// What is added.
    pub displacement: i64,
}

/// Words that an access's bytes take. The last one of a size above 8 that is no multiple of it holds the last 8 bytes, some
/// of them for the second time.
pub const fn data_words(size: usize) -> usize {
    size.div_ceil(8)
}

impl BlockAccess {
    /// None.
    pub const NONE: Self = Self {
        instruction: 0,
        offset: 0,
        size: 0,
        kind: AccessKind::Load,
        base: NO_VALUE,
        index: NO_VALUE,
        scale: 1,
        fs: false,
        short: false,
        repeated: None,
        masked: None,
        data: 0,
        displacement: 0,
    };

    /// The bytes that it read or wrote, piece by piece.
    pub fn bytes(&self, words: &[u64], mut put: impl FnMut(&[u8])) {
        let size = usize::from(self.size);
        if self.data == 0 {
            return;
        }
        let word =
            |index: usize| words.get(usize::from(self.data) + index).copied().unwrap_or(0).to_le_bytes();
        for index in 0..size / 8 {
            put(&word(index));
        }
        let (rest, last) = (size % 8, word(size / 8));
        let part = if size < 8 { last.get(..rest) } else { last.get(8 - rest..) };
        if rest > 0 {
            put(part.unwrap_or(&[]));
        }
    }

    /// The address of an access that is not repeated.
    #[inline]
    pub fn address(&self, values: &[u64], fs_base: u64) -> u64 {
        let value = |index: u8| values.get(usize::from(index)).copied().unwrap_or(0);
        let mut addr = value(self.base)
            .wrapping_add(value(self.index).wrapping_mul(u64::from(self.scale)))
            .wrapping_add(self.displacement as u64);
        if self.short {
            addr &= 0xffff_ffff;
        }
        if self.fs { addr.wrapping_add(fs_base) } else { addr }
    }
}

/// Bytes of a definition's head, and of one access in it.
const HEAD_BYTES: usize = 24;
const ACCESS_BYTES: usize = 24;
/// The longest definition.
pub const MAX_DEFINITION_BYTES: usize = HEAD_BYTES + MAX_ACCESSES * ACCESS_BYTES;

/// Which code a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first instruction.
    pub addr: VirtAddr,
    /// Instructions.
    pub instructions: u16,
    /// Bytes from the first one to the end of the last in memory; zero where nobody asks.
    pub bytes: u16,
}

impl Extent {
    /// So many instructions from there on.
    pub const fn of(addr: VirtAddr, instructions: u16) -> Self {
        Self { addr, instructions, bytes: 0 }
    }
}

/// What a block is: written once, when it is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// Its number in its process.
    pub id: u32,
    /// Its code.
    pub extent: Extent,
    /// What an execution of it records.
    pub values: Values,
    accesses: &'a [u8],
}

/// What an entry of a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// How many values an execution records.
    pub count: u8,
    /// Whether the last two of them are the orders around its one instruction: the one that it drew before, and the last one
    /// that was given out behind. Zero: the thread was alone.
    pub ordered: bool,
}

impl Values {
    /// So many, without orders.
    pub const fn plain(count: u8) -> Self {
        Self { count, ordered: false }
    }
}

/// Writes a definition and returns its length.
pub fn encode_definition(
    id: u32,
    extent: Extent,
    values: Values,
    accesses: &[BlockAccess],
    into: &mut [u8; MAX_DEFINITION_BYTES],
) -> usize {
    let mut len = 0;
    let mut put = |part: &[u8]| {
        if let Some(place) = into.get_mut(len..len + part.len()) {
            place.copy_from_slice(part);
            len += part.len();
        }
    };
    let count = accesses.len().min(MAX_ACCESSES);
    put(&((HEAD_BYTES + count * ACCESS_BYTES) as u32).to_le_bytes());
    put(&id.to_le_bytes());
    put(&extent.addr.0.to_le_bytes());
    put(&extent.instructions.to_le_bytes());
    put(&[values.count, values.ordered.into()]);
    put(&(count as u16).to_le_bytes());
    put(&extent.bytes.to_le_bytes());
    for access in accesses.iter().take(count) {
        put(&access.instruction.to_le_bytes());
        put(&access.offset.to_le_bytes());
        put(&access.size.to_le_bytes());
        let mut flags =
            u8::from(access.fs) | u8::from(access.short) << 1 | u8::from(access.repeated.is_some()) << 2;
        let (mask, element) = match access.masked {
            None => (NO_VALUE, 0),
            Some(masked) => {
                flags |= match masked.chosen {
                    Chosen::Each => 1 << 3,
                    Chosen::Packed => 2 << 3,
                    Chosen::Any => 3 << 3,
                };
                (masked.value, masked.bytes)
            }
        };
        let (count_after, place_after) = access.repeated.unwrap_or((NO_VALUE, NO_VALUE));
        put(&[access.kind.code(), flags, access.base, access.index, access.scale, count_after, place_after]);
        put(&[mask, element, access.data]);
        put(&access.displacement.to_le_bytes());
    }
    len
}

impl<'a> Definition<'a> {
    /// Reads the definition at the front of `bytes`; its length beside it. `None` where there is no whole one.
    pub fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let len = word(0)? as usize;
        let counts = word(20)?;
        let count = usize::from(counts as u16);
        if count > MAX_ACCESSES || len != HEAD_BYTES + count * ACCESS_BYTES {
            return None;
        }
        let addr = u64::from(word(8)?) | u64::from(word(12)?) << 32;
        let sizes = word(16)?;
        let definition = Self {
            id: word(4)?,
            extent: Extent { addr: VirtAddr(addr), instructions: sizes as u16, bytes: (counts >> 16) as u16 },
            values: Values { count: (sizes >> 16) as u8, ordered: sizes >> 24 & 1 != 0 },
            accesses: bytes.get(HEAD_BYTES..len)?,
        };
        Some((definition, len))
    }

    /// Its accesses, in their order.
    pub fn accesses(&self) -> impl Iterator<Item = BlockAccess> + use<'a> {
        self.accesses.chunks_exact(ACCESS_BYTES).map(|bytes| {
            let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
            let half = |at: usize| u16::from(byte(at)) | u16::from(byte(at + 1)) << 8;
            let flags = byte(7);
            let displacement = bytes.get(16..24).and_then(|part| part.try_into().ok());
            BlockAccess {
                instruction: half(0),
                offset: half(2),
                size: half(4),
                kind: AccessKind::from_code(byte(6)).unwrap_or(AccessKind::Load),
                base: byte(8),
                index: byte(9),
                scale: byte(10),
                fs: flags & 1 != 0,
                short: flags & 2 != 0,
                repeated: (flags & 4 != 0).then_some((byte(11), byte(12))),
                masked: match flags >> 3 & 3 {
                    1 => Some(Chosen::Each),
                    2 => Some(Chosen::Packed),
                    3 => Some(Chosen::Any),
                    _ => None,
                }
                .map(|chosen| Masked { value: byte(13), bytes: byte(14), chosen }),
                data: byte(15),
                displacement: displacement.map_or(0, i64::from_le_bytes),
            }
        })
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
    fn definitions_come_back() {
        let accesses = [
            BlockAccess {
                instruction: 3,
                offset: 17,
                size: 64,
                kind: AccessKind::Modify,
                base: 1,
                index: 2,
                scale: 8,
                fs: true,
                short: true,
                repeated: None,
                masked: Some(Masked { value: 4, bytes: 8, chosen: Chosen::Packed }),
                data: 7,
                displacement: -5,
            },
            BlockAccess { repeated: Some((4, 5)), ..BlockAccess::NONE },
        ];
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let values = Values { count: 3, ordered: true };
        let extent = Extent { addr: VirtAddr(0x1234_5678_9abc), instructions: 9, bytes: 300 };
        let len = encode_definition(77, extent, values, &accesses, &mut bytes);
        let (definition, read) = Definition::decode(&bytes[..len]).unwrap();
        assert_eq!((read, definition.id, definition.extent), (len, 77, extent));
        assert_eq!(definition.values, values);
        assert_eq!(definition.accesses().collect::<Vec<_>>(), accesses);
        assert!(Definition::decode(&bytes[..len - 1]).is_none());
    }

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

    #[test]
    fn bytes_are_whole_words_and_the_last_eight_bytes() {
        let words = [0x1000, 0x0706_0504_0302_0100, 0x0908_0706_0504_0302];
        let check = |size: u16, expect: &[u8]| {
            let access = BlockAccess { size, data: 1, ..BlockAccess::NONE };
            let mut bytes = Vec::new();
            access.bytes(&words, |part| bytes.extend_from_slice(part));
            assert_eq!(bytes, expect, "{size}");
        };
        check(1, &[0]);
        check(4, &[0, 1, 2, 3]);
        check(8, &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(10, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        BlockAccess { size: 8, ..BlockAccess::NONE }.bytes(&words, |_| panic!("nothing is recorded"));
        assert_eq!([1, 8, 10, 64].map(data_words), [1, 1, 2, 8]);
    }

    #[test]
    fn addresses_follow_from_values() {
        let access = BlockAccess { base: 0, index: 1, scale: 4, displacement: -8, ..BlockAccess::NONE };
        assert_eq!(access.address(&[1000, 3], 50), 1004);
        assert_eq!(BlockAccess { fs: true, ..access }.address(&[1000, 3], 50), 1054);
        assert_eq!(BlockAccess { short: true, ..access }.address(&[0xffff_ffff, 3], 0), 3);
        assert_eq!(BlockAccess { displacement: 40, ..BlockAccess::NONE }.address(&[], 2), 40);
    }

    #[test]
    fn masks_choose_elements() {
        let masked = |chosen| Masked { value: 0, bytes: 4, chosen };
        // Bits behind the last element mean nothing.
        assert_eq!(masked(Chosen::Each).elements(32, &[0x1a5]), 0xa5);
        assert_eq!(masked(Chosen::Packed).elements(32, &[0x1a5]), 0xf);
        assert_eq!(masked(Chosen::Any).elements(4, &[0x100]), 1);
        assert_eq!(masked(Chosen::Any).elements(4, &[0]), 0);
        assert_eq!(Masked { value: 0, bytes: 1, chosen: Chosen::Each }.elements(64, &[u64::MAX]), u64::MAX);
    }
}
