//! The active calls of a thread, as far as its accesses tell. In a translated trace, a call stores its return
//! address, and the return loads it. A function that was called but not recorded inside (such as those of an
//! allocator) has returned when its event arrives. Callers are lost where a program switches stacks.

use memref::{AccessKind, VirtAddr};
use rustc_hash::FxHashMap;
use x86::{Instruction, Transfer};

/// Callers that are told of one access.
const MOST: usize = 64;
/// Different rows of calls that are told apart.
const MOST_ROWS: usize = 1 << 22;
/// Bytes that the longest call has, but for prefixes that nobody uses.
const CALL_BYTES: u64 = 8;

/// What an instruction does about calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEffect {
    Call,
    Return,
    Other,
}

impl CallEffect {
    pub(super) fn of(instruction: &Instruction) -> Self {
        match instruction.transfer() {
            Transfer::Call(_) | Transfer::CallIndirect | Transfer::FarCall => Self::Call,
            Transfer::Return(_) | Transfer::FarReturn => Self::Return,
            _ => Self::Other,
        }
    }
}

/// All rows of calls, each its last one and the row without that. Row 0 is empty.
#[derive(Debug, Default)]
pub(super) struct Rows {
    list: Vec<CallRow>,
    known: FxHashMap<CallRow, u32>,
}

/// A row of calls: the instruction of its last one, and the number of the row without that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CallRow {
    without_last: u32,
    ip: VirtAddr,
}

impl Rows {
    fn with(&mut self, row: u32, ip: VirtAddr) -> u32 {
        if self.list.len() >= MOST_ROWS {
            return row;
        }
        let list = &mut self.list;
        let longer = CallRow { without_last: row, ip };
        *self.known.entry(longer).or_insert_with(|| {
            list.push(longer);
            list.len() as u32
        })
    }

    /// The instructions that called, the last one first.
    pub(super) fn calls(&self, row: u32) -> impl Iterator<Item = VirtAddr> {
        self.outwards(row).map(|(ip, _)| ip)
    }

    /// The instructions that called, the last one first, each with the row that it was made in.
    pub(super) fn outwards(&self, row: u32) -> impl Iterator<Item = (VirtAddr, u32)> {
        let mut next = row;
        std::iter::from_fn(move || {
            let &CallRow { without_last, ip } = self.list.get((next as usize).checked_sub(1)?)?;
            next = without_last;
            Some((ip, without_last))
        })
        .take(MOST)
    }
}

/// The calls of one thread that have not returned.
#[derive(Debug, Default)]
pub(super) struct Frames {
    list: Vec<CallFrame>,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct CallFrame {
    /// Where its return address is.
    slot: VirtAddr,
    /// Its instruction.
    ip: VirtAddr,
    /// The row that it makes.
    row: u32,
}

impl Frames {
    /// The present row.
    pub(super) fn row(&self) -> u32 {
        self.list.last().map_or(0, |frame| frame.row)
    }

    /// Follows an access of an instruction.
    pub(super) fn follow(
        &mut self,
        rows: &mut Rows,
        control: CallEffect,
        ip: VirtAddr,
        addr: VirtAddr,
        kind: AccessKind,
    ) {
        let calls = control == CallEffect::Call && kind == AccessKind::Store;
        if !calls && (control != CallEffect::Return || kind != AccessKind::Load) {
            return;
        }
        while self.list.last().is_some_and(|frame| frame.slot <= addr) {
            self.list.pop();
        }
        if calls {
            let row = rows.with(self.row(), ip);
            self.list.push(CallFrame { slot: addr, ip, row });
        }
    }

    /// What was called there has returned.
    pub(super) fn leave(&mut self, ip: VirtAddr) {
        let is_after = |frame: &CallFrame| ip.checked_sub(frame.ip).is_some_and(|bytes| bytes <= CALL_BYTES);
        if self.list.last().is_some_and(is_after) {
            self.list.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_calls_and_returns() {
        use AccessKind::{Load, Store};
        let (mut rows, mut frames) = (Rows::default(), Frames::default());
        let calls =
            |rows: &Rows, frames: &Frames| -> Vec<u64> { rows.calls(frames.row()).map(|ip| ip.0).collect() };
        frames.follow(&mut rows, CallEffect::Call, VirtAddr(10), VirtAddr(0x1000), Store);
        frames.follow(&mut rows, CallEffect::Call, VirtAddr(20), VirtAddr(0xf00), Store);
        assert_eq!(calls(&rows, &frames), [20, 10]);
        let row = frames.row();
        // A call by way of memory loads as well.
        frames.follow(&mut rows, CallEffect::Call, VirtAddr(30), VirtAddr(0x5000), Load);
        frames.follow(&mut rows, CallEffect::Return, VirtAddr(25), VirtAddr(0xf00), Load);
        assert_eq!(calls(&rows, &frames), [10]);
        frames.follow(&mut rows, CallEffect::Call, VirtAddr(20), VirtAddr(0xf00), Store);
        assert_eq!(frames.row(), row, "the same calls make the same row");
        // Left by a longjmp, or without a return that was recorded.
        frames.follow(&mut rows, CallEffect::Call, VirtAddr(40), VirtAddr(0xf80), Store);
        assert_eq!(calls(&rows, &frames), [40, 10]);
        frames.leave(VirtAddr(77));
        assert_eq!(calls(&rows, &frames), [40, 10]);
        frames.leave(VirtAddr(44));
        assert_eq!(calls(&rows, &frames), [10]);
    }
}
