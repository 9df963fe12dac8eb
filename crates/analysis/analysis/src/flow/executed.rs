//! The instructions that a thread executed between two accesses, where its control flow was recorded.

use memref::VirtAddr;

use super::{Entered, Flow};
use crate::Error;

/// Instructions of one block that were executed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExecutedStretch {
    /// The block's first instruction.
    pub(crate) start: VirtAddr,
    /// Instructions of the block before them.
    pub(crate) skipped: u64,
    /// How many they are. Zero: it is the end that was asked for.
    pub(crate) count: u64,
    /// Whether nothing was executed before them that is not recorded.
    pub(crate) is_whole: bool,
}

/// The control flow of a thread on its way.
#[derive(Debug)]
pub(crate) struct Executed {
    flow: Flow,
    /// The block that was entered last.
    inside: Option<Entered>,
}

impl Executed {
    pub(crate) fn new(flow: Flow) -> Self {
        Self { flow, inside: None }
    }

    /// What was executed first from cycle `at` on, which becomes the cycle after it; `to` at most. Cycles must not be asked
    /// for that lie before those of an earlier question.
    pub(crate) fn next(&mut self, at: &mut u64, to: u64) -> Result<ExecutedStretch, Error> {
        let mut is_whole = true;
        loop {
            while let Some(entered) = self.flow.peek()?.filter(|entered| entered.cycle <= *at) {
                self.inside = Some(entered);
                self.flow.advance()?;
            }
            if *at >= to {
                return Ok(ExecutedStretch { start: VirtAddr(0), skipped: 0, count: 0, is_whole });
            }
            let next = self.flow.peek()?.map_or(u64::MAX, |entered| entered.cycle).min(to);
            if let Some(Entered { cycle, block }) = self.inside {
                let end = cycle.saturating_add(block.instructions.into()).min(next);
                if end > *at {
                    let stretch =
                        ExecutedStretch { start: block.ip, skipped: *at - cycle, count: end - *at, is_whole };
                    *at = end;
                    return Ok(stretch);
                }
            }
            // A function that is one event, or what is damaged.
            is_whole = false;
            *at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use memref::ThreadId;
    use trace_format::control_flow::{BlockEntry, FlowEntry};
    use trace_format::{
        CreateOptions, ProcessRecord, StreamDescription, StreamKind, ThreadRecord, Trace, TraceWriter,
    };

    use super::*;
    use crate::flow;

    /// Blocks at 100, 200, ... of so many instructions, and when which was entered.
    fn executed(blocks: &[u32], entries: &[(u64, u32)]) -> Executed {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.memtap");
        let writer = TraceWriter::create(&path, CreateOptions::default()).unwrap();
        let process = writer.add_process(&ProcessRecord::default()).unwrap();
        let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
        let mut list = writer.typed(StreamDescription::of_kind(StreamKind::BasicBlocks, None), 100);
        for (&instructions, number) in blocks.iter().zip(1..) {
            let entry = BlockEntry { ip: VirtAddr(number * 100), instructions, bytes: instructions };
            list.push(0, &entry.to_bytes()).unwrap();
        }
        // Several frames.
        let mut stream =
            writer.typed(StreamDescription::of_kind(StreamKind::Flow, Some((process, thread))), 2);
        for &(cycle, block) in entries {
            stream.push(cycle, &FlowEntry { cycle, block }.to_bytes()).unwrap();
        }
        list.flush().unwrap();
        stream.flush().unwrap();
        writer.finish().unwrap();
        let trace = Trace::open(&path).unwrap();
        let blocks = flow::blocks(&trace).unwrap();
        Executed::new(Flow::of(&trace, ThreadId(thread.0), &blocks))
    }

    /// Address, instructions in front, instructions, whether nothing is missing before.
    fn check(executed: &mut Executed, from: u64, to: u64, expected: &[(u64, u64, u64, bool)]) {
        let mut at = from;
        for &(start, skipped, count, is_whole) in expected {
            let start = VirtAddr(start);
            let next = executed.next(&mut at, to).unwrap();
            assert_eq!(next, ExecutedStretch { start, skipped, count, is_whole }, "at {at}");
        }
        assert_eq!(at, to);
    }

    #[test]
    fn blocks_follow_each_other() {
        let mut executed = executed(&[3, 5], &[(0, 0), (3, 1), (8, 0), (11, 0)]);
        check(&mut executed, 1, 2, &[(100, 1, 1, true), (0, 0, 0, true)]);
        check(
            &mut executed,
            2,
            10,
            &[(100, 2, 1, true), (200, 0, 5, true), (100, 0, 2, true), (0, 0, 0, true)],
        );
        check(&mut executed, 13, 13, &[(0, 0, 0, true)]);
    }

    #[test]
    fn a_block_that_was_left_early_ends_where_the_next_one_begins() {
        // Left after two instructions, and then without having executed one.
        let mut executed = executed(&[5, 4], &[(0, 0), (2, 1), (2, 0), (7, 1)]);
        check(
            &mut executed,
            0,
            8,
            &[(100, 0, 2, true), (100, 0, 5, true), (200, 0, 1, true), (0, 0, 0, true)],
        );
    }

    #[test]
    fn what_no_entry_tells_of_is_not_whole() {
        let mut executed = executed(&[3], &[(4, 0), (20, 0)]);
        check(&mut executed, 0, 5, &[(100, 0, 1, false), (0, 0, 0, true)]);
        check(&mut executed, 5, 22, &[(100, 1, 2, true), (100, 0, 2, false), (0, 0, 0, true)]);
        check(&mut executed, 22, 40, &[(100, 2, 1, true), (0, 0, 0, false)]);
    }
}
