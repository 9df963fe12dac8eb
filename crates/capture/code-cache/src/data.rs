//! Blocks that record the bytes of accesses, too.
//!
//! Such a block ends after its first instruction that accesses memory. Before that the address of each access is
//! computed and written; then, for a load, the bytes that lie there, and for a store or modify, after the instruction,
//! those that lie there then. All by moves and lea, so that the flags stay. What another thread writes between the two is
//! not what the instruction read: no instruction reads for itself and for us.
//!
//! A locked instruction has a block of its own, also where no bytes are asked for. Once the process has threads an order of the
//! session is drawn before it, and the last one that was drawn is read after it: of two such instructions the first
//! one's order was drawn before the second's was read, so what cannot have been is known.
//!
//! rax and rcx are put aside meanwhile, each time anew, so that the instruction finds them; the register that points into
//! the buffer is none of its own.

use blocks::{BlockAccess, data_words};
use buffers::flow::{ORDER_AT, POSITION_AT};
use memref::AccessKind;
use x86::{MemoryOperand, SegmentBase};

use crate::code::{Code, RAX, RCX, RDX, RSP};
use crate::emit::{SPILL_BORROWED, SPILL_RAX, SPILL_RCX, SPILL_RDX};

/// Registers that never point into the buffer.
pub(crate) const BUSY: u16 = 1 << RAX | 1 << RCX | 1 << RDX | 1 << RSP;
/// rax and rcx are put aside.
pub(crate) const ASIDE: u8 = 3;

/// One access, and how its address and its bytes are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    base: Option<u8>,
    index: Option<u8>,
    scale: u8,
    displacement: i64,
    /// The registers are those of 32 bits.
    short: bool,
    /// Relative to fs.
    fs: bool,
    size: u16,
    pub(crate) kind: AccessKind,
    /// Its bytes are not asked for.
    bare: bool,
    /// What will be stored, where that is known.
    pushed: Option<u64>,
    /// Its first word in the buffer: the address; the bytes follow.
    pub(crate) word: u8,
}

impl Capture {
    pub(crate) fn new(operand: &MemoryOperand, pushed: Option<u64>) -> Self {
        Self {
            base: operand.base,
            index: operand.index,
            scale: operand.scale,
            displacement: operand.displacement,
            short: operand.is_short,
            fs: operand.segment == SegmentBase::Fs,
            size: operand.len_bytes,
            kind: operand.kind,
            bare: false,
            pushed,
            word: 0,
        }
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Whether it is relative to fs.
    pub(crate) fn is_in_fs(&self) -> bool {
        self.fs
    }

    /// The first of its registers.
    pub(crate) fn base(&self) -> Option<u8> {
        self.base
    }

    /// Whether its address follows from that register.
    pub(crate) fn uses(&self, register: u8) -> bool {
        self.base == Some(register) || self.index == Some(register)
    }

    /// What is added to its base, where there is nothing else, and that fits.
    pub(crate) fn distance_from_base(&self) -> Option<i32> {
        i32::try_from(self.displacement).ok().filter(|_| self.index.is_none() && !self.short)
    }

    /// Its address, with these registers.
    pub(crate) fn locate(&self, register: impl Fn(u8) -> u64, fs_base: u64) -> u64 {
        let value = |number: Option<u8>| number.map_or(0, &register);
        let index = value(self.index).wrapping_mul(self.scale.into());
        let addr = value(self.base).wrapping_add(index).wrapping_add(self.displacement as u64);
        let addr = if self.short { addr & 0xffff_ffff } else { addr };
        if self.fs { addr.wrapping_add(fs_base) } else { addr }
    }

    /// Its address alone is written.
    pub(crate) fn leave_bytes(&mut self) {
        self.bare = true;
    }

    fn data_words(&self) -> usize {
        if self.bare || self.kind == AccessKind::Prefetch { 0 } else { data_words(self.size.into()) }
    }

    /// Words that it takes.
    pub(crate) fn words(&self) -> usize {
        1 + self.data_words()
    }

    /// Whether its bytes are found after the instruction.
    pub(crate) fn is_behind(&self) -> bool {
        self.kind.writes() && self.pushed.is_none() && !self.bare
    }

    /// As the recorder has it.
    pub(crate) fn access(&self, instruction: u16, offset: u16) -> BlockAccess {
        BlockAccess {
            instruction,
            offset,
            size: self.size,
            kind: self.kind,
            base: self.word,
            fs: self.fs,
            data: if self.data_words() > 0 { self.word + 1 } else { 0 },
            ..BlockAccess::NONE
        }
    }

    fn place(&self) -> i32 {
        i32::from(self.word) * 8
    }

    /// `into` = its address, without fs. All other registers are the program's.
    pub(crate) fn address(&self, code: &mut Code, into: u8) {
        if self.base.is_none() && self.index.is_none() {
            code.number(into, self.displacement as u64);
        } else {
            code.lea_any(into, self.base, self.index, self.scale, self.displacement as i32, self.short);
        }
    }

    /// Copies its bytes, which rax points to, after its address, by way of rcx. `fault` is told of each place that may.
    fn copy(&self, code: &mut Code, buffer: u8, mut fault: impl FnMut(&Code)) {
        let size = i32::from(self.size);
        let mut at = 0;
        let mut place = self.place() + 8;
        while at < size {
            let bytes = (size - at).min(8);
            // Of a size above 8 the last 8 bytes, some of them for the second time.
            let (from, bytes) = if bytes < 8 && size > 8 { (size - 8, 8) } else { (at, bytes) };
            fault(code);
            code.load_sized(RCX, RAX, from, bytes as u8, self.fs);
            code.store(buffer, place, RCX);
            place += 8;
            at += 8;
        }
    }
}

/// Where the orders of a locked instruction are written, and whether it or what comes after it needs the flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    /// Their first word in the buffer.
    pub(crate) word: usize,
    pub(crate) keep_flags: bool,
}

/// Writes what comes before the block's last instruction.
pub(crate) fn emit_before(
    captures: &[Capture],
    orders: Option<Orders>,
    code: &mut Code,
    buffer: u8,
    mut fault: impl FnMut(&Code),
) {
    code.store_gs(SPILL_BORROWED, buffer);
    code.load_gs(buffer, POSITION_AT);
    code.store_gs(SPILL_RAX, RAX);
    code.store_gs(SPILL_RCX, RCX);
    for capture in captures {
        if capture.word > 0 {
            code.load_gs(RAX, SPILL_RAX);
            code.load_gs(RCX, SPILL_RCX);
        }
        capture.address(code, RAX);
        code.store(buffer, capture.place(), RAX);
        if let Some(pushed) = capture.pushed {
            code.number(RAX, pushed);
            code.store(buffer, capture.place() + 8, RAX);
        } else if capture.kind == AccessKind::Load && !capture.bare {
            capture.copy(code, buffer, &mut fault);
        }
    }
    if let Some(orders) = orders {
        draw_order(orders, code, buffer);
    }
    code.load_gs(RAX, SPILL_RAX);
    code.load_gs(RCX, SPILL_RCX);
}

/// Draws an order that nobody else sees, as `Control::next_own_order` does, and writes it; zero where the thread is alone. rax
/// and rcx are aside.
fn draw_order(orders: Orders, code: &mut Code, buffer: u8) {
    code.store_gs(SPILL_RDX, RDX);
    if orders.keep_flags {
        // lahf; seto al
        code.put(&[0x9f, 0x0f, 0x90, 0xc0]);
    }
    // mov edx, 0
    code.put(&[0xba, 0, 0, 0, 0]);
    code.load_gs(RCX, ORDER_AT);
    code.put(&[0xe3, 0]);
    let alone = code.len();
    // mov edx, 2; lock xadd [rcx], rdx
    code.put(&[0xba, 2, 0, 0, 0, 0xf0, 0x48, 0x0f, 0xc1, 0x11]);
    code.lea(RDX, RDX, 1);
    code.patch_short(alone, code.len());
    code.store(buffer, orders.word as i32 * 8, RDX);
    if orders.keep_flags {
        // add al, 127 overflows if al is 1; sahf
        code.put(&[0x04, 0x7f, 0x9e]);
    }
    code.load_gs(RDX, SPILL_RDX);
}

/// Writes the last order that was given out; the instruction itself was the barrier that keeps this load after it.
pub(crate) fn read_order(orders: Orders, code: &mut Code, buffer: u8) {
    code.store_gs(SPILL_RCX, RCX);
    code.load_gs(RCX, ORDER_AT);
    code.put(&[0xe3, 0]);
    let alone = code.len();
    code.load(RCX, RCX, 0);
    code.patch_short(alone, code.len());
    code.store(buffer, orders.word as i32 * 8 + 8, RCX);
    code.load_gs(RCX, SPILL_RCX);
}

/// Writes what comes after it.
pub(crate) fn emit_behind(capture: &Capture, code: &mut Code, buffer: u8, fault: impl FnMut(&Code)) {
    code.store_gs(SPILL_RAX, RAX);
    code.store_gs(SPILL_RCX, RCX);
    code.load(RAX, buffer, capture.place());
    capture.copy(code, buffer, fault);
    code.load_gs(RAX, SPILL_RAX);
    code.load_gs(RCX, SPILL_RCX);
}
