//! Random instructions, and states in which their accesses are in the processor's memory.
//!
//! Random bytes have the shape of encodings: prefixes, one of the opcode maps, an operand byte with its
//! extensions. Of those that are instructions, all are used that programs may execute and that this processor has.

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};
use x86::{Effects, Examiner, Instruction, Registers};

use super::processor::{DATA_BYTES, FLAGS, Processor, ProcessorState, vector_shape};

/// RandomNumbers that look random and are the same each time (splitmix64).
pub(crate) struct RandomNumbers(u64);

impl RandomNumbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    fn byte(&mut self) -> u8 {
        self.word() as u8
    }

    /// Of one in so many it is true.
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// An instruction and a state to execute it in.
pub(crate) struct DrawnInstruction {
    pub(crate) bytes: Vec<u8>,
    pub(crate) inner: iced_x86::Instruction,
    pub(crate) instruction: Instruction,
    pub(crate) state: ProcessorState,
}

/// Bytes with the shape of an encoding.
fn encoding(numbers: &mut RandomNumbers) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    match numbers.below(8) {
        0..=4 => {
            if numbers.one_in(4) {
                bytes.push([0x66, 0xf2, 0xf3, 0x67][numbers.below(4) as usize]);
            }
            if numbers.one_in(16) {
                bytes.push(0x66);
            }
            if numbers.one_in(2) {
                bytes.push(0x40 | numbers.byte() & 15);
            }
            match numbers.below(8) {
                0..=3 => {}
                4 | 5 => bytes.push(0x0f),
                6 => bytes.extend([0x0f, 0x38]),
                _ => bytes.extend([0x0f, 0x3a]),
            }
        }
        5 => {
            if numbers.one_in(2) {
                bytes.extend([0xc5, numbers.byte()]);
            } else {
                bytes.extend([0xc4, numbers.byte() & 0xe0 | (1 + numbers.below(3) as u8), numbers.byte()]);
            }
        }
        _ => {
            let mask = if numbers.one_in(2) { 0 } else { numbers.byte() & 0x87 };
            let map = numbers.byte() & 0xf0 | (1 + numbers.below(3) as u8);
            bytes.extend([0x62, map, numbers.byte() | 4, numbers.byte() & 0x78 | mask]);
        }
    }
    bytes.push(numbers.byte());
    // An operand byte, of which half name memory, and what may follow.
    let mode = if numbers.one_in(2) { 0xc0 } else { numbers.byte() & 0xc0 };
    bytes.push(mode | numbers.byte() & 0x3f);
    while bytes.len() < 15 {
        bytes.push(numbers.byte());
    }
    bytes
}

macro_rules! features {
    ($feature:expr, $($name:ident: $detected:tt),*) => {
        match $feature {
            CpuidFeature::INTEL8086 | CpuidFeature::INTEL186 | CpuidFeature::INTEL286 | CpuidFeature::INTEL386
            | CpuidFeature::INTEL486 | CpuidFeature::X64 | CpuidFeature::CMOV | CpuidFeature::MULTIBYTENOP
            | CpuidFeature::CX8 | CpuidFeature::PAUSE | CpuidFeature::MMX | CpuidFeature::SSE | CpuidFeature::SSE2 => true,
            $(CpuidFeature::$name => std::is_x86_feature_detected!($detected),)*
            _ => false,
        }
    };
}

/// Whether this processor has what an instruction needs.
fn is_here(instruction: &iced_x86::Instruction) -> bool {
    instruction.cpuid_features().iter().all(|&feature| {
        features!(feature,
            SSE3: "sse3", SSSE3: "ssse3", SSE4_1: "sse4.1", SSE4_2: "sse4.2", POPCNT: "popcnt", AES: "aes",
            PCLMULQDQ: "pclmulqdq", AVX: "avx", AVX2: "avx2", F16C: "f16c", FMA: "fma", BMI1: "bmi1", BMI2: "bmi2",
            LZCNT: "lzcnt", MOVBE: "movbe", ADX: "adx", SHA: "sha", CMPXCHG16B: "cmpxchg16b",
            AVX512F: "avx512f", AVX512BW: "avx512bw", AVX512DQ: "avx512dq", AVX512VL: "avx512vl",
            AVX512CD: "avx512cd", AVX512_VBMI: "avx512vbmi", AVX512_VBMI2: "avx512vbmi2",
            AVX512_VNNI: "avx512vnni", AVX512_BITALG: "avx512bitalg", AVX512_VPOPCNTDQ: "avx512vpopcntdq",
            AVX512_IFMA: "avx512ifma", AVX512_BF16: "avx512bf16", GFNI: "gfni", VAES: "vaes",
            VPCLMULQDQ: "vpclmulqdq")
    })
}

/// Whether its outcome follows from the state, it stays in its place, and it leaves the test alone.
fn is_fit(instruction: &iced_x86::Instruction) -> bool {
    use Mnemonic as M;
    if instruction.is_privileged()
        || instruction.is_save_restore_instruction()
        || instruction.is_stack_instruction() && instruction.flow_control() != FlowControl::Next
        || instruction.flow_control() != FlowControl::Next
        || instruction.segment_prefix() != Register::None
        || instruction.has_rep_prefix() && !instruction.is_string_instruction()
        || instruction.has_repne_prefix() && !instruction.is_string_instruction()
    {
        return false;
    }
    // Stores whose places are in vector registers can't be aimed, and might meet another thread's memory.
    if instruction.is_vsib() && instruction.op0_kind() == OpKind::Memory
        || matches!(instruction.mnemonic(), M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu)
    {
        return false;
    }
    let names_segment = instruction.op_kinds().enumerate().any(|(index, kind)| {
        kind == OpKind::Register && instruction.op_register(index as u32).is_segment_register()
    });
    // The decoder does not tell a pause from an exchange with r8 that has its prefix, which no program uses.
    // Of movsxd to 16 bits some processors load four bytes, others two; it is of no use either.
    if matches!(instruction.code(), iced_x86::Code::Movsxd_r16_rm16) || instruction.mnemonic() == M::Pause {
        return false;
    }
    // Processors differ in what they do to what is not defined: the result of a double shift that is too long, or of a half
    // bswap. Others tell of the time, of the processor, or change how later instructions behave.
    let is_undefined = matches!(instruction.mnemonic(), M::Shld | M::Shrd | M::Bswap)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().size() == 2
        || matches!(instruction.mnemonic(), M::Shld | M::Shrd) && instruction.memory_size().size() == 2;
    !names_segment
        && !is_undefined
        && !matches!(
            instruction.mnemonic(),
            M::Rdtsc
                | M::Cpuid
                | M::Popf
                | M::Popfq
                | M::Pushf
                | M::Pushfq
                | M::Enter
                | M::Ldmxcsr
                | M::Stmxcsr
                | M::Vldmxcsr
                | M::Vstmxcsr
                | M::Lar
                | M::Lsl
                | M::Verr
                | M::Verw
                | M::Sldt
                | M::Str
                | M::Smsw
                | M::Sgdt
                | M::Sidt
                | M::Lfs
                | M::Lgs
                | M::Lss
                | M::Xgetbv
                | M::Emms
                | M::Wait
        )
}

/// Where accesses are: the middle of the memory, at an address that suits all instructions.
pub(crate) const MIDDLE: u64 = DATA_BYTES as u64 / 2;

/// A state at random: flags and registers that no address needs.
pub(crate) fn state(processor: &Processor, numbers: &mut RandomNumbers) -> ProcessorState {
    let mut general =
        Registers { rip: processor.code, rflags: numbers.word() & FLAGS, ..Registers::default() };
    for number in 0..16 {
        // Small numbers are as likely as large ones.
        let word = numbers.word() >> (numbers.below(8) * 8);
        general.set_number(number, word);
    }
    let (count, len) = vector_shape();
    let mut vector = || {
        let mut bytes = [0; 64];
        bytes[..len].iter_mut().for_each(|byte| *byte = numbers.byte());
        bytes
    };
    let vectors = (0..count).map(|_| vector()).collect();
    let mut words = || [0; 8].map(|_: u64| numbers.word());
    let masks = if len == 64 { words() } else { [0; 8] };
    let mmx = words();
    let memory = (0..DATA_BYTES / 8).flat_map(|_| numbers.word().to_le_bytes()).collect();
    ProcessorState { general, vectors, masks, mmx, memory }
}

/// Chooses registers so that all accesses are in memory; `false` where that can't be.
fn aim(
    effects: &Effects<'_>,
    state: &mut ProcessorState,
    processor: &Processor,
    numbers: &mut RandomNumbers,
) -> bool {
    let mut chosen: u16 = 1 << 4;
    let middle = processor.data + MIDDLE;
    state.general.set_number(4, middle);
    for (count, operand) in effects.operands().enumerate() {
        let near = middle.wrapping_add_signed(64 * (numbers.below(4) as i64 - 2) + 256 * count as i64);
        let is_free = |register: u8| chosen >> register & 1 == 0;
        let displacement = operand.displacement as u64;
        match (operand.base, operand.index) {
            (Some(base), index) if is_free(base) && index != Some(base) => {
                if let Some(index) = index.filter(|&index| is_free(index)) {
                    state.general.set_number(index, numbers.below(32));
                    chosen |= 1 << index;
                }
                let index = index.map_or(0, |index| state.general.get(index));
                let index = if operand.is_index_byte { index & 0xff } else { index };
                let rest = displacement.wrapping_add(index.wrapping_mul(operand.scale.into()));
                state.general.set_number(base, near.wrapping_sub(rest));
                chosen |= 1 << base;
            }
            (None, Some(index)) if is_free(index) && operand.scale == 1 => {
                state.general.set_number(index, near.wrapping_sub(displacement));
                chosen |= 1 << index;
            }
            _ => {}
        }
        let addr = operand.address(|number| state.general.get(number), 0, 0);
        let room = processor.data + 256..processor.data + DATA_BYTES as u64 - 256;
        if !room.contains(&addr) {
            return false;
        }
    }
    true
}

/// Keeps the bit that a register numbers near its operand: further away may be another thread's memory. `false` where that
/// register is in the address, too.
fn aim_bit(inner: &iced_x86::Instruction, state: &mut ProcessorState, numbers: &mut RandomNumbers) -> bool {
    use Mnemonic as M;
    let has_number = matches!(inner.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
        && inner.op0_kind() == OpKind::Memory
        && inner.op1_kind() == OpKind::Register;
    if !has_number {
        return true;
    }
    let number = inner.op1_register().full_register();
    let is_in_address =
        [inner.memory_base(), inner.memory_index()].iter().any(|part| part.full_register() == number);
    state.general.set_number(number.number() as u8, numbers.below(1024));
    !is_in_address
}

/// One instruction and its state; `None` where what was drawn is not fit.
pub(crate) fn draw(
    processor: &Processor,
    examiner: &mut Examiner,
    numbers: &mut RandomNumbers,
) -> Option<DrawnInstruction> {
    let mut bytes = encoding(numbers);
    let mut decoder = Decoder::with_ip(64, &bytes, processor.code, DecoderOptions::NONE);
    let inner = decoder.decode();
    if inner.is_invalid() || !is_here(&inner) || !is_fit(&inner) {
        return None;
    }
    let places = decoder.get_constant_offsets(&inner);
    bytes.truncate(inner.len());
    if places.has_displacement() && places.displacement_size() == 4 {
        let target = processor.data + MIDDLE + 64 * numbers.below(4);
        let displacement = if inner.is_ip_rel_memory_operand() {
            target.wrapping_sub(inner.next_ip()) as u32
        } else if inner.memory_base() == Register::None {
            target as u32
        } else {
            numbers.below(256) as u32
        };
        let at = places.displacement_offset();
        bytes[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
    }
    let inner = Decoder::with_ip(64, &bytes, processor.code, DecoderOptions::NONE).decode();
    let instruction = Instruction::decode(&bytes, processor.code)?;
    let mut state = state(processor, numbers);
    if !aim(&examiner.examine(&instruction), &mut state, processor, numbers)
        || !aim_bit(&inner, &mut state, numbers)
    {
        return None;
    }
    if instruction.is_repeated() {
        state.general.rcx = numbers.below(4);
    }
    processor.put(processor.code, &bytes);
    Some(DrawnInstruction { bytes, inner, instruction, state })
}
