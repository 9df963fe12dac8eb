//! Which bytes of an instruction's results come from which bytes of its inputs.
//!
//! Moves and bitwise operations are described byte by byte; for everything else, each result is said to
//! depend on all inputs. An address is not an input of what is read or written there, and flags are not an
//! input of anything: a dependence on them is a decision. rsp is left out where it is only advanced. The x87
//! registers are named by their places before the instruction, so moves of their stack are not followed.
//!
//! Start with [`Effects::data_flow`].

use alloc::vec::Vec;

use iced_x86::{EncodingKind, Mnemonic, OpAccess, OpKind, Register};

use crate::effects::{Effects, leave_bytes, writes};
use crate::register_bytes::{RegisterBytes, RegisterKind};

const RAX: u8 = 0;
const RBP: u8 = 5;
const GENERAL_BYTES: usize = 8;
const XMM_BYTES: u8 = 16;
const VECTOR_BYTES: u8 = 64;
/// All bytes of a general register are kept.
const ALL_KEPT: u8 = 0xff;

/// What an instruction does with data. All sources are read before a target is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataFlow {
    /// What is written.
    pub assignments: Vec<Assignment>,
    /// The registers whose bytes [`ByteRule::Join`] joins, besides memory that is read.
    pub inputs: Vec<RegisterBytes>,
    /// A string instruction: the assignments are those of one element, and there may be any number of them.
    pub is_elementwise: bool,
}

/// One result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Where it is written.
    pub target: ByteTarget,
    /// Where its bytes come from.
    pub rule: ByteRule,
}

/// Where a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteTarget {
    /// Into a register. The bytes after these, up to the one of that number, become zero.
    Register(RegisterBytes, u8),
    /// Into what the instruction stores.
    Memory,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteSource {
    /// A register.
    Register(RegisterBytes),
    /// What the instruction loads, so many bytes.
    Memory(u8),
    /// A number in the instruction, or a register that holds no data.
    Constant,
}

/// Where the bytes of a result come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRule {
    /// From nothing of the program's data: numbers in the instruction, zeros, the processor's own counters.
    Constant,
    /// From a comparison or from flags: which of few values it is.
    Decision,
    /// Byte by byte from the source; what the source does not have is zero.
    Move(ByteSource),
    /// Byte by byte from the source; what it does not have is the sign of its last byte.
    SignExtend(ByteSource),
    /// Byte by byte from the source, the last one first.
    Reverse(ByteSource),
    /// Each byte from the bytes of both in its place. Of the first eight those without a bit here are zero.
    Bitwise(ByteSource, ByteSource, u8),
    /// The smaller one, element by element.
    Least,
    /// As it is, or that of the other one.
    Either(ByteSource, ByteSource),
    /// Each byte from all inputs.
    Join,
}

impl DataFlow {
    /// The registers that results come from, and those that they are written to.
    pub fn registers(&self) -> impl Iterator<Item = RegisterBytes> + '_ {
        let assigned = self.assignments.iter().flat_map(Assignment::registers);
        self.inputs.iter().copied().chain(assigned)
    }
}

impl Assignment {
    fn registers(&self) -> impl Iterator<Item = RegisterBytes> {
        let target = match self.target {
            ByteTarget::Register(bytes, _) => Some(bytes),
            ByteTarget::Memory => None,
        };
        let sources = match self.rule {
            ByteRule::Constant | ByteRule::Decision | ByteRule::Least | ByteRule::Join => [None; 2],
            ByteRule::Move(source) | ByteRule::SignExtend(source) | ByteRule::Reverse(source) => {
                [source.register(), None]
            }
            ByteRule::Bitwise(one, other, _) | ByteRule::Either(one, other) => {
                [one.register(), other.register()]
            }
        };
        target.into_iter().chain(sources.into_iter().flatten())
    }
}

impl ByteSource {
    const fn register(self) -> Option<RegisterBytes> {
        match self {
            Self::Register(bytes) => Some(bytes),
            Self::Memory(_) | Self::Constant => None,
        }
    }
}

impl Effects<'_> {
    /// Which bytes come from which.
    pub fn data_flow(&self) -> DataFlow {
        let mut flow = DataFlow { inputs: self.inputs(), ..DataFlow::default() };
        if self.instruction.is_string_instruction() {
            flow.is_elementwise = true;
            flow.assignments.extend(self.element());
            return flow;
        }
        if self.exchanges(&mut flow) || self.clears_vectors(&mut flow) {
            return flow;
        }
        match self.named_rule() {
            Some((target, rule)) => flow.assignments.push(Assignment { target, rule }),
            None => self.write_all(self.common_rule(), &mut flow),
        }
        flow
    }

    /// Everything that is written, by one rule.
    fn write_all(&self, rule: ByteRule, flow: &mut DataFlow) {
        for used in self.info.used_registers() {
            let register = used.register();
            if writes(used.access())
                && register.full_register() != Register::RSP
                && let Some(target) = self.target_register(register)
            {
                flow.assignments.push(Assignment { target, rule });
            }
        }
        if self.info.used_memory().iter().any(|memory| writes(memory.access())) {
            flow.assignments.push(Assignment { target: ByteTarget::Memory, rule });
        }
    }

    /// What is read, but for addresses: first the operands.
    fn inputs(&self) -> Vec<RegisterBytes> {
        let instruction = self.instruction;
        let names_address = instruction.mnemonic() == Mnemonic::Lea;
        // Their registers are operands besides.
        let compares_whole = matches!(instruction.mnemonic(), Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b);
        let operands = (0..instruction.op_count()).filter(|&index| {
            instruction.op_kind(index) == OpKind::Register
                && !matches!(self.info.op_access(index), OpAccess::Write | OpAccess::None)
        });
        let operands = operands.map(|index| instruction.op_register(index));
        let implied = self.info.used_registers().iter().filter(|used| {
            let register = used.register();
            let is_read = !matches!(used.access(), OpAccess::Write | OpAccess::None);
            let is_address = matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
                && (register == instruction.memory_base() || register == instruction.memory_index());
            is_read
                && (!is_address || names_address || compares_whole)
                && register.full_register() != Register::RSP
        });
        operands.chain(implied.map(|used| used.register())).filter_map(RegisterBytes::of).collect()
    }

    /// One element of a string instruction. What is compared gives nothing.
    fn element(&self) -> Option<Assignment> {
        use Mnemonic as M;
        let len = self.instruction.memory_size().size().clamp(1, GENERAL_BYTES) as u8;
        let rax = RegisterBytes { len, ..RegisterBytes::general(RAX) };
        match self.instruction.mnemonic() {
            M::Movsb | M::Movsw | M::Movsd | M::Movsq => {
                Some(Assignment { target: ByteTarget::Memory, rule: ByteRule::Move(ByteSource::Memory(len)) })
            }
            M::Stosb | M::Stosw | M::Stosd | M::Stosq => Some(Assignment {
                target: ByteTarget::Memory,
                rule: ByteRule::Move(ByteSource::Register(rax)),
            }),
            M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => Some(Assignment {
                target: ByteTarget::Register(rax, if len == 4 { 8 } else { len }),
                rule: ByteRule::Move(ByteSource::Memory(len)),
            }),
            _ => None,
        }
    }

    fn exchanges(&self, flow: &mut DataFlow) -> bool {
        let instruction = self.instruction;
        if instruction.mnemonic() != Mnemonic::Xchg {
            return false;
        }
        for (to, from) in [(0, 1), (1, 0)] {
            if let Some(target) = self.target(to) {
                flow.assignments.push(Assignment { target, rule: ByteRule::Move(self.source(from)) });
            }
        }
        true
    }

    fn clears_vectors(&self, flow: &mut DataFlow) -> bool {
        let first = match self.instruction.mnemonic() {
            Mnemonic::Vzeroall => 0,
            Mnemonic::Vzeroupper => XMM_BYTES,
            _ => return false,
        };
        for number in 0..16 {
            let bytes =
                RegisterBytes { register: RegisterKind::Vector(number), first, len: VECTOR_BYTES - first };
            let target = ByteTarget::Register(bytes, VECTOR_BYTES);
            flow.assignments.push(Assignment { target, rule: ByteRule::Constant });
        }
        true
    }

    /// An operand as a source.
    fn source(&self, index: u32) -> ByteSource {
        let instruction = self.instruction;
        match instruction.op_kind(index) {
            OpKind::Register => RegisterBytes::of(instruction.op_register(index))
                .map_or(ByteSource::Constant, ByteSource::Register),
            OpKind::Memory => ByteSource::Memory(instruction.memory_size().size() as u8),
            _ => ByteSource::Constant,
        }
    }

    /// An operand as a target.
    fn target(&self, index: u32) -> Option<ByteTarget> {
        match self.instruction.op_kind(index) {
            OpKind::Register => self.target_register(self.instruction.op_register(index)),
            _ => Some(ByteTarget::Memory),
        }
    }

    /// A register that is written as a whole: what the encoding says of the rest of it.
    fn target_register(&self, register: Register) -> Option<ByteTarget> {
        let bytes = RegisterBytes::of(register)?;
        let end = bytes.first + bytes.len;
        let zero_to = match bytes.register {
            RegisterKind::General(_) if bytes.len == 4 => GENERAL_BYTES as u8,
            RegisterKind::Vector(_) if self.instruction.encoding() != EncodingKind::Legacy => VECTOR_BYTES,
            _ => end,
        };
        Some(ByteTarget::Register(bytes, zero_to))
    }

    /// Of an instruction that writes one result, byte by byte from its operands: where, and from what.
    fn named_rule(&self) -> Option<(ByteTarget, ByteRule)> {
        let instruction = self.instruction;
        let mnemonic = instruction.mnemonic();
        let count = instruction.op_count();
        if mnemonic == Mnemonic::Leave {
            let len = leave_bytes(instruction);
            let rbp = RegisterBytes::general(RBP).cut(len.into());
            return Some((ByteTarget::Register(rbp, len), ByteRule::Move(ByteSource::Memory(len))));
        }
        // A mask, or a memory operand whose one element is used for all, is not told byte by byte.
        if count == 0 || instruction.op_mask() != Register::None || instruction.is_broadcast() {
            return None;
        }
        if mnemonic == Mnemonic::Push {
            return Some((ByteTarget::Memory, ByteRule::Move(self.source(0))));
        }
        let target = self.target(0)?;
        let last = self.source(count - 1);
        let before_last = || if count > 1 { self.source(count - 2) } else { ByteSource::Constant };
        Some(match mnemonic {
            Mnemonic::Pop => {
                let len = instruction.stack_pointer_increment() as u8;
                (target, ByteRule::Move(ByteSource::Memory(len)))
            }
            _ if has_equal_sources(instruction) && clears_if_equal(mnemonic) => (target, ByteRule::Constant),
            _ if count == 2 && is_move(mnemonic) => self.moved(target, last),
            Mnemonic::Movsx | Mnemonic::Movsxd => (target, ByteRule::SignExtend(last)),
            Mnemonic::Bswap | Mnemonic::Movbe => (target, ByteRule::Reverse(last)),
            _ if is_bitwise(mnemonic) => {
                let kept = if mnemonic == Mnemonic::And && last == ByteSource::Constant {
                    let number = instruction.immediate(count - 1).to_le_bytes();
                    (0..8).filter(|&byte| number[byte] != 0).fold(0, |kept, byte| kept | 1 << byte)
                } else {
                    ALL_KEPT
                };
                (target, ByteRule::Bitwise(before_last(), last, kept))
            }
            Mnemonic::Pminub | Mnemonic::Vpminub => (target, ByteRule::Least),
            _ if is_conditional_move(instruction) => (target, ByteRule::Either(before_last(), last)),
            _ => return None,
        })
    }

    /// A move of the source, or of its first bytes.
    fn moved(&self, target: ByteTarget, source: ByteSource) -> (ByteTarget, ByteRule) {
        use Mnemonic as M;
        let between_registers =
            matches!((target, source), (ByteTarget::Register(..), ByteSource::Register(_)));
        let mnemonic = self.instruction.mnemonic();
        let len = match mnemonic {
            M::Movss if between_registers => 4,
            M::Movsd if between_registers => 8,
            M::Movq | M::Vmovq => 8,
            M::Movd | M::Vmovd => 4,
            M::Kmovb => 1,
            M::Kmovw => 2,
            M::Kmovd => 4,
            M::Kmovq => 8,
            _ => VECTOR_BYTES.into(),
        };
        let source = match source {
            ByteSource::Register(bytes) => ByteSource::Register(bytes.cut(len)),
            other => other,
        };
        let target = match target {
            // What is above is left alone.
            ByteTarget::Register(bytes, _)
                if between_registers && matches!(mnemonic, M::Movss | M::Movsd) =>
            {
                ByteTarget::Register(bytes.cut(len), len as u8)
            }
            other => other,
        };
        (target, ByteRule::Move(source))
    }

    /// The rule of an instruction whose results are all alike.
    fn common_rule(&self) -> ByteRule {
        use Mnemonic as M;
        match self.instruction.mnemonic() {
            M::Cpuid | M::Rdtsc | M::Xgetbv | M::Syscall | M::Call | M::Ret | M::Jmp => ByteRule::Constant,
            mnemonic if is_comparison(mnemonic) || is_set_by_flags(self.instruction) => ByteRule::Decision,
            _ => ByteRule::Join,
        }
    }
}

/// Whether the last two operands are the same register.
fn has_equal_sources(instruction: &iced_x86::Instruction) -> bool {
    let count = instruction.op_count();
    count >= 2
        && instruction.op_kind(count - 1) == OpKind::Register
        && instruction.op_kind(count - 2) == OpKind::Register
        && instruction.op_register(count - 1) == instruction.op_register(count - 2)
}

/// Instructions whose result is zero where both sources are the same.
fn clears_if_equal(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
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
    )
}

/// Instructions of two operands that copy one into the other.
fn is_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
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
            | M::Movss
            | M::Movsd
            | M::Kmovb
            | M::Kmovw
            | M::Kmovd
            | M::Kmovq
    )
}

fn is_bitwise(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
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
            | M::Vxorpd
    )
}

/// What is compared decides; the outcome is no data.
fn is_comparison(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
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
    )
}

/// setcc.
fn is_set_by_flags(instruction: &iced_x86::Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Seta
            | M::Setae
            | M::Setb
            | M::Setbe
            | M::Sete
            | M::Setg
            | M::Setge
            | M::Setl
            | M::Setle
            | M::Setne
            | M::Setno
            | M::Setnp
            | M::Setns
            | M::Seto
            | M::Setp
            | M::Sets
    )
}

/// cmovcc.
fn is_conditional_move(instruction: &iced_x86::Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovne
            | M::Cmovno
            | M::Cmovnp
            | M::Cmovns
            | M::Cmovo
            | M::Cmovp
            | M::Cmovs
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Examiner, Instruction};

    fn flow(bytes: &[u8]) -> DataFlow {
        let instruction = Instruction::decode(bytes, 0x1000).expect("it is an instruction");
        Examiner::new().examine(&instruction).data_flow()
    }

    fn only(bytes: &[u8]) -> (ByteTarget, ByteRule) {
        let flow = flow(bytes);
        assert_eq!(flow.assignments.len(), 1, "{bytes:x?}: {flow:?}");
        (flow.assignments[0].target, flow.assignments[0].rule)
    }

    fn general(number: u8, first: u8, len: u8) -> RegisterBytes {
        RegisterBytes { register: RegisterKind::General(number), first, len }
    }

    fn vector(number: u8, len: u8) -> RegisterBytes {
        RegisterBytes { register: RegisterKind::Vector(number), first: 0, len }
    }

    #[test]
    fn moves_are_told_byte_by_byte() {
        use ByteSource::{Constant, Memory, Register};
        let to = ByteTarget::Register;
        assert_eq!(only(&[0x8b, 0x07]), (to(general(0, 0, 4), 8), ByteRule::Move(Memory(4))));
        assert_eq!(
            only(&[0x0f, 0xb6, 0xcc]),
            (to(general(1, 0, 4), 8), ByteRule::Move(Register(general(0, 1, 1))))
        );
        assert_eq!(
            only(&[0x66, 0x89, 0x06]),
            (ByteTarget::Memory, ByteRule::Move(Register(general(0, 0, 2))))
        );
        assert_eq!(only(&[0xb8, 1, 0, 0, 0]), (to(general(0, 0, 4), 8), ByteRule::Move(Constant)));
        assert_eq!(only(&[0x53]), (ByteTarget::Memory, ByteRule::Move(Register(general(3, 0, 8)))));
        assert_eq!(only(&[0x5b]), (to(general(3, 0, 8), 8), ByteRule::Move(Memory(8))));
        assert_eq!(
            only(&[0x0f, 0xc8]),
            (to(general(0, 0, 4), 8), ByteRule::Reverse(Register(general(0, 0, 4))))
        );
        assert_eq!(only(&[0x31, 0xc0]), (to(general(0, 0, 4), 8), ByteRule::Constant));
        let masked = only(&[0x81, 0xe3, 0xff, 0, 0, 0]);
        assert_eq!(
            masked,
            (to(general(3, 0, 4), 8), ByteRule::Bitwise(Register(general(3, 0, 4)), Constant, 1))
        );
    }

    #[test]
    fn a_move_between_vectors_moves_what_it_names() {
        use ByteSource::Register;
        // movss xmm1, xmm2; movsd xmm1, xmm2; movq xmm1, xmm2; movaps xmm1, xmm2; vmovaps xmm1, xmm2
        for (bytes, target, zero_to, source) in [
            (&[0xf3, 0x0f, 0x10, 0xca][..], 4, 4, 4),
            (&[0xf2, 0x0f, 0x10, 0xca], 8, 8, 8),
            (&[0xf3, 0x0f, 0x7e, 0xca], 16, 16, 8),
            (&[0x0f, 0x28, 0xca], 16, 16, 16),
            (&[0xc5, 0xf8, 0x28, 0xca], 16, 64, 16),
        ] {
            let expect = (
                ByteTarget::Register(vector(1, target), zero_to),
                ByteRule::Move(Register(vector(2, source))),
            );
            assert_eq!(only(bytes), expect, "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_cleared_comes_from_nothing() {
        let cleared = flow(&[0xc5, 0xf8, 0x77]);
        assert_eq!(cleared.assignments.len(), 16);
        let first = RegisterBytes { first: 16, ..vector(0, 48) };
        let expect = Assignment { target: ByteTarget::Register(first, 64), rule: ByteRule::Constant };
        assert_eq!(cleared.assignments[0], expect);
    }

    #[test]
    fn an_address_is_no_input() {
        // add rbx, [rax + rcx]; lea rdx, [rbx + rcx]; mul qword [rax]
        assert_eq!(flow(&[0x48, 0x03, 0x1c, 0x08]).inputs.first(), Some(&general(3, 0, 8)));
        assert!(
            flow(&[0x48, 0x03, 0x1c, 0x08])
                .inputs
                .iter()
                .all(|input| input.register == RegisterKind::General(3))
        );
        let of_lea = flow(&[0x48, 0x8d, 0x14, 0x0b]).inputs;
        assert!(of_lea.contains(&general(3, 0, 8)) && of_lea.contains(&general(1, 0, 8)));
        assert!(flow(&[0x48, 0xf7, 0x20]).inputs.contains(&general(0, 0, 8)));
    }

    #[test]
    fn an_element_that_is_used_for_all_comes_to_each_of_them() {
        // vpord xmm1, xmm2, [rax] of one element
        assert_eq!(only(&[0x62, 0xf1, 0x6d, 0x18, 0xeb, 0x08]).1, ByteRule::Join);
    }

    #[test]
    fn comparisons_decide() {
        assert_eq!(only(&[0xc5, 0xfd, 0x74, 0xc1]).1, ByteRule::Decision);
        assert_eq!(only(&[0x0f, 0x94, 0xc0]).1, ByteRule::Decision);
        assert_eq!(flow(&[0x39, 0xc8]).assignments, []);
    }
}
