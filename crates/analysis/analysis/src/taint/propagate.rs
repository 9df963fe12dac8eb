//! What one instruction does to labels.
//!
//! Moves keep them byte by byte, bitwise operations join them byte by byte, all other operations give every byte that they
//! write the label of what they read. Addresses give nothing to what is read through them, comparisons nothing to what
//! depends on their outcome: data is followed, not decisions.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register};
use memref::Access;

use super::labels::{Label, Labels, Shadow};

const GENERAL_BYTES: usize = 8;
const VECTOR_BYTES: usize = 64;
/// Registers of other kinds: mm, st, k.
const OTHERS: usize = 24;

/// The labels of a thread's registers.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    general: [[Label; GENERAL_BYTES]; 16],
    vector: Box<[[Label; VECTOR_BYTES]; 32]>,
    others: [Label; OTHERS],
    /// A bit for each register that has a label: general, then vector, then others.
    tainted: u128,
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            general: [[0; GENERAL_BYTES]; 16],
            vector: Box::new([[0; VECTOR_BYTES]; 32]),
            others: [0; OTHERS],
            tainted: 0,
        }
    }
}

/// A register's place: its bit, and which of its bytes.
#[derive(Clone, Copy)]
struct Place {
    bit: u32,
    from: usize,
    bytes: usize,
}

fn place(register: Register) -> Option<Place> {
    if register.is_gpr() {
        let high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
        let bit = register.full_register().number() as u32;
        return Some(Place { bit, from: usize::from(high), bytes: register.size() });
    }
    if register.is_vector_register() {
        return Some(Place { bit: 16 + register.number() as u32, from: 0, bytes: register.size() });
    }
    let other = match register {
        _ if register.is_mm() => register.number(),
        _ if register.is_st() => 8 + register.number(),
        _ if register.is_k() => 16 + register.number(),
        _ => return None,
    };
    Some(Place { bit: 48 + other as u32, from: 0, bytes: 1 })
}

/// Labels of a value, byte by byte.
type Value = [Label; VECTOR_BYTES];
const NOTHING: Value = [0; VECTOR_BYTES];

impl Registers {
    /// Whether no register has a label.
    #[inline]
    pub(super) fn are_clean(&self) -> bool {
        self.tainted == 0
    }

    /// No register has one any more.
    pub(super) fn clear(&mut self) {
        if self.tainted != 0 {
            *self = Self::default();
        }
    }

    fn get(&self, register: Register) -> Value {
        let mut value = NOTHING;
        let Some(place) = place(register) else { return value };
        if self.tainted >> place.bit & 1 == 0 {
            return value;
        }
        let bytes: &[Label] = match place.bit {
            bit @ 0..16 => &self.general[bit as usize],
            bit @ 16..48 => &self.vector[bit as usize - 16],
            bit => std::slice::from_ref(&self.others[bit as usize - 48]),
        };
        let end = (place.from + place.bytes).min(bytes.len());
        value[..end - place.from].copy_from_slice(&bytes[place.from..end]);
        value
    }

    /// The first label of a register.
    pub(super) fn label(&self, register: Register) -> Label {
        first(&self.get(register))
    }

    /// Writes a register as its instruction does: 32 bits clear the rest of 64, and so does a vector with `wide` set.
    fn set(&mut self, register: Register, value: &Value, wide: bool) {
        let Some(place) = place(register) else { return };
        if self.tainted >> place.bit & 1 == 0 && value[..place.bytes].iter().all(|&label| label == 0) {
            return;
        }
        let bytes: &mut [Label] = match place.bit {
            bit @ 0..16 => &mut self.general[bit as usize],
            bit @ 16..48 => &mut self.vector[bit as usize - 16],
            bit => std::slice::from_mut(&mut self.others[bit as usize - 48]),
        };
        if place.bytes == 4 && place.bit < 16 || wide {
            bytes.fill(0);
        }
        let end = (place.from + place.bytes).min(bytes.len());
        bytes[place.from..end].copy_from_slice(&value[..end - place.from]);
        let any = bytes.iter().any(|&label| label != 0);
        self.tainted = self.tainted & !(1 << place.bit) | u128::from(any) << place.bit;
    }

    /// What a call may have changed and did not say: caller-saved registers hold nothing that is known.
    pub(super) fn after_unseen_call(&mut self) {
        for register in [
            Register::RAX,
            Register::RCX,
            Register::RDX,
            Register::RSI,
            Register::RDI,
            Register::R8,
            Register::R9,
            Register::R10,
            Register::R11,
        ] {
            self.set(register, &NOTHING, false);
        }
        if self.tainted >> 16 != 0 {
            *self.vector = [[0; VECTOR_BYTES]; 32];
            self.others = [0; OTHERS];
            self.tainted &= 0xffff;
        }
    }

    /// Takes over what another set has that this one has not.
    pub(super) fn join(&mut self, other: &Self) {
        let add = |to: &mut [Label], from: &[Label]| {
            for (to, &from) in to.iter_mut().zip(from) {
                if *to == 0 {
                    *to = from;
                }
            }
        };
        self.general.iter_mut().zip(&other.general).for_each(|(to, from)| add(to, from));
        self.vector.iter_mut().zip(other.vector.iter()).for_each(|(to, from)| add(to, from));
        add(&mut self.others, &other.others);
        self.tainted |= other.tainted;
    }
}

fn first(value: &[Label]) -> Label {
    value.iter().copied().find(|&label| label != 0).unwrap_or(0)
}

/// What the memory of a process holds, and what happens to it.
pub(super) trait Memory {
    /// The label of a byte.
    fn get(&self, addr: u64) -> Label;
    /// Gives bytes labels.
    fn put(&mut self, addr: u64, value: &[Label]);
}

impl Memory for Shadow {
    fn get(&self, addr: u64) -> Label {
        Self::get(self, addr)
    }

    fn put(&mut self, addr: u64, value: &[Label]) {
        for (index, &label) in value.iter().enumerate() {
            self.set(addr.wrapping_add(index as u64), label);
        }
    }
}

/// How an instruction moves labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// The last source to the target, byte by byte; what is left of the target is clear.
    Move,
    /// As `Move`, the topmost byte again and again.
    SignExtended,
    /// As `Move`, but the target keeps its own where the source has none.
    MayMove,
    /// Byte by byte, both sources.
    Bitwise,
    Swap,
    Reverse,
    /// Targets are clear.
    Nothing,
    /// Everything read to everything written.
    All,
}

pub(super) fn manner(instruction: &Instruction) -> Manner {
    use Mnemonic as M;
    let mnemonic = instruction.mnemonic();
    let same = instruction.op_count() >= 2
        && instruction.op_kind(instruction.op_count() - 1) == OpKind::Register
        && instruction.op_kind(instruction.op_count() - 2) == OpKind::Register
        && instruction.op_register(instruction.op_count() - 1)
            == instruction.op_register(instruction.op_count() - 2);
    match mnemonic {
        M::Xor
        | M::Sub
        | M::Pxor
        | M::Vpxor
        | M::Vpxord
        | M::Vpxorq
        | M::Xorps
        | M::Xorpd
        | M::Vxorps
        | M::Vxorpd
        | M::Psubb
        | M::Psubd
        | M::Psubq
            if same =>
        {
            Manner::Nothing
        }
        M::Mov
        | M::Movzx
        | M::Movd
        | M::Movq
        | M::Vmovd
        | M::Vmovq
        | M::Movaps
        | M::Movapd
        | M::Movups
        | M::Movupd
        | M::Movdqa
        | M::Movdqu
        | M::Lddqu
        | M::Vlddqu
        | M::Movnti
        | M::Movntdq
        | M::Movntps
        | M::Movntpd
        | M::Movntdqa
        | M::Vmovaps
        | M::Vmovapd
        | M::Vmovups
        | M::Vmovupd
        | M::Vmovdqa
        | M::Vmovdqu
        | M::Vmovdqa32
        | M::Vmovdqa64
        | M::Vmovdqu8
        | M::Vmovdqu16
        | M::Vmovdqu32
        | M::Vmovdqu64
        | M::Vmovntdq
        | M::Vmovntps
        | M::Vmovntpd
        | M::Vmovntdqa
        | M::Push
        | M::Pop
        | M::Movss
        | M::Movsd
        | M::Kmovb
        | M::Kmovw
        | M::Kmovd
        | M::Kmovq
            if instruction.op_count() <= 2 =>
        {
            Manner::Move
        }
        M::Movsb
        | M::Movsw
        | M::Movsq
        | M::Stosb
        | M::Stosw
        | M::Stosd
        | M::Stosq
        | M::Lodsb
        | M::Lodsw
        | M::Lodsd
        | M::Lodsq => Manner::Move,
        M::Movsx | M::Movsxd => Manner::SignExtended,
        M::Xchg => Manner::Swap,
        M::Bswap | M::Movbe => Manner::Reverse,
        M::And
        | M::Or
        | M::Xor
        | M::Andn
        | M::Pand
        | M::Pandn
        | M::Por
        | M::Pxor
        | M::Vpand
        | M::Vpandd
        | M::Vpandq
        | M::Vpandn
        | M::Vpor
        | M::Vpord
        | M::Vporq
        | M::Vpxor
        | M::Vpxord
        | M::Vpxorq
        | M::Andps
        | M::Andpd
        | M::Orps
        | M::Orpd
        | M::Xorps
        | M::Xorpd
        | M::Vandps
        | M::Vandpd
        | M::Vorps
        | M::Vorpd
        | M::Vxorps
        | M::Vxorpd => Manner::Bitwise,
        // What is compared decides; it is not data.
        M::Cmp
        | M::Test
        | M::Pcmpeqb
        | M::Pcmpeqw
        | M::Pcmpeqd
        | M::Pcmpgtb
        | M::Vpcmpeqb
        | M::Vpcmpeqw
        | M::Vpcmpeqd
        | M::Vpcmpeqq
        | M::Vpcmpgtb
        | M::Vpcmpb
        | M::Vpcmpub
        | M::Vpcmpd
        | M::Vpcmpud
        | M::Vptestnmb
        | M::Vptestmb
        | M::Vptestnmd
        | M::Vptestmd
        | M::Pcmpistri
        | M::Pcmpestri
        | M::Vpcmpistri
        | M::Pmovmskb
        | M::Vpmovmskb
        | M::Movmskps
        | M::Movmskpd
        | M::Ptest
        | M::Vptest
        | M::Pminub
        | M::Vpminub
        | M::Cpuid
        | M::Rdtsc
        | M::Xgetbv
        | M::Syscall
        | M::Scasb
        | M::Scasw
        | M::Scasd
        | M::Scasq
        | M::Cmpsb
        | M::Cmpsw
        | M::Cmpsd
        | M::Cmpsq
        | M::Call
        | M::Ret
        | M::Jmp => Manner::Nothing,
        _ if instruction.is_jcc_short_or_near() => Manner::Nothing,
        _ if format!("{mnemonic:?}").starts_with("Set") => Manner::Nothing,
        _ if format!("{mnemonic:?}").starts_with("Cmov") => Manner::MayMove,
        _ => Manner::All,
    }
}

/// An instruction with what must be known of it.
pub(super) struct Step<'a> {
    pub(super) instruction: &'a Instruction,
    pub(super) info: &'a InstructionInfo,
    pub(super) manner: Manner,
    pub(super) accesses: &'a [Access],
}

impl Step<'_> {
    /// The label of what the instruction reads from memory.
    pub(super) fn loaded(&self, memory: &impl Memory) -> Label {
        let reads = self.accesses.iter().filter(|access| access.kind.reads());
        reads
            .flat_map(|access| {
                (0..u64::from(access.size)).map(|index| memory.get(access.addr.0.wrapping_add(index)))
            })
            .find(|&label| label != 0)
            .unwrap_or(0)
    }

    /// Executes it.
    pub(super) fn execute(&self, registers: &mut Registers, memory: &mut impl Memory, labels: &mut Labels) {
        let instruction = self.instruction;
        let ip = instruction.ip();
        if instruction.is_string_instruction() && !self.accesses.is_empty() {
            self.string(registers, memory, labels);
            return;
        }
        match self.manner {
            Manner::Swap => self.swap(registers, memory, labels),
            Manner::Nothing => {
                self.write_registers(registers, &NOTHING);
                self.write_memory(memory, &NOTHING, ip, labels);
            }
            Manner::All if instruction.mnemonic() == Mnemonic::Leave => {
                let value = self.read_memory(memory, ip, labels);
                registers.set(Register::RBP, &value, false);
            }
            Manner::All => {
                let label = self.all(registers, memory, ip, labels);
                let value = [label; VECTOR_BYTES];
                self.write_registers(registers, &value);
                self.write_memory(memory, &value, ip, labels);
            }
            manner => {
                let value = self.value(manner, registers, memory, labels);
                let target = (instruction.op_count() > 0
                    && instruction.op0_kind() == OpKind::Register
                    && instruction.mnemonic() != Mnemonic::Push)
                    .then(|| instruction.op0_register());
                match target {
                    Some(register) => {
                        let merges = matches!(instruction.mnemonic(), Mnemonic::Movss | Mnemonic::Movsd)
                            && self.accesses.is_empty();
                        let wide = register.is_vector_register() && !merges;
                        registers.set(register, &value, wide);
                    }
                    None => self.write_memory(memory, &value, ip, labels),
                }
            }
        }
    }

    /// The value that a move or a bitwise operation writes.
    fn value(
        &self,
        manner: Manner,
        registers: &Registers,
        memory: &impl Memory,
        labels: &mut Labels,
    ) -> Value {
        let instruction = self.instruction;
        let ip = instruction.ip();
        let loaded = self.read_memory(memory, ip, labels);
        let operand = |index: u32, registers: &Registers| match instruction.op_kind(index) {
            OpKind::Register => registers.get(instruction.op_register(index)),
            OpKind::Memory => loaded,
            _ => NOTHING,
        };
        let count = instruction.op_count();
        match (instruction.mnemonic(), manner) {
            (Mnemonic::Push, _) => return operand(0, registers),
            (Mnemonic::Pop, _) => return loaded,
            (Mnemonic::Bswap, _) => {
                let mut value = operand(0, registers);
                let bytes = instruction.op0_register().size();
                value[..bytes].reverse();
                return value;
            }
            _ => {}
        }
        let source = operand(count.saturating_sub(1), registers);
        match manner {
            Manner::SignExtended => {
                let mut value = source;
                let bytes = match instruction.op1_kind() {
                    OpKind::Register => instruction.op1_register().size(),
                    _ => instruction.memory_size().size(),
                };
                let top = value[bytes.saturating_sub(1)];
                value[bytes..GENERAL_BYTES.max(bytes)].fill(top);
                value
            }
            Manner::MayMove => {
                let mut value = operand(0, registers);
                for (own, other) in value.iter_mut().zip(source) {
                    if other != 0 {
                        *own = other;
                    }
                }
                value
            }
            Manner::Reverse => {
                let mut value = source;
                let bytes = instruction.memory_size().size().clamp(1, GENERAL_BYTES);
                value[..bytes].reverse();
                value
            }
            Manner::Bitwise => {
                let mut value = operand(count.saturating_sub(2), registers);
                for (own, other) in value.iter_mut().zip(source) {
                    if *own == 0 {
                        *own = other;
                    }
                }
                // Bytes that a constant of zero bits clears.
                if instruction.mnemonic() == Mnemonic::And && is_immediate(instruction.op_kind(count - 1)) {
                    let mask = instruction.immediate(count - 1).to_le_bytes();
                    for (own, _) in value.iter_mut().zip(mask).filter(|(_, byte)| *byte == 0) {
                        *own = 0;
                    }
                }
                value
            }
            _ => source,
        }
    }

    /// Everything that is read: operands, what is implied, and memory; but not what makes an address.
    fn all(&self, registers: &Registers, memory: &impl Memory, ip: u64, labels: &mut Labels) -> Label {
        let instruction = self.instruction;
        let loaded = labels.moved(self.loaded(memory), ip);
        if loaded != 0 || registers.are_clean() {
            return loaded;
        }
        let lea = instruction.mnemonic() == Mnemonic::Lea;
        for index in 0..instruction.op_count() {
            let reads = !matches!(self.info.op_access(index), OpAccess::Write | OpAccess::None);
            if instruction.op_kind(index) == OpKind::Register && reads {
                let label = registers.label(instruction.op_register(index));
                if label != 0 {
                    return label;
                }
            }
        }
        for used in self.info.used_registers() {
            let register = used.register();
            let reads = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite | OpAccess::None);
            let address =
                !lea && (register == instruction.memory_base() || register == instruction.memory_index());
            if reads && !address && register.full_register() != Register::RSP {
                let label = registers.label(register);
                if label != 0 {
                    return label;
                }
            }
        }
        0
    }

    fn write_registers(&self, registers: &mut Registers, value: &Value) {
        for used in self.info.used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
            );
            let register = used.register();
            if writes && register.full_register() != Register::RSP {
                registers.set(register, value, register.is_vector_register() && register.size() > 16);
            }
        }
    }

    /// What is loaded, byte by byte: several accesses one behind the other.
    fn read_memory(&self, memory: &impl Memory, ip: u64, labels: &mut Labels) -> Value {
        let mut value = NOTHING;
        let mut place = 0;
        for access in self.accesses.iter().filter(|access| access.kind.reads()) {
            for index in 0..u64::from(access.size) {
                if let Some(byte) = value.get_mut(place) {
                    *byte = labels.moved(memory.get(access.addr.0.wrapping_add(index)), ip);
                }
                place += 1;
            }
        }
        value
    }

    fn write_memory(&self, memory: &mut impl Memory, value: &Value, ip: u64, labels: &mut Labels) {
        let mut place = 0;
        for access in self.accesses.iter().filter(|access| access.kind.writes()) {
            let mut rest = u64::from(access.size);
            let mut addr = access.addr.0;
            while rest > 0 {
                let bytes = rest.min((VECTOR_BYTES - place % VECTOR_BYTES) as u64);
                let mut part = [0; VECTOR_BYTES];
                for (to, &from) in part.iter_mut().zip(&value[place % VECTOR_BYTES..]).take(bytes as usize) {
                    *to = labels.moved(from, ip);
                }
                memory.put(addr, &part[..bytes as usize]);
                place += bytes as usize;
                addr = addr.wrapping_add(bytes);
                rest -= bytes;
            }
        }
    }

    fn swap(&self, registers: &mut Registers, memory: &mut impl Memory, labels: &mut Labels) {
        let instruction = self.instruction;
        let ip = instruction.ip();
        if self.accesses.is_empty() {
            let (a, b) = (instruction.op0_register(), instruction.op1_register());
            let (left, right) = (registers.get(a), registers.get(b));
            registers.set(a, &right, false);
            registers.set(b, &left, false);
            return;
        }
        let register = if instruction.op0_kind() == OpKind::Register {
            instruction.op0_register()
        } else {
            instruction.op1_register()
        };
        let (old, loaded) = (registers.get(register), self.read_memory(memory, ip, labels));
        self.write_memory(memory, &old, ip, labels);
        registers.set(register, &loaded, false);
    }

    /// String instructions: one element after the other.
    fn string(&self, registers: &mut Registers, memory: &mut impl Memory, labels: &mut Labels) {
        let ip = self.instruction.ip();
        let bytes = self.instruction.memory_size().size().clamp(1, GENERAL_BYTES);
        let mut value = registers.get(match bytes {
            1 => Register::AL,
            2 => Register::AX,
            4 => Register::EAX,
            _ => Register::RAX,
        });
        for access in self.accesses {
            let len = (access.size as usize).min(VECTOR_BYTES);
            if access.kind.reads() {
                for (index, byte) in value.iter_mut().enumerate().take(len) {
                    *byte = memory.get(access.addr.0.wrapping_add(index as u64));
                }
            } else {
                let part = value.map(|label| labels.moved(label, ip));
                memory.put(access.addr.0, &part[..len]);
            }
        }
        if matches!(
            self.instruction.mnemonic(),
            Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq
        ) {
            let register = [Register::AL, Register::AX, Register::EAX, Register::RAX]
                [bytes.trailing_zeros().min(3) as usize];
            registers.set(register, &value.map(|label| labels.moved(label, ip)), false);
        }
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
    use memref::{AccessKind, VirtAddr};

    use super::*;

    /// Executes instructions, each with its accesses, on registers and memory.
    fn run(bytes: &[u8], accesses: &[(u64, u32, AccessKind)], shadow: &mut Shadow) -> (Registers, Labels) {
        let mut registers = Registers::default();
        let mut labels = Labels::default();
        (0..64).for_each(|n| _ = labels.input(0, n));
        let mut factory = InstructionInfoFactory::new();
        let mut rest = accesses.iter();
        for instruction in Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE) {
            assert!(!instruction.is_invalid());
            let info = factory.info(&instruction).clone();
            let wanted = info.used_memory().iter().map(|memory| match memory.access() {
                OpAccess::NoMemAccess => 0,
                _ => 1,
            });
            let taken: Vec<Access> = rest
                .by_ref()
                .take(wanted.sum())
                .map(|&(addr, size, kind)| Access {
                    cycle: 0,
                    ip: VirtAddr(0),
                    addr: VirtAddr(addr),
                    size,
                    kind,
                })
                .collect();
            let step = Step {
                instruction: &instruction,
                info: &info,
                manner: manner(&instruction),
                accesses: &taken,
            };
            step.execute(&mut registers, shadow, &mut labels);
        }
        (registers, labels)
    }

    fn offsets(labels: &Labels, value: &[Label]) -> Vec<Option<u64>> {
        value.iter().map(|&label| (label != 0).then(|| labels.path(label).1)).collect()
    }

    #[test]
    fn moves_keep_bytes_apart() {
        let mut shadow = Shadow::default();
        (0..8).for_each(|n| shadow.set(0x100 + n, 1 + n as u32));
        // mov eax, [rdi]; movzx ecx, ah; bswap eax; mov [rsi], ax
        let bytes = [0x8b, 0x07, 0x0f, 0xb6, 0xcc, 0x0f, 0xc8, 0x66, 0x89, 0x06];
        let (registers, labels) =
            run(&bytes, &[(0x100, 4, AccessKind::Load), (0x200, 2, AccessKind::Store)], &mut shadow);
        assert_eq!(offsets(&labels, &registers.get(Register::CX)[..2]), [Some(1), None]);
        assert_eq!(
            offsets(&labels, &registers.get(Register::RAX)[..5]),
            [Some(3), Some(2), Some(1), Some(0), None]
        );
        let stored: Vec<Label> = (0x200..0x203).map(|addr| shadow.get(addr)).collect();
        assert_eq!(offsets(&labels, &stored), [Some(3), Some(2), None]);
        assert_eq!(labels.path(stored[0]).2, [0x1000, 0x1007]);
    }

    #[test]
    fn arithmetic_joins_and_constants_clear() {
        let mut shadow = Shadow::default();
        shadow.set(0x100, 5);
        // mov al, [rdi]; add rbx, rax; and ebx, 0xff; lea rdx, [rbx+rcx]; xor eax, eax; mov rsi, [rbx]
        let bytes = [
            0x8a, 0x07, 0x48, 0x01, 0xc3, 0x81, 0xe3, 0xff, 0, 0, 0, 0x48, 0x8d, 0x14, 0x0b, 0x31, 0xc0,
            0x48, 0x8b, 0x33,
        ];
        let (registers, _) =
            run(&bytes, &[(0x100, 1, AccessKind::Load), (0x300, 8, AccessKind::Load)], &mut shadow);
        assert_ne!(registers.label(Register::BL), 0);
        assert_eq!(registers.get(Register::RBX)[1..8], [0; 7]);
        assert_ne!(registers.label(Register::RDX), 0);
        assert_eq!((registers.label(Register::RAX), registers.label(Register::RSI)), (0, 0));
    }

    #[test]
    fn vectors_and_strings_move_bytes() {
        let mut shadow = Shadow::default();
        shadow.set(0x10f, 9);
        // movdqu xmm0, [rdi]; movdqu [rsi], xmm0; movsb; vpcmpeqb ymm0, ymm0, ymm1
        let bytes = [0xf3, 0x0f, 0x6f, 0x07, 0xf3, 0x0f, 0x7f, 0x06, 0xa4, 0xc5, 0xfd, 0x74, 0xc1];
        let accesses = [
            (0x100, 16, AccessKind::Load),
            (0x200, 16, AccessKind::Store),
            (0x20f, 1, AccessKind::Load),
            (0x300, 1, AccessKind::Store),
        ];
        let (registers, labels) = run(&bytes, &accesses, &mut shadow);
        assert_eq!((shadow.get(0x20e), labels.path(shadow.get(0x20f)).1), (0, 8));
        assert_eq!(labels.path(shadow.get(0x300)).2.len(), 3);
        assert!(registers.are_clean());
    }

    #[test]
    fn the_stack_keeps_registers() {
        let mut shadow = Shadow::default();
        shadow.set(0x100, 2);
        // mov rax, [rdi]; push rax; xor eax, eax; pop rbx; xchg rbx, rcx; cmove rdx, rcx
        let bytes = [0x48, 0x8b, 0x07, 0x50, 0x31, 0xc0, 0x5b, 0x48, 0x87, 0xcb, 0x48, 0x0f, 0x44, 0xd1];
        let accesses =
            [(0x100, 8, AccessKind::Load), (0x500, 8, AccessKind::Store), (0x500, 8, AccessKind::Load)];
        let (registers, _) = run(&bytes, &accesses, &mut shadow);
        let labels =
            [Register::RAX, Register::RBX, Register::CL, Register::DL].map(|r| registers.label(r) != 0);
        assert_eq!(labels, [false, false, true, true]);
    }
}
