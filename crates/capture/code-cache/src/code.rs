//! Machine code, written byte by byte: the few instructions that recording needs.

use alloc::vec::Vec;

/// Processor's numbers of the general registers.
pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RDX: u8 = 2;
pub(crate) const RSP: u8 = 4;
pub(crate) const RSI: u8 = 6;
pub(crate) const RDI: u8 = 7;

/// A piece of code that will stand at a known address.
#[derive(Debug)]
pub(crate) struct Code {
    bytes: Vec<u8>,
    /// Where its first byte will be.
    at: u64,
}

impl Code {
    pub(crate) fn new(at: u64) -> Self {
        Self { bytes: Vec::with_capacity(1024), at }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The address of the next byte.
    pub(crate) fn here(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn align(&mut self, to: u64) {
        while !self.here().is_multiple_of(to) {
            self.bytes.push(0x90);
        }
    }

    fn gs(&mut self, opcode: u8, register: u8, offset: u32) {
        self.put(&[0x65, 0x48 | (register >> 3) << 2, opcode, (register & 7) << 3 | 4, 0x25]);
        self.put(&offset.to_le_bytes());
    }

    /// mov `gs:offset`, register
    pub(crate) fn store_gs(&mut self, offset: u32, register: u8) {
        self.gs(0x89, register, offset);
    }

    /// mov register, `gs:offset`
    pub(crate) fn load_gs(&mut self, register: u8, offset: u32) {
        self.gs(0x8b, register, offset);
    }

    /// mov register of 32 bits, `gs:offset`
    pub(crate) fn load_gs_short(&mut self, register: u8, offset: u32) {
        self.put(&[0x65, 0x40 | (register >> 3) << 2, 0x8b, (register & 7) << 3 | 4, 0x25]);
        self.put(&offset.to_le_bytes());
    }

    /// add qword `gs:offset`, number. Changes the flags.
    pub(crate) fn add_gs(&mut self, offset: u32, number: u32) {
        self.put(&[0x65, 0x48, 0x81, 0x04, 0x25]);
        self.put(&offset.to_le_bytes());
        self.put(&number.to_le_bytes());
    }

    /// The operand [base + displacement], with a register or an opcode's extension.
    fn operand(&mut self, field: u8, base: u8, displacement: i32) {
        let short = i8::try_from(displacement);
        let mode = if short.is_ok() { 0x40 } else { 0x80 };
        self.put(&[mode | (field & 7) << 3 | base & 7]);
        if base & 7 == RSP {
            self.put(&[0x24]);
        }
        match short {
            Ok(short) => self.put(&short.to_le_bytes()),
            Err(_) => self.put(&displacement.to_le_bytes()),
        }
    }

    fn memory(&mut self, opcode: u8, register: u8, base: u8, displacement: i32) {
        self.put(&[0x48 | (register >> 3) << 2 | base >> 3, opcode]);
        self.operand(register, base, displacement);
    }

    /// mov register, number
    pub(crate) fn number(&mut self, register: u8, number: u64) {
        self.put(&[0x48 | register >> 3, 0xb8 | register & 7]);
        self.put(&number.to_le_bytes());
    }

    /// lea register, [base + index * scale + displacement]; with `short` of registers of 32 bits. At least one of the two.
    pub(crate) fn lea_any(
        &mut self,
        register: u8,
        base: Option<u8>,
        index: Option<u8>,
        scale: u8,
        displacement: i32,
        short: bool,
    ) {
        if short {
            self.put(&[0x67]);
        }
        // Without an index: the number of rsp; without a base: that of rbp, and no mode.
        let (at, by) = (base.unwrap_or(5), index.unwrap_or(RSP));
        let mode = if base.is_some() { 0x80 } else { 0 };
        self.put(&[0x48 | (register >> 3) << 2 | (by >> 3) << 1 | at >> 3, 0x8d]);
        self.put(&[mode | (register & 7) << 3 | 4]);
        self.put(&[(scale.trailing_zeros() as u8) << 6 | (by & 7) << 3 | at & 7]);
        self.put(&displacement.to_le_bytes());
    }

    /// Loads 1, 2, 4 or 8 bytes, the rest of the register becomes zero.
    pub(crate) fn load_sized(&mut self, register: u8, base: u8, displacement: i32, bytes: u8, fs: bool) {
        if fs {
            self.put(&[0x64]);
        }
        let rex = 0x40 | (register >> 3) << 2 | base >> 3;
        match bytes {
            1 => self.put(&[rex, 0x0f, 0xb6]),
            2 => self.put(&[rex, 0x0f, 0xb7]),
            4 => self.put(&[rex, 0x8b]),
            _ => self.put(&[rex | 8, 0x8b]),
        }
        self.operand(register, base, displacement);
    }

    /// mov [base + displacement], register
    pub(crate) fn store(&mut self, base: u8, displacement: i32, register: u8) {
        self.memory(0x89, register, base, displacement);
    }

    /// kmovq [base + displacement], mask
    pub(crate) fn store_mask(&mut self, base: u8, displacement: i32, mask: u8) {
        // VEX with three bytes: the base's fourth bit inverted; W set, no second operand.
        self.put(&[0xc4, 0xe1 ^ (base >> 3) << 5, 0xf8, 0x91]);
        self.operand(mask, base, displacement);
    }

    /// mov register, [base + displacement]
    pub(crate) fn load(&mut self, register: u8, base: u8, displacement: i32) {
        self.memory(0x8b, register, base, displacement);
    }

    /// lea register, [base + displacement]
    pub(crate) fn lea(&mut self, register: u8, base: u8, displacement: i32) {
        self.memory(0x8d, register, base, displacement);
    }

    /// mov qword [base + displacement], number
    pub(crate) fn store_number(&mut self, base: u8, displacement: i32, number: u32) {
        self.put(&[0x48 | base >> 3, 0xc7]);
        self.operand(0, base, displacement);
        self.put(&number.to_le_bytes());
    }

    /// add qword [base + displacement], number. Changes the flags.
    pub(crate) fn add_number(&mut self, base: u8, displacement: i32, number: u32) {
        self.put(&[0x48 | base >> 3, 0x81]);
        self.operand(0, base, displacement);
        self.put(&number.to_le_bytes());
    }

    /// mov to, from
    pub(crate) fn copy(&mut self, to: u8, from: u8) {
        self.put(&[0x48 | (from >> 3) << 2 | to >> 3, 0x89, 0xc0 | (from & 7) << 3 | to & 7]);
    }

    /// A jump (or a conditional one) whose distance is patched while threads run through it: its four bytes lie in what
    /// one fetch of instructions reads (`patch::FETCH_BYTES`). Returns the address of the distance.
    pub(crate) fn jump(&mut self, opcode: &[u8], to: u64) -> u64 {
        while (self.here() + opcode.len() as u64) & 31 > 28 {
            self.bytes.push(0x90);
        }
        self.put(opcode);
        let at = self.here();
        self.put(&((to.wrapping_sub(at + 4)) as u32).to_le_bytes());
        at
    }

    /// Sets the distance of a jump that was written here.
    pub(crate) fn set_distance(&mut self, at: u64, to: u64) {
        let offset = (at - self.at) as usize;
        if let Some(place) = self.bytes.get_mut(offset..offset + 4) {
            place.copy_from_slice(&(to.wrapping_sub(at + 4) as u32).to_le_bytes());
        }
    }

    /// Sets the distance of a short jump that ends at `from`.
    pub(crate) fn patch_short(&mut self, from: usize, to: usize) {
        if let Some(place) = from.checked_sub(1).and_then(|at| self.bytes.get_mut(at)) {
            *place = (to - from) as u8;
        }
    }
}
