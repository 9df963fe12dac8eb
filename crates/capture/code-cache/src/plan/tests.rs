//! Tests of plans: blocks of a few instructions and the plans expected for them.

use blocks::NO_VALUE;

use super::extent::{FORWARD_EXITS, TURNS};
use super::*;
use crate::place::Stretch;
use alloc::vec;
use proptest::prelude::*;

const AT: u64 = 0x40_0000;

fn plan(bytes: &[u8], task: Option<Task>) -> Plan {
    Plan::new(None, AT, bytes, MAX_INSTRUCTIONS, (task, Flow::Accesses), |_| false)
        .expect("they can be decoded")
}

/// test eax, eax; a branch; mov rax, [rsi]; ret
fn branch(distance: i8) -> [u8; 8] {
    [0x85, 0xc0, 0x75, distance as u8, 0x48, 0x8b, 0x06, 0xc3]
}

#[test]
fn a_block_goes_on_after_branches_that_lead_forwards() {
    let forwards = plan(&branch(16), Some(Task::Addresses));
    assert_eq!((forwards.steps.len(), forwards.end), (4, End::Return(0)));
    assert_eq!(forwards.exits, [1]);
    assert_eq!(forwards.parts().collect::<Vec<_>>(), [(0, 2), (2, 4)]);
    let (values, accesses) = forwards.before(1);
    assert_eq!((values, accesses.len(), forwards.values.len()), (0, 0, 2));
    assert_eq!(forwards.commit(), 3, "the return's own value is the last one");
    // The flags that the branch's target may need.
    assert_eq!(forwards.dead_in(0, 2), Some(0));
    assert_eq!(forwards.dead_in(1, 2), None);

    let backwards = plan(&branch(-16), Some(Task::Addresses));
    assert_eq!((backwards.steps.len(), backwards.end), (2, End::Branch(AT + 4 - 16)));
    assert_eq!(plan(&branch(16), Some(Task::Data)).exits, [], "a block records the bytes of one access");
}

#[test]
fn a_block_that_is_cut_after_a_branch_ends_with_it() {
    let mut plan = plan(&branch(16), Some(Task::Addresses));
    plan.shorten(2);
    assert_eq!((plan.steps.len(), plan.end), (2, End::Branch(AT + 4 + 16)));
    assert_eq!(plan.exits, []);
}

#[test]
fn a_block_has_so_many_branches() {
    let mut bytes: Vec<u8> = [0x74, 0x40].repeat(FORWARD_EXITS + 4);
    bytes.push(0xc3);
    let plan = plan(&bytes, None);
    assert_eq!((plan.exits.len(), plan.steps.len()), (FORWARD_EXITS, FORWARD_EXITS + 1));
}

/// mov rax, [rsi]; add rsi, 8; dec ecx; jnz the start; ret
const LOOP: [u8; 12] = [0x48, 0x8b, 0x06, 0x48, 0x83, 0xc6, 8, 0xff, 0xc9, 0x75, 0xf5, 0xc3];

#[test]
fn a_loop_has_several_turns_in_a_block() {
    let plan = plan(&LOOP, Some(Task::Addresses));
    assert_eq!((plan.steps.len(), plan.end), (4 * TURNS, End::Branch(AT)));
    assert_eq!(plan.exits, [3, 7, 11]);
    assert_eq!(plan.next(), AT + 11);
    assert!(plan.exits.iter().all(|&exit| { plan.exit_target(exit.into()) == Some(AT + 11) }));
    // One value: the others follow.
    assert_eq!((plan.values.len(), plan.commit()), (1, 0));
    let displacements: Vec<i64> = plan.accesses.iter().map(|access| access.displacement).collect();
    assert_eq!(displacements, [0, 8, 16, 24]);
    assert!(plan.accesses.iter().all(|access| (access.base, access.offset) == (0, 0)));
    assert_eq!((plan.before(7).0, plan.before(7).1.len()), (1, 2));
    assert_eq!(self::plan(&LOOP, None).steps.len(), 4);
}

#[test]
fn a_loop_that_is_cut_goes_on_where_it_was_cut() {
    for len in 1..4 * TURNS {
        let mut plan = plan(&LOOP, Some(Task::Addresses));
        plan.shorten(len);
        assert_eq!((plan.steps.len(), plan.covered()), (len, [3, 7, 9, 11][(len - 1).min(3)]));
        let (end, next) = match len % 4 {
            0 => (End::Branch(AT), 11),
            in_turn => (End::Fall, [3, 7, 9][in_turn - 1]),
        };
        assert_eq!((plan.end, plan.next()), (end, AT + next), "{len}");
        assert_eq!(plan.exits.len(), (len - 1) / 4);
    }
}

#[test]
fn where_the_tracer_must_be_asked_a_loop_has_one_turn() {
    let plan =
        Plan::new(None, AT, &LOOP, MAX_INSTRUCTIONS, (Some(Task::Addresses), Flow::Accesses), |at| at == AT);
    let plan = plan.expect("it is code");
    assert_eq!((plan.steps.len(), plan.end, plan.next()), (4, End::Branch(AT), AT + 11));
    assert_eq!(plan.exits, []);
}

#[test]
fn a_loop_with_branches_has_fewer_turns() {
    // jz to its end; jz to its end; jnz the start
    let plan = plan(&[0x74, 4, 0x74, 2, 0x75, 0xfa, 0xc3], Some(Task::Addresses));
    assert_eq!((plan.steps.len(), plan.exits.as_slice()), (6, &[0, 1, 2, 3, 4][..]));
    assert_eq!((plan.end, plan.next()), (End::Branch(AT), AT + 6));
}

#[test]
fn a_block_goes_on_where_a_jump_leads() {
    // inc qword [rsi]; jmp over two bytes; ud2; inc qword [rsi + 8]; ret
    let code = [0x48, 0xff, 0x06, 0xeb, 2, 0x0f, 0x0b, 0x48, 0xff, 0x46, 8, 0xc3];
    let padded = [&code[..], &[0x90; 16]].concat();
    let mut followed = plan(&padded, Some(Task::Addresses));
    let offsets: Vec<i64> = followed.steps.iter().map(|step| step.offset).collect();
    assert_eq!((offsets.as_slice(), followed.end), (&[0, 3, 7, 11][..], End::Return(0)));
    let is_followed: Vec<bool> = (0..4).map(|index| followed.is_followed(index)).collect();
    assert_eq!(is_followed, [false, true, false, false]);
    assert_eq!((followed.values.len(), followed.next(), followed.covered()), (2, AT + 12, 12));
    followed.shorten(2);
    assert_eq!((followed.end, followed.is_followed(1)), (End::Jump(AT + 7), false));
    // What was not read, and what comes before.
    assert_eq!(plan(&code, Some(Task::Addresses)).end, End::Jump(AT + 7));
    assert_eq!(plan(&[0xeb, 0xf0, 0x90], Some(Task::Addresses)).end, End::Jump(AT - 14));
    let stopped = Plan::new(None, AT, &padded, MAX_INSTRUCTIONS, (None, Flow::Accesses), |at| at == AT + 7);
    let stopped = stopped.expect("it is code");
    assert_eq!((stopped.steps.len(), stopped.end), (2, End::Jump(AT + 7)));
}

/// A loop that calls a function: call; mov [rsi], rax; jmp the start.
const CALLER: [u8; 10] = [0xe8, 0xfb, 0x0f, 0, 0, 0x48, 0x89, 0x06, 0xeb, 0xf6];
/// What it calls: mov rcx, [rdi]; test ecx, ecx; jne over ud2; ret.
const CALLED: [u8; 10] = [0x48, 0x8b, 0x0f, 0x85, 0xc9, 0x75, 2, 0x0f, 0x0b, 0xc3];
const CALLED_AT: u64 = AT + 0x1000;

fn path(path: &[u64]) -> Option<Plan> {
    let read = |addr: u64, into: &mut [u8]| {
        let (code, at) = if addr >= CALLED_AT { (CALLED, CALLED_AT) } else { (CALLER, AT) };
        let code = code.get((addr - at) as usize..).unwrap_or(&[]);
        into.iter_mut().zip(code).for_each(|(to, &from)| *to = from);
        code.len().min(into.len())
    };
    Plan::of_path(path, read, |_| false)
}

#[test]
fn a_path_goes_through_calls_returns_and_branches_that_are_taken() {
    let [load, test, jne, ret] = [0, 3, 5, 9].map(|offset| CALLED_AT + offset);
    let way = [AT, load, test, jne, ret, AT + 5, AT + 8, AT, load];
    let mut plan = path(&way).expect("it is code");
    assert_eq!((plan.steps.len(), plan.end, plan.next()), (9, End::Fall, test));
    assert_eq!(plan.exits, [3, 4]);
    assert_eq!([3, 4].map(|exit| plan.exit_target(exit)), [Some(CALLED_AT + 7), None]);
    assert!(plan.is_taken(3) && plan.is_followed_call(0) && plan.is_followed(6) && plan.is_followed_call(7));
    let made: Vec<(u16, i64, i64)> =
        plan.accesses.iter().map(|access| (access.instruction, access.offset, access.displacement)).collect();
    // The stack pointer is kept once.
    assert_eq!(made, [(0, 0, -8), (1, 0x1000, 0), (4, 0x1009, -8), (5, 5, 0), (7, 0, -8), (8, 0x1000, 0)]);
    assert_eq!(plan.values.len(), 3);
    let stretch = |start: u64, end: u64| Stretch { start, end };
    let called = [stretch(load, CALLED_AT + 7), stretch(ret, ret + 1)];
    let again = [stretch(AT, AT + 5), stretch(load, test)];
    let expect = [&[stretch(AT, AT + 5)][..], &called, &[stretch(AT + 5, AT + 10)], &again].concat();
    assert_eq!(plan.stretches(), expect);
    // Neither register is the scratch register where the return is compared.
    assert!(plan.scratch.iter().all(|own| own.register != Gpr::RCX || own.to < 1));
    for (len, end) in [(5, End::Return(0)), (4, End::Branch(ret)), (1, End::Call(load)), (7, End::Jump(AT))] {
        let mut plan = plan.clone();
        plan.shorten(len);
        assert_eq!((plan.steps.len(), plan.end), (len, end));
    }
    plan.shorten(8);
    assert_eq!((plan.end, plan.exits.as_slice()), (End::Call(load), &[3, 4][..]));
}

#[test]
fn a_path_ends_where_the_code_is_not_what_was_executed() {
    let check = |way: &[u64], steps: usize, end: End| {
        let plan = path(way).expect("it is code");
        assert_eq!((plan.steps.len(), plan.end), (steps, end), "{way:x?}");
    };
    check(&[AT, AT + 5], 1, End::Call(CALLED_AT));
    check(&[CALLED_AT, CALLED_AT + 5], 1, End::Fall);
    check(&[CALLED_AT + 5, CALLED_AT + 3], 1, End::Branch(CALLED_AT + 9));
    check(&[AT + 5, AT + 8, AT + 5], 2, End::Jump(AT));
    assert!(path(&[CALLED_AT + 10]).is_none(), "there is no code");
}

#[test]
fn where_all_blocks_are_written_each_is_a_basic_block() {
    let full = |bytes: &[u8], task| {
        Plan::new(None, AT, bytes, MAX_INSTRUCTIONS, (task, Flow::Full), |_| false).expect("it is code")
    };
    for task in [Task::Addresses, Task::Data] {
        let first = full(&branch(16), Some(task));
        assert_eq!((first.steps.len(), first.end), (2, End::Branch(AT + 4 + 16)), "{task:?}");
        assert!(first.records() && first.accesses.is_empty() && first.captures.is_none());
        assert_eq!((first.commit(), first.scratch.len(), first.covered()), (0, 1, 4));
    }
    let turn = full(&LOOP, Some(Task::Addresses));
    assert_eq!((turn.steps.len(), turn.end, turn.exits.len()), (4, End::Branch(AT), 0));
    let padded = [&[0x48, 0xff, 0x06, 0xeb, 2, 0x0f, 0x0b, 0xc3][..], &[0x90; 16]].concat();
    assert_eq!(full(&padded, Some(Task::Addresses)).end, End::Jump(AT + 7));
    assert!(!full(&branch(16), None).records(), "what does not record is not written");
    assert!(!full(&[0x0f, 0x0b], Some(Task::Addresses)).records(), "the tracer writes of what it executes");
}

#[test]
fn a_loop_that_ends_with_a_jump_has_several_turns() {
    // dec ecx; jz to its end; inc qword [rsi]; add rsi, 8; jmp the start; ret
    let code = [0xff, 0xc9, 0x74, 9, 0x48, 0xff, 0x06, 0x48, 0x83, 0xc6, 8, 0xeb, 0xf3, 0xc3];
    let padded = [&code[..], &[0x90; 16]].concat();
    let plan = plan(&padded, Some(Task::Addresses));
    assert_eq!((plan.steps.len(), plan.end), (5 * TURNS, End::Jump(AT)));
    assert_eq!(plan.exits, [1, 6, 11, 16]);
    let displacements: Vec<i64> = plan.accesses.iter().map(|access| access.displacement).collect();
    assert_eq!((plan.values.len(), displacements.as_slice()), (1, &[0, 8, 16, 24][..]));
    // Nothing leads out of it.
    let endless = [&[0x48, 0xff, 0x06, 0xeb, 0xfb][..], &[0x90; 16]].concat();
    assert_eq!(self::plan(&endless, Some(Task::Addresses)).steps.len(), 2);
}

/// inc qword [register], mov register, register, or a branch
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let register =
        (0u8..16).prop_filter("they have longer forms", |register| register & 7 != 4 && register & 7 != 5);
    prop_oneof![
        4 => register.prop_map(|register| vec![0x48 | register >> 3, 0xff, register & 7]),
        2 => (0u8..16, 0u8..16).prop_filter("rsp stays", |moved| moved.0 != 4)
            .prop_map(|(to, from)| vec![0x48 | from >> 3 << 2 | to >> 3, 0x89, 0xc0 | (from & 7) << 3 | to & 7]),
        1 => Just(vec![0x74, 0x60]),
    ]
}

proptest! {
    #[test]
    fn scratch_registers_are_nobodys(instructions in proptest::collection::vec(instruction(), 1..40)) {
        let mut bytes = instructions.concat();
        bytes.push(0xc3);
        let plan = plan(&bytes, Some(Task::Addresses));
        for scratch in &plan.scratch {
            let bit = scratch.register.bit();
            prop_assert!(scratch.register != Gpr::RSP);
            for step in &plan.steps[usize::from(scratch.from)..usize::from(scratch.to)] {
                prop_assert_eq!(step.used & bit, 0, "an instruction needs it");
            }
            if let Some(until) = scratch.until {
                for (index, step) in plan.steps.iter().enumerate().take(usize::from(until)).skip(usize::from(scratch.to)) {
                    prop_assert_eq!(step.used & bit, 0);
                    prop_assert!(!plan.exits.contains(&(index as u16)), "a branch leads away with it");
                }
                prop_assert!(plan.steps[usize::from(until)].set & bit != 0);
            }
        }
        for pair in plan.scratch.windows(2) {
            prop_assert!(pair[0].to < pair[1].from && pair[0].until.is_none());
        }
        for value in &plan.values {
            let own = plan.scratch.iter().filter(|own| (own.from..=own.to).contains(&value.at));
            let registers: Vec<Gpr> = own.map(|own| own.register).collect();
            prop_assert_eq!(registers.len(), 1, "one range holds it");
            prop_assert!(KeptRegister::General(registers[0]) != value.register);
        }
        if plan.records() {
            prop_assert_eq!(plan.scratch.last().map(|own| own.to), Some(plan.commit()));
        }
        for &exit in &plan.exits {
            let (values, accesses) = plan.before(exit);
            prop_assert!(plan.values.iter().take(values.into()).all(|value| value.at <= exit));
            prop_assert!(accesses.iter().all(|access| access.base == NO_VALUE || access.base < values));
            prop_assert!(usize::from(exit) + 1 < plan.steps.len());
        }
    }
}
