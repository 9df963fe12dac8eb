//! Blocks that also record the bytes of accesses.
//!
//! Such a block ends after its first instruction that accesses memory. Before that instruction, the block computes and writes
//! the address of each access, and for a load the bytes at that address. For a store or modify, the bytes are written after the
//! instruction. All of this is moves and lea, so the flags are preserved. The recording code and the instruction read memory
//! one after the other: if another thread writes in between, the recorded bytes are not those that the instruction read.
//!
//! A locked instruction has a block of its own, even where no bytes are requested. Once the process has threads, an
//! order of the session is drawn before it, and the last order drawn by any thread is read after it. If the order
//! read after one such instruction is lower than the one drawn before another, the first instruction came first.
//!
//! For each access, rax and rcx are spilled, and reloaded before the instruction, which needs
//! them. The register that points into the buffer is one that the instruction does not use.

use blocks::{BlockAccess, data_words};
use buffers::flow::{ORDER_AT, POSITION_AT};
use memref::AccessKind;
use x86::{MemoryOperand, SegmentBase};

use crate::assembler::Assembler;
use crate::register::Gpr;
use crate::slot::{SPILL_RAX, SPILL_RCX, SPILL_RDX, SPILL_SCRATCH};

/// Registers that never point into the buffer.
pub(crate) const BUSY: u16 = Gpr::RAX.bit() | Gpr::RCX.bit() | Gpr::RDX.bit() | Gpr::RSP.bit();

/// One access, and how its address and its bytes are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    base: Option<Gpr>,
    index: Option<Gpr>,
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
            base: operand.base.map(Gpr::numbered),
            index: operand.index.map(Gpr::numbered),
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
    pub(crate) fn base(&self) -> Option<Gpr> {
        self.base
    }

    /// Whether its address follows from that register.
    pub(crate) fn uses(&self, register: Gpr) -> bool {
        self.base == Some(register) || self.index == Some(register)
    }

    /// What is added to its base, where there is nothing else, and that fits.
    pub(crate) fn distance_from_base(&self) -> Option<i32> {
        i32::try_from(self.displacement).ok().filter(|_| self.index.is_none() && !self.short)
    }

    /// Its address, with these registers.
    pub(crate) fn locate(&self, register: impl Fn(u8) -> u64, fs_base: u64) -> u64 {
        let value = |own: Option<Gpr>| own.map_or(0, |own| register(own.number()));
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
    pub(crate) fn is_late(&self) -> bool {
        self.kind.writes() && self.pushed.is_none() && !self.bare
    }

    /// As the recorder has it.
    pub(crate) fn access(&self, instruction: u16, offset: i64) -> BlockAccess {
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

    /// Where its first word is, from the position on: the header stands before the values.
    fn place(&self) -> i32 {
        i32::from(self.word) * 8 + 8
    }

    /// `into` = its address, without fs. All other registers are the program's.
    pub(crate) fn address(&self, code: &mut Assembler, into: Gpr) {
        if self.base.is_none() && self.index.is_none() {
            code.number(into, self.displacement as u64);
        } else {
            code.lea_any(into, self.base, self.index, self.scale, self.displacement as i32, self.short);
        }
    }

    /// Copies its bytes, which rax points to, to the words after its address, by way of rcx. `fault` is told of each place that may.
    fn copy(&self, code: &mut Assembler, buffer: Gpr, mut fault: impl FnMut(&Assembler)) {
        let size = i32::from(self.size);
        let mut at = 0;
        let mut place = self.place() + 8;
        while at < size {
            let bytes = (size - at).min(8);
            // Of a size above 8 the last 8 bytes, some of them for the second time.
            let (from, bytes) = if bytes < 8 && size > 8 { (size - 8, 8) } else { (at, bytes) };
            fault(code);
            code.load_sized(Gpr::RCX, Gpr::RAX, from, bytes as u8, self.fs);
            code.store(buffer, place, Gpr::RCX);
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
    code: &mut Assembler,
    buffer: Gpr,
    mut fault: impl FnMut(&Assembler),
) {
    code.store_gs(SPILL_SCRATCH, buffer);
    code.load_gs(buffer, POSITION_AT);
    code.store_gs(SPILL_RAX, Gpr::RAX);
    code.store_gs(SPILL_RCX, Gpr::RCX);
    for capture in captures {
        if capture.word > 0 {
            code.load_gs(Gpr::RAX, SPILL_RAX);
            code.load_gs(Gpr::RCX, SPILL_RCX);
        }
        capture.address(code, Gpr::RAX);
        code.store(buffer, capture.place(), Gpr::RAX);
        if let Some(pushed) = capture.pushed {
            code.number(Gpr::RAX, pushed);
            code.store(buffer, capture.place() + 8, Gpr::RAX);
        } else if capture.kind == AccessKind::Load && !capture.bare {
            capture.copy(code, buffer, &mut fault);
        }
    }
    if let Some(orders) = orders {
        draw_order(orders, code, buffer);
    }
    code.load_gs(Gpr::RAX, SPILL_RAX);
    code.load_gs(Gpr::RCX, SPILL_RCX);
}

/// Draws an order that nobody else sees, as `buffers::Control::next_own_order` does, and writes it; zero where the thread is alone. rax
/// and rcx are spilled.
fn draw_order(orders: Orders, code: &mut Assembler, buffer: Gpr) {
    code.store_gs(SPILL_RDX, Gpr::RDX);
    if orders.keep_flags {
        code.flags_to_ax();
    }
    code.short_number(Gpr::RDX, 0);
    code.load_gs(Gpr::RCX, ORDER_AT);
    let alone = code.jump_if_rcx_is_zero();
    code.short_number(Gpr::RDX, 2);
    code.exchange_and_add_rdx();
    code.lea(Gpr::RDX, Gpr::RDX, 1);
    code.land(alone);
    code.store(buffer, orders.word as i32 * 8 + 8, Gpr::RDX);
    if orders.keep_flags {
        code.flags_from_ax();
    }
    code.load_gs(Gpr::RDX, SPILL_RDX);
}

/// Writes the last order that was given out; the instruction itself was the barrier that keeps this load after it.
pub(crate) fn read_order(orders: Orders, code: &mut Assembler, buffer: Gpr) {
    code.store_gs(SPILL_RCX, Gpr::RCX);
    code.load_gs(Gpr::RCX, ORDER_AT);
    let alone = code.jump_if_rcx_is_zero();
    code.load(Gpr::RCX, Gpr::RCX, 0);
    code.land(alone);
    code.store(buffer, orders.word as i32 * 8 + 16, Gpr::RCX);
    code.load_gs(Gpr::RCX, SPILL_RCX);
}

/// Writes what comes after the block's last instruction.
pub(crate) fn emit_after(
    capture: &Capture,
    code: &mut Assembler,
    buffer: Gpr,
    fault: impl FnMut(&Assembler),
) {
    code.store_gs(SPILL_RAX, Gpr::RAX);
    code.store_gs(SPILL_RCX, Gpr::RCX);
    code.load(Gpr::RAX, buffer, capture.place());
    capture.copy(code, buffer, fault);
    code.load_gs(Gpr::RAX, SPILL_RAX);
    code.load_gs(Gpr::RCX, SPILL_RCX);
}
