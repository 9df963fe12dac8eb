//! A decoded instruction, and what its encoding alone says: its length, its name, its prefixes, its mask.
//!
//! Where it leads is in `transfer`, its effects on registers and memory in `effects`, on flags in `flags`,
//! which bytes go where in `data_flow`, and how it is re-encoded for another address in `relocation`.

use iced_x86::{DecoderOptions, Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use memref::{AccessKind, VirtAddr};

use crate::vector::is_packed;

/// The most bytes that an instruction has.
pub const MAX_INSTRUCTION_BYTES: usize = 15;
const PAGE_BYTES: u64 = VirtAddr::PAGE_BYTES;

/// A decoded instruction. The default is an invalid one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instruction {
    pub(crate) inner: iced_x86::Instruction,
    /// Where in its bytes the displacement is, if it is relative to rip.
    displacement_at: u8,
}

/// An operand relative to rip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RipRelative {
    /// Where in the instruction's bytes the displacement is: four bytes.
    pub at: u8,
    /// The address that it names.
    pub target: u64,
}

/// Which elements of its memory operand an instruction accesses, by a mask register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementMask {
    /// The number of the mask register.
    pub register: u8,
    /// Bytes of an element.
    pub element_bytes: u8,
    /// What its bits say.
    pub choice: ElementChoice,
}

/// How the bits of a mask choose elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementChoice {
    /// Each bit says whether its element is accessed.
    Each,
    /// As many elements as bits are set, one after the other.
    Packed,
    /// All of it, if any bit is set.
    Any,
}

impl Instruction {
    /// The instruction that these bytes begin with, as it is at that address. `None` where they are none, or end too early.
    pub fn decode(bytes: &[u8], addr: u64) -> Option<Self> {
        Some(Disassembler::new(bytes, addr).next_instruction()).filter(Self::is_valid)
    }

    /// The instruction at an address of this process.
    ///
    /// # Safety
    /// The code there must be readable: the page that `addr` is on, and the next one if the instruction goes on there.
    pub unsafe fn at(addr: u64) -> Option<Self> {
        let mut bytes = [0u8; MAX_INSTRUCTION_BYTES];
        let on_page = (PAGE_BYTES - (addr & (PAGE_BYTES - 1))) as usize;
        for limit in [on_page.min(MAX_INSTRUCTION_BYTES), MAX_INSTRUCTION_BYTES] {
            for (index, byte) in bytes.iter_mut().enumerate().take(limit) {
                // SAFETY: bytes of the page that `addr` is on, or of the next one where the instruction goes on there.
                *byte = unsafe { (addr as *const u8).add(index).read_volatile() };
            }
            let found = Self::decode(bytes.get(..limit)?, addr);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether it is one.
    pub fn is_valid(&self) -> bool {
        !self.inner.is_invalid()
    }

    /// Its address.
    pub fn addr(&self) -> u64 {
        self.inner.ip()
    }

    /// The address after it.
    pub fn next(&self) -> u64 {
        self.inner.next_ip()
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.inner.len()
    }

    /// Its name.
    pub fn name(&self) -> impl core::fmt::Debug + use<> {
        self.inner.mnemonic()
    }

    /// Whether it does nothing.
    pub fn is_nop(&self) -> bool {
        self.inner.mnemonic() == Mnemonic::Nop
    }

    /// Whether it is a string instruction with a prefix that repeats it.
    pub fn is_repeated(&self) -> bool {
        let inner = &self.inner;
        inner.is_string_instruction() && (inner.has_rep_prefix() || inner.has_repne_prefix())
    }

    /// Whether no other thread's access can come between those that it makes: it has a lock prefix, or exchanges with memory.
    pub fn is_locked(&self) -> bool {
        self.inner.has_lock_prefix() || self.inner.mnemonic() == Mnemonic::Xchg && self.names_memory()
    }

    /// Whether it is one by which locks are taken: it sets memory and gives what was there, or sets it where something was there.
    pub fn is_exchange(&self) -> bool {
        matches!(self.inner.mnemonic(), Mnemonic::Xchg | Mnemonic::Cmpxchg | Mnemonic::Bts)
    }

    /// Whether one of its operands is memory that it names.
    pub fn names_memory(&self) -> bool {
        self.inner.op_kinds().any(|kind| kind == OpKind::Memory)
    }

    /// Bytes of the memory operand that it names or implies; zero where there is none, or where they are not known.
    pub fn memory_bytes(&self) -> usize {
        self.inner.memory_size().size()
    }

    /// The mask that chooses elements, if it has one.
    pub fn mask(&self) -> Option<ElementMask> {
        let mask = self.inner.op_mask();
        let choice = if self.inner.is_broadcast() {
            ElementChoice::Any
        } else if is_packed(self.inner.mnemonic()) {
            ElementChoice::Packed
        } else {
            ElementChoice::Each
        };
        (mask != Register::None).then(|| ElementMask {
            register: mask.number() as u8,
            element_bytes: self.inner.memory_size().element_size() as u8,
            choice,
        })
    }

    /// Its operand relative to rip, if it has one.
    pub fn rip_relative(&self) -> Option<RipRelative> {
        self.inner
            .is_ip_rel_memory_operand()
            .then(|| RipRelative { at: self.displacement_at, target: self.inner.memory_displacement64() })
    }

    /// Whether programs may not execute it.
    pub fn is_privileged(&self) -> bool {
        self.inner.is_privileged()
    }

    /// Whether it depends on the base of gs, or changes it.
    pub fn uses_gs(&self) -> bool {
        self.inner.segment_prefix() == Register::GS
            || matches!(self.inner.mnemonic(), Mnemonic::Rdgsbase | Mnemonic::Wrgsbase)
    }

    /// Whether it changes the base of fs.
    pub fn sets_fs_base(&self) -> bool {
        self.inner.mnemonic() == Mnemonic::Wrfsbase
    }

    /// Whether all its accesses are those that [`Effects::operands`](crate::Effects::operands) tells, at addresses that follow
    /// from general registers as they are before it. A mask may still choose among their elements.
    pub fn has_known_accesses(&self) -> bool {
        use Mnemonic as M;
        let inner = &self.inner;
        let names_memory = self.names_memory();
        match inner.mnemonic() {
            // Addresses or masks in vector registers.
            _ if inner.is_vsib() => return false,
            M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Vmaskmovps
            | M::Vmaskmovpd
            | M::Vpmaskmovd
            | M::Vpmaskmovq => return false,
            // As many accesses as a number in it says.
            M::Enter => return false,
            // The address follows from a part of a register, or from rsp after its change.
            M::Xlatb => return false,
            M::Pop if names_memory && inner.memory_base() == Register::RSP => return false,
            _ if inner.is_string_instruction() && has_short_string_address(inner) => return false,
            M::Bt | M::Bts | M::Btr | M::Btc if names_memory && inner.op1_kind() == OpKind::Register => {
                return false;
            }
            _ => {}
        }
        if !names_memory || names_without_access(inner) || prefetched(inner).is_some() {
            return true;
        }
        // Sizes that depend on the processor's state.
        inner.memory_size() != iced_x86::MemorySize::Unknown
            && (inner.memory_size().size() != 0
                || inner.is_string_instruction()
                || inner.flow_control() != iced_x86::FlowControl::Next
                    && !inner.is_save_restore_instruction())
    }
}

/// Whether a string instruction's addresses have fewer than 64 bits.
pub(crate) fn has_short_string_address(instruction: &iced_x86::Instruction) -> bool {
    instruction.op_kinds().any(|kind| {
        matches!(
            kind,
            OpKind::MemorySegESI
                | OpKind::MemorySegEDI
                | OpKind::MemoryESEDI
                | OpKind::MemorySegSI
                | OpKind::MemorySegDI
                | OpKind::MemoryESDI
        )
    })
}

/// Instructions that name memory and do not access it.
pub(crate) fn names_without_access(instruction: &iced_x86::Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}

/// What is done to memory; of what names it and accesses nothing, a prefetch.
pub(crate) fn kind_of(access: OpAccess) -> Option<AccessKind> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(AccessKind::Load),
        OpAccess::Write | OpAccess::CondWrite => Some(AccessKind::Store),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(AccessKind::Modify),
        OpAccess::NoMemAccess => Some(AccessKind::Prefetch),
        OpAccess::None => None,
    }
}

/// What a prefetch names: the decoder's list of memory leaves it out, because nothing is accessed. `None` for others.
pub(crate) fn prefetched(instruction: &iced_x86::Instruction) -> Option<UsedMemory> {
    let is_prefetch = matches!(
        instruction.mnemonic(),
        Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
    );
    let base = match instruction.memory_base() {
        Register::RIP | Register::EIP => Register::None,
        base => base,
    };
    is_prefetch.then(|| {
        UsedMemory::new(
            instruction.memory_segment(),
            base,
            instruction.memory_index(),
            instruction.memory_index_scale(),
            instruction.memory_displacement64(),
            instruction.memory_size(),
            OpAccess::NoMemAccess,
        )
    })
}

/// Decodes one instruction after the other.
#[allow(missing_debug_implementations)]
pub struct Disassembler<'a> {
    inner: iced_x86::Decoder<'a>,
}

impl<'a> Disassembler<'a> {
    /// Of these bytes, the first of which is at that address.
    pub fn new(bytes: &'a [u8], addr: u64) -> Self {
        Self { inner: iced_x86::Decoder::with_ip(64, bytes, addr, DecoderOptions::NONE) }
    }

    /// The next one; an invalid one where the bytes are none or have ended.
    pub fn next_instruction(&mut self) -> Instruction {
        let inner = self.inner.decode();
        let displacement_at = if inner.is_ip_rel_memory_operand() {
            self.inner.get_constant_offsets(&inner).displacement_offset() as u8
        } else {
            0
        };
        Instruction { inner, displacement_at }
    }

    /// Goes on `offset` bytes after the first byte, which is at the address `addr`. `false` where there are no such bytes.
    pub fn seek(&mut self, offset: usize, addr: u64) -> bool {
        let is_there = self.inner.set_position(offset).is_ok();
        if is_there {
            self.inner.set_ip(addr);
        }
        is_there
    }
}

impl Iterator for Disassembler<'_> {
    type Item = Instruction;

    /// The next one, which may be invalid; `None` at the end of the bytes.
    fn next(&mut self) -> Option<Instruction> {
        self.inner.can_decode().then(|| self.next_instruction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Instruction {
        Instruction::decode(bytes, 0x1000).expect("it is an instruction")
    }

    #[test]
    fn locked_instructions_are_known_by_their_bytes() {
        // lock inc [rax]; lock cmpxchg [rdi], esi; xchg [rax], ecx; xchg [r8], ax
        for bytes in
            [&[0xf0_u8, 0xff, 0x00][..], &[0xf0, 0x0f, 0xb1, 0x37], &[0x87, 0x08], &[0x66, 0x41, 0x87, 0x00]]
        {
            assert!(decode(bytes).is_locked(), "{bytes:x?}");
        }
        // inc [rax]; mov [rax], ecx; xchg eax, ecx
        for bytes in [&[0xff_u8, 0x00][..], &[0x89, 0x08], &[0x87, 0xc8]] {
            assert!(!decode(bytes).is_locked(), "{bytes:x?}");
        }
        assert!(!Instruction::default().is_locked());
    }

    #[test]
    fn locks_are_taken_by_exchanges() {
        // lock cmpxchg [rdi], esi; xchg [rax], ecx; lock bts [rax], 0
        for bytes in [&[0xf0_u8, 0x0f, 0xb1, 0x37][..], &[0x87, 0x08], &[0xf0, 0x0f, 0xba, 0x28, 0x00]] {
            assert!(decode(bytes).is_exchange(), "{bytes:x?}");
        }
        // lock inc [rax]; lock xadd [rax], ecx; mov [rax], ecx
        for bytes in [&[0xf0_u8, 0xff, 0x00][..], &[0xf0, 0x0f, 0xc1, 0x08], &[0x89, 0x08]] {
            assert!(!decode(bytes).is_exchange(), "{bytes:x?}");
        }
    }

    #[test]
    fn accesses_that_do_not_follow_from_general_registers_are_known() {
        for (bytes, known) in [
            (&[0x48, 0x8b, 0x44, 0xcb, 0x08][..], true), // mov rax, [rbx + rcx * 8 + 8]
            (&[0xa4], true),                             // movsb
            (&[0x67, 0xa4], false),                      // movsb with esi and edi
            (&[0xd7], false),                            // xlatb
            (&[0x8f, 0x04, 0x24], false),                // pop [rsp]
            (&[0x8f, 0x00], true),                       // pop [rax]
            (&[0x48, 0x0f, 0xa3, 0x07], false),          // bt [rdi], rax
            (&[0x48, 0x0f, 0xba, 0x27, 3], true),        // bt [rdi], 3
            (&[0xc8, 8, 0, 1], false),                   // enter 8, 1
            (&[0x48, 0x0f, 0xae, 0x27], false),          // xsave64 [rdi]
            (&[0xc4, 0xe2, 0x71, 0x90, 0x04, 0x23], false), // vpgatherdd
            (&[0x0f, 0x18, 0x0f], true),                 // prefetcht0 [rdi]
            (&[0x0f, 0x1f, 0x00], true),                 // nop [rax]
        ] {
            assert_eq!(decode(bytes).has_known_accesses(), known, "{bytes:x?}");
        }
    }

    #[test]
    fn what_ends_too_early_is_no_instruction() {
        assert!(Instruction::decode(&[0x48, 0x8b], 0).is_none());
        assert!(Instruction::decode(&[], 0).is_none());
        let all: alloc::vec::Vec<usize> =
            Disassembler::new(&[0x90, 0x48, 0x89, 0xc0, 0x48], 0).map(|one| one.len_bytes()).collect();
        assert_eq!(all, [1, 3, 1]);
    }
}
