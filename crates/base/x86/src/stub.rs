//! Stubs: an instruction between two halves that load and save the program's registers.
//!
//! A stub is called with the saved registers in rdi, the address of the access in rsi and the
//! vector state in rdx. It never changes rsp to the program's: a fault inside a stub must find the
//! engine's stack. In an instruction that names rsp, another register is therefore substituted.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock, InstructionInfoFactory, OpAccess,
    OpKind, Register, RflagsBits,
};

use crate::decode::{Form, Recipe, number};
use crate::registers::{FLAGS_AT, NONE, offset};
use crate::relocation::MachineCode;

/// The arithmetic flags: what a stub loads and saves.
const ARITHMETIC: u32 = 0x8d5;
const RAX: u8 = 0;
const RSP: u8 = 4;
const RSI: u8 = 6;
const RDI: u8 = 7;
/// Registers that can stand for an address or for rsp, in the order of preference: those first that need no REX prefix.
/// Neither rax and rdx (the halves use them) nor rdi (it holds the saved registers) nor r12 (its encodings differ).
const FREE: [u8; 11] = [6, 3, 5, 8, 9, 10, 11, 13, 14, 15, 1];

/// The general registers of 64 bits, by their numbers.
pub(crate) const GPR64: [Register; 16] = GPR[3];
const GPR: [[Register; 16]; 4] = [
    [
        Register::AL,
        Register::CL,
        Register::DL,
        Register::BL,
        Register::SPL,
        Register::BPL,
        Register::SIL,
        Register::DIL,
        Register::R8L,
        Register::R9L,
        Register::R10L,
        Register::R11L,
        Register::R12L,
        Register::R13L,
        Register::R14L,
        Register::R15L,
    ],
    [
        Register::AX,
        Register::CX,
        Register::DX,
        Register::BX,
        Register::SP,
        Register::BP,
        Register::SI,
        Register::DI,
        Register::R8W,
        Register::R9W,
        Register::R10W,
        Register::R11W,
        Register::R12W,
        Register::R13W,
        Register::R14W,
        Register::R15W,
    ],
    [
        Register::EAX,
        Register::ECX,
        Register::EDX,
        Register::EBX,
        Register::ESP,
        Register::EBP,
        Register::ESI,
        Register::EDI,
        Register::R8D,
        Register::R9D,
        Register::R10D,
        Register::R11D,
        Register::R12D,
        Register::R13D,
        Register::R14D,
        Register::R15D,
    ],
    [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ],
];

/// Longest stub, generously.
pub(crate) const MAX_STUB_BYTES: usize = 512;
/// Bytes before the first stub: three words and two fixed routines.
pub(crate) const HEADER_BYTES: usize = 256;
const SAVED_RSP_AT: usize = 0;
const SAVED_REGS_AT: usize = 8;
const SAVED_STATE_AT: usize = 16;
/// Where a fault in a stub continues.
pub(crate) const FAULT_EXIT_AT: usize = 64;
/// A routine with a stub's frame that copies rdx bytes from rsi to rdi.
pub(crate) const COPY_AT: usize = 128;

/// Writes machine code to a place, remembering where in the code memory that is.
pub(crate) struct StubWriter<'a> {
    bytes: &'a mut [u8],
    len: usize,
    /// Distance of `bytes` from the start of the code memory.
    at: usize,
}

impl<'a> StubWriter<'a> {
    pub(crate) fn new(bytes: &'a mut [u8], at: usize) -> Self {
        Self { bytes, len: 0, at }
    }

    /// Bytes written, or `None` where they did not fit.
    pub(crate) fn len(&self) -> Option<usize> {
        (self.len <= self.bytes.len()).then_some(self.len)
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    /// An instruction with a rip-relative operand: its bytes up to the distance, then the distance to a header word.
    fn header(&mut self, bytes: &[u8], word: usize) {
        self.put(bytes);
        let next = self.at + self.len + 4;
        self.put(&(word as i32 - next as i32).to_le_bytes());
    }

    /// mov register, [base + offset], or the other way round.
    fn move_word(&mut self, opcode: u8, register: u8, base: u8, offset: u32) {
        let rex = 0x48 | (register >> 3) << 2 | base >> 3;
        self.put(&[rex, opcode, 0x80 | (register & 7) << 3 | base & 7]);
        self.put(&offset.to_le_bytes());
    }

    fn enter(&mut self) {
        self.put(&[0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]);
        self.header(&[0x48, 0x89, 0x25], SAVED_RSP_AT);
    }

    fn leave(&mut self, result: u8) {
        self.put(&[0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b]);
        self.put(&[0xb8, result, 0, 0, 0, 0xc3]);
    }

    /// mov rcx, [the vector state]; eax, edx = mask.
    fn state(&mut self, mask: u64) {
        self.header(&[0x48, 0x8b, 0x0d], SAVED_STATE_AT);
        self.put(&[0xb8]);
        self.put(&(mask as u32).to_le_bytes());
        self.put(&[0xba]);
        self.put(&((mask >> 32) as u32).to_le_bytes());
    }
}

/// Writes the fixed routines.
pub(crate) fn write_header(bytes: &mut [u8]) {
    if let Some(place) = bytes.get_mut(FAULT_EXIT_AT..COPY_AT) {
        let mut code = StubWriter::new(place, FAULT_EXIT_AT);
        code.header(&[0x48, 0x8b, 0x25], SAVED_RSP_AT);
        code.leave(1);
    }
    if let Some(place) = bytes.get_mut(COPY_AT..HEADER_BYTES) {
        let mut code = StubWriter::new(place, COPY_AT);
        code.enter();
        // mov rcx, rdx; rep movsb
        code.put(&[0x48, 0x89, 0xd1, 0xf3, 0xa4]);
        code.leave(0);
    }
}

/// What a stub of an instruction has to load and save.
struct Needs {
    /// Bits of general registers that are used, and that are written.
    used: u16,
    written: u16,
    vectors: bool,
    reads_flags: bool,
    writes_flags: bool,
}

fn needs(instruction: &Instruction) -> Needs {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let mut needs = Needs { used: 0, written: 0, vectors: false, reads_flags: false, writes_flags: false };
    for register in info.used_registers() {
        let number = number(register.register());
        if number == NONE {
            needs.vectors |= !register.register().is_segment_register();
            continue;
        }
        needs.used |= 1 << number;
        if !matches!(register.access(), OpAccess::Read | OpAccess::CondRead) {
            needs.written |= 1 << number;
        }
    }
    let arithmetic =
        RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;
    needs.writes_flags = instruction.rflags_modified() & arithmetic != 0;
    // A shift by zero leaves the flags as they were: what is written is read as well.
    needs.reads_flags = needs.writes_flags || instruction.rflags_read() & arithmetic != 0;
    // Anything beyond the general instructions may use the vector or floating point unit's control words.
    needs.vectors |= instruction.cpuid_features().iter().any(|feature| {
        use iced_x86::CpuidFeature as F;
        matches!(feature, F::FPU | F::FPU287 | F::FPU387 | F::SSE | F::SSE2 | F::SSE3 | F::MMX)
            && !is_general(instruction)
    });
    needs
}

/// Instructions that an extension brought without touching its registers.
fn is_general(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(instruction.mnemonic(), M::Movnti | M::Lfence | M::Sfence | M::Mfence | M::Pause | M::Clflush)
}

/// Writes the stub of a decoded instruction; `at` is its distance from the start of the code memory, `state_mask` the
/// components of the vector state. The number of bytes, or `None` where it can't be made.
pub(crate) fn build(decoded: &Recipe, bytes: &mut [u8], at: usize, state_mask: u64) -> Option<usize> {
    let mut instruction = decoded.instruction;
    let gather = matches!(decoded.form, Form::Elements(elements) if elements.is_gather());
    let memory = matches!(decoded.form, Form::Memory | Form::Elements(_));
    if gather {
        // The indices stay in their vector, and the displacement with them.
        instruction.set_memory_base(Register::RBP);
        instruction.set_memory_displ_size(8);
        instruction.set_segment_prefix(Register::None);
    } else if memory {
        // Without its registers, so that they don't count as used.
        instruction.set_memory_base(Register::RBP);
        instruction.set_memory_index(Register::None);
        instruction.set_memory_index_scale(1);
        instruction.set_memory_displacement64(0);
        instruction.set_memory_displ_size(1);
        instruction.set_segment_prefix(Register::None);
    }
    let explicit = needs_without_memory(&instruction, memory);
    let mut free = FREE.iter().copied().filter(|number| explicit.used & 1 << number == 0);
    let scratch = free.next()?;
    if memory {
        instruction.set_memory_base(GPR[3][usize::from(scratch)]);
        // rbp and r13 as a base need a displacement, the others don't mind one.
        instruction.set_memory_displ_size(if gather { 8 } else { 1 });
    }
    let mut stand_in = NONE;
    if explicit.used & 1 << RSP != 0 {
        stand_in = free.next()?;
        replace_rsp(&mut instruction, stand_in)?;
    }
    let mut code = StubWriter::new(bytes, at);
    code.enter();
    code.header(&[0x48, 0x89, 0x3d], SAVED_REGS_AT);
    if explicit.vectors {
        code.header(&[0x48, 0x89, 0x15], SAVED_STATE_AT);
        code.state(state_mask);
        // xrstor64 [rcx]
        code.put(&[0x48, 0x0f, 0xae, 0x29]);
    }
    if explicit.reads_flags {
        code.put(&[0x8b, 0x87]);
        code.put(&FLAGS_AT.to_le_bytes());
        code.put(&[0x25]);
        code.put(&ARITHMETIC.to_le_bytes());
        // push rax; popfq
        code.put(&[0x50, 0x9d]);
    }
    if memory && scratch != RSI {
        // mov scratch, rsi
        code.put(&[0x48 | scratch >> 3, 0x89, 0xc0 | RSI << 3 | scratch & 7]);
    }
    if stand_in != NONE {
        code.move_word(0x8b, stand_in, RDI, offset(RSP));
    }
    for register in (0..16).filter(|&register| register != RSP && register != RDI) {
        if explicit.used & 1 << register != 0 {
            code.move_word(0x8b, register, RDI, offset(register));
        }
    }
    if explicit.used & 1 << RDI != 0 {
        code.move_word(0x8b, RDI, RDI, offset(RDI));
    }
    code.put(&encode(&instruction)?);
    // mov scratch, [saved registers]: the address is no longer needed.
    code.header(&[0x48 | (scratch >> 3) << 2, 0x8b, 0x05 | (scratch & 7) << 3], SAVED_REGS_AT);
    if stand_in != NONE && explicit.written & 1 << RSP != 0 {
        code.move_word(0x89, stand_in, scratch, offset(RSP));
    }
    for register in (0..16).filter(|&register| register != RSP) {
        if explicit.written & 1 << register != 0 {
            code.move_word(0x89, register, scratch, offset(register));
        }
    }
    if explicit.writes_flags {
        // pushfq; pop rax; and eax, ARITHMETIC; and [flags], ~ARITHMETIC; or [flags], rax
        code.put(&[0x9c, 0x58, 0x25]);
        code.put(&ARITHMETIC.to_le_bytes());
        let rex = 0x48 | scratch >> 3;
        code.put(&[rex, 0x81, 0xa0 | scratch & 7]);
        code.put(&FLAGS_AT.to_le_bytes());
        code.put(&(!ARITHMETIC).to_le_bytes());
        code.put(&[rex, 0x09, 0x80 | RAX << 3 | scratch & 7]);
        code.put(&FLAGS_AT.to_le_bytes());
    }
    if explicit.vectors {
        code.state(state_mask);
        // xsave64 [rcx]
        code.put(&[0x48, 0x0f, 0xae, 0x21]);
    }
    code.leave(0);
    code.len()
}

/// The needs of an instruction whose memory operand, if any, has rbp as its base, which is not one of them.
fn needs_without_memory(instruction: &Instruction, memory: bool) -> Needs {
    if !memory {
        return needs(instruction);
    }
    // rbp counts as used only if the instruction names it beside its memory operand.
    let mut found = needs(instruction);
    let named = (0..instruction.op_count()).any(|index| {
        instruction.op_kind(index) == OpKind::Register && number(instruction.op_register(index)) == 5
    });
    if !named {
        found.used &= !(1 << 5);
        found.written &= !(1 << 5);
    }
    found
}

/// Puts another register where rsp is named.
fn replace_rsp(instruction: &mut Instruction, stand_in: u8) -> Option<()> {
    for index in 0..instruction.op_count() {
        if instruction.op_kind(index) != OpKind::Register {
            continue;
        }
        let size = match instruction.op_register(index) {
            Register::RSP => 3,
            Register::ESP => 2,
            Register::SP => 1,
            Register::SPL => 0,
            _ => continue,
        };
        instruction.set_op_register(index, GPR[size][usize::from(stand_in)]);
    }
    // An rsp that is used without being named can't be replaced.
    (needs(instruction).used & 1 << RSP == 0).then_some(())
}

fn encode(instruction: &Instruction) -> Option<MachineCode> {
    let list = [*instruction];
    let block = InstructionBlock::new(&list, instruction.ip());
    let result = BlockEncoder::encode(64, block, BlockEncoderOptions::DONT_FIX_BRANCHES).ok()?;
    MachineCode::new(&result.code_buffer)
}
