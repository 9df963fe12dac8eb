//! The walk through one function: what its registers and the slots of its frame hold before each instruction, on every way that leads
//! there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use symbols::{LinkAddr, Module, TypedFunction, VariablePlace};
use x86::{MemoryOperand, Transfer};

use super::step::StepInstruction;
use super::{HeldValue, TypedCode};

const RAX: u8 = 0;
const RSP: u8 = 4;
/// Registers that a function need not leave as they were.
const CALLER_SAVED: u16 = 0b1111_1100_0111;
/// DWARF's numbers of the general registers, by the processor's.
const OF_DWARF: [u8; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
/// How often a place is walked again because of what another way brings.
const MOST_VISITS: u32 = 8;

/// What is held at one point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WalkState {
    registers: [Option<HeldValue>; 16],
    slots: BTreeMap<i64, HeldValue>,
}

impl WalkState {
    /// Where a function begins: the return address is the last thing below the canonical frame address.
    fn entry() -> Self {
        let mut state = Self::default();
        state.registers[RSP as usize] = Some(HeldValue::Frame(-8));
        state
    }

    /// What two ways agree upon; whether that is less than this was.
    fn join(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            if own != other {
                *own = None;
            }
        }
        self.slots.retain(|slot, value| other.slots.get(slot) == Some(value));
        *self != before
    }

    fn get(&self, register: u8) -> Option<HeldValue> {
        self.registers.get(register as usize).copied().flatten()
    }

    fn set(&mut self, register: u8, value: Option<HeldValue>) {
        if let Some(held) = self.registers.get_mut(register as usize) {
            *held = value;
        }
    }
}

/// A function on its way.
pub(super) struct FunctionWalk<'a> {
    pub(super) module: &'a Module,
    pub(super) typed: Arc<TypedFunction>,
    pub(super) steps: &'a [StepInstruction],
    /// What is found, by address.
    pub(super) found: &'a mut FxHashMap<LinkAddr, TypedCode>,
}

fn moved(value: HeldValue, by: i64, indexed: bool) -> HeldValue {
    match value {
        HeldValue::Pointer { type_, offset, is_indexed, is_named } => HeldValue::Pointer {
            type_,
            offset: offset.wrapping_add(by),
            is_indexed: is_indexed || indexed,
            is_named,
        },
        HeldValue::Frame(offset) => HeldValue::Frame(offset.wrapping_add(by)),
    }
}

impl FunctionWalk<'_> {
    /// Walks all of it.
    pub(super) fn run(&mut self) {
        let index_of: FxHashMap<LinkAddr, usize> =
            self.steps.iter().enumerate().map(|(index, step)| (step.address, index)).collect();
        let mut states: FxHashMap<usize, WalkState> = FxHashMap::default();
        let mut visits: FxHashMap<usize, u32> = FxHashMap::default();
        let mut targets: Vec<bool> = vec![false; self.steps.len()];
        for step in self.steps {
            if let Some(index) = target(step.transfer).and_then(|target| index_of.get(&target)) {
                targets[*index] = true;
            }
        }
        let mut walked = vec![false; self.steps.len()];
        let mut begin = Some((0, WalkState::entry()));
        while let Some((index, state)) = begin.take() {
            states.insert(index, state);
            let mut waiting = vec![index];
            while let Some(first) = waiting.pop() {
                let visits = visits.entry(first).or_default();
                *visits += 1;
                if *visits > MOST_VISITS {
                    continue;
                }
                let mut state = states.get(&first).cloned().unwrap_or_default();
                let mut index = first;
                while let Some(step) = self.steps.get(index) {
                    walked[index] = true;
                    self.step(step, &mut state);
                    let mut arrive = |index: usize, state: &WalkState| {
                        let is_news = match states.get_mut(&index) {
                            Some(known) => known.join(state),
                            None => {
                                states.insert(index, state.clone());
                                true
                            }
                        };
                        if is_news {
                            waiting.push(index);
                        }
                    };
                    if let Some(index) = target(step.transfer).and_then(|target| index_of.get(&target)) {
                        arrive(*index, &state);
                    }
                    let goes_on = !matches!(
                        step.transfer,
                        Transfer::Jump(_)
                            | Transfer::JumpIndirect
                            | Transfer::Return(_)
                            | Transfer::FarJump
                            | Transfer::FarReturn
                            | Transfer::Exception
                    );
                    if !goes_on {
                        break;
                    }
                    index += 1;
                    if targets.get(index) == Some(&true) {
                        arrive(index, &state);
                        break;
                    }
                }
            }
            // What only tables of jumps lead to begins with nothing known.
            begin = walked.iter().position(|walked| !walked).map(|index| (index, WalkState::default()));
        }
    }

    fn step(&mut self, step: &StepInstruction, state: &mut WalkState) {
        self.name(step.address, state);
        let accessed = step.operands.iter().find_map(|operand| self.accessed(operand, state));
        match accessed {
            Some(typed) => {
                self.found.insert(step.address, typed);
            }
            // Another way leads here that does not know it.
            None => {
                self.found.remove(&step.address);
            }
        }
        let loaded = step.operands.first().and_then(|operand| self.loaded(operand, state));
        let stored = step.stores.and_then(|register| state.get(register));
        let mut results: Vec<(u8, Option<HeldValue>)> = Vec::new();
        if let Some(register) = step.loads {
            results.push((register, loaded));
        }
        if let Some(terms) = step.terms {
            let all = (0..16).filter(|number| terms.terms >> number & 1 == 1);
            let mut pointers =
                all.filter_map(|number| state.get(number)).chain(loaded.filter(|_| terms.adds_memory));
            let others = terms.has_multiple || terms.adds_memory || terms.terms.count_ones() > 1;
            if let (Some(pointer), None) = (pointers.next(), pointers.next()) {
                results.push((terms.register, Some(moved(pointer, terms.number, others))));
            }
        }
        for sum in &step.sums {
            let value = match sum.base {
                Some(base) => state.get(base).map(|held| moved(held, sum.number, false)),
                None => self.module.typed_data(LinkAddr(sum.number as u64)).map(|(type_, offset)| {
                    HeldValue::Pointer { type_, offset: offset as i64, is_indexed: false, is_named: true }
                }),
            };
            results.push((sum.register, value));
        }
        if let Some(operand) = step.operands.iter().find(|operand| operand.kind.writes())
            && let Some(HeldValue::Frame(slot)) = self.address(operand, state)
            && operand.index.is_none()
        {
            match stored {
                Some(held) => state.slots.insert(slot, held),
                None => state.slots.remove(&slot),
            };
        }
        let is_call = matches!(step.transfer, Transfer::Call(_) | Transfer::CallIndirect | Transfer::FarCall);
        let written = if is_call { CALLER_SAVED } else { step.written };
        (0..16).filter(|number| written >> number & 1 == 1).for_each(|number| state.set(number, None));
        if is_call {
            state.set(RAX, self.returned(step.transfer));
            return;
        }
        for (register, value) in results {
            state.set(register, value);
        }
    }

    /// What debug information says of registers before an instruction.
    fn name(&self, address: LinkAddr, state: &mut WalkState) {
        for variable in self.typed.variables.iter().filter(|variable| variable.code.contains(&address)) {
            let VariablePlace::Register(register, added) = variable.place else { continue };
            let Some(&register) = OF_DWARF.get(register as usize) else { continue };
            let pointee = self.module.part_of_type(variable.type_, variable.part);
            if let Some(type_) = pointee.and_then(|pointer| self.module.pointee(pointer)) {
                let offset = added.wrapping_neg();
                state.set(
                    register,
                    Some(HeldValue::Pointer { type_, offset, is_indexed: false, is_named: true }),
                );
            }
        }
    }

    /// What an operand's address is, without what is not known of an index.
    fn address(&self, operand: &MemoryOperand, state: &WalkState) -> Option<HeldValue> {
        let base = operand.base.and_then(|base| state.get(base));
        let index = operand.index.filter(|_| operand.scale == 1).and_then(|index| state.get(index));
        let held = base.or(index)?;
        Some(moved(held, operand.displacement, operand.index.is_some() && operand.base.is_some()))
    }

    fn accessed(&self, operand: &MemoryOperand, state: &WalkState) -> Option<TypedCode> {
        match self.address(operand, state)? {
            HeldValue::Pointer { type_, offset, is_indexed, is_named } => {
                Some(TypedCode { type_, offset, is_indexed, is_named })
            }
            HeldValue::Frame(_) => None,
        }
    }

    /// What is loaded from an operand, where that is a pointer.
    fn loaded(&self, operand: &MemoryOperand, state: &WalkState) -> Option<HeldValue> {
        let pointer = match self.address(operand, state) {
            Some(HeldValue::Frame(slot)) => {
                let known = operand.index.is_none().then(|| state.slots.get(&slot).copied()).flatten();
                return known.or_else(|| self.loaded_from_frame(slot));
            }
            Some(HeldValue::Pointer { type_, offset, .. }) => self.part(type_, offset),
            None if operand.base.is_none() && operand.index.is_none() => {
                let (type_, offset) = self.module.typed_data(LinkAddr(operand.displacement as u64))?;
                self.module.part_of_type(type_, offset)
            }
            None => None,
        };
        self.pointed_to(pointer?)
    }

    fn part(&self, type_: symbols::DebugType, offset: i64) -> Option<symbols::DebugType> {
        let bytes = self.module.layout_of(type_)?.bytes;
        let offset = u64::try_from(offset).ok()?;
        // An element of an array: the pointer is to its first one.
        self.module.part_of_type(type_, offset.checked_rem(bytes)?)
    }

    fn loaded_from_frame(&self, slot: i64) -> Option<HeldValue> {
        let pointer = self.typed.variables.iter().find_map(|variable| {
            let VariablePlace::Frame(begin) = variable.place else { return None };
            let into = u64::try_from(slot.checked_sub(begin)?).ok()?;
            let bytes = self.module.layout_of(variable.type_)?.bytes;
            (into < bytes).then(|| self.module.part_of_type(variable.type_, into)).flatten()
        });
        self.pointed_to(pointer?)
    }

    fn pointed_to(&self, pointer: symbols::DebugType) -> Option<HeldValue> {
        let type_ = self.module.pointee(pointer)?;
        Some(HeldValue::Pointer { type_, offset: 0, is_indexed: false, is_named: false })
    }

    /// What a call leaves in rax.
    fn returned(&self, transfer: Transfer) -> Option<HeldValue> {
        let Transfer::Call(target) = transfer else { return None };
        self.pointed_to(self.module.typed_function(LinkAddr(target))?.returns?)
    }
}

/// Where a jump in the function leads.
fn target(transfer: Transfer) -> Option<LinkAddr> {
    match transfer {
        Transfer::Jump(target) | Transfer::Branch(_, target) | Transfer::CountBranch(target) => {
            Some(LinkAddr(target))
        }
        _ => None,
    }
}
