//! An assembler for the few instructions that recording needs.
//!
//! Each method appends one instruction (or as many as its documentation states), in the shortest encoding
//! for its operands. The name of the method says what the instruction does; its documentation is the
//! instruction itself. The flags are preserved unless stated otherwise. The tests decode the output.

use alloc::vec::Vec;

use crate::register::{Gpr, MaskRegister};
use crate::slot::SPILL_RAX;

const NOP: u8 = 0x90;
/// A jump that will be patched may begin at most there in a fetch of instructions, by where its distance begins.
const LAST_DISTANCE_IN_FETCH: u64 = patchable::FETCH_BYTES - patchable::DISTANCE_BYTES;

/// What one fetch of instructions reads, in which a distance that is patched must lie.
mod patchable {
    pub(super) const FETCH_BYTES: u64 = 32;
    pub(super) const DISTANCE_BYTES: u64 = 4;
}

/// An address that instructions can name as a number.
fn low_address(address: u64) -> Option<u32> {
    i32::try_from(address).ok().map(i32::cast_unsigned)
}

/// A piece of code that will stand at a known address.
#[derive(Debug)]
pub(crate) struct Assembler {
    bytes: Vec<u8>,
    /// Where its first byte will be.
    at: u64,
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JumpWhen {
    Always,
    /// Where the condition holds that has these four bits in the opcode.
    Condition(u8),
}

/// A short jump whose target is written later: see [`Assembler::land`].
#[derive(Clone, Copy, Debug)]
#[must_use = "it jumps to the instruction after it until it lands"]
pub(crate) struct ShortJump {
    /// Bytes of code up to its end.
    end: usize,
}

/// What bits 8 to 39 of an address are taken by: see [`Assembler::line_of_rcx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineBy {
    /// A shift, which changes the flags.
    Shift,
    /// A rotation that needs BMI2.
    Rotate,
    /// A store to that word of the slot, and a load of its middle.
    Memory(u32),
}

impl Assembler {
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

    /// Bytes as they are: the program's own instructions.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn put_number(&mut self, number: u32) {
        self.put(&number.to_le_bytes());
    }

    /// A word of data.
    pub(crate) fn word(&mut self, word: u64) {
        self.put(&word.to_le_bytes());
    }

    /// nop
    pub(crate) fn nop(&mut self) {
        self.put(&[NOP]);
    }

    /// nops up to an address after which `before` more bytes reach a multiple of `to`.
    pub(crate) fn align(&mut self, to: u64, before: u64) {
        while !(self.here() + before).is_multiple_of(to) {
            self.nop();
        }
    }

    /// int3
    pub(crate) fn trap(&mut self) {
        self.put(&[0xcc]);
    }

    /// syscall
    pub(crate) fn system_call(&mut self) {
        self.put(&[0x0f, 0x05]);
    }

    // Words of the thread's slot, by their offsets from the gs base.

    fn gs(&mut self, opcode: u8, register: Gpr, offset: u32) {
        self.put(&[0x65, 0x48 | register.high() << 2, opcode, register.low() << 3 | 4, 0x25]);
        self.put_number(offset);
    }

    /// mov `gs:[offset]`, register
    pub(crate) fn store_gs(&mut self, offset: u32, register: Gpr) {
        self.gs(0x89, register, offset);
    }

    /// mov register, `gs:[offset]`
    pub(crate) fn load_gs(&mut self, register: Gpr, offset: u32) {
        self.gs(0x8b, register, offset);
    }

    /// mov register of 32 bits, `gs:[offset]`
    fn load_gs_short(&mut self, register: Gpr, offset: u32) {
        self.put(&[0x65, 0x40 | register.high() << 2, 0x8b, register.low() << 3 | 4, 0x25]);
        self.put_number(offset);
    }

    /// add qword `gs:[offset]`, number. Changes the flags.
    pub(crate) fn add_gs(&mut self, offset: u32, number: u32) {
        self.put(&[0x65, 0x48, 0x81, 0x04, 0x25]);
        self.put_number(offset);
        self.put_number(number);
    }

    /// jmp `gs:[offset]`
    pub(crate) fn jump_gs(&mut self, offset: u32) {
        self.put(&[0x65, 0xff, 0x24, 0x25]);
        self.put_number(offset);
    }

    // Registers and memory.

    /// The operand [base + displacement], with a register or an opcode's extension in the field beside it.
    fn operand(&mut self, field: u8, base: Gpr, displacement: i32) {
        let short = i8::try_from(displacement);
        let mode = if short.is_ok() { 0x40 } else { 0x80 };
        self.put(&[mode | (field & 7) << 3 | base.low()]);
        if base.low() == Gpr::RSP.low() {
            self.put(&[0x24]);
        }
        match short {
            Ok(short) => self.put(&short.to_le_bytes()),
            Err(_) => self.put(&displacement.to_le_bytes()),
        }
    }

    fn memory(&mut self, opcode: u8, register: Gpr, base: Gpr, displacement: i32) {
        self.put(&[0x48 | register.high() << 2 | base.high(), opcode]);
        self.operand(register.low(), base, displacement);
    }

    /// mov register, number
    pub(crate) fn number(&mut self, register: Gpr, number: u64) {
        self.put(&[0x48 | register.high(), 0xb8 | register.low()]);
        self.word(number);
    }

    /// mov register of 32 bits, number; one of the first eight registers.
    pub(crate) fn short_number(&mut self, register: Gpr, number: u32) {
        debug_assert!(register.high() == 0);
        self.put(&[0xb8 | register.low()]);
        self.put_number(number);
    }

    /// mov to, from
    pub(crate) fn copy(&mut self, to: Gpr, from: Gpr) {
        self.put(&[0x48 | from.high() << 2 | to.high(), 0x89, 0xc0 | from.low() << 3 | to.low()]);
    }

    /// mov [base + displacement], register
    pub(crate) fn store(&mut self, base: Gpr, displacement: i32, register: Gpr) {
        self.memory(0x89, register, base, displacement);
    }

    /// mov register, [base + displacement]
    pub(crate) fn load(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        self.memory(0x8b, register, base, displacement);
    }

    /// lea register, [base + displacement]
    pub(crate) fn lea(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        self.memory(0x8d, register, base, displacement);
    }

    /// kmovq [base + displacement], mask
    pub(crate) fn store_mask(&mut self, base: Gpr, displacement: i32, mask: MaskRegister) {
        // VEX with three bytes: the base's fourth bit inverted; W set, no second operand.
        self.put(&[0xc4, 0xe1 ^ base.high() << 5, 0xf8, 0x91]);
        self.operand(mask.number(), base, displacement);
    }

    /// mov qword [base + displacement], number
    pub(crate) fn store_number(&mut self, base: Gpr, displacement: i32, number: u32) {
        self.put(&[0x48 | base.high(), 0xc7]);
        self.operand(0, base, displacement);
        self.put_number(number);
    }

    /// add qword [base + displacement], number. Changes the flags.
    pub(crate) fn add_number(&mut self, base: Gpr, displacement: i32, number: u32) {
        self.put(&[0x48 | base.high(), 0x81]);
        self.operand(0, base, displacement);
        self.put_number(number);
    }

    /// Loads 1, 2, 4 or 8 bytes, of fs where that is asked for; the rest of the register becomes zero.
    pub(crate) fn load_sized(&mut self, register: Gpr, base: Gpr, displacement: i32, bytes: u8, fs: bool) {
        if fs {
            self.put(&[0x64]);
        }
        let rex = 0x40 | register.high() << 2 | base.high();
        match bytes {
            1 => self.put(&[rex, 0x0f, 0xb6]),
            2 => self.put(&[rex, 0x0f, 0xb7]),
            4 => self.put(&[rex, 0x8b]),
            _ => self.put(&[rex | 8, 0x8b]),
        }
        self.operand(register.low(), base, displacement);
    }

    /// lea register, [base + index * scale + displacement]; with `short` of registers of 32 bits. At least one of the two is there,
    /// and the index is not rsp.
    pub(crate) fn lea_any(
        &mut self,
        register: Gpr,
        base: Option<Gpr>,
        index: Option<Gpr>,
        scale: u8,
        displacement: i32,
        short: bool,
    ) {
        if short {
            self.put(&[0x67]);
        }
        // Without an index: the number of rsp; without a base: that of rbp, and no mode.
        let (at, by) = (base.unwrap_or(Gpr::numbered(5)), index.unwrap_or(Gpr::RSP));
        let mode = if base.is_some() { 0x80 } else { 0 };
        self.put(&[0x48 | register.high() << 2 | by.high() << 1 | at.high(), 0x8d]);
        self.put(&[mode | register.low() << 3 | 4]);
        self.put(&[(scale.trailing_zeros() as u8) << 6 | by.low() << 3 | at.low()]);
        self.put(&displacement.to_le_bytes());
    }

    /// pop register; one of the first eight registers.
    pub(crate) fn pop(&mut self, register: Gpr) {
        debug_assert!(register.high() == 0);
        self.put(&[0x58 | register.low()]);
    }

    /// push number, sign-extended
    pub(crate) fn push_number(&mut self, number: i32) {
        self.put(&[0x68]);
        self.put(&number.to_le_bytes());
    }

    /// push qword [a word of this code]. Returns where the distance of the word is, for [`Self::set_distance`].
    pub(crate) fn push_word(&mut self) -> u64 {
        self.put(&[0xff, 0x35]);
        self.distance()
    }

    // Look-up of indirect branches: of rcx by rdx, in tables below 2 GiB or anywhere else.

    /// movzx edx, cx
    pub(crate) fn low_half_of_rcx(&mut self) {
        self.put(&[0x0f, 0xb7, 0xd1]);
    }

    /// lea edx, [rdx + rdx]
    pub(crate) fn double_edx(&mut self) {
        self.put(&[0x8d, 0x14, 0x12]);
    }

    /// lea edx, [rdx + 2]
    pub(crate) fn add_two_to_edx(&mut self) {
        self.put(&[0x8d, 0x52, 0x02]);
    }

    /// mov rax, [rdx * 8 + table]
    pub(crate) fn load_rax_from(&mut self, table: u64) {
        if let Some(low) = low_address(table) {
            self.put(&[0x48, 0x8b, 0x04, 0xd5]);
            self.put_number(low);
            return;
        }
        self.number(Gpr::RAX, table);
        // mov rax, [rax + rdx * 8]
        self.put(&[0x48, 0x8b, 0x04, 0xd0]);
    }

    /// lea rcx, [rcx + addend]; one of the first eight registers.
    pub(crate) fn add_to_rcx(&mut self, addend: Gpr) {
        debug_assert!(addend.high() == 0 && addend != Gpr::RSP);
        self.put(&[0x48, 0x8d, 0x0c, addend.low() << 3 | Gpr::RCX.low()]);
    }

    /// jmp [rdx * 8 + table]; where the table is not below 2 GiB, rdx is lost.
    pub(crate) fn jump_by_table(&mut self, table: u64) {
        if let Some(low) = low_address(table) {
            self.put(&[0xff, 0x24, 0xd5]);
            self.put_number(low);
            return;
        }
        self.store_gs(SPILL_RAX, Gpr::RAX);
        self.number(Gpr::RAX, table);
        self.jump_by_rax();
    }

    /// mov rdx, [rax + rdx * 8]; mov rax, `gs:[spill_rax]`; jmp rdx
    fn jump_by_rax(&mut self) {
        self.put(&[0x48, 0x8b, 0x14, 0xd0]);
        self.load_gs(Gpr::RAX, SPILL_RAX);
        self.put(&[0xff, 0xe2]);
    }

    /// movzx edx, word [rdx * 2 + numbers]; jmp [rdx * 8 + ways]; where these are not below 2 GiB, rdx is lost.
    pub(crate) fn jump_by_number(&mut self, numbers: u64, ways: u64) {
        if let (Some(numbers), Some(_)) = (low_address(numbers), low_address(ways)) {
            self.put(&[0x0f, 0xb7, 0x14, 0x55]);
            self.put_number(numbers);
            self.jump_by_table(ways);
            return;
        }
        self.store_gs(SPILL_RAX, Gpr::RAX);
        self.number(Gpr::RAX, numbers);
        // movzx edx, word [rax + rdx * 2]
        self.put(&[0x0f, 0xb7, 0x14, 0x50]);
        self.number(Gpr::RAX, ways);
        self.jump_by_rax();
    }

    /// `jmp [address]`; where that is not below 2 GiB, rdx is lost.
    pub(crate) fn jump_by_word(&mut self, address: u64) {
        if let Some(low) = low_address(address) {
            self.put(&[0xff, 0x24, 0x25]);
            self.put_number(low);
            return;
        }
        self.number(Gpr::RDX, address);
        // jmp [rdx]
        self.put(&[0xff, 0x22]);
    }

    /// lea register, [a word of this code]. Returns where the distance of the word is, for [`Self::set_distance`].
    pub(crate) fn lea_near(&mut self, register: Gpr) -> u64 {
        self.put(&[0x48 | register.high() << 2, 0x8d, register.low() << 3 | 5]);
        self.distance()
    }

    /// jmp [a word of this code]. Returns where the distance of the word is, for [`Self::set_distance`].
    pub(crate) fn jump_by_near_word(&mut self) -> u64 {
        self.put(&[0xff, 0x25]);
        self.distance()
    }

    // Marks of watched lines: of the address in rcx.

    /// rcx = bits 8 to 39 of rcx. Two instructions.
    pub(crate) fn line_of_rcx(&mut self, by: LineBy) {
        match by {
            // shr rcx, 8
            LineBy::Shift => self.put(&[0x48, 0xc1, 0xe9, 8]),
            // rorx rcx, rcx, 8
            LineBy::Rotate => self.put(&[0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 8]),
            LineBy::Memory(word) => {
                self.store_gs(word, Gpr::RCX);
                self.load_gs_short(Gpr::RCX, word + 1);
                return;
            }
        }
        // mov ecx, ecx
        self.put(&[0x89, 0xc9]);
    }

    /// movzx ecx, byte (with `both`: word) [rcx * 2 + marks]
    pub(crate) fn load_mark(&mut self, marks: u32, both: bool) {
        self.put(&[0x0f, if both { 0xb7 } else { 0xb6 }, 0x0c, 0x4d]);
        self.put_number(marks);
    }

    /// cmp byte (with `both`: word) [rcx * 2 + marks], 0. Changes the flags.
    pub(crate) fn compare_mark(&mut self, marks: u32, both: bool) {
        self.put(if both { &[0x66, 0x83] } else { &[0x80] });
        self.put(&[0x3c, 0x4d]);
        self.put_number(marks);
        self.put(&[0]);
    }

    // Orders of locked instructions.

    /// Puts the flags aside in ax. lahf; seto al
    pub(crate) fn flags_to_ax(&mut self) {
        self.put(&[0x9f, 0x0f, 0x90, 0xc0]);
    }

    /// Sets the flags that [`Self::flags_to_ax`] put aside. add al, 127 (overflows if al is 1); sahf
    pub(crate) fn flags_from_ax(&mut self) {
        self.put(&[0x04, 0x7f, 0x9e]);
    }

    /// `lock xadd [rcx], rdx`. Changes the flags.
    pub(crate) fn exchange_and_add_rdx(&mut self) {
        self.put(&[0xf0, 0x48, 0x0f, 0xc1, 0x11]);
    }

    // Jumps in the code.

    /// jrcxz to where it lands
    pub(crate) fn jump_if_rcx_is_zero(&mut self) -> ShortJump {
        self.put(&[0xe3, 0]);
        ShortJump { end: self.len() }
    }

    /// The short jump leads here.
    pub(crate) fn land(&mut self, jump: ShortJump) {
        let distance = (self.len() - jump.end) as u8;
        if let Some(place) = jump.end.checked_sub(1).and_then(|at| self.bytes.get_mut(at)) {
            *place = distance;
        }
    }

    /// jmp to
    pub(crate) fn jump_to(&mut self, to: u64) {
        let at = self.jump(JumpWhen::Always);
        self.set_distance(at, to);
    }

    /// jmp, or a conditional jump, to an address that is not known yet. Returns where its distance is, for [`Self::set_distance`].
    pub(crate) fn jump(&mut self, when: JumpWhen) -> u64 {
        self.put_jump_opcode(when);
        self.distance()
    }

    /// As [`Self::jump`], with a distance that is patched while threads run through it: its four bytes lie in what one fetch of
    /// instructions reads (`patch::FETCH_BYTES`).
    pub(crate) fn patchable_jump(&mut self, when: JumpWhen) -> u64 {
        let opcode_bytes = match when {
            JumpWhen::Always => 1,
            JumpWhen::Condition(_) => 2,
        };
        while (self.here() + opcode_bytes) % patchable::FETCH_BYTES > LAST_DISTANCE_IN_FETCH {
            self.nop();
        }
        self.jump(when)
    }

    fn put_jump_opcode(&mut self, when: JumpWhen) {
        match when {
            JumpWhen::Always => self.put(&[0xe9]),
            JumpWhen::Condition(bits) => self.put(&[0x0f, 0x80 | bits & 15]),
        }
    }

    fn distance(&mut self) -> u64 {
        let at = self.here();
        self.put_number(0);
        at
    }

    /// Sets the distance of a jump that was written here, or of a word that is named relative to rip.
    pub(crate) fn set_distance(&mut self, at: u64, to: u64) {
        let offset = (at - self.at) as usize;
        if let Some(place) = self.bytes.get_mut(offset..offset + 4) {
            place.copy_from_slice(&(to.wrapping_sub(at + 4) as u32).to_le_bytes());
        }
    }

    /// The bytes of a loop instruction or jrcxz without its distance, the program's own, which then leads over what follows.
    pub(crate) fn count_branch(&mut self, opcode: &[u8]) -> CountedWays {
        self.put(opcode);
        // Its distance, and jmp short over a jump and its alignment.
        self.put(&[2, 0xeb, CountedWays::ROOM]);
        CountedWays { end: self.here() + u64::from(CountedWays::ROOM) }
    }

    /// nops up to where the other way of a count branch begins.
    pub(crate) fn other_way(&mut self, ways: CountedWays) {
        debug_assert!(self.here() <= ways.end);
        while self.here() < ways.end {
            self.nop();
        }
    }
}

/// The two ways of a count branch, whose distance has eight bits: a jump for the one where it is taken, and after
/// [`Assembler::other_way`] one for the other.
#[derive(Clone, Copy, Debug)]
#[must_use = "the other way begins at a fixed place"]
pub(crate) struct CountedWays {
    end: u64,
}

impl CountedWays {
    /// Bytes of a jump and of what it may be moved on by its alignment.
    const ROOM: u8 = 9;
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::listing::listing;

    const AT: u64 = 0x3000_0000;
    const R12: Gpr = Gpr::numbered(12);
    const R13: Gpr = Gpr::numbered(13);
    const RBP: Gpr = Gpr::numbered(5);

    fn check(emit: impl FnOnce(&mut Assembler), expect: &[&str]) {
        let mut code = Assembler::new(AT);
        emit(&mut code);
        assert_eq!(listing(code.bytes(), AT), expect);
    }

    #[test]
    fn words_of_the_slot_are_reached_by_gs() {
        check(|code| code.store_gs(0, R13), &["mov gs:[position], r13"]);
        check(|code| code.load_gs(Gpr::RSP, 32), &["mov rsp, gs:[target]"]);
        check(|code| code.add_gs(24, 7), &["add gs:[quiet], 0x7"]);
        check(|code| code.jump_gs(104), &["jmp gs:[gate]"]);
    }

    #[test]
    fn any_register_is_stored_and_any_points() {
        let all = || (0..16).map(Gpr::numbered);
        let names = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
        let name = |register: Gpr| match register.number() {
            number @ 0..8 => names[usize::from(number)].into(),
            number => alloc::format!("r{number}"),
        };
        for (base, register) in all().flat_map(|base| all().map(move |register| (base, register))) {
            for (displacement, text) in [(0, ""), (8, " + 0x8"), (-128, " - 0x80"), (0x1234, " + 0x1234")] {
                let memory = alloc::format!("[{}{text}]", name(base));
                let register_name = name(register);
                let expect = [
                    alloc::format!("mov {memory}, {register_name}"),
                    alloc::format!("mov {register_name}, {memory}"),
                    alloc::format!("lea {register_name}, {memory}"),
                ];
                let mut code = Assembler::new(AT);
                code.store(base, displacement, register);
                code.load(register, base, displacement);
                code.lea(register, base, displacement);
                assert_eq!(listing(code.bytes(), AT), expect);
            }
            let mut code = Assembler::new(AT);
            code.copy(base, register);
            assert_eq!(listing(code.bytes(), AT), [alloc::format!("mov {}, {}", name(base), name(register))]);
        }
    }

    #[test]
    fn numbers_are_loaded_and_stored() {
        check(|code| code.number(R12, u64::MAX), &["mov r12, 0xffffffffffffffff"]);
        check(|code| code.short_number(Gpr::RDX, 2), &["mov edx, 0x2"]);
        check(|code| code.store_number(R12, -8, 0x20), &["mov [r12 - 0x8], 0x20"]);
        check(|code| code.add_number(R13, 0x200, 0x40_0000), &["add [r13 + 0x200], 0x400000"]);
        check(|code| code.push_number(-1), &["push 0xffffffffffffffff"]);
        check(|code| code.pop(Gpr::RCX), &["pop rcx"]);
    }

    /// Needs no processor that has mask registers.
    #[test]
    fn masks_are_stored_whole() {
        for (base, name) in [(Gpr::RAX, "rax"), (R12, "r12"), (RBP, "rbp"), (R13, "r13")] {
            let expect = alloc::format!("kmovq [{name} + 0x10], k3");
            check(|code| code.store_mask(base, 16, MaskRegister::numbered(3)), &[&expect]);
        }
    }

    #[test]
    fn bytes_are_loaded_by_their_number() {
        for (bytes, fs, expect) in [
            (1, false, "movzx ecx, byte [rax + 0x3]"),
            (2, true, "movzx ecx, word fs:[rax + 0x3]"),
            (4, false, "mov ecx, dword [rax + 0x3]"),
            (8, true, "mov rcx, fs:[rax + 0x3]"),
        ] {
            check(|code| code.load_sized(Gpr::RCX, Gpr::RAX, 3, bytes, fs), &[expect]);
        }
    }

    #[test]
    fn addresses_are_computed_as_the_program_does() {
        let some = |number| Some(Gpr::numbered(number));
        check(|code| code.lea_any(Gpr::RAX, some(4), None, 1, 8, false), &["lea rax, [rsp + 0x8]"]);
        check(|code| code.lea_any(Gpr::RAX, some(13), some(9), 8, 0, false), &["lea rax, [r13 + r9*8]"]);
        check(|code| code.lea_any(R12, None, some(2), 4, -4, false), &["lea r12, [rdx*4 - 0x4]"]);
        check(
            |code| code.lea_any(Gpr::RCX, some(5), some(12), 2, 1, true),
            &["lea rcx, [ebp + r12d*2 + 0x1]"],
        );
    }

    #[test]
    fn flags_go_to_ax_and_back() {
        check(Assembler::flags_to_ax, &["lahf", "seto al"]);
        check(Assembler::flags_from_ax, &["add al, 0x7f", "sahf"]);
        check(Assembler::exchange_and_add_rdx, &["lock xadd [rcx], rdx"]);
    }

    #[test]
    fn marks_are_looked_at() {
        check(|code| code.line_of_rcx(LineBy::Shift), &["shr rcx, 0x8", "mov ecx, ecx"]);
        check(|code| code.line_of_rcx(LineBy::Rotate), &["rorx rcx, rcx, 0x8", "mov ecx, ecx"]);
        let by_memory = ["mov gs:[spill_2], rcx", "mov ecx, dword gs:[spill_2 + 1]"];
        check(|code| code.line_of_rcx(LineBy::Memory(crate::slot::SPILL_LINE)), &by_memory);
        check(|code| code.load_mark(0x5000_0001, false), &["movzx ecx, byte [rcx*2 + 0x50000001]"]);
        check(|code| code.load_mark(0x5000_0000, true), &["movzx ecx, word [rcx*2 + 0x50000000]"]);
        check(|code| code.compare_mark(0x5000_0001, false), &["cmp byte [rcx*2 + 0x50000001], 0x0"]);
        check(|code| code.compare_mark(0x5000_0000, true), &["cmp word [rcx*2 + 0x50000000], 0x0"]);
    }

    #[test]
    fn short_jumps_land() {
        let jump = |code: &mut Assembler| {
            let jump = code.jump_if_rcx_is_zero();
            code.trap();
            code.land(jump);
            code.nop();
        };
        check(jump, &["jrcxz +0x3", "int3", "nop"]);
    }

    #[test]
    fn a_patchable_distance_lies_in_one_fetch() {
        for offset in 0..64 {
            for when in [JumpWhen::Always, JumpWhen::Condition(5)] {
                let mut code = Assembler::new(AT + offset);
                let at = code.patchable_jump(when);
                code.set_distance(at, AT + 0x100);
                assert_eq!(at / 32, (at + 3) / 32, "{offset}");
                let lines = listing(code.bytes(), AT + offset);
                let name = if when == JumpWhen::Always { "jmp" } else { "jne" };
                let expect = alloc::format!("{name} {:#x}", AT + 0x100);
                assert_eq!(lines.last(), Some(&expect));
                assert!(lines.len() <= 5 && lines.iter().rev().skip(1).all(|line| line == "nop"));
            }
        }
    }

    #[test]
    fn both_ways_of_a_count_branch_have_room_for_a_jump() {
        for offset in 0..32 {
            let mut code = Assembler::new(AT + offset);
            let ways = code.count_branch(&[0xe2]);
            let taken = code.patchable_jump(JumpWhen::Always);
            code.set_distance(taken, AT + 0x100);
            code.other_way(ways);
            let other = code.patchable_jump(JumpWhen::Always);
            code.set_distance(other, AT + 0x200);
            let mut lines = listing(code.bytes(), AT + offset);
            let [first, second] = [0x100, 0x200].map(|to| alloc::format!("jmp {:#x}", AT + to));
            // The loop leads to the first jump, the short jump to what follows it.
            assert_eq!(lines.drain(..2).collect::<Vec<_>>(), ["loop +0x4", "jmp +0xd"]);
            lines.retain(|line| line != "nop");
            assert_eq!(lines, [first, second]);
        }
    }
}
