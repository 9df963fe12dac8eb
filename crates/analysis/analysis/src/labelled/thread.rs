//! A thread whose registers may have labels: where it is, and what it executed between two accesses.

use std::sync::Arc;

use memref::{Access, ThreadId, VirtAddr};
use symbols::Resolver;
use trace_format::Trace;
use trace_format::control_flow::BlockEntry;

use super::code::{KnownInstruction, ProgramCode, Successor};
use super::registers::RegisterLabels;
use crate::flow::{self, Executed, ExecutedStretch};
use crate::{Error, Session};

/// Calls that are remembered.
const MAX_CALLS: usize = 4096;
/// Frames that one unseen return may leave.
pub(crate) const MAX_UNWIND: usize = 4;

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// Where its return address is.
    slot: VirtAddr,
    /// The return address.
    pub(crate) to: VirtAddr,
    /// The call.
    pub(crate) from: VirtAddr,
}

/// The last instruction of a thread that made an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastAccess {
    pub(crate) ip: VirtAddr,
    pub(crate) cycle: u64,
}

/// The control flow of a session that was recorded with it.
#[derive(Clone, Debug)]
pub(crate) struct RecordedFlow {
    trace: Trace,
    blocks: Arc<[BlockEntry]>,
}

impl RecordedFlow {
    /// Nothing where it was not recorded.
    pub(crate) fn of(session: &Session) -> Result<Option<Self>, Error> {
        let blocks = flow::blocks(session.trace())?;
        Ok((!blocks.is_empty()).then(|| Self { trace: session.trace().clone(), blocks }))
    }
}

/// What is known of a thread.
#[derive(Debug, Default)]
pub(crate) struct LabelledThread {
    pub(crate) registers: RegisterLabels,
    pub(crate) last: Option<LastAccess>,
    pub(crate) calls: Vec<OpenCall>,
    /// The call that the last return came from.
    pub(crate) left: Option<OpenCall>,
    /// Times that the way from one access to the next was not found: registers are taken for clean there.
    pub(crate) lost: u64,
    /// What it executed, where that was recorded.
    executed: Option<Executed>,
}

/// How far a thread is followed from one access to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowedWay {
    /// Instructions so far.
    reached: u64,
    /// The last of them.
    last: VirtAddr,
}

impl LabelledThread {
    /// The way to an access; nothing where it is one of the last instruction.
    pub(crate) fn way_to(&self, ip: VirtAddr, cycle: u64) -> Option<FollowedWay> {
        let LastAccess { ip: from, cycle: before } = self.last?;
        ((from, before) != (ip, cycle)).then_some(FollowedWay { reached: before + 1, last: from })
    }

    /// The next instructions of that way, as they were recorded; nothing at its end, or where they are not known. What happened before
    /// them and was not recorded has been taken account of.
    pub(crate) fn next_stretch(
        &mut self,
        (flow, thread): (&RecordedFlow, ThreadId),
        code: &mut ProgramCode,
        resolver: &Resolver,
        way: &mut FollowedWay,
        (ip, cycle): (VirtAddr, u64),
    ) -> Result<Option<Vec<VirtAddr>>, Error> {
        let executed = self
            .executed
            .get_or_insert_with(|| Executed::new(flow::Flow::of(&flow.trace, thread, &flow.blocks)));
        let ExecutedStretch { start, skipped, count, is_whole } = executed.next(&mut way.reached, cycle)?;
        let row = code.row(resolver, start, skipped, count);
        if row.len() as u64 != count {
            // Code without a file.
            self.lose();
            return Ok(None);
        }
        let next = row.first().copied().unwrap_or(ip);
        let decoded = code.at(resolver, way.last);
        if !is_whole || decoded.is_some_and(|decoded| !leads(&decoded, &self.calls, next)) {
            self.return_to(next);
        }
        way.last = row.last().copied().unwrap_or(way.last);
        Ok((count > 0).then_some(row))
    }

    /// A function that is not recorded, such as malloc, returned to `next`.
    fn return_to(&mut self, next: VirtAddr) {
        let inner = self.calls.len().saturating_sub(MAX_UNWIND);
        match (inner..self.calls.len()).rev().find(|&depth| self.calls[depth].to == next) {
            Some(depth) => {
                self.registers.after_unseen_call();
                self.calls.truncate(depth);
            }
            None => self.lose(),
        }
    }

    /// What happened to the registers is not known.
    pub(crate) fn lose(&mut self) {
        self.registers.clear();
        self.lost += 1;
    }

    /// Keeps the list of calls.
    pub(crate) fn note_call(&mut self, decoded: &KnownInstruction, accesses: &[Access]) {
        match decoded.successor {
            Successor::Call(_) | Successor::IndirectCall => {
                let Some(slot) = accesses.iter().rev().find(|access| access.kind.writes()) else { return };
                let slot = slot.addr;
                while self.calls.last().is_some_and(|call| call.slot <= slot) {
                    self.calls.pop();
                }
                if self.calls.len() >= MAX_CALLS {
                    self.calls.remove(0);
                }
                self.calls.push(OpenCall { slot, to: decoded.next(), from: decoded.addr() });
            }
            Successor::Return => {
                let Some(slot) = accesses.first().map(|access| access.addr) else { return };
                while self.calls.last().is_some_and(|call| call.slot < slot) {
                    self.calls.pop();
                }
                self.left = self.calls.last().copied().filter(|call| call.slot == slot);
                if self.left.is_some() {
                    self.calls.pop();
                }
            }
            _ => {}
        }
    }
}

/// Whether an instruction can have led there by itself, and not through a function that is not recorded.
fn leads(from: &KnownInstruction, calls: &[OpenCall], next: VirtAddr) -> bool {
    let after = from.next();
    match from.successor {
        Successor::Next | Successor::Syscall => next == after,
        Successor::Jump(target) | Successor::Call(target) => next == target,
        Successor::Branch(target) => next == target || next == after,
        Successor::IndirectCall => next != after,
        // The one of a stub to a function that returned from there.
        Successor::IndirectJump => calls.last().is_none_or(|call| call.to != next),
        Successor::Return => true,
    }
}
