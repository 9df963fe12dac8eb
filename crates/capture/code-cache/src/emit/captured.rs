//! Emits blocks that record the bytes of the one instruction that accesses memory, or an order (see `capture`).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{BlockEmitter, TooFar};
use crate::assembler::Assembler;
use crate::capture::{self, Capture};
use crate::place::{CachedStep, CodeWith, ScratchRange};
use crate::plan::End;

impl BlockEmitter<'_> {
    /// A block whose last instruction accesses memory, with the bytes of that.
    pub(super) fn capture(&mut self, captures: &[Capture]) -> Result<Vec<CachedStep>, TooFar> {
        let plan = self.plan;
        let Some(&scratch) = plan.scratch.first() else { return Err(TooFar(0)) };
        let register = scratch.register;
        let last = plan.steps.len() - 1;
        let mut steps = Vec::with_capacity(plan.steps.len());
        for (index, step) in plan.steps.iter().enumerate().take(last) {
            steps.push(CachedStep { offset: step.offset, at: self.distance() });
            self.copy(index)?;
        }
        let mut looks = Vec::new();
        let start = self.start;
        let mut look = |code: &Assembler, executed: usize| {
            let distance = (code.here() - start) as u16;
            looks.push(CodeWith { distance, instruction: executed as u16 });
        };
        let orders = plan.orders();
        capture::emit_before(captures, orders, &mut self.code, register, |code| look(code, last));
        let late = captures.iter().find(|capture| capture.is_late());
        let is_late = late.is_some() || orders.is_some();
        if !is_late {
            self.commit(scratch);
        }
        let offset = plan.steps.get(last).map_or(0, |step| step.offset);
        steps.push(CachedStep { offset, at: self.distance() });
        // Before the instruction the register points into the buffer, or no longer.
        let until = if is_late { plan.steps.len() } else { last } as u16;
        self.block.scratch = Box::new([ScratchRange { from: last as u16, until, register }]);
        self.block.commit = until;
        if plan.end == End::Fall {
            self.copy(last)?;
        }
        if let Some(orders) = orders {
            capture::read_order(orders, &mut self.code, register);
        }
        if let Some(late) = late {
            capture::emit_after(late, &mut self.code, register, |code| look(code, last + 1));
        }
        if is_late {
            self.commit(scratch);
        }
        self.points(0, register);
        self.block.looks = looks.into_boxed_slice();
        self.end()?;
        self.stubs();
        Ok(steps)
    }
}
