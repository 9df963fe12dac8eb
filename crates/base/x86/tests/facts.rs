//! Compares the crate's facts about instructions with the behaviour of the processor.
//!
//! Random instructions of all kinds that this processor has are executed, one step at a time, from
//! states that differ in what should make no difference, or in what should. The set of instructions
//! is determined by the processor, so no fact is tested on an instruction that it does not have.

mod processor;
#[path = "processor/random.rs"]
mod random;

use std::collections::BTreeMap;

use iced_x86::Mnemonic;
use memref::AccessKind;
use processor::{DATA_BYTES, Ended, FLAGS, Processor, ProcessorState};
use random::{DrawnInstruction, MIDDLE, RandomNumbers, draw};
use x86::{
    ByteRule, ByteSource, ByteTarget, Effects, Examiner, Oracle, RegisterBytes, RegisterKind, Transfer,
};

/// Instructions that each test draws; some tenths of them can be executed.
const DRAWN: u64 = 60_000;
/// How often one of a name is executed.
const MOST_OF_ONE: u32 = 8;

/// Draws instructions, and calls `check` with those that the processor executes without a fault, and with their results. What
/// is wrong is told at the end, of each kind of instruction once.
fn each(
    seed: u64,
    check: impl Fn(&Processor, &DrawnInstruction, &Effects<'_>, &ProcessorState) + std::panic::RefUnwindSafe,
) {
    let processor = Processor::new();
    let (mut examiner, mut numbers) = (Examiner::new(), RandomNumbers::new(seed));
    let mut executed: BTreeMap<Mnemonic, u32> = BTreeMap::new();
    let mut wrong = BTreeMap::new();
    for _ in 0..DRAWN {
        let Some(case) = draw(&processor, &mut examiner, &mut numbers) else { continue };
        let times = executed.entry(case.inner.mnemonic()).or_default();
        if *times >= MOST_OF_ONE {
            continue;
        }
        let (after, ended) = processor.step(&case.state);
        if ended != Ended::Done {
            continue;
        }
        *times += 1;
        let effects = examiner.examine(&case.instruction);
        let checked = std::panic::AssertUnwindSafe(|| check(&processor, &case, &effects, &after));
        if std::panic::catch_unwind(checked).is_err() {
            wrong.entry(format!("{:?}", case.inner.code())).or_insert(case.bytes);
        }
    }
    assert!(wrong.is_empty(), "see above: {wrong:x?}");
    assert!(executed.len() > 100, "only {} kinds of instructions were executed", executed.len());
}

fn name(case: &DrawnInstruction) -> String {
    format!("{:?} {:x?} with {:x?}", case.inner.code(), case.bytes, case.state.general)
}

/// The registers of all kinds that a processor's state has.
fn registers(state: &ProcessorState) -> impl Iterator<Item = RegisterKind> + use<> {
    let vectors = state.vectors.len() as u8;
    (0..16)
        .map(RegisterKind::General)
        .chain((0..vectors).map(RegisterKind::Vector))
        .chain((0..8).flat_map(|number| [RegisterKind::Mask(number), RegisterKind::Mmx(number)]))
}

/// The bytes of memory that accesses of such kinds touch, as offsets.
fn touched(
    processor: &Processor,
    case: &DrawnInstruction,
    effects: &Effects<'_>,
    which: impl Fn(AccessKind) -> bool,
) -> Vec<std::ops::Range<usize>> {
    // Each repetition moves on, in either direction.
    let more = if case.instruction.is_repeated() { 32 } else { 0 };
    effects
        .operands()
        .filter(|operand| which(operand.kind) && operand.kind != AccessKind::Prefetch)
        .map(|operand| {
            let addr = operand.address(|number| case.state.general.get(number), 0, 0);
            let at = (addr - processor.data) as usize;
            at - more..at + usize::from(operand.len_bytes) + more
        })
        .collect()
}

fn contains(ranges: &[std::ops::Range<usize>], place: usize) -> bool {
    ranges.iter().any(|range| range.contains(&place))
}

#[test]
fn what_is_not_said_to_be_written_stays() {
    each(101, |processor, case, effects, after| {
        let written = effects.registers().written;
        let targets = effects.data_flow().assignments;
        for register in registers(after) {
            let may_change = match register {
                RegisterKind::General(number) => written >> number & 1 != 0,
                _ => targets.iter().any(|assignment| {
                    matches!(assignment.target, ByteTarget::Register(bytes, _) if bytes.register == register)
                }),
            };
            if !may_change {
                assert_eq!(after.bytes(register), case.state.bytes(register), "{register:?}: {}", name(case));
            }
        }
        let changed = case.instruction.flags().changed;
        let flags = (after.general.rflags ^ case.state.general.rflags) & FLAGS & !changed;
        assert_eq!(flags, 0, "{}", name(case));
        if case.instruction.has_known_accesses() {
            let stored = touched(processor, case, effects, AccessKind::writes);
            for place in 0..DATA_BYTES {
                let stays = after.memory[place] == case.state.memory[place];
                assert!(stays || contains(&stored, place), "byte {place}: {}", name(case));
            }
        }
        assert_eq!(after.general.rip, case.instruction.next(), "{}", name(case));
    });
}

#[test]
fn a_register_that_is_said_to_be_set_does_not_depend_on_what_it_held() {
    each(200, |processor, case, effects, after| {
        let set = effects.registers().set;
        if set == 0 {
            return;
        }
        let mut other = case.state.clone();
        for number in (0..16).filter(|number| set >> number & 1 != 0) {
            other.flip(RegisterBytes::general(number));
        }
        assert_eq!(&processor.step(&other).0, after, "{}", name(case));
    });
}

#[test]
fn sums_are_what_registers_hold_afterwards() {
    each(300, |_, case, effects, after| {
        for sum in effects.sums() {
            let base = sum.base.map_or(0, |base| case.state.general.get(base));
            let expect = base.wrapping_add_signed(sum.number);
            assert_eq!(after.general.get(sum.register), expect, "{sum:?}: {}", name(case));
        }
    });
}

#[test]
fn flags_matter_only_where_they_are_said_to() {
    each(400, |processor, case, _, after| {
        let of = case.instruction.flags();
        for flag in (0..12).map(|bit| 1 << bit).filter(|flag| FLAGS & flag & !of.read != 0) {
            let mut other = case.state.clone();
            other.general.rflags ^= flag;
            let (mut result, ended) = processor.step(&other);
            assert_eq!(ended, Ended::Done);
            let kept = result.general.rflags ^ after.general.rflags;
            // What is not defined may be anything, what is not replaced may stay.
            let may_differ = of.undefined | if of.replaced & flag == 0 { flag } else { 0 };
            assert_eq!(kept & FLAGS & !may_differ, 0, "flag {flag:#x}, {of:x?}: {}", name(case));
            result.general.rflags = after.general.rflags;
            assert_eq!(&result, after, "flag {flag:#x}: {}", name(case));
        }
    });
}

#[test]
fn memory_matters_only_where_it_is_said_to_be_read() {
    each(500, |processor, case, effects, after| {
        if !case.instruction.has_known_accesses() {
            return;
        }
        let read = touched(processor, case, effects, AccessKind::reads);
        let mut other = case.state.clone();
        for place in (0..DATA_BYTES).filter(|&place| !contains(&read, place)) {
            other.memory[place] ^= 0xff;
        }
        let (mut result, ended) = processor.step(&other);
        assert_eq!(ended, Ended::Done);
        let stored = touched(processor, case, effects, AccessKind::writes);
        for place in (0..DATA_BYTES).filter(|&place| !contains(&read, place)) {
            // A byte that is not stored keeps its own value; one that is stored is the same in both, unless a mask leaves it.
            let kept = result.memory[place] == other.memory[place];
            let is_stored = contains(&stored, place);
            assert!(kept || is_stored, "byte {place}: {}", name(case));
            if kept {
                result.memory[place] = after.memory[place];
            }
        }
        assert_eq!(&result, after, "{}", name(case));
    });
}

#[test]
fn accesses_have_the_length_that_they_are_said_to_have() {
    each(600, |processor, case, effects, _| {
        let mut operands = effects.operands();
        let (Some(operand), None) = (operands.next(), operands.next()) else { return };
        if operand.kind == AccessKind::Prefetch
            || operand.is_conditional
            || case.instruction.is_repeated()
            || case.instruction.mask().is_some()
            || !case.instruction.has_known_accesses()
        {
            return;
        }
        // The register that moves the address alone.
        let Some(base) = operand.base.filter(|&base| operand.index != Some(base)) else { return };
        let len = u64::from(operand.len_bytes);
        let addr = operand.address(|number| case.state.general.get(number), 0, 0);
        let at = |target: u64| {
            let mut moved = case.state.clone();
            let moved_base = moved.general.get(base).wrapping_add(target.wrapping_sub(addr));
            moved.general.set_number(base, moved_base);
            // A division may fail for what lies there.
            !matches!(processor.step(&moved).1, Ended::Fault(libc::SIGSEGV | libc::SIGBUS))
        };
        let end = processor.data + DATA_BYTES as u64;
        // Where an address must be aligned, one byte further is a fault anyway: only what is unaligned tells.
        let is_anywhere = at(addr + 1) && at(addr - 1);
        if base == 4 || !is_anywhere {
            return;
        }
        assert!(at(end - len), "the last {len} bytes: {}", name(case));
        assert!(at(processor.data), "the first {len} bytes: {}", name(case));
        assert!(!at(end - len + 1), "beyond the end, of {len} bytes: {}", name(case));
        assert!(!at(processor.data - 1), "before the start, of {len} bytes: {}", name(case));
    });
}

#[test]
fn the_oracle_says_the_same_of_accesses() {
    each(700, |_, case, effects, _| {
        let instruction = &case.instruction;
        if !instruction.has_known_accesses() || instruction.mask().is_some() || instruction.is_repeated() {
            return;
        }
        let mut observed = Vec::new();
        // SAFETY: the code is at rip, and no vector state is needed.
        let step = unsafe {
            Oracle::new().observe(&case.state.general, std::ptr::null(), 0, |operand| observed.push(operand))
        };
        assert!(step.is_some(), "{}", name(case));
        let said: Vec<_> = effects
            .operands()
            .map(|operand| {
                let addr = operand.address(|number| case.state.general.get(number), 0, 0);
                x86::Operand { addr, len: operand.len_bytes.max(1).into(), kind: operand.kind }
            })
            .collect();
        assert_eq!(observed, said, "{}", name(case));
    });
}

/// The bytes of a source in a state, and how many they are.
fn source_bytes(
    processor: &Processor,
    case: &DrawnInstruction,
    effects: &Effects<'_>,
    source: ByteSource,
) -> Option<Vec<u8>> {
    Some(match source {
        ByteSource::Register(bytes) => {
            let all = case.state.bytes(bytes.register);
            all.get(usize::from(bytes.first)..usize::from(bytes.first + bytes.len))?.to_vec()
        }
        ByteSource::Memory(len) => {
            let read = touched(processor, case, effects, AccessKind::reads);
            let start = read.first()?.start;
            case.state.memory.get(start..start + usize::from(len))?.to_vec()
        }
        // A number: it is not compared.
        ByteSource::Constant => return None,
    })
}

/// The bytes of a target in a state.
fn target_bytes(
    processor: &Processor,
    case: &DrawnInstruction,
    effects: &Effects<'_>,
    target: ByteTarget,
    state: &ProcessorState,
) -> Option<Vec<u8>> {
    Some(match target {
        ByteTarget::Register(bytes, zero_to) => {
            let end = (bytes.first + bytes.len).max(zero_to);
            state.bytes(bytes.register).get(usize::from(bytes.first)..usize::from(end))?.to_vec()
        }
        ByteTarget::Memory => {
            let stored = touched(processor, case, effects, AccessKind::writes);
            state.memory.get(stored.first()?.clone())?.to_vec()
        }
    })
}

#[test]
fn moves_move_the_bytes_that_they_are_said_to() {
    each(800, |processor, case, effects, after| {
        let flow = effects.data_flow();
        if flow.is_elementwise {
            return;
        }
        for assignment in &flow.assignments {
            let result = target_bytes(processor, case, effects, assignment.target, after);
            let Some(result) = result else { continue };
            let bytes = |source| source_bytes(processor, case, effects, source);
            let what = format!("{assignment:?}: {}", name(case));
            let filled = |mut value: Vec<u8>, rest: u8, named: usize| {
                value.resize(named.max(value.len()), rest);
                value.truncate(named);
                value.resize(result.len(), 0);
                value
            };
            let named = match assignment.target {
                ByteTarget::Register(bytes, _) => usize::from(bytes.len),
                ByteTarget::Memory => result.len(),
            };
            match assignment.rule {
                ByteRule::Move(source) => {
                    if let Some(value) = bytes(source) {
                        assert_eq!(result, filled(value, 0, named), "{what}");
                    }
                }
                ByteRule::SignExtend(source) => {
                    if let Some(value) = bytes(source) {
                        let sign = if value.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
                        assert_eq!(result, filled(value, sign, named), "{what}");
                    }
                }
                ByteRule::Reverse(source) => {
                    if let Some(mut value) = bytes(source) {
                        value.reverse();
                        assert_eq!(result, filled(value, 0, named), "{what}");
                    }
                }
                ByteRule::Either(own, other) => {
                    let own = bytes(own).map(|value| filled(value, 0, named));
                    let other = bytes(other).map(|value| filled(value, 0, named));
                    assert!(Some(&result) == own.as_ref() || Some(&result) == other.as_ref(), "{what}");
                }
                _ => {}
            }
            if let ByteTarget::Register(bytes, zero_to) = assignment.target
                && zero_to > bytes.first + bytes.len
            {
                assert!(
                    result[usize::from(bytes.len)..].iter().all(|&byte| byte == 0),
                    "not cleared: {what}"
                );
            }
        }
    });
}

#[test]
fn bitwise_results_depend_on_the_bytes_in_their_place_alone() {
    each(900, |processor, case, effects, after| {
        let flow = effects.data_flow();
        let [assignment] = flow.assignments[..] else { return };
        let ByteRule::Bitwise(one, other, kept) = assignment.rule else { return };
        let memory = touched(processor, case, effects, AccessKind::reads);
        for byte in 0..8u8 {
            let mut state = case.state.clone();
            for source in [one, other] {
                match source {
                    ByteSource::Register(bytes) if byte < bytes.len => {
                        state.flip(RegisterBytes { first: bytes.first + byte, len: 1, ..bytes });
                    }
                    ByteSource::Memory(len) if byte < len => {
                        if let Some(read) = memory.first() {
                            state.memory[read.start + usize::from(byte)] ^= 0xff;
                        }
                    }
                    _ => {}
                }
            }
            let is_address = effects.operands().any(|operand| {
                operand.address(|number| state.general.get(number), 0, 0)
                    != operand.address(|number| case.state.general.get(number), 0, 0)
            });
            if is_address {
                continue;
            }
            let (result, ended) = processor.step(&state);
            assert_eq!(ended, Ended::Done);
            let before = target_bytes(processor, case, effects, assignment.target, after).unwrap_or_default();
            let now = target_bytes(processor, case, effects, assignment.target, &result).unwrap_or_default();
            for (place, (before, now)) in before.iter().zip(&now).enumerate() {
                let may = place == usize::from(byte) && kept >> byte & 1 != 0;
                assert!(before == now || may, "byte {byte} changes byte {place}: {}", name(case));
            }
        }
    });
}

/// Flips all registers but those of addresses and those named.
fn flip_others(case: &DrawnInstruction, effects: &Effects<'_>, named: &[RegisterBytes]) -> ProcessorState {
    let mut other = case.state.clone();
    let mut kept: Vec<RegisterKind> = named.iter().map(|bytes| bytes.register).collect();
    kept.push(RegisterKind::General(4));
    for operand in effects.operands() {
        kept.extend([operand.base, operand.index].into_iter().flatten().map(RegisterKind::General));
    }
    if case.instruction.is_repeated() {
        kept.push(RegisterKind::General(1));
    }
    // The mask chooses elements: it is a decision.
    if let Some(mask) = case.instruction.mask() {
        kept.push(RegisterKind::Mask(mask.register));
    }
    let (_, vector_bytes) = processor::vector_shape();
    for register in registers(&other).filter(|register| !kept.contains(register)) {
        let len = match register {
            RegisterKind::Vector(_) => vector_bytes as u8,
            RegisterKind::Mask(_) if vector_bytes < 64 => continue,
            _ => 8,
        };
        other.flip(RegisterBytes { register, first: 0, len });
    }
    other
}

#[test]
fn results_depend_on_what_is_said_to_be_read_alone() {
    each(1000, |processor, case, effects, after| {
        let flow = effects.data_flow();
        if !case.instruction.has_known_accesses() || case.instruction.is_repeated() {
            return;
        }
        for assignment in &flow.assignments {
            // Registers that the result comes from; decisions may come from all that is read.
            let mut sources = match assignment.rule {
                ByteRule::Join | ByteRule::Decision | ByteRule::Least => flow.inputs.clone(),
                ByteRule::Constant => Vec::new(),
                ByteRule::Move(source) | ByteRule::SignExtend(source) | ByteRule::Reverse(source) => {
                    register_of(source)
                }
                ByteRule::Bitwise(one, other, _) | ByteRule::Either(one, other) => {
                    [register_of(one), register_of(other)].concat()
                }
            };
            // What is kept of a target that is written in part.
            if matches!(assignment.rule, ByteRule::Either(..))
                && let ByteTarget::Register(bytes, _) = assignment.target
            {
                sources.push(bytes);
            }
            let (result, ended) = processor.step(&flip_others(case, effects, &sources));
            if ended != Ended::Done {
                // A number that is divided by, or an operand that raises an exception.
                continue;
            }
            let before = target_bytes(processor, case, effects, assignment.target, after);
            let now = target_bytes(processor, case, effects, assignment.target, &result);
            assert_eq!(before, now, "{assignment:?} of {flow:?}: {}", name(case));
        }
    });
}

fn register_of(source: ByteSource) -> Vec<RegisterBytes> {
    match source {
        ByteSource::Register(bytes) => vec![bytes],
        _ => Vec::new(),
    }
}

#[test]
fn an_instruction_that_is_displaced_does_the_same() {
    const AWAY: u64 = 8192;
    each(1100, |processor, case, _, after| {
        let to = processor.code + AWAY;
        let mut state = case.state.clone();
        state.general.rip = to;
        let displaced = case.instruction.displaced(to);
        processor.put(to, &displaced.unwrap_or_else(|| panic!("not displaced: {}", name(case))));
        let (result, ended) = processor.run(&state, |rip| rip == case.instruction.next());
        assert_eq!((ended, &result), (Ended::Done, after), "{}", name(case));
        let moved = case.instruction.moved(&case.bytes, to);
        processor.put(to, &moved.unwrap_or_else(|| panic!("not moved: {}", name(case))));
        let end = to + case.bytes.len() as u64;
        let (mut result, ended) = processor.run(&state, |rip| rip == end);
        result.general.rip = after.general.rip;
        assert_eq!((ended, &result), (Ended::Done, after), "{}", name(case));
    });
}

/// Executes one transfer from states at random: from each, where it should go on.
fn transfers(bytes: &[u8], seed: u64) {
    let processor = Processor::new();
    let mut numbers = RandomNumbers::new(seed);
    let instruction = x86::Instruction::decode(bytes, processor.code).expect("it is an instruction");
    let away = processor.code + 8192;
    for _ in 0..64 {
        processor.put(processor.code, bytes);
        let mut state = random::state(&processor, &mut numbers);
        // What is pushed and popped, and what registers and memory name, is in memory or code.
        state.general.rsp = processor.data + MIDDLE;
        state.general.rbx = processor.data + MIDDLE + 64;
        state.general.rdx = processor.code + numbers.below(4096);
        state.general.rcx = numbers.below(3);
        let target = processor.code + numbers.below(4096);
        for place in [MIDDLE, MIDDLE + 64] {
            state.memory[place as usize..place as usize + 8].copy_from_slice(&target.to_le_bytes());
        }
        let (after, ended) = processor.step(&state);
        assert_eq!(ended, Ended::Done, "{bytes:x?}");
        let rip = after.general.rip;
        let pushed = || {
            let place = MIDDLE as usize - 8;
            u64::from_le_bytes(after.memory[place..place + 8].try_into().expect("eight bytes"))
        };
        let indirect = instruction.target_register().map_or(target, |number| state.general.get(number));
        let (expect, rsp) = match instruction.transfer() {
            Transfer::Next => (instruction.next(), 0),
            Transfer::Jump(to) => (to, 0),
            Transfer::Branch(condition, to) => {
                (if condition.holds(state.general.rflags) { to } else { instruction.next() }, 0)
            }
            Transfer::CountBranch(to) => {
                assert!(rip == to || rip == instruction.next(), "{bytes:x?}");
                (rip, 0)
            }
            Transfer::JumpIndirect => (indirect, 0),
            Transfer::Return(more) => (target, 8 + i64::from(more)),
            Transfer::Call(to) => (to, -8),
            Transfer::CallIndirect => (indirect, -8),
            other => panic!("{other:?}: {bytes:x?}"),
        };
        assert_eq!(
            (rip, after.general.rsp),
            (expect, state.general.rsp.wrapping_add_signed(rsp)),
            "{bytes:x?}"
        );
        if matches!(instruction.transfer(), Transfer::Call(_) | Transfer::CallIndirect) {
            assert_eq!(pushed(), instruction.next(), "{bytes:x?}");
        }
        // The displaced one leads to the same place, and pushes the same address.
        let code = instruction.displaced(away).expect("it is near");
        processor.put(away, &code);
        state.general.rip = away;
        let inside = away..away + code.len() as u64;
        let (displaced, ended) = processor.run(&state, |rip| !inside.contains(&rip));
        assert_eq!((ended, &displaced), (Ended::Done, &after), "{bytes:x?}");
        // What an indirect one goes to can be loaded.
        if let Some(load) = instruction.target_loaded(8, away) {
            processor.put(away, &load);
            state.general.rip = away;
            assert_eq!(processor.step(&state).0.general.r8, expect, "{bytes:x?}");
        }
    }
}

#[test]
fn control_goes_where_it_is_said_to() {
    for condition in 0..16 {
        transfers(&[0x70 | condition, 0x20], 1);
        transfers(&[0x0f, 0x80 | condition, 0x20, 1, 0, 0], 2);
    }
    for bytes in [
        &[0xeb, 0x20][..],   // jmp
        &[0xe9, 0, 2, 0, 0], // jmp
        &[0xe8, 0, 2, 0, 0], // call
        &[0xe3, 0x20],       // jrcxz
        &[0x67, 0xe3, 0x20], // jecxz
        &[0xe2, 0x20],       // loop
        &[0xe1, 0x20],       // loope
        &[0xe0, 0x20],       // loopne
        &[0xff, 0xe2],       // jmp rdx
        &[0xff, 0xd2],       // call rdx
        &[0xff, 0x23],       // jmp [rbx]
        &[0xff, 0x13],       // call [rbx]
        &[0x3e, 0xff, 0xd2], // notrack call rdx
        &[0xff, 0x24, 0x24], // jmp [rsp]
        &[0x3e, 0xff, 0xe2], // notrack jmp rdx
        &[0xc3],             // ret
        &[0xf3, 0xc3],       // ret with a prefix
        &[0xc2, 0x10, 0],    // ret 16
        &[0x90],             // nop
    ] {
        transfers(bytes, 3);
    }
}
