//! The effect of one instruction on labels.
//!
//! `x86::DataFlow` tells which bytes come from which. Moves keep labels byte by byte, and bitwise operations join them byte by
//! byte. All other operations give every byte they write the label of what they read. The label of an address does not pass to
//! what is read through it, nor that of a comparison to what depends on its outcome: data is followed, decisions are not.

use memref::{Access, VirtAddr};
use x86::{ByteRule, ByteSource, ByteTarget, DataFlow, RegisterBytes, RegisterKind};

use super::labels::{Label, LabelledBytes, Labels};
use super::registers::{ByteLabels, CLEAN, RegisterLabels, VALUE_BYTES};

const GENERAL_BYTES: usize = 8;

/// What the memory of a process holds, and what happens to it.
pub(crate) trait LabelledMemory {
    /// The label of a byte.
    fn get(&self, addr: VirtAddr) -> Label;
    /// Gives bytes labels.
    fn put(&mut self, addr: VirtAddr, value: &[Label]);
}

impl LabelledMemory for LabelledBytes {
    fn get(&self, addr: VirtAddr) -> Label {
        Self::get(self, addr)
    }

    fn put(&mut self, addr: VirtAddr, value: &[Label]) {
        for (index, &label) in value.iter().enumerate() {
            self.set(addr.offset(index as u64), label);
        }
    }
}

/// What a result has the label of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelRules {
    /// Of anything that it comes from.
    Any,
    /// Of what all of it comes from: what is masked away, combined or chosen from something else has none.
    Whole,
    /// Of what is moved there; of what is computed nothing.
    Moves,
}

/// An execution of an instruction.
pub(crate) struct Propagation<'a> {
    pub(crate) flow: &'a DataFlow,
    /// Its address.
    pub(crate) ip: VirtAddr,
    pub(crate) accesses: &'a [Access],
    pub(crate) rules: LabelRules,
}

impl Propagation<'_> {
    /// The label of what the instruction reads from memory.
    pub(crate) fn loaded(&self, memory: &impl LabelledMemory) -> Label {
        let reads = self.accesses.iter().filter(|access| access.kind.reads());
        reads
            .flat_map(|access| (0..u64::from(access.size)).map(|index| memory.get(access.addr.offset(index))))
            .find(|&label| label != 0)
            .unwrap_or(0)
    }

    /// Executes it.
    pub(crate) fn execute(
        &self,
        registers: &mut RegisterLabels,
        memory: &mut impl LabelledMemory,
        labels: &mut Labels,
    ) {
        if self.flow.is_elementwise {
            self.elements(registers, memory, labels);
            return;
        }
        if let [assignment] = self.flow.assignments[..] {
            let value = self.value(assignment.rule, registers, memory, labels);
            self.assign(assignment.target, &value, registers, memory, labels);
            return;
        }
        // All is read before anything is written: an exchange writes what it reads.
        let values: Vec<ByteLabels> = self
            .flow
            .assignments
            .iter()
            .map(|assignment| self.value(assignment.rule, registers, memory, labels))
            .collect();
        for (assignment, value) in self.flow.assignments.iter().zip(&values) {
            self.assign(assignment.target, value, registers, memory, labels);
        }
    }

    /// Writes a result.
    fn assign(
        &self,
        target: ByteTarget,
        value: &ByteLabels,
        registers: &mut RegisterLabels,
        memory: &mut impl LabelledMemory,
        labels: &mut Labels,
    ) {
        let ByteTarget::Register(bytes, zero_to) = target else {
            self.write_memory(memory, value, labels);
            return;
        };
        let len = usize::from(bytes.len);
        let above = zero_to.saturating_sub(bytes.first).max(bytes.len);
        if self.rules == LabelRules::Whole
            && matches!(bytes.register, RegisterKind::General(_))
            && value[..len].iter().all(|&label| label != 0)
        {
            // The zeros above are a part of the number.
            let whole = RegisterBytes { len: above, ..bytes };
            registers.set(whole, zero_to, &[value[0]; VALUE_BYTES]);
        } else {
            registers.set(bytes, zero_to, value);
        }
    }

    /// The labels of a result.
    fn value(
        &self,
        rule: ByteRule,
        registers: &RegisterLabels,
        memory: &impl LabelledMemory,
        labels: &mut Labels,
    ) -> ByteLabels {
        let mut read = |source: ByteSource| match source {
            ByteSource::Register(bytes) => registers.get(bytes),
            ByteSource::Memory(_) => self.read_memory(memory, labels),
            ByteSource::Constant => CLEAN,
        };
        match rule {
            // The smaller one of two is how string functions look for a zero: it decides, too.
            ByteRule::Constant | ByteRule::Decision | ByteRule::Least => CLEAN,
            ByteRule::Move(source) => {
                let mut value = read(source);
                let bytes = len_of(source);
                // A small number that becomes a large one.
                if self.rules == LabelRules::Whole
                    && bytes < GENERAL_BYTES
                    && value[..bytes].iter().all(|&label| label != 0)
                {
                    let label = value[0];
                    value[bytes..GENERAL_BYTES].fill(label);
                }
                value
            }
            ByteRule::SignExtend(source) => {
                let mut value = read(source);
                let bytes = len_of(source);
                let sign = value[bytes.saturating_sub(1)];
                value[bytes..GENERAL_BYTES.max(bytes)].fill(sign);
                value
            }
            ByteRule::Reverse(source) => {
                let mut value = read(source);
                value[..len_of(source)].reverse();
                value
            }
            ByteRule::Bitwise(one, other, kept) => {
                let mut value = read(one);
                for (own, other) in value.iter_mut().zip(read(other)) {
                    match self.rules {
                        LabelRules::Any if *own == 0 => *own = other,
                        LabelRules::Any => {}
                        LabelRules::Whole if other != 0 => {}
                        LabelRules::Whole | LabelRules::Moves => *own = 0,
                    }
                }
                for (_, label) in
                    value.iter_mut().take(8).enumerate().filter(|(byte, _)| kept >> byte & 1 == 0)
                {
                    *label = 0;
                }
                value
            }
            ByteRule::Either(own, other) => {
                let mut value = read(own);
                for (own, other) in value.iter_mut().zip(read(other)) {
                    match self.rules {
                        LabelRules::Any if other != 0 => *own = other,
                        LabelRules::Any => {}
                        LabelRules::Whole if other != 0 => {}
                        LabelRules::Whole | LabelRules::Moves => *own = 0,
                    }
                }
                value
            }
            ByteRule::Join if self.rules == LabelRules::Moves => CLEAN,
            ByteRule::Join if self.rules == LabelRules::Whole => [self.whole(registers, memory); VALUE_BYTES],
            ByteRule::Join => [self.joined(registers, memory, labels); VALUE_BYTES],
        }
    }

    /// The label of everything that is read: memory, then registers.
    fn joined(&self, registers: &RegisterLabels, memory: &impl LabelledMemory, labels: &mut Labels) -> Label {
        let loaded = labels.moved(self.loaded(memory), self.ip);
        if loaded != 0 || registers.are_clean() {
            return loaded;
        }
        let inputs = self.flow.inputs.iter().map(|&input| registers.label(input));
        inputs.into_iter().find(|&label| label != 0).unwrap_or(0)
    }

    /// The label of an input that has one in each of its bytes.
    pub(crate) fn whole(&self, registers: &RegisterLabels, memory: &impl LabelledMemory) -> Label {
        let mut reads = self.accesses.iter().filter(|access| access.kind.reads());
        let loaded = reads.find_map(|access| {
            let mut bytes = (0..u64::from(access.size)).map(|index| memory.get(access.addr.offset(index)));
            let first = bytes.next().filter(|&label| label != 0)?;
            bytes.all(|label| label != 0).then_some(first)
        });
        let whole_register = |&input: &RegisterBytes| {
            let value = registers.get(input);
            value[..usize::from(input.len)].iter().all(|&label| label != 0).then_some(value[0])
        };
        loaded.or_else(|| self.flow.inputs.iter().find_map(whole_register)).unwrap_or(0)
    }

    /// What is loaded, byte by byte: several accesses one after the other.
    fn read_memory(&self, memory: &impl LabelledMemory, labels: &mut Labels) -> ByteLabels {
        let mut value = CLEAN;
        let mut place = 0;
        for access in self.accesses.iter().filter(|access| access.kind.reads()) {
            for index in 0..u64::from(access.size) {
                if let Some(byte) = value.get_mut(place) {
                    *byte = labels.moved(memory.get(access.addr.offset(index)), self.ip);
                }
                place += 1;
            }
        }
        value
    }

    fn write_memory(&self, memory: &mut impl LabelledMemory, value: &ByteLabels, labels: &mut Labels) {
        let mut place = 0;
        for access in self.accesses.iter().filter(|access| access.kind.writes()) {
            let mut rest = u64::from(access.size);
            let mut addr = access.addr;
            while rest > 0 {
                let bytes = rest.min((VALUE_BYTES - place % VALUE_BYTES) as u64);
                let mut part = [0; VALUE_BYTES];
                for (to, &from) in part.iter_mut().zip(&value[place % VALUE_BYTES..]).take(bytes as usize) {
                    *to = labels.moved(from, self.ip);
                }
                memory.put(addr, &part[..bytes as usize]);
                place += bytes as usize;
                addr = addr.offset(bytes);
                rest -= bytes;
            }
        }
    }

    /// String instructions: one element after the other.
    fn elements(
        &self,
        registers: &mut RegisterLabels,
        memory: &mut impl LabelledMemory,
        labels: &mut Labels,
    ) {
        let [assignment] = self.flow.assignments[..] else { return };
        let mut value = match assignment.rule {
            ByteRule::Move(ByteSource::Register(bytes)) => registers.get(bytes),
            _ => CLEAN,
        };
        for access in self.accesses {
            let len = (access.size as usize).min(VALUE_BYTES);
            if access.kind.reads() {
                for (index, byte) in value.iter_mut().enumerate().take(len) {
                    *byte = memory.get(access.addr.offset(index as u64));
                }
            } else {
                let part = value.map(|label| labels.moved(label, self.ip));
                memory.put(access.addr, &part[..len]);
            }
        }
        if let ByteTarget::Register(bytes, zero_to) = assignment.target
            && !self.accesses.is_empty()
        {
            registers.set(bytes, zero_to, &value.map(|label| labels.moved(label, self.ip)));
        }
    }
}

/// Bytes of a source.
fn len_of(source: ByteSource) -> usize {
    match source {
        ByteSource::Register(RegisterBytes { len, .. }) | ByteSource::Memory(len) => {
            usize::from(len).min(VALUE_BYTES)
        }
        ByteSource::Constant => 0,
    }
}

#[cfg(test)]
mod tests {
    use memref::AccessKind;
    use x86::{Disassembler, Examiner};

    use super::super::registers::first;
    use super::*;

    const RAX: RegisterBytes = RegisterBytes::general(0);
    const RCX: RegisterBytes = RegisterBytes::general(1);
    const RDX: RegisterBytes = RegisterBytes::general(2);
    const RBX: RegisterBytes = RegisterBytes::general(3);
    const RSI: RegisterBytes = RegisterBytes::general(6);

    /// Executes instructions, each with its accesses, on registers and memory.
    fn run(
        bytes: &[u8],
        accesses: &[(u64, u32, AccessKind)],
        shadow: &mut LabelledBytes,
    ) -> (RegisterLabels, Labels) {
        run_by(LabelRules::Any, bytes, accesses, shadow)
    }

    fn run_by(
        rules: LabelRules,
        bytes: &[u8],
        accesses: &[(u64, u32, AccessKind)],
        shadow: &mut LabelledBytes,
    ) -> (RegisterLabels, Labels) {
        let mut registers = RegisterLabels::default();
        let mut labels = Labels::default();
        (0..64).for_each(|n| _ = labels.input(0, n));
        let mut examiner = Examiner::new();
        let mut rest = accesses.iter();
        for instruction in Disassembler::new(bytes, 0x1000) {
            let effects = examiner.examine(&instruction);
            let taken: Vec<Access> = rest
                .by_ref()
                .take(effects.operands().count())
                .map(|&(addr, size, kind)| Access {
                    cycle: 0,
                    ip: VirtAddr(0),
                    addr: VirtAddr(addr),
                    size,
                    kind,
                })
                .collect();
            let flow = effects.data_flow();
            let propagation =
                Propagation { flow: &flow, ip: VirtAddr(instruction.addr()), accesses: &taken, rules };
            propagation.execute(&mut registers, shadow, &mut labels);
        }
        (registers, labels)
    }

    fn offsets(labels: &Labels, value: &[Label]) -> Vec<Option<u64>> {
        value.iter().map(|&label| (label != 0).then(|| labels.path(label).1)).collect()
    }

    #[test]
    fn moves_keep_bytes_apart() {
        let mut shadow = LabelledBytes::default();
        (0..8).for_each(|n| shadow.set(VirtAddr(0x100 + n), 1 + n as u32));
        // mov eax, [rdi]; movzx ecx, ah; bswap eax; mov [rsi], ax
        let bytes = [0x8b, 0x07, 0x0f, 0xb6, 0xcc, 0x0f, 0xc8, 0x66, 0x89, 0x06];
        let (registers, labels) =
            run(&bytes, &[(0x100, 4, AccessKind::Load), (0x200, 2, AccessKind::Store)], &mut shadow);
        assert_eq!(offsets(&labels, &registers.get(RCX)[..2]), [Some(1), None]);
        assert_eq!(offsets(&labels, &registers.get(RAX)[..5]), [Some(3), Some(2), Some(1), Some(0), None]);
        let stored: Vec<Label> = (0x200..0x203).map(|addr| shadow.get(VirtAddr(addr))).collect();
        assert_eq!(offsets(&labels, &stored), [Some(3), Some(2), None]);
        assert_eq!(labels.path(stored[0]).2, [VirtAddr(0x1000), VirtAddr(0x1007)]);
    }

    #[test]
    fn arithmetic_joins_and_constants_clear() {
        let mut shadow = LabelledBytes::default();
        shadow.set(VirtAddr(0x100), 5);
        // mov al, [rdi]; add rbx, rax; and ebx, 0xff; lea rdx, [rbx+rcx]; xor eax, eax; mov rsi, [rbx]
        let bytes = [
            0x8a, 0x07, 0x48, 0x01, 0xc3, 0x81, 0xe3, 0xff, 0, 0, 0, 0x48, 0x8d, 0x14, 0x0b, 0x31, 0xc0,
            0x48, 0x8b, 0x33,
        ];
        let (registers, _) =
            run(&bytes, &[(0x100, 1, AccessKind::Load), (0x300, 8, AccessKind::Load)], &mut shadow);
        assert_ne!(registers.get(RBX)[0], 0);
        assert_eq!(registers.get(RBX)[1..8], [0; 7]);
        assert_ne!(registers.label(RDX), 0);
        assert_eq!((registers.label(RAX), registers.label(RSI)), (0, 0));
    }

    #[test]
    fn vectors_and_strings_move_bytes() {
        let mut shadow = LabelledBytes::default();
        shadow.set(VirtAddr(0x10f), 9);
        // movdqu xmm0, [rdi]; movdqu [rsi], xmm0; movsb; vpcmpeqb ymm0, ymm0, ymm1
        let bytes = [0xf3, 0x0f, 0x6f, 0x07, 0xf3, 0x0f, 0x7f, 0x06, 0xa4, 0xc5, 0xfd, 0x74, 0xc1];
        let accesses = [
            (0x100, 16, AccessKind::Load),
            (0x200, 16, AccessKind::Store),
            (0x20f, 1, AccessKind::Load),
            (0x300, 1, AccessKind::Store),
        ];
        let (registers, labels) = run(&bytes, &accesses, &mut shadow);
        assert_eq!((shadow.get(VirtAddr(0x20e)), labels.path(shadow.get(VirtAddr(0x20f))).1), (0, 8));
        assert_eq!(labels.path(shadow.get(VirtAddr(0x300))).2.len(), 3);
        assert!(registers.are_clean());
    }

    #[test]
    fn the_stack_keeps_registers() {
        let mut shadow = LabelledBytes::default();
        shadow.set(VirtAddr(0x100), 2);
        // mov rax, [rdi]; push rax; xor eax, eax; pop rbx; xchg rbx, rcx; cmove rdx, rcx
        let bytes = [0x48, 0x8b, 0x07, 0x50, 0x31, 0xc0, 0x5b, 0x48, 0x87, 0xcb, 0x48, 0x0f, 0x44, 0xd1];
        let accesses =
            [(0x100, 8, AccessKind::Load), (0x500, 8, AccessKind::Store), (0x500, 8, AccessKind::Load)];
        let (registers, _) = run(&bytes, &accesses, &mut shadow);
        let labels = [RAX, RBX, RCX, RDX].map(|register| registers.get(register)[0] != 0);
        assert_eq!(labels, [false, false, true, true]);
    }

    fn vector(number: u8) -> RegisterBytes {
        RegisterBytes { register: RegisterKind::Vector(number), first: 0, len: 32 }
    }

    #[test]
    fn a_move_of_a_part_of_a_vector_leaves_the_rest() {
        let mut shadow = LabelledBytes::default();
        (0..32).for_each(|n| shadow.set(VirtAddr(0x100 + n), 1 + n as u32));
        // vmovdqu ymm0, [rdi]; vmovdqu ymm1, [rsi]; movss xmm1, xmm0; movq xmm2, xmm0
        let bytes =
            [0xc5, 0xfe, 0x6f, 0x07, 0xc5, 0xfe, 0x6f, 0x0e, 0xf3, 0x0f, 0x10, 0xc8, 0xf3, 0x0f, 0x7e, 0xd0];
        let accesses = [(0x100, 32, AccessKind::Load), (0x200, 32, AccessKind::Load)];
        let (registers, _) = run(&bytes, &accesses, &mut shadow);
        let tainted = |number| registers.get(vector(number)).iter().take_while(|&&label| label != 0).count();
        assert_eq!([tainted(0), tainted(1), tainted(2)], [32, 4, 8]);
    }

    #[test]
    fn a_move_into_half_a_vector_clears_the_rest_only_if_it_is_a_new_one() {
        let mut shadow = LabelledBytes::default();
        (0..32).for_each(|n| shadow.set(VirtAddr(0x100 + n), 1 + n as u32));
        // vmovdqu ymm0, [rdi]; pxor xmm0, xmm0
        let old = [0xc5, 0xfe, 0x6f, 0x07, 0x66, 0x0f, 0xef, 0xc0];
        let (registers, _) = run(&old, &[(0x100, 32, AccessKind::Load)], &mut shadow);
        let value = registers.get(vector(0));
        assert_eq!((first(&value[..16]), value[16..32].contains(&0)), (0, false));
        // vmovdqu ymm0, [rdi]; vpxor xmm0, xmm0, xmm0
        let new = [0xc5, 0xfe, 0x6f, 0x07, 0xc5, 0xf9, 0xef, 0xc0];
        assert!(run(&new, &[(0x100, 32, AccessKind::Load)], &mut shadow).0.are_clean());
    }

    #[test]
    fn clearing_the_upper_halves_taints_nothing() {
        let mut shadow = LabelledBytes::default();
        shadow.set(VirtAddr(0x100), 5);
        shadow.set(VirtAddr(0x11f), 6);
        // vmovdqu ymm0, [rdi]; vzeroupper
        let bytes = [0xc5, 0xfe, 0x6f, 0x07, 0xc5, 0xf8, 0x77];
        let (registers, _) = run(&bytes, &[(0x100, 32, AccessKind::Load)], &mut shadow);
        let value = registers.get(vector(0));
        assert_eq!((value[0] != 0, first(&value[1..])), (true, 0));
        assert_eq!(registers.label(vector(1)), 0);
    }

    #[test]
    fn a_value_in_an_mmx_register_is_all_tainted() {
        let mut shadow = LabelledBytes::default();
        shadow.set(VirtAddr(0x107), 5);
        // movq mm0, [rdi]; movq [rsi], mm0
        let bytes = [0x0f, 0x6f, 0x07, 0x0f, 0x7f, 0x06];
        let accesses = [(0x100, 8, AccessKind::Load), (0x200, 8, AccessKind::Store)];
        run(&bytes, &accesses, &mut shadow);
        assert_ne!(shadow.get(VirtAddr(0x207)), 0, "the last byte counts as much as the first");
    }

    #[test]
    fn an_instruction_changes_no_register_that_its_flow_does_not_name() {
        let kinds = (0..16).map(RegisterKind::General).chain((0..32).map(RegisterKind::Vector));
        let all: Vec<RegisterKind> = kinds.chain((0..8).map(RegisterKind::Mmx)).collect();
        // add rbx, rax; imul eax; div cl; xchg rbx, rcx; cmove rdx, rcx; bswap eax; lea rdx, [rbx+rcx]; push rax; pop rbx; lodsb;
        // rep stosq; leave; vpxor xmm1, xmm0, xmm0; movss xmm1, xmm0; vzeroupper; paddb mm1, mm0; cpuid; xadd [rsi], al
        let code: [&[u8]; 18] = [
            &[0x48, 0x01, 0xc3],
            &[0xf7, 0xe8],
            &[0xf6, 0xf1],
            &[0x48, 0x87, 0xcb],
            &[0x48, 0x0f, 0x44, 0xd1],
            &[0x0f, 0xc8],
            &[0x48, 0x8d, 0x14, 0x0b],
            &[0x50],
            &[0x5b],
            &[0xac],
            &[0xf3, 0x48, 0xab],
            &[0xc9],
            &[0xc5, 0xf9, 0xef, 0xc8],
            &[0xf3, 0x0f, 0x10, 0xc8],
            &[0xc5, 0xf8, 0x77],
            &[0x0f, 0xfc, 0xc8],
            &[0x0f, 0xa2],
            &[0x0f, 0xc0, 0x06],
        ];
        for rules in [LabelRules::Any, LabelRules::Whole, LabelRules::Moves] {
            for bytes in code {
                let instruction = Disassembler::new(bytes, 0x1000).next().unwrap();
                let mut examiner = Examiner::new();
                let effects = examiner.examine(&instruction);
                let flow = effects.data_flow();
                let access =
                    |kind| Access { cycle: 0, ip: VirtAddr(0), addr: VirtAddr(0x100), size: 8, kind };
                let accesses: Vec<Access> = effects.operands().map(|operand| access(operand.kind)).collect();
                let mut labels = Labels::default();
                let label = labels.input(0, 0);
                let mut registers = RegisterLabels::default();
                for &register in &all {
                    if flow.registers().all(|named| named.register != register) {
                        let bytes = RegisterBytes { register, first: 0, len: register.len_bytes() };
                        registers.set(bytes, register.len_bytes(), &[label; VALUE_BYTES]);
                    }
                }
                let (before, mut shadow) = (format!("{registers:?}"), LabelledBytes::default());
                let ip = VirtAddr(instruction.addr());
                Propagation { flow: &flow, ip, accesses: &accesses, rules }.execute(
                    &mut registers,
                    &mut shadow,
                    &mut labels,
                );
                assert_eq!(
                    (format!("{registers:?}"), shadow.count()),
                    (before, 0),
                    "{bytes:x?} by {rules:?}"
                );
            }
        }
    }

    #[test]
    fn by_the_rule_of_the_whole_a_part_is_none() {
        let labels_of = |bytes: &[u8], labelled: std::ops::Range<u64>| {
            let mut shadow = LabelledBytes::default();
            labelled.for_each(|at| shadow.set(VirtAddr(at), 7));
            let accesses = [(0x100, 4, AccessKind::Load)];
            let (registers, _) = run_by(LabelRules::Whole, bytes, &accesses, &mut shadow);
            registers.get(RAX)[..8].iter().filter(|&&label| label != 0).count()
        };
        // mov eax, [rdi]; add eax, 1
        let sum = [0x8b, 0x07, 0x83, 0xc0, 0x01];
        assert_eq!((labels_of(&sum, 0x100..0x104), labels_of(&sum, 0x101..0x104)), (8, 0));
        // mov eax, [rdi]; and eax, 0xff: other bits may be all that counts
        assert_eq!(labels_of(&[0x8b, 0x07, 0x25, 0xff, 0, 0, 0], 0x100..0x104), 0);
        // mov eax, [rdi]; cmove eax, ecx: ecx may be it
        assert_eq!(labels_of(&[0x8b, 0x07, 0x0f, 0x44, 0xc1], 0x100..0x104), 0);
        // mov eax, [rdi]; mov eax, eax
        assert_eq!(labels_of(&[0x8b, 0x07, 0x89, 0xc0], 0x100..0x102), 2);
    }
}
