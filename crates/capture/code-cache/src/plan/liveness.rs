//! Liveness of the flags: before which instructions of a block no flag is needed any more.

use x86::ARITHMETIC_FLAGS;

use super::Plan;

impl Plan {
    /// Finds the instructions before which no flag is live.
    pub(super) fn find_dead_flags(&mut self) {
        self.flags_dead = 0;
        let mut live = ARITHMETIC_FLAGS;
        for (index, step) in self.steps.iter().enumerate().rev() {
            live = step.instruction.flags().live_before(live);
            // Where a branch leads to, all may be needed.
            if self.exits.contains(&(index as u16)) {
                live = ARITHMETIC_FLAGS;
            }
            if live == 0 {
                self.flags_dead |= 1 << index;
            }
        }
    }

    /// An instruction of a stretch before which the flags are dead.
    pub(crate) fn dead_in(&self, from: u16, until: u16) -> Option<u16> {
        (from..until).find(|&index| self.flags_dead >> index & 1 != 0)
    }
}
