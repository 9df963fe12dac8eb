//! From executions to the bytes of a frame, as they come: walks the model, and writes what it did not predict.
//!
//! Everything that a frame needs while it grows is here, and its memory goes from one frame to another: fresh pages cost more than
//! what is written to them.

use std::sync::{Mutex, PoisonError};

use blocks::{SharedBlock, values_of};
use memref::Access;

use super::codes::{
    BY_1, CODES, HEAD_BYTES, KNOWN, LENGTHS, NEW, NEW_BLOCKS, PAIRED, RELATION, SECOND, SINGLE, STEP, STRIDE,
    VALUES, bytes_of, length_of, pair,
};
use super::columns::FrameWriting;
use super::model::BlockModel;
use super::spans::ValueSpans;
use crate::bytes::{put_varint, u64_at, zigzag};
use crate::encoder::attribute::{Attribute, Coding};
use crate::entry::StreamEntry;
use crate::{AccessCounts, Bounds, Interval};

/// Frames whose memory is kept for the next ones.
const SPARES: usize = 4;
static SPARE: Mutex<Vec<FrameCoder>> = Mutex::new(Vec::new());

/// A block of a frame.
#[derive(Debug)]
pub(super) struct FrameBlock {
    /// The recorder's number of it.
    id: u32,
    pub(super) block: SharedBlock,
    /// Executions, of a block whose accesses are always the same.
    times: u64,
}

/// What coding a frame gave.
#[derive(Debug)]
pub(super) struct CodedContent {
    pub(super) bounds: Bounds,
    pub(super) counts: AccessCounts,
    /// The columns, without any definition.
    pub(super) columns: Attribute,
    /// Its blocks, in the order in which they appear.
    pub(super) blocks: Vec<SharedBlock>,
}

impl CodedContent {
    /// The columns with the definitions of all blocks, for who has the frame alone.
    pub(super) fn with_definitions(&self) -> Attribute {
        let mut definitions = Vec::new();
        self.blocks.iter().for_each(|block| block.put_definition(&mut definitions));
        let Attribute { kind, coding, bytes } = &self.columns;
        let place = HEAD_BYTES + u64_at(bytes, LENGTHS + 8 * CODES) as usize;
        let mut bytes = [&bytes[..place], &definitions, &bytes[place..]].concat();
        bytes[LENGTHS + 8 * NEW_BLOCKS..][..8].copy_from_slice(&(definitions.len() as u64).to_le_bytes());
        Attribute { kind: *kind, coding: *coding, bytes }
    }
}

/// Codes a frame.
#[derive(Debug)]
pub(super) struct FrameCoder {
    /// Accesses of all executions, and the single ones.
    pub(super) count: u64,
    /// The cycle at which the frame begins.
    pub(super) start: u64,
    /// The thread's fs base in all of its executions.
    pub(super) base: u64,
    /// Its blocks, from number 1.
    used: Vec<FrameBlock>,
    /// From the recorder's numbers of blocks to ours. What earlier frames left there is told by the block that has the number now.
    numbers: Vec<u32>,
    model: BlockModel,
    spans: ValueSpans,
    /// Accesses by kind of what does not follow from how often blocks were executed.
    varying: AccessCounts,
    columns: FrameWriting,
}

impl Default for FrameCoder {
    fn default() -> Self {
        Self {
            count: 0,
            start: 0,
            base: 0,
            used: Vec::new(),
            numbers: Vec::new(),
            model: BlockModel::new(0),
            spans: ValueSpans::default(),
            varying: AccessCounts::default(),
            columns: FrameWriting::default(),
        }
    }
}

impl FrameCoder {
    /// Empty, with the memory of one that was written.
    pub(super) fn spare() -> Self {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps the memory for the next frame, of whichever thread.
    pub(super) fn give_back(mut self) {
        self.used.clear();
        self.columns.clear();
        self.count = 0;
        // A frame that stays empty does not begin, and has nothing of the last one.
        self.begin(0);
        let mut spares = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES {
            spares.push(self);
        }
    }

    /// Bytes of memory that what was written takes.
    pub(super) fn memory(&self) -> usize {
        self.columns.memory()
    }

    /// What the accesses span, how many there are of each kind, the columns of the frame and its blocks, which are taken out.
    pub(super) fn code(&mut self) -> CodedContent {
        let bounds = self.spans.bounds(&self.used, self.start, self.base, &self.model);
        let columns = self.columns.all();
        let mut bytes =
            Vec::with_capacity(HEAD_BYTES + columns.iter().map(|column| column.len()).sum::<usize>());
        bytes.extend(self.start.to_le_bytes());
        bytes.extend(self.base.to_le_bytes());
        for column in columns {
            bytes.extend((column.len() as u64).to_le_bytes());
        }
        for column in columns {
            bytes.extend_from_slice(column);
        }
        let (counts, columns) = (self.counts(), Attribute { kind: PAIRED, coding: Coding::Zstd, bytes });
        let blocks = self.used.drain(..).map(|used| used.block).collect();
        CodedContent { bounds, counts, columns, blocks }
    }

    fn counts(&self) -> AccessCounts {
        let mut counts = self.varying;
        for FrameBlock { block, times, .. } in self.used.iter().filter(|used| used.times > 0) {
            block.accesses().iter().for_each(|access| counts.add(access.kind, *times));
        }
        counts
    }

    fn begin(&mut self, cycle: u64) {
        (self.start, self.base) = (cycle, 0);
        self.model.begin(cycle);
        self.spans.begin();
        self.varying = AccessCounts::default();
    }

    /// An execution of the block of that number of the recorder's, which `find` gives where the frame does not have it yet.
    /// Returns the block's instructions; 0 where there is no such block.
    #[inline]
    pub(super) fn push<'b>(
        &mut self,
        id: u32,
        cycle: u64,
        values: &[[u8; 8]],
        base: u64,
        find: impl FnOnce() -> Option<&'b SharedBlock>,
    ) -> u16 {
        if self.count == 0 {
            self.begin(cycle);
        }
        let previous = &self.model.states[self.model.previous];
        // Branches, unlike below: the processor mostly guesses them, and has the block's history before it knows which block it is.
        let (mut code, mut number, predicted) = if self.is(previous.next[0], id) {
            (0, previous.next[0], previous.steps[0])
        } else if self.is(previous.next[1], id) {
            (SECOND, previous.next[1], previous.steps[1])
        } else {
            match self.numbers.get(id as usize) {
                Some(&number) if self.is(number, id) => (KNOWN, number, 0),
                _ => (NEW, 0, 0),
            }
        };
        let (instructions, count, is_fixed);
        if let Some(FrameBlock { block, .. }) = self.used.get((number as usize).wrapping_sub(1)) {
            instructions = block.instructions();
            (count, is_fixed) = (block.count_words(values), block.is_fixed());
        } else {
            let Some(block) = find() else { return 0 };
            instructions = block.instructions();
            (count, is_fixed) = (block.count_words(values), block.is_fixed());
            if count > 0 {
                number = self.enter(id, block, base);
            }
        }
        if count == 0 {
            return instructions;
        }
        if code == KNOWN {
            self.columns.numbers.extend_from_slice(&number.to_le_bytes());
        }
        let step = cycle.wrapping_sub(self.model.cycle);
        if step != predicted {
            code |= STEP;
            put_varint(&mut self.columns.steps, step);
        }
        self.model.follow(code, number, step);
        self.model.cycle = cycle.wrapping_add(instructions.into());
        code |= self.put_values(number, values);
        if is_fixed {
            self.used[number as usize - 1].times += 1;
        } else {
            self.add_varying(number, values);
        }
        self.columns.codes.push(code);
        self.count += count;
        instructions
    }

    /// Whether that is the number of the recorder's block; 0 is no block's.
    #[inline]
    fn is(&self, number: u32, id: u32) -> bool {
        self.used.get((number as usize).wrapping_sub(1)).is_some_and(|used| used.id == id)
    }

    /// The number of a block that appears for the first time.
    #[cold]
    fn enter(&mut self, id: u32, block: &SharedBlock, base: u64) -> u32 {
        if self.used.is_empty() {
            self.base = base;
        }
        self.used.push(FrameBlock { id, block: block.clone(), times: 0 });
        let number = self.model.add(block.kept_values());
        self.spans.values.resize(self.model.values.len(), Interval::NONE);
        let place = id as usize;
        if self.numbers.len() <= place {
            self.numbers.resize(place + 1, 0);
        }
        self.numbers[place] = number;
        number
    }

    /// Enters an execution whose accesses follow from its values.
    fn add_varying(&mut self, number: u32, values: &[[u8; 8]]) {
        let block = &self.used[number as usize - 1].block;
        let values = values_of(values);
        block.count_kinds(&values, |kind, times| self.varying.add(kind, times));
        if block.is_repeated() {
            self.spans.add_repeated(block, &values, self.base);
        }
    }

    /// Writes the values, and gives the flag that says whether there were some that were not predicted.
    #[inline]
    fn put_values(&mut self, number: u32, values: &[[u8; 8]]) -> u8 {
        let state = self.model.states[number as usize];
        let (start, count) = (state.values as usize, usize::from(state.count));
        let padded;
        let values = match values.get(..count) {
            Some(values) => values,
            // Of a recorder that says less than its blocks record.
            None => {
                padded = values_of(values).map(u64::to_le_bytes);
                &padded[..count]
            }
        };
        let codes = self.columns.value_codes.room(count + 8);
        // The last one is written as eight bytes, too.
        let differences = self.columns.differences.room(8 * count);
        let mut before = self.model.value;
        let (mut all, mut len) = (0, 0);
        let known = &mut self.model.values[start..start + count];
        let spans = &mut self.spans.values[start..start + count];
        for (((known, span), word), code) in known.iter_mut().zip(spans).zip(values).zip(&mut *codes) {
            let value = u64::from_le_bytes(*word);
            span.add(value);
            let difference = value.wrapping_sub(known.last);
            let short = zigzag(difference);
            // Without branches: what a program does next can't be predicted here, or it would be predicted. And without tables,
            // which would be fetched for every value.
            let by = BY_1 + length_of(short);
            let by = if value.wrapping_sub(before) == known.relation { RELATION } else { by };
            let by = if difference == known.stride { STRIDE } else { by };
            *code = by;
            differences[len..len + 8].copy_from_slice(&short.to_le_bytes());
            len += bytes_of(by);
            known.settle(value, before);
            before = value;
            all |= by;
        }
        self.model.value = before;
        self.columns.differences.advance(len);
        if all == 0 {
            return 0;
        }
        codes[count..].fill(STRIDE);
        let paired = pair(codes, count);
        self.columns.value_codes.advance(paired);
        VALUES
    }

    /// An access by itself.
    pub(super) fn push_single(&mut self, access: &Access) {
        if self.count == 0 {
            self.begin(access.cycle);
        }
        self.count += 1;
        self.spans.add_single(access);
        self.varying.add(access.kind, 1);
        self.columns.codes.push(SINGLE);
        access.put(&mut self.columns.singles);
    }
}
