//! The parts of a translated thread's buffer: runs of executions, and what must be seen by itself between them. What becomes of them
//! is `runs`'s.

use blocks::SharedBlock;
use buffers::flow::{CUT, EMBED, EntryPlaces, FIRST_BLOCK, FoundEntry};
use trace_format::MAX_RUN_ACCESSES;

use crate::session_blocks::{BlockOutline, ExecutableBlocks};

/// A part of a buffer: the entries from one index to before another.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferPart {
    pub(super) first: u16,
    pub(super) end: u16,
    pub(super) kind: PartKind,
    /// Instructions that its entries stand for.
    pub(super) cycles: u64,
    pub(super) accesses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Executions, and instructions without accesses.
    Run,
    /// One execution that has orders.
    Ordered,
    /// One entry of another kind, or an execution that must be expanded.
    Other,
}

/// Finds the parts of a buffer, from its end.
struct PartFinder<'a> {
    parts: &'a mut Vec<BufferPart>,
    /// The run that grows towards the beginning.
    run: BufferPart,
}

impl PartFinder<'_> {
    /// The run, if it is one, is complete: the next one ends there.
    fn end_run(&mut self, end: u16) {
        if self.run.cycles > 0 || self.run.accesses > 0 {
            self.parts.push(self.run);
        }
        self.run = BufferPart { first: end, end, kind: PartKind::Run, cycles: 0, accesses: 0 };
    }

    fn add_to_run(&mut self, index: u16, cycles: u64, accesses: u64) {
        if self.run.accesses + accesses > MAX_RUN_ACCESSES {
            self.end_run(index + 1);
        }
        self.run.first = index;
        self.run.cycles += cycles;
        self.run.accesses += accesses;
    }

    /// An entry that is a part by itself.
    #[cold]
    fn add_alone(&mut self, kind: PartKind, index: u16, cycles: u64, accesses: u64) {
        self.end_run(index);
        self.parts.push(BufferPart { first: index, end: index + 1, kind, cycles, accesses });
    }

    /// An execution of a block that has orders, or accesses as its values say, or that was left halfway.
    #[cold]
    fn add_unusual(&mut self, found: &FoundEntry, block: &SharedBlock, words: &[[u8; 8]]) {
        let payload = found.payload(words);
        let (cycles, accesses) = (u64::from(block.instructions()) + found.number, block.count_words(payload));
        if found.place.is_cut || accesses > MAX_RUN_ACCESSES {
            self.add_alone(PartKind::Other, found.index, cycles, accesses);
        } else if block.orders(payload).is_some() {
            self.add_alone(PartKind::Ordered, found.index, cycles, accesses);
        } else {
            self.add_to_run(found.index, cycles, accesses);
        }
    }
}

/// Finds the parts of a buffer, the last one first. As [`EntryPlaces::find`].
pub(super) fn find_parts(
    words: &[[u8; 8]],
    places: &mut EntryPlaces,
    known: &ExecutableBlocks<'_>,
    parts: &mut Vec<BufferPart>,
) -> bool {
    parts.clear();
    let end = EntryPlaces::END;
    let run = BufferPart { first: end, end, kind: PartKind::Run, cycles: 0, accesses: 0 };
    let mut finder = PartFinder { parts, run };
    let whole = places.find_each(
        words,
        |id| known.values(id),
        |found| {
            if found.id < FIRST_BLOCK {
                match u64::from(found.id) {
                    EMBED | CUT => finder.add_alone(PartKind::Other, found.index, 0, 0),
                    _ => finder.add_to_run(found.index, found.number, 0),
                }
                return;
            }
            match known.outline(found.id) {
                Some(BlockOutline { accesses: Some(accesses), instructions, .. }) if !found.place.is_cut => {
                    let cycles = u64::from(instructions) + found.number;
                    finder.add_to_run(found.index, cycles, accesses.into());
                }
                _ => {
                    let Some(block) = known.get(found.id) else { return };
                    finder.add_unusual(&found, block, words);
                }
            }
        },
    );
    finder.end_run(0);
    whole
}
