//! Whether a function returns the result of a call it makes, as a wrapper of an allocator does.
//!
//! The function's code is followed from the call on, with the registers and stack slots that hold the result. The answer
//! is yes if some path leads to a return with the unchanged result in rax. The code is read from the file, so this needs
//! no execution. Whether a function found this way is a wrapper is decided from what happened in the run (`sites`).

use std::collections::{BTreeMap, HashSet};

use memref::AccessKind;
use symbols::LinkAddr;
use x86::{
    Assignment, ByteRule, ByteSource, ByteTarget, Examiner, Instruction, MemoryOperand, RegisterBytes,
    RegisterKind, Transfer,
};

const RAX: u8 = 0;
const RSP: u8 = 4;
const RBP: u8 = 5;
const RDI: u8 = 7;
/// Those that a call leaves alone, by the System V interface: rbx, rsp, rbp, r12 to r15.
const KEPT: u16 = 1 << 3 | 1 << RSP | 1 << RBP | 0xf << 12;
/// A function that needs more is not one that passes a result on.
const MAX_STEPS: usize = 4096;
/// Bytes of a pointer.
const POINTER_BYTES: u8 = 8;

/// A place on the stack: below one of two registers, so many bytes.
type StackPlace = (u8, i64);

/// What holds the result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Holders {
    registers: u16,
    slots: Vec<StackPlace>,
}

impl Holders {
    fn holds(&self, source: ByteSource, slot: Option<StackPlace>) -> bool {
        match source {
            ByteSource::Register(bytes) => {
                whole(bytes).is_some_and(|number| self.registers & 1 << number != 0)
            }
            ByteSource::Memory(len) => {
                len == POINTER_BYTES && slot.is_some_and(|slot| self.slots.contains(&slot))
            }
            ByteSource::Constant => false,
        }
    }

    fn takes(&self, rule: ByteRule, slot: Option<StackPlace>) -> bool {
        match rule {
            ByteRule::Move(source) => self.holds(source, slot),
            ByteRule::Either(one, other) => self.holds(one, slot) || self.holds(other, slot),
            _ => false,
        }
    }

    /// What holds it after an instruction.
    fn after(&self, instruction: &Followed) -> Self {
        let mut next = self.clone();
        for Assignment { target, rule } in &instruction.assignments {
            let slot = instruction.slot;
            match target {
                ByteTarget::Register(bytes, _) => {
                    let RegisterKind::General(number) = bytes.register else { continue };
                    next.registers &= !(1 << number);
                    if whole(*bytes).is_some() && self.takes(*rule, slot) {
                        next.registers |= 1 << number;
                    }
                }
                ByteTarget::Memory => {
                    let Some(slot) = instruction.slot else { continue };
                    next.slots.retain(|held| *held != slot);
                    if self.takes(*rule, None) {
                        next.slots.push(slot);
                        next.slots.sort_unstable();
                    }
                }
            }
        }
        if instruction.is_call {
            // Functions that return their first argument are how compilers spare a register: memset.
            let first = next.registers & 1 << RDI != 0;
            next.registers &= KEPT;
            next.registers |= u16::from(first) << RAX;
        }
        next
    }
}

/// The number of a general register that is used as a whole.
fn whole(bytes: RegisterBytes) -> Option<u8> {
    match bytes.register {
        RegisterKind::General(number) if bytes.first == 0 && bytes.len == POINTER_BYTES => Some(number),
        _ => None,
    }
}

/// What following needs of an instruction.
#[derive(Clone, Debug)]
struct Followed {
    next: LinkAddr,
    transfer: Transfer,
    is_call: bool,
    assignments: Vec<Assignment>,
    slot: Option<StackPlace>,
}

fn slot_of(operand: &MemoryOperand) -> Option<StackPlace> {
    let base = operand.base.filter(|base| [RSP, RBP].contains(base))?;
    let is_pointer = operand.len_bytes == POINTER_BYTES.into() && operand.kind != AccessKind::Modify;
    (operand.index.is_none() && is_pointer).then_some((base, operand.displacement))
}

/// A function's code, decoded.
#[derive(Debug)]
pub(super) struct FunctionCode {
    instructions: BTreeMap<LinkAddr, Followed>,
}

impl FunctionCode {
    /// Decodes the bytes of a function that begins at `start`.
    pub(super) fn decode(bytes: &[u8], start: LinkAddr) -> Self {
        let mut examiner = Examiner::new();
        let mut instructions = BTreeMap::new();
        let mut at = start;
        while let Some(rest) = bytes.get((at.0 - start.0) as usize..)
            && !rest.is_empty()
            && let Some(instruction) = Instruction::decode(rest, at.0)
        {
            let transfer = instruction.transfer();
            let effects = examiner.examine(&instruction);
            let is_call = matches!(transfer, Transfer::Call(_) | Transfer::CallIndirect);
            let slot = effects.operands().find_map(|operand| slot_of(&operand));
            let assignments = if is_call { Vec::new() } else { effects.data_flow().assignments };
            let next = LinkAddr(instruction.next());
            instructions.insert(at, Followed { next, transfer, is_call, assignments, slot });
            at = next;
        }
        Self { instructions }
    }

    /// The call at an address, or the one that returns there: a call through memory that a jump followed is known by that.
    fn call_at(&self, address: LinkAddr) -> Option<&Followed> {
        let at = self.instructions.get(&address).filter(|call| call.is_call);
        at.or_else(|| {
            let (_, before) = self.instructions.range(..address).next_back()?;
            Some(before).filter(|call| call.is_call && call.next == address)
        })
    }

    /// Whether the result of the call at that address, or before it, is returned.
    pub(super) fn returns_result_of(&self, call: LinkAddr) -> bool {
        let Some(call) = self.call_at(call) else { return false };
        let result = Holders { registers: 1 << RAX, slots: Vec::new() };
        let mut seen = HashSet::new();
        let mut open = vec![(call.next, result)];
        while let Some((at, holders)) = open.pop() {
            if holders == Holders::default() || seen.len() > MAX_STEPS {
                continue;
            }
            let Some(instruction) = self.instructions.get(&at) else { continue };
            if !seen.insert((at, holders.clone())) {
                continue;
            }
            let after = holders.after(instruction);
            match instruction.transfer {
                Transfer::Return(_) if holders.registers & 1 << RAX != 0 => return true,
                Transfer::Return(_) => {}
                Transfer::Jump(target) => open.push((LinkAddr(target), after)),
                Transfer::Branch(_, target) | Transfer::CountBranch(target) => {
                    open.push((LinkAddr(target), after.clone()));
                    open.push((instruction.next, after));
                }
                Transfer::JumpIndirect | Transfer::FarJump | Transfer::FarReturn => {}
                _ => open.push((instruction.next, after)),
            }
        }
        false
    }

    /// Whether the last instruction before that call which sets a register gives it a number of its own.
    pub(super) fn is_constant_at(&self, call: LinkAddr, register: u8) -> bool {
        let sets = |instruction: &Followed| {
            instruction.assignments.iter().find_map(|assignment| match assignment.target {
                ByteTarget::Register(bytes, _) if bytes.register == RegisterKind::General(register) => {
                    Some(assignment.rule)
                }
                _ => None,
            })
        };
        let before = self.instructions.range(..call).rev().map(|(_, instruction)| instruction);
        before
            .take_while(|instruction| !instruction.is_call)
            .find_map(sets)
            .is_some_and(|rule| matches!(rule, ByteRule::Constant | ByteRule::Move(ByteSource::Constant)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: LinkAddr = LinkAddr(0x1000);

    /// The code's only call.
    fn call_in(code: &FunctionCode) -> LinkAddr {
        *code.instructions.iter().find(|(_, instruction)| instruction.is_call).expect("it calls").0
    }

    fn check(bytes: &[u8], expect: bool) {
        let code = FunctionCode::decode(bytes, START);
        assert_eq!(code.returns_result_of(call_in(&code)), expect, "{bytes:x?}");
    }

    #[test]
    fn a_result_is_followed_to_the_return() {
        // sub rsp, 8; call; test rax, rax; je +5; add rsp, 8; ret; call abort
        check(
            &[
                0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0, 0x48, 0x85, 0xc0, 0x74, 5, 0x48, 0x83, 0xc4, 8, 0xc3,
                0xe8, 0, 0, 0, 0,
            ],
            true,
        );
        // call; mov rbx, rax; call; mov rax, rbx; ret
        check(&[0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc3, 0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xd8, 0xc3], true);
        // call; mov [rbp-8], rax; mov rax, [rbp-8]; leave; ret
        check(&[0xe8, 0, 0, 0, 0, 0x48, 0x89, 0x45, 0xf8, 0x48, 0x8b, 0x45, 0xf8, 0xc9, 0xc3], true);
        // call; mov rdi, rax; call memset; ret
        check(&[0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc7, 0xe8, 0, 0, 0, 0, 0xc3], true);
    }

    #[test]
    fn a_call_is_known_by_where_it_returns() {
        // call *(%r12); test rax, rax; ret
        let bytes = [0x41, 0xff, 0x14, 0x24, 0x48, 0x85, 0xc0, 0xc3];
        let code = FunctionCode::decode(&bytes, START);
        assert!(code.returns_result_of(START) && code.returns_result_of(START.offset(4)));
        assert!(!code.returns_result_of(START.offset(7)));
    }

    #[test]
    fn a_result_that_is_kept_or_used_is_not_returned() {
        // call; mov [rbx], rax; xor eax, eax; ret
        check(&[0xe8, 0, 0, 0, 0, 0x48, 0x89, 0x03, 0x31, 0xc0, 0xc3], false);
        // call; mov eax, eax; ret
        check(&[0xe8, 0, 0, 0, 0, 0x89, 0xc0, 0xc3], false);
        // call; mov rax, [rax]; ret
        check(&[0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x00, 0xc3], false);
        // call; call; ret
        check(&[0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc3], false);
        // call; and no code after it
        check(&[0xe8, 0, 0, 0, 0], false);
    }

    #[test]
    fn a_number_of_the_callers_own_is_told_from_an_argument() {
        let check = |bytes: &[u8], expect: bool| {
            let code = FunctionCode::decode(bytes, START);
            assert_eq!(code.is_constant_at(call_in(&code), RDI), expect, "{bytes:x?}");
        };
        // mov edi, 24; call
        check(&[0xbf, 24, 0, 0, 0, 0xe8, 0, 0, 0, 0], true);
        // push rbx; call
        check(&[0x53, 0xe8, 0, 0, 0, 0], false);
        // mov rdi, rbx; call
        check(&[0x48, 0x89, 0xdf, 0xe8, 0, 0, 0, 0], false);
        // lea rdi, [rdi+8]; call
        check(&[0x48, 0x8d, 0x7f, 8, 0xe8, 0, 0, 0, 0], false);
    }
}
