//! One line: which threads hold a copy, and how it changes its owner.

use memref::ThreadId;

use super::stretch::{LineStretches, Marks};

/// A thread accesses bytes of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) thread: ThreadId,
    /// Which bytes, as bits.
    pub(super) bits: u64,
    pub(super) writes: bool,
    /// As what: the number of a part.
    pub(super) part: u32,
}

/// A thread that holds a copy, and what it did with it since it has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineHolder {
    pub(super) thread: ThreadId,
    read: u64,
    written: u64,
    /// As what it accessed the line last.
    pub(super) part: u32,
}

/// A line went from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handover {
    /// As what the one had it.
    pub(super) from: u32,
    /// Whether both used the same bytes.
    pub(super) is_true: bool,
}

/// A line that several threads use.
#[derive(Debug, Default)]
pub(super) struct LineState {
    pub(super) holders: Vec<LineHolder>,
    modified: bool,
    pub(super) stretches: LineStretches,
    /// Changes of owner between uses of the same bytes, and of different bytes.
    pub(super) true_changes: u64,
    pub(super) false_changes: u64,
}

impl LineState {
    /// Whether a thread may access it without asking others.
    #[inline]
    fn is_held(&self, touch: &Touch) -> bool {
        match self.holders.as_slice() {
            [one] => one.thread == touch.thread,
            _ => !touch.writes && self.holders.iter().any(|holder| holder.thread == touch.thread),
        }
    }

    /// A thread accesses it. `is_gone` says whether what a holder used there is no longer that: such a copy is nobody's.
    #[inline]
    pub(super) fn touch(
        &mut self,
        touch: &Touch,
        marks: &Marks,
        is_gone: impl FnMut(&LineHolder) -> bool,
    ) -> Option<Handover> {
        let handover = if self.is_held(touch) { None } else { self.take(touch, is_gone) };
        self.stretches.touch(touch, handover.is_some(), marks);
        if let Some(holder) = self.holders.iter_mut().find(|holder| holder.thread == touch.thread) {
            if touch.writes {
                holder.written |= touch.bits;
                self.modified = true;
            } else {
                holder.read |= touch.bits;
            }
            holder.part = touch.part;
        }
        handover
    }

    fn take(&mut self, touch: &Touch, mut is_gone: impl FnMut(&LineHolder) -> bool) -> Option<Handover> {
        self.holders.retain(|holder| holder.thread == touch.thread || !is_gone(holder));
        let others = self.holders.iter().filter(|holder| holder.thread != touch.thread);
        let mut handover = None;
        if touch.writes || self.modified {
            // Who reads needs what was written; who writes takes it from everybody.
            let used = |holder: &LineHolder| {
                if touch.writes { holder.read | holder.written } else { holder.written }
            };
            let truly = others.clone().find(|holder| used(holder) & touch.bits != 0);
            let from = truly.or_else(|| others.clone().find(|holder| used(holder) != 0));
            handover = from.map(|from| Handover { from: from.part, is_true: truly.is_some() });
        }
        match handover {
            Some(Handover { is_true: true, .. }) => self.true_changes += 1,
            Some(_) => self.false_changes += 1,
            None => {}
        }
        if touch.writes {
            self.holders.retain(|holder| holder.thread == touch.thread);
        } else if self.modified {
            // What was written is in all copies now.
            self.modified = false;
        }
        if !self.holders.iter().any(|holder| holder.thread == touch.thread) {
            self.holders.push(LineHolder { thread: touch.thread, read: 0, written: 0, part: touch.part });
        }
        handover
    }
}

#[cfg(test)]
mod tests {
    use memref::VirtAddr;

    use super::*;

    /// `(thread, first byte, bytes, writes)`
    fn check(touches: &[(u32, u64, u64, bool)], true_changes: u64, false_changes: u64) {
        let (mut line, marks) = (LineState::default(), Marks::default());
        for &(thread, first, len, writes) in touches {
            let touch = Touch {
                thread: ThreadId(thread),
                bits: super::super::bits_of(&(VirtAddr(first)..VirtAddr(first + len))),
                writes,
                part: 0,
            };
            line.touch(&touch, &marks, |_| false);
        }
        assert_eq!((line.true_changes, line.false_changes), (true_changes, false_changes), "{touches:?}");
    }

    #[test]
    fn a_line_changes_its_owner() {
        check(&[(0, 0, 8, true), (0, 8, 8, true), (0, 0, 8, false)], 0, 0);
        check(&[(0, 0, 8, false), (1, 0, 8, false), (2, 0, 8, false)], 0, 0);
        check(&[(0, 0, 8, true), (1, 0, 8, false)], 1, 0);
        check(&[(0, 0, 8, true), (1, 8, 8, true), (0, 0, 8, true)], 0, 2);
        check(&[(0, 0, 8, true), (1, 0, 4, false), (1, 0, 4, false), (0, 0, 8, true)], 2, 0);
        // Two readers each get it once; the writer takes it from both at once.
        check(&[(0, 0, 8, true), (1, 0, 8, false), (2, 0, 8, false), (0, 0, 8, true)], 2, 0);
        // Nobody else used these bytes of it.
        check(&[(0, 0, 8, false), (1, 32, 4, true)], 0, 1);
    }

    #[test]
    fn a_copy_that_is_nobodys_changes_no_owner() {
        let (mut line, marks) = (LineState::default(), Marks::default());
        let touch = |thread| Touch { thread: ThreadId(thread), bits: 1, writes: true, part: thread };
        assert_eq!(line.touch(&touch(0), &marks, |_| false), None);
        assert_eq!(line.touch(&touch(1), &marks, |holder| holder.part == 0), None);
        assert_eq!(line.touch(&touch(0), &marks, |_| false), Some(Handover { from: 1, is_true: true }));
    }

    #[test]
    fn stretches_that_overlap_can_alternate() {
        let mut marks = Marks::default();
        let mut line = LineState::default();
        let mut touch = |marks: &Marks, thread, times, writes| {
            for _ in 0..times {
                let bits = 1_u64 << thread;
                line.touch(&Touch { thread: ThreadId(thread), bits, writes, part: 0 }, marks, |_| false);
            }
        };
        // Thread 0 from 1 to 10, thread 1 from 2 to 20: these overlap. Thread 2 from 30 on.
        marks.pass(ThreadId(0), 1);
        touch(&marks, 0, 100, true);
        marks.pass(ThreadId(1), 2);
        touch(&marks, 1, 40, true);
        marks.pass(ThreadId(0), 10);
        marks.pass(ThreadId(1), 20);
        marks.pass(ThreadId(0), 25);
        marks.pass(ThreadId(2), 30);
        touch(&marks, 2, 5, true);
        assert_eq!(line.stretches.most(&marks), 81);
        assert_eq!(line.false_changes, 2);
    }
}
