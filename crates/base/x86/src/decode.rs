//! Decodes bytes to what a step needs: a form, the parts of an address, and whether there is a stub.

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register,
};
use memref::AccessKind;

use crate::instruction::{self, has_short_string_address, kind_of};
use crate::operand::Unsupported;
use crate::registers::NONE;
use crate::transfer::{Condition, Transfer};
use crate::vector::Elements;

/// How an instruction is executed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// In a stub, without memory.
    Plain,
    /// In a stub, with one access through its operand.
    Memory,
    /// In a stub, with an access for each element that a mask enables.
    Elements(Elements),
    /// Nothing happens.
    Nop,
    /// A conditional branch to `target`.
    Branch(Condition),
    /// jrcxz and the loops.
    CountBranch,
    /// A jump to `target`.
    Jump,
    /// A jump to a register or memory.
    JumpIndirect,
    /// A call of `target`.
    Call,
    /// A call of a register or memory.
    CallIndirect,
    /// ret, releasing more bytes.
    Return,
    /// push of a register, number or memory.
    Push,
    /// pop to a register or memory.
    Pop,
    /// leave.
    Leave,
    /// lea.
    Lea,
    /// movs, stos, lods, cmps, scas, with or without a repeat prefix.
    Strings,
    /// cld and std.
    Direction,
    /// Not here.
    Not(Unsupported),
}

/// Base and index of an address. A number of `NONE` is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: u8,
    pub(crate) index: u8,
    pub(crate) scale: u8,
    /// 0 none, 1 fs, 2 gs.
    pub(crate) segment: u8,
    /// Whether it wraps at 32 bits.
    pub(crate) short: bool,
    pub(crate) displacement: u64,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    pub(crate) form: Form,
    pub(crate) instruction: Instruction,
    pub(crate) address: Address,
    pub(crate) kind: AccessKind,
    /// Bytes of the access.
    pub(crate) len: u32,
    /// For bt and its relatives with a register: the register's number that moves the address, else `NONE`.
    pub(crate) bit_register: u8,
}

/// The processor's number of a general register; `NONE` for others.
pub(crate) fn number(register: Register) -> u8 {
    if register == Register::None
        || register == Register::RIP
        || register == Register::EIP
        || !register.is_gpr()
    {
        return NONE;
    }
    register.full_register().number() as u8
}

/// Decodes the instruction at `ip` from its bytes. `None` where the bytes end too early.
pub(crate) fn decode(bytes: &[u8], ip: u64) -> Option<Recipe> {
    let instruction = instruction::Disassembler::new(bytes, ip).next_instruction();
    if !instruction.is_valid() {
        if bytes.len() < instruction::MAX_INSTRUCTION_BYTES {
            return None;
        }
        return Some(Recipe::new(Form::Not(Unsupported::Invalid), instruction.inner));
    }
    Some(Recipe::of(&instruction))
}

impl Recipe {
    fn new(form: Form, instruction: Instruction) -> Self {
        let address =
            Address { base: NONE, index: NONE, scale: 1, segment: 0, short: false, displacement: 0 };
        Self { form, instruction, address, kind: AccessKind::Load, len: 0, bit_register: NONE }
    }

    fn of(whole: &instruction::Instruction) -> Self {
        let mut decoded = Self::new(Form::Plain, whole.inner);
        let has_memory = whole.names_memory();
        if has_memory && !decoded.read_address() {
            decoded.form = Form::Not(Unsupported::Memory);
            return decoded;
        }
        decoded.form = decoded.find_form(whole.transfer(), has_memory);
        decoded
    }

    /// Takes the address apart; `false` where it is not made of general registers.
    fn read_address(&mut self) -> bool {
        let instruction = &self.instruction;
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let relative = base == Register::RIP || base == Register::EIP;
        // The index of a gather is a vector: `Elements` knows it.
        let vector = instruction.is_vsib();
        if (base != Register::None && !relative && !base.is_gpr())
            || (index != Register::None && !index.is_gpr() && !vector)
        {
            return false;
        }
        self.address = Address {
            base: number(base),
            index: number(index),
            scale: instruction.memory_index_scale() as u8,
            segment: match instruction.segment_prefix() {
                Register::FS => 1,
                Register::GS => 2,
                _ => 0,
            },
            short: base.is_gpr32() || index.is_gpr32() || base == Register::EIP,
            displacement: instruction.memory_displacement64(),
        };
        true
    }

    fn find_form(&mut self, transfer: Transfer, has_memory: bool) -> Form {
        let instruction = self.instruction;
        match instruction.mnemonic() {
            Mnemonic::Nop
            | Mnemonic::Endbr64
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetchw => return Form::Nop,
            Mnemonic::Lea => return Form::Lea,
            Mnemonic::Leave if instruction.stack_pointer_increment() == 0 => return Form::Leave,
            Mnemonic::Push if !is_segment(&instruction) => return Form::Push,
            Mnemonic::Pop if !is_segment(&instruction) => return Form::Pop,
            Mnemonic::Cld | Mnemonic::Std => return Form::Direction,
            Mnemonic::Movsb
            | Mnemonic::Movsw
            | Mnemonic::Movsq
            | Mnemonic::Stosb
            | Mnemonic::Stosw
            | Mnemonic::Stosd
            | Mnemonic::Stosq
            | Mnemonic::Lodsb
            | Mnemonic::Lodsw
            | Mnemonic::Lodsd
            | Mnemonic::Lodsq
            | Mnemonic::Scasb
            | Mnemonic::Scasw
            | Mnemonic::Scasd
            | Mnemonic::Scasq
            | Mnemonic::Cmpsb
            | Mnemonic::Cmpsw
            | Mnemonic::Cmpsq => {
                return strings(&instruction);
            }
            Mnemonic::Movsd | Mnemonic::Cmpsd if instruction.is_string_instruction() => {
                return strings(&instruction);
            }
            Mnemonic::Cpuid | Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Xgetbv | Mnemonic::Pause => {}
            Mnemonic::Syscall
            | Mnemonic::Sysenter
            | Mnemonic::Hlt
            | Mnemonic::Wrfsbase
            | Mnemonic::Wrgsbase
            | Mnemonic::Xbegin
            | Mnemonic::Xend
            | Mnemonic::Xabort
            | Mnemonic::Pushfq
            | Mnemonic::Popfq
            | Mnemonic::Pushf
            | Mnemonic::Popf
            | Mnemonic::Enter
            | Mnemonic::Wrpkru
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
            | Mnemonic::Int3
            | Mnemonic::Int
            | Mnemonic::Int1 => {
                return Form::Not(Unsupported::System);
            }
            _ => {}
        }
        match transfer {
            Transfer::Next => {}
            Transfer::CountBranch(_) => return Form::CountBranch,
            Transfer::Branch(condition, _) => return Form::Branch(condition),
            Transfer::Jump(_) => return Form::Jump,
            Transfer::Call(_) => return Form::Call,
            Transfer::JumpIndirect => return Form::JumpIndirect,
            Transfer::CallIndirect => return Form::CallIndirect,
            Transfer::Return(_) => return Form::Return,
            _ => return Form::Not(Unsupported::System),
        }
        if instruction.is_privileged() || instruction.is_save_restore_instruction() {
            return Form::Not(Unsupported::System);
        }
        self.find_access(has_memory)
    }

    /// Whether the instruction makes one access, and through its operand.
    fn find_access(&mut self, has_memory: bool) -> Form {
        let instruction = self.instruction;
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info_options(&instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        let used = info.used_memory();
        if !has_memory {
            return if used.is_empty() { Form::Plain } else { Form::Not(Unsupported::Memory) };
        }
        let (Some(only), true) = (used.first(), used.len() == 1 || instruction.is_vsib()) else {
            return if used.is_empty() { Form::Nop } else { Form::Not(Unsupported::Memory) };
        };
        self.kind = match kind_of(only.access()) {
            Some(AccessKind::Prefetch) => return Form::Nop,
            Some(kind) => kind,
            None => return Form::Not(Unsupported::Memory),
        };
        // A mask decides which bytes are accessed at all.
        if let Some(elements) = Elements::of(&instruction) {
            return Form::Elements(elements);
        }
        if instruction.is_vsib()
            || matches!(only.access(), OpAccess::CondWrite)
            || is_masked(instruction.mnemonic())
        {
            return Form::Not(Unsupported::Memory);
        }
        self.len = instruction.memory_size().size() as u32;
        if instruction.is_broadcast() {
            self.len = instruction.memory_size().element_size() as u32;
        }
        if matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
            && instruction.op1_kind() == OpKind::Register
        {
            self.bit_register = number(instruction.op1_register());
        }
        if self.len == 0 { Form::Not(Unsupported::Memory) } else { Form::Memory }
    }
}

fn is_masked(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu)
}

fn is_segment(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register && !instruction.op0_register().is_gpr()
}

/// String instructions with 64-bit addresses and without a segment prefix.
fn strings(instruction: &Instruction) -> Form {
    if !has_short_string_address(instruction) && instruction.segment_prefix() == Register::None {
        Form::Strings
    } else {
        Form::Not(Unsupported::Memory)
    }
}
