//! Emits blocks whose accesses are checked: a test of a mark before each access, and the code for a mark that is set (see `check`).

use alloc::vec::Vec;

use super::stubs::leave;
use super::{BlockEmitter, TooFar};
use crate::assembler::{JumpWhen, LineBy};
use crate::check::{self, CheckExit, CheckSite};
use crate::exit_reason::{CHECK_DONE, EXIT_CHECK};
use crate::place::CachedStep;
use crate::plan::End;
use crate::register::Gpr;
use crate::slot::{SPILL_LINE, SPILL_RCX};

impl BlockEmitter<'_> {
    /// Looks at the marks of what an instruction is about to access.
    pub(super) fn check(&mut self, index: u16) {
        let (Some(checks), Some(marks)) = (&self.plan.checks, self.around.marks) else { return };
        let own = check::of(checks, index);
        let line = match self.plan.flags_dead >> index & 1 {
            1 => LineBy::Shift,
            _ if self.around.rotates => LineBy::Rotate,
            _ => LineBy::Memory(SPILL_LINE),
        };
        for (number, check) in own.iter().enumerate() {
            match number {
                0 => self.code.store_gs(SPILL_RCX, Gpr::RCX),
                _ => self.code.load_gs(Gpr::RCX, SPILL_RCX),
            }
            if check.is_wide() || !check.address(&mut self.code) {
                let distance = self.code.jump(JumpWhen::Always);
                self.exits.push(CheckExit { instruction: index, distance });
                return;
            }
            let distance = check::emit_look(&mut self.code, marks, check.place.kind, line);
            self.exits.push(CheckExit { instruction: index, distance });
        }
        if !own.is_empty() {
            self.code.load_gs(Gpr::RCX, SPILL_RCX);
        }
    }

    /// Writes what happens where checks leave the line.
    pub(super) fn sites(&mut self, steps: &[CachedStep]) -> Result<Vec<CheckSite>, TooFar> {
        let exits = core::mem::take(&mut self.exits);
        let (mut sites, mut copies, mut traps) = (Vec::new(), Vec::new(), Vec::new());
        for own in exits.chunk_by(|one, other| one.instruction == other.instruction) {
            let Some(&CheckExit { instruction: index, .. }) = own.first() else { continue };
            let here = self.code.here();
            for exit in own {
                self.code.set_distance(exit.distance, here);
            }
            self.code.load_gs(Gpr::RCX, SPILL_RCX);
            let checks = check::of(self.plan.checks.as_deref().unwrap_or(&[]), index);
            let site = EXIT_CHECK | (self.around.next_site + sites.len() as u32);
            let is_masked = checks.iter().any(|check| check.masked);
            if !is_masked {
                leave(&mut self.code, site, true);
            }
            let hit = self.code.here();
            let end = self.ends.get(usize::from(index)).copied();
            let place = self.here(index.into());
            match end.filter(|_| !is_masked && self.plan.end != End::Repeat) {
                Some(_) => {
                    copies.push(place);
                    self.copy(index.into())?;
                    leave(&mut self.code, site | CHECK_DONE, true);
                }
                None => {
                    traps.push(place);
                    self.code.trap();
                }
            }
            if is_masked {
                continue;
            }
            let step = steps.get(usize::from(index)).copied().unwrap_or(CachedStep { offset: 0, at: 0 });
            sites.push(CheckSite {
                addr: self.plan.addr.wrapping_add_signed(step.offset),
                resume: self.start + u64::from(step.at),
                after: end.unwrap_or(0),
                hit,
                checks: checks.into(),
            });
        }
        self.block.copies = copies.into_boxed_slice();
        self.block.traps = traps.into_boxed_slice();
        Ok(sites)
    }
}
