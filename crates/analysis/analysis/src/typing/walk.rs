//! The walk through one function: what its registers and stack slots
//! hold before each instruction, on every path that leads there.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use symbols::{DebugType, LinkAddr, Module, TypedFunction, VariablePlace};
use x86::{MemoryOperand, Transfer};

use super::arrays::bounded_array;
use super::step::StepInstruction;
use super::{HeldValue, TypedCode};

const RAX: u8 = 0;
const RSP: u8 = 4;
const RDI: u8 = 7;
/// Bytes from the start of a table of virtual functions to what objects point to.
const FIRST_VIRTUAL: u64 = 16;
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
    fn join(&mut self, other: &Self, bytes_of: impl Fn(DebugType) -> Option<u64>) -> bool {
        let before = self.clone();
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            if own != other {
                *own = own.zip(*other).and_then(|(own, other)| one_of(own, other, &bytes_of));
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

/// What a walk finds.
#[derive(Debug, Default)]
pub(super) struct WalkedTypes {
    /// What instructions access, by their addresses.
    pub(super) accesses: FxHashMap<LinkAddr, TypedCode>,
    /// What calls return, as far as it is a pointer to anything, is taken for this, by the addresses of the calls.
    pub(super) results: FxHashMap<LinkAddr, Vec<DebugType>>,
    /// The places of the frame from which instructions count a number that is not known, by their addresses.
    pub(super) frames: FxHashMap<LinkAddr, i64>,
}

/// Types that one result is taken for.
const MOST_RESULTS: usize = 4;

/// A function on its way.
pub(super) struct FunctionWalk<'a> {
    pub(super) module: &'a Module,
    pub(super) typed: Arc<TypedFunction>,
    pub(super) steps: &'a [StepInstruction],
    /// What is found.
    pub(super) found: &'a mut WalkedTypes,
    /// Whether it is known what results of calls are taken for.
    pub(super) is_again: bool,
}

/// A pointer that has another place in an array on each turn of a loop.
fn one_of(
    own: HeldValue,
    other: HeldValue,
    bytes_of: impl Fn(DebugType) -> Option<u64>,
) -> Option<HeldValue> {
    let (
        HeldValue::Pointer { type_, offset, home, is_named, is_part, .. },
        HeldValue::Pointer {
            type_: other_type,
            offset: other_offset,
            home: other_home,
            is_part: is_other_part,
            ..
        },
    ) = (own, other)
    else {
        return None;
    };
    let is_element =
        || bytes_of(type_).is_some_and(|bytes| offset.abs_diff(other_offset).is_multiple_of(bytes));
    let is_one = type_ == other_type && home == other_home && (home.is_some() || is_element());
    let offset = offset.min(other_offset);
    let is_part = is_part || is_other_part;
    is_one.then_some(HeldValue::Pointer { type_, offset, is_indexed: true, is_named, home, is_part })
}

fn moved(value: HeldValue, by: i64, indexed: bool) -> Option<HeldValue> {
    Some(match value {
        HeldValue::Pointer { type_, offset, is_indexed, is_named, home, is_part } => HeldValue::Pointer {
            type_,
            offset: offset.wrapping_add(by),
            is_indexed: is_indexed || indexed,
            is_named,
            home,
            is_part,
        },
        HeldValue::Frame(offset) => HeldValue::Frame(offset.wrapping_add(by)),
        value if by == 0 && !indexed => value,
        _ => return None,
    })
}

impl FunctionWalk<'_> {
    /// Walks all of it, and again where results of calls turned out to be pointers to something.
    pub(super) fn run(&mut self) {
        self.walk();
        if !self.found.results.is_empty() {
            self.is_again = true;
            self.walk();
        }
    }

    fn walk(&mut self) {
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
                            Some(known) => known.join(state, |type_| {
                                Some(self.module.layout_of(type_)?.bytes).filter(|b| *b > 0)
                            }),
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
                self.found.accesses.insert(step.address, typed);
            }
            // Another way leads here that does not know it.
            None => {
                self.found.accesses.remove(&step.address);
            }
        }
        let indexed =
            step.operands.iter().filter(|operand| operand.base.is_some() && operand.index.is_some());
        let mut slots = indexed.filter_map(|operand| match self.address(operand, state) {
            Some(HeldValue::Frame(slot)) => Some(slot),
            _ => None,
        });
        match slots.next() {
            Some(slot) => _ = self.found.frames.insert(step.address, slot),
            None => _ = self.found.frames.remove(&step.address),
        }
        let loaded = step.operands.first().and_then(|operand| self.loaded(step.address, operand, state));
        let stored = step.stores.and_then(|register| state.get(register));
        if let (Some(held), Some(operand)) =
            (stored, step.operands.iter().find(|operand| operand.kind.writes()))
        {
            self.store(step.address, operand, held, state);
        }
        self.pass(step, state);
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
                results.push((terms.register, moved(pointer, terms.number, others)));
            }
        }
        for sum in &step.sums {
            let value = match sum.base {
                Some(base) => state.get(base).and_then(|held| moved(held, sum.number, false)),
                None => self.data(LinkAddr(sum.number as u64)),
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
            state.set(RAX, self.returned(step));
            return;
        }
        for (register, value) in results {
            state.set(register, value);
        }
    }

    /// What debug information says of registers before an instruction.
    fn name(&mut self, address: LinkAddr, state: &mut WalkState) {
        let typed = Arc::clone(&self.typed);
        for variable in typed.variables.iter().filter(|variable| variable.code.contains(&address)) {
            let VariablePlace::Register(register, added) = variable.place else { continue };
            let Some(&register) = OF_DWARF.get(register as usize) else { continue };
            let pointee = self.module.part_of_type(variable.type_, variable.part);
            if let Some(type_) = pointee.and_then(|pointer| self.module.pointee(pointer)) {
                if let (Some(HeldValue::Returned(from)), 0) = (state.get(register), added) {
                    self.becomes(from, type_);
                }
                // What points to the whole tells more than that a part of it is here.
                let is_part = added > 0;
                if is_part && matches!(state.get(register), Some(HeldValue::Pointer { .. })) {
                    continue;
                }
                let offset = added.wrapping_neg();
                let (is_indexed, is_named, home) = (false, true, None);
                state.set(
                    register,
                    Some(HeldValue::Pointer { type_, offset, is_indexed, is_named, home, is_part }),
                );
            }
        }
    }

    /// What an operand's address is, without what is not known of an index.
    fn address(&self, operand: &MemoryOperand, state: &WalkState) -> Option<HeldValue> {
        let base = operand.base.and_then(|base| state.get(base));
        let index = operand.index.filter(|_| operand.scale == 1).and_then(|index| state.get(index));
        // In a program at fixed addresses an array is a number.
        let array = || {
            let has_registers = operand.base.is_some() || operand.index.is_some();
            let address = LinkAddr(operand.displacement as u64);
            let data = (has_registers && self.module.is_fixed()).then(|| self.data(address))??;
            matches!(data, HeldValue::Pointer { home: Some(_), .. }).then_some(data)
        };
        let Some(held) = base.or(index) else { return moved(array()?, 0, true) };
        moved(held, operand.displacement, operand.index.is_some() && operand.base.is_some())
    }

    /// What lies at an address of the file.
    fn data(&self, address: LinkAddr) -> Option<HeldValue> {
        let typed = self.module.typed_data(address).map(|(type_, offset)| HeldValue::Pointer {
            type_,
            offset: offset as i64,
            is_indexed: false,
            is_named: true,
            home: (offset == 0 || self.is_array_in(type_, offset)).then_some(address),
            is_part: false,
        });
        // The first function stands after the offset of the whole and its type.
        let table = || self.class_of(address).map(|_| HeldValue::VirtualTable(address));
        typed.or_else(table)
    }

    /// Whether a member that is an array begins there.
    fn is_array_in(&self, type_: DebugType, offset: u64) -> bool {
        self.module.layout_of(type_).is_some_and(|layout| bounded_array(&layout, offset).is_some())
    }

    /// The class whose objects begin with the address of that table.
    fn class_of(&self, table: LinkAddr) -> Option<DebugType> {
        let object = self.module.data_at(table)?;
        let class = object.name.strip_prefix("vtable for ")?;
        if table.0.checked_sub(object.address.0)? != FIRST_VIRTUAL {
            return None;
        }
        self.module.debug_type_named(class)
    }

    /// A value is stored: what it is a pointer to, the place may tell, and what the place is, the value.
    fn store(&mut self, address: LinkAddr, operand: &MemoryOperand, held: HeldValue, state: &WalkState) {
        match held {
            HeldValue::VirtualTable(table) => {
                let is_first = operand.index.is_none();
                if let Some(type_) = self.class_of(table).filter(|_| is_first) {
                    let typed = TypedCode { type_, offset: 0, is_indexed: false, is_named: true, home: None };
                    self.found.accesses.insert(address, typed);
                }
            }
            HeldValue::Returned(from) => {
                let pointer = match self.address(operand, state) {
                    Some(HeldValue::Frame(slot)) => self.pointer_in_frame(slot, address, state),
                    Some(HeldValue::Pointer { type_, offset, is_part, .. }) => {
                        self.part(type_, offset, is_part)
                    }
                    None if operand.base.is_none() && operand.index.is_none() => {
                        self.static_part(LinkAddr(operand.displacement as u64))
                    }
                    _ => None,
                };
                if let Some(type_) = pointer.and_then(|pointer| self.module.pointee(pointer)) {
                    self.becomes(from, type_);
                }
            }
            _ => {}
        }
    }

    /// A result is passed on: to a function as its first argument, or to the caller.
    fn pass(&mut self, step: &StepInstruction, state: &WalkState) {
        let type_ = match step.transfer {
            Transfer::Return(_) => {
                let Some(HeldValue::Returned(from)) = state.get(RAX) else { return };
                let returns = self.typed.returns.and_then(|returns| self.module.pointee(returns));
                returns.map(|type_| (from, type_))
            }
            Transfer::Call(target) => {
                let Some(HeldValue::Returned(from)) = state.get(RDI) else { return };
                let entry = LinkAddr(target);
                let callee = self.module.typed_function(entry);
                let first = callee.and_then(|callee| callee.first_parameter);
                first.and_then(|pointer| self.module.pointee(pointer)).map(|type_| (from, type_))
            }
            _ => None,
        };
        if let Some((from, type_)) = type_ {
            self.becomes(from, type_);
        }
    }

    fn becomes(&mut self, from: LinkAddr, type_: DebugType) {
        let types = self.found.results.entry(from).or_default();
        if types.len() < MOST_RESULTS && !types.contains(&type_) {
            types.push(type_);
        }
    }

    fn accessed(&self, operand: &MemoryOperand, state: &WalkState) -> Option<TypedCode> {
        match self.address(operand, state)? {
            HeldValue::Pointer { type_, offset, is_indexed, is_named, home, .. } => {
                Some(TypedCode { type_, offset, is_indexed, is_named, home })
            }
            _ => None,
        }
    }

    /// What is loaded from an operand, where that is a pointer.
    fn loaded(&self, address: LinkAddr, operand: &MemoryOperand, state: &WalkState) -> Option<HeldValue> {
        let pointer = match self.address(operand, state) {
            Some(HeldValue::Frame(slot)) => {
                let known = operand.index.is_none().then(|| state.slots.get(&slot).copied()).flatten();
                return known.or_else(|| self.pointed_to(self.pointer_in_frame(slot, address, state)?));
            }
            Some(HeldValue::Pointer { type_, offset, is_part, .. }) => self.part(type_, offset, is_part),
            Some(HeldValue::Returned(_) | HeldValue::VirtualTable(_)) => None,
            None if operand.base.is_none() && operand.index.is_none() => {
                self.static_part(LinkAddr(operand.displacement as u64))
            }
            None => None,
        };
        self.pointed_to(pointer?)
    }

    fn part(&self, type_: DebugType, offset: i64, is_part: bool) -> Option<DebugType> {
        let bytes = self.module.layout_of(type_)?.bytes;
        let offset = u64::try_from(offset).ok().filter(|offset| !is_part || *offset < bytes)?;
        // An element of an array: the pointer is to its first one.
        self.module.part_of_type(type_, offset.checked_rem(bytes)?)
    }

    /// The type of what a variable has at a slot of the frame.
    fn pointer_in_frame(&self, slot: i64, address: LinkAddr, state: &WalkState) -> Option<DebugType> {
        self.typed.variables.iter().find_map(|variable| {
            let begin = match variable.place {
                VariablePlace::Frame(begin) => begin,
                VariablePlace::Memory(register, offset) if variable.code.contains(&address) => {
                    let register = *OF_DWARF.get(register as usize)?;
                    let Some(HeldValue::Frame(base)) = state.get(register) else { return None };
                    base.checked_add(offset)?.checked_sub(i64::try_from(variable.part).ok()?)?
                }
                _ => return None,
            };
            let into = u64::try_from(slot.checked_sub(begin)?).ok()?;
            let bytes = self.module.layout_of(variable.type_)?.bytes;
            (into < bytes).then(|| self.module.part_of_type(variable.type_, into)).flatten()
        })
    }

    /// The innermost type at an address of static data.
    fn static_part(&self, address: LinkAddr) -> Option<DebugType> {
        let (type_, offset) = self.module.typed_data(address)?;
        self.module.part_of_type(type_, offset)
    }

    fn pointed_to(&self, pointer: DebugType) -> Option<HeldValue> {
        let type_ = self.module.pointee(pointer)?;
        Some(HeldValue::pointer_to(type_))
    }

    /// What a call leaves in rax.
    fn returned(&self, step: &StepInstruction) -> Option<HeldValue> {
        let typed = || {
            let Transfer::Call(target) = step.transfer else { return None };
            let returns = self.module.typed_function(LinkAddr(target))?.returns?;
            let type_ = self.module.held_pointee(returns)?;
            // A pointer to anything is what it is taken for.
            self.module.layout_of(type_).filter(|layout| layout.bytes > 0)?;
            Some(HeldValue::pointer_to(type_))
        };
        let taken_for = || {
            let [type_] = *self.found.results.get(&step.address).filter(|_| self.is_again)?.as_slice() else {
                return None;
            };
            Some(HeldValue::pointer_to(type_))
        };
        typed().or_else(taken_for).or(Some(HeldValue::Returned(step.address)))
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
