//! The registers that point into the buffer: for each stretch of a block, one that is not needed there.

use super::Plan;
use super::end::End;
use crate::capture;
use crate::register::Gpr;

/// A register that points into the buffer for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScratchRegister {
    pub(crate) register: Gpr,
    /// The instruction before which it is spilled, and the last one before which it points there.
    pub(crate) from: u16,
    pub(crate) to: u16,
    /// The instruction that sets it anyway, after the commit: it need not be loaded again.
    pub(crate) until: Option<u16>,
}

impl Plan {
    /// The instruction before which the header is written: after the last value, and not before the first access.
    pub(crate) fn commit(&self) -> u16 {
        let first = self.accesses.first().map_or(0, |access| access.instruction);
        self.values.last().map_or(first, |value| value.at)
    }

    /// Finds registers that nobody needs while they point into the buffer. `false` where there are none: only a block that records
    /// bytes has but one stretch, and can't take another register for the next.
    pub(super) fn find_scratch(&mut self) -> bool {
        self.scratch.clear();
        if self.captures.is_some() {
            let last = self.steps.len().saturating_sub(1) as u16;
            let used = self.steps.last().map_or(0, |step| step.used);
            let free = !(used | capture::BUSY);
            let Some(register) = Gpr::first_of(free) else { return false };
            self.scratch.push(ScratchRegister { register, from: last, to: last, until: None });
            return true;
        }
        let mut from = self.values.first().map_or(self.commit(), |value| value.at);
        let (mut to, mut busy) = (from, Gpr::RSP.bit());
        for group in self.values.chunk_by(|one, other| one.at == other.at) {
            let Some(at) = group.first().map(|value| value.at) else { continue };
            let own = group.iter().fold(Gpr::RSP.bit(), |own, value| own | value.register.bit());
            let between = self.steps.get(usize::from(to)..usize::from(at)).unwrap_or(&[]);
            let further = between.iter().fold(busy | own, |used, step| used | step.used);
            if further == u16::MAX {
                let Some(register) = Gpr::first_of(!busy) else { return false };
                self.scratch.push(ScratchRegister { register, from, to, until: None });
                (from, busy) = (at, own);
            } else {
                busy = further;
            }
            to = at;
        }
        // One that is set before it is used need not be loaded again.
        let mut seen = busy;
        let later =
            if self.end == End::Repeat { &[] } else { self.steps.get(usize::from(to)..).unwrap_or(&[]) };
        for (index, step) in later.iter().enumerate() {
            let index = to + index as u16;
            // Where the block branches or leaves, the register must be whole.
            let is_last = usize::from(index) + 1 == self.steps.len() && self.end != End::Fall;
            if is_last || self.exits.contains(&index) {
                break;
            }
            if let Some(register) = Gpr::first_of(step.set & !seen) {
                self.scratch.push(ScratchRegister { register, from, to, until: Some(index) });
                return true;
            }
            seen |= step.used;
        }
        let Some(register) = Gpr::first_of(!busy) else { return false };
        self.scratch.push(ScratchRegister { register, from, to, until: None });
        true
    }
}
