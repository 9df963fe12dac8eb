//! The registers whose values a block saves, so that the addresses of all its accesses follow.
//!
//! One value serves all accesses whose registers differ from it by a constant: a register
//! to which only a constant was added since it was saved need not be saved again.

use blocks::{BlockAccess, Chosen, MAX_ACCESSES, MAX_VALUES, Masked, NO_VALUE, Repeated};
use x86::{ElementChoice, Instruction, MemoryOperand, RegisterSum, SegmentBase};

use super::end::End;
use super::{KeptValue, Plan, Planned, REPEATED};
use crate::register::{Gpr, KeptRegister, MaskRegister};

/// What is known of a register: a value that was kept plus a constant, or a constant alone.
#[derive(Clone, Copy, Debug)]
enum KnownValue {
    Nothing,
    Kept(u8, i64),
    Number(i64),
}

impl KnownValue {
    fn plus(self, number: i64) -> Self {
        match self {
            Self::Kept(value, delta) => Self::Kept(value, delta.wrapping_add(number)),
            Self::Number(old) => Self::Number(old.wrapping_add(number)),
            Self::Nothing => Self::Nothing,
        }
    }
}

impl Plan {
    /// Finds the accesses and the values from which their addresses follow. `false` where they are too many.
    pub(super) fn find_values(&mut self) -> bool {
        self.values.clear();
        self.accesses.clear();
        match self.end {
            End::Special => return true,
            _ if self.captures.is_some() => return self.find_captures(),
            _ if self.checks.is_some() => {
                self.find_checks();
                return true;
            }
            End::Repeat => return self.find_repeated(),
            _ => {}
        }
        let mut known = [KnownValue::Nothing; 16];
        let steps = core::mem::take(&mut self.steps);
        let operands = core::mem::take(&mut self.operands);
        let fits = steps.iter().enumerate().all(|(index, step)| {
            for operand in step.accesses(&operands) {
                if self.values.len() + 3 > MAX_VALUES || self.accesses.len() >= MAX_ACCESSES {
                    return false;
                }
                let access = self.access(index as u16, step.offset, &step.instruction, operand, &mut known);
                self.accesses.push(access);
            }
            update(&mut known, step);
            true
        });
        (self.steps, self.operands) = (steps, operands);
        fits
    }

    fn access(
        &mut self,
        index: u16,
        offset: i64,
        instruction: &Instruction,
        operand: &MemoryOperand,
        known: &mut [KnownValue; 16],
    ) -> BlockAccess {
        let mut displacement = operand.displacement;
        let mut keep = |register: Option<u8>, scale: i64| -> u8 {
            let Some(number) = register else { return NO_VALUE };
            let Some(place) = known.get_mut(usize::from(number)) else { return NO_VALUE };
            match *place {
                KnownValue::Kept(value, delta) => {
                    displacement = displacement.wrapping_add(delta.wrapping_mul(scale));
                    value
                }
                KnownValue::Number(number) => {
                    displacement = displacement.wrapping_add(number.wrapping_mul(scale));
                    NO_VALUE
                }
                KnownValue::Nothing => {
                    let value = self.values.len() as u8;
                    let register = KeptRegister::General(Gpr::numbered(number));
                    self.values.push(KeptValue { at: index, register });
                    *place = KnownValue::Kept(value, 0);
                    value
                }
            }
        };
        let base = keep(operand.base, 1);
        let value = keep(operand.index, i64::from(operand.scale));
        let masked = instruction.mask().map(|mask| {
            let kept = self.values.len() as u8;
            let register = KeptRegister::Mask(MaskRegister::numbered(mask.register));
            self.values.push(KeptValue { at: index, register });
            let chosen = match mask.choice {
                ElementChoice::Each => Chosen::Each,
                ElementChoice::Packed => Chosen::Packed,
                ElementChoice::Any => Chosen::Any,
            };
            Masked { value: kept, bytes: mask.element_bytes, chosen }
        });
        BlockAccess {
            instruction: index,
            offset,
            size: operand.len_bytes,
            kind: operand.kind,
            base,
            index: value,
            scale: operand.scale,
            fs: operand.segment == SegmentBase::Fs,
            short: operand.is_short,
            repeated: None,
            masked,
            data: 0,
            displacement,
        }
    }

    /// A repeated string instruction keeps its three registers before and after.
    fn find_repeated(&mut self) -> bool {
        let Some(step) = self.steps.first() else { return false };
        let access = |operand: &MemoryOperand| {
            let base = match operand.base.map(Gpr::numbered) {
                Some(Gpr::RSI) => 0,
                Some(Gpr::RDI) => 1,
                _ => return None,
            };
            Some(BlockAccess {
                size: operand.len_bytes,
                kind: operand.kind,
                base,
                index: 2,
                repeated: Some(Repeated { count_after: 5, place_after: base + 3 }),
                fs: operand.segment == SegmentBase::Fs,
                ..BlockAccess::NONE
            })
        };
        let Some(accesses) = step.accesses(&self.operands).iter().map(access).collect() else { return false };
        self.accesses = accesses;
        for at in [0, 1] {
            for register in REPEATED {
                self.values.push(KeptValue { at, register: KeptRegister::General(register) });
            }
        }
        true
    }
}

/// What is known of the registers after an instruction.
fn update(known: &mut [KnownValue; 16], step: &Planned) {
    let sum = |sum: RegisterSum| {
        let base = match sum.base {
            Some(base) => known.get(usize::from(base)).copied().unwrap_or(KnownValue::Nothing),
            None => KnownValue::Number(0),
        };
        (sum.register, base.plus(sum.number))
    };
    let sums = step.sums.map(|own| own.map(sum));
    for (number, place) in known.iter_mut().enumerate() {
        if step.written >> number & 1 != 0 {
            *place = KnownValue::Nothing;
        }
    }
    for (register, value) in sums.into_iter().flatten() {
        if let Some(place) = known.get_mut(usize::from(register)) {
            *place = value;
        }
    }
}
