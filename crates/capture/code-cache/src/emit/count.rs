//! Counts the instructions of blocks that record nothing else.
//!
//! Where these instructions belong to what the thread records, they are added to the last header: its upper bits are the number
//! of instructions without accesses that followed. Inside a function that is recorded as one event they are counted separately.

use buffers::flow::{ID_BITS, LAST_AT, QUIET_AT};

use super::BlockEmitter;
use crate::place::Recording;
use crate::register::Gpr;
use crate::slot::{SPILL_SCRATCH, SPILL_SECOND};

impl BlockEmitter<'_> {
    /// Counts instructions: in the last header, or apart. `dead`: the flags need not be kept.
    pub(super) fn count(&mut self, instructions: u32, dead: bool) {
        // Scratch registers: spilled, and loaded again.
        let (first, second) = (Gpr::RAX, Gpr::RCX);
        let from = self.distance();
        match (self.recording, dead) {
            (Recording::Quiet, true) => self.code.add_gs(QUIET_AT, instructions),
            (Recording::Quiet, false) => {
                self.code.store_gs(SPILL_SCRATCH, first);
                self.code.load_gs(first, QUIET_AT);
                self.code.lea(first, first, instructions as i32);
                self.code.store_gs(QUIET_AT, first);
                self.code.load_gs(first, SPILL_SCRATCH);
            }
            (_, true) => {
                self.code.store_gs(SPILL_SCRATCH, first);
                self.code.load_gs(first, LAST_AT);
                self.code.add_number(first, 0, instructions << ID_BITS);
                self.code.load_gs(first, SPILL_SCRATCH);
            }
            (_, false) => {
                self.code.store_gs(SPILL_SCRATCH, first);
                self.code.store_gs(SPILL_SECOND, second);
                self.code.load_gs(first, LAST_AT);
                self.code.load(second, first, 0);
                self.code.lea(second, second, (instructions << ID_BITS) as i32);
                self.code.store(first, 0, second);
                self.code.load_gs(second, SPILL_SECOND);
                self.code.load_gs(first, SPILL_SCRATCH);
            }
        }
        // The tracer may have written up to the buffer's end, so this may fault as what records does.
        self.points(from, first);
    }
}
