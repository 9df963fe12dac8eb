//! Encodes executions into the bytes of a frame as they arrive: walks the model, and writes what it did not predict.
//!
//! Everything that a frame needs while it grows is here, and its memory is reused
//! from one frame to the next: fresh pages cost more than what is written to them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use blocks::{SharedBlock, values_of};
use memref::Access;

use super::codes::{
    BY_1, CODES, HEAD_BYTES, KNOWN, LENGTHS, NEW, NEW_BLOCKS, PAIR_SHIFT, PAIRED, RELATION, SECOND, SINGLE,
    SINGLE_BYTES, STEP, STRIDE, VALUES, bytes_of, length_of,
};
use super::columns::FrameWriting;
use super::model::{BlockHistory, BlockModel, ValueHistory};
use super::spans::{ValueSpans, end_runs};
use crate::bytes::{put_varint, u64_at, zigzag};
use crate::encoder::attribute::{Attribute, Coding};
use crate::entry::StreamEntry;
use crate::{AccessCounts, Bounds, Interval};

/// Frames whose memory is kept for the next ones.
const SPARES: usize = 4;
static SPARE: Mutex<Vec<FrameCoder>> = Mutex::new(Vec::new());
/// Bytes that all of them may have. Looked at alone, so that no order is needed.
static MOST_SPARE_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Of the memory of frames of blocks that were written, this process keeps no more than that for the next ones: for one that has
/// promised a bound. By itself it keeps that of four frames.
pub fn keep_of_frames(most_bytes: usize) {
    MOST_SPARE_BYTES.store(most_bytes, Ordering::Relaxed);
}

/// A block that a frame expects, and what adding an execution of it takes.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedBlock {
    code: u8,
    number: u32,
    /// Instructions before it that are expected.
    step: u64,
    values: u8,
    instructions: u16,
    accesses: u16,
}

impl ExpectedBlock {
    /// Values of an execution.
    #[inline]
    pub fn values(&self) -> u8 {
        self.values
    }

    /// As [`blocks::BasicBlock::instructions`].
    #[inline]
    pub fn instructions(&self) -> u16 {
        self.instructions
    }

    /// Accesses of an execution.
    #[inline]
    pub fn accesses(&self) -> u16 {
        self.accesses
    }
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
    used: Vec<SharedBlock>,
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
        let kept = self.memory() + spares.iter().map(Self::memory).sum::<usize>();
        if spares.len() < SPARES && kept <= MOST_SPARE_BYTES.load(Ordering::Relaxed) {
            spares.push(self);
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        self.columns.memory()
            + self.used.capacity() * size_of::<SharedBlock>()
            + self.numbers.capacity() * size_of::<u32>()
            + self.model.memory()
            + self.spans.values.capacity() * size_of::<Interval>()
    }

    /// Bytes of what the frame has so far: of its memory, what is not room for more, and was not left by earlier frames.
    pub(super) fn filled(&self) -> usize {
        self.columns.written()
            + self.used.len() * size_of::<SharedBlock>()
            + self.model.filled()
            + self.spans.values.len() * size_of::<Interval>()
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
        let blocks = self.used.drain(..).collect();
        CodedContent { bounds, counts, columns, blocks }
    }

    fn counts(&self) -> AccessCounts {
        let mut counts = self.varying;
        for (block, history) in self.used.iter().zip(&self.model.blocks[1..]) {
            if block.is_fixed() {
                block.accesses().iter().for_each(|access| counts.add(access.kind, history.times.into()));
            }
        }
        counts
    }

    /// Makes all cycles that much later, and has all executions take place with that fs base.
    pub(super) fn begin_at(&mut self, cycle: u64, base: u64) {
        self.start = self.start.wrapping_add(cycle);
        self.model.cycle = self.model.cycle.wrapping_add(cycle);
        self.spans.delay(cycle);
        for single in self.columns.singles.as_chunks_mut::<SINGLE_BYTES>().0 {
            delay_single(single, cycle);
        }
        if !self.used.is_empty() {
            self.base = base;
        }
    }

    fn begin(&mut self, cycle: u64) {
        (self.start, self.base) = (cycle, 0);
        self.model.begin(cycle);
        self.spans.begin();
        self.varying = AccessCounts::default();
    }

    /// The block of that number of the recorder's, if the frame has it and nothing about it follows from its values.
    #[inline]
    pub(super) fn expect(&self, id: u32) -> Option<ExpectedBlock> {
        let (code, number, step) = self.find(id)?;
        let history = self.model.blocks.get(number as usize)?;
        let &BlockHistory { is_plain: true, instructions, accesses, count, .. } = history else {
            return None;
        };
        Some(ExpectedBlock { code, number, step, values: count, instructions, accesses })
    }

    /// The block of that number of the recorder's, if the frame has it: the code that says so, its number, and the instructions before
    /// it that this predicts.
    #[inline]
    fn find(&self, id: u32) -> Option<(u8, u32, u64)> {
        let previous = self.model.blocks.get(self.model.previous)?;
        // Branches, unlike below: the processor mostly guesses them, and has the block's history before it knows which block it is.
        if previous.next_ids[0] == id {
            return Some((0, previous.next[0], previous.steps[0]));
        }
        if previous.next_ids[1] == id {
            return Some((SECOND, previous.next[1], previous.steps[1]));
        }
        let number = *self.numbers.get(id as usize)?;
        let history = self.model.blocks.get(number as usize)?;
        (history.id == id).then_some((KNOWN, number, 0))
    }

    /// An execution of the block of that number of the recorder's, with `count` accesses: at least one.
    pub(super) fn push(
        &mut self,
        id: u32,
        block: &SharedBlock,
        cycle: u64,
        values: &[[u8; 8]],
        base: u64,
        count: u64,
    ) {
        if self.count == 0 {
            self.begin(cycle);
        }
        let (code, number, predicted) =
            self.find(id).unwrap_or_else(|| (NEW, self.enter(id, block, base), 0));
        if !block.is_fixed() {
            self.add_varying(block, values);
        }
        self.code_execution((code, number, predicted), cycle, values, block.instructions());
        self.count += count;
    }

    /// An execution of a block that was expected.
    #[inline]
    pub(super) fn push_expected(&mut self, block: ExpectedBlock, cycle: u64, values: &[[u8; 8]]) {
        let ExpectedBlock { code, number, step, instructions, accesses, .. } = block;
        self.code_execution((code, number, step), cycle, values, instructions);
        self.count += u64::from(accesses);
    }

    /// Writes an execution of a block that was found.
    #[inline]
    fn code_execution(
        &mut self,
        (mut code, number, predicted): (u8, u32, u64),
        cycle: u64,
        values: &[[u8; 8]],
        instructions: u16,
    ) {
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
        self.columns.codes.push(code);
    }

    /// The number of a block that appears for the first time.
    #[cold]
    fn enter(&mut self, id: u32, block: &SharedBlock, base: u64) -> u32 {
        if self.used.is_empty() {
            self.base = base;
        }
        self.used.push(block.clone());
        let number = self.model.add(id, block);
        self.spans.values.resize(self.model.values.len(), Interval::NONE);
        let place = id as usize;
        if self.numbers.len() <= place {
            self.numbers.resize(place + 1, 0);
        }
        self.numbers[place] = number;
        number
    }

    /// Enters an execution whose accesses follow from its values.
    #[cold]
    fn add_varying(&mut self, block: &SharedBlock, values: &[[u8; 8]]) {
        let values = values_of(values);
        block.count_kinds(&values, |kind, times| self.varying.add(kind, times));
        if block.is_repeated() {
            self.spans.add_repeated(block, &values);
        }
    }

    /// Writes the values, and gives the flag that says whether there were some that were not predicted.
    #[inline]
    fn put_values(&mut self, number: u32, words: &[[u8; 8]]) -> u8 {
        let history = &mut self.model.blocks[number as usize];
        history.times += 1;
        if history.is_unsteady {
            return self.put_unpredicted(number, words);
        }
        let (start, count) = (history.values as usize, usize::from(history.count));
        let known = &mut self.model.values[start..start + count];
        let mut missed = words.len() < count;
        for (known, word) in known.iter().zip(words) {
            missed |= known.next() != u64::from_le_bytes(*word);
        }
        if missed {
            return self.put_unpredicted(number, words);
        }
        let mut value = self.model.value;
        for (known, word) in known.iter_mut().zip(words) {
            value = u64::from_le_bytes(*word);
            known.last = value;
        }
        history.before = self.model.value;
        self.model.value = value;
        0
    }

    /// As [`Self::put_values`], where some value is not what was predicted, or is likely not to be.
    fn put_unpredicted(&mut self, number: u32, words: &[[u8; 8]]) -> u8 {
        let history = &mut self.model.blocks[number as usize];
        let (start, count) = (history.values as usize, usize::from(history.count));
        let known = &mut self.model.values[start..start + count];
        let padded;
        let words = match words.get(..count) {
            Some(words) => words,
            // Of a recorder that says less than its blocks record.
            None => {
                padded = values_of(words).map(u64::to_le_bytes);
                &padded[..count]
            }
        };
        let spans = &mut self.spans.values[start..start + count];
        let predicted = history.times - 1 - history.looked_at;
        if predicted > 0 {
            end_runs(spans, known, predicted);
        }
        history.looked_at = history.times;
        let codes_len = count.div_ceil(2);
        // The last ones are written as eight bytes, too.
        let codes = self.columns.value_codes.room(codes_len + 8);
        let differences = self.columns.differences.room(8 * count);
        let mut before = self.model.value;
        let mut last_before = std::mem::replace(&mut history.before, before);
        // Codes are gathered in a word: what is stored as bytes and loaded at once as a word waits for the bytes to be in the cache.
        let (mut all, mut word_of_codes, mut shift) = (0, 0, 0);
        let (mut len, mut at) = (0, 0);
        for ((known, span), word) in known.iter_mut().zip(spans).zip(words) {
            let value = u64::from_le_bytes(*word);
            span.add(value);
            let ValueHistory { last, stride } = *known;
            let difference = value.wrapping_sub(last);
            let short = zigzag(difference);
            // Without branches: what a program does next can't be predicted here, or it would be predicted. And without tables,
            // which would be fetched for every value.
            let by = BY_1 + length_of(short);
            let by = if value.wrapping_sub(before) == last.wrapping_sub(last_before) { RELATION } else { by };
            let by = if difference == stride { STRIDE } else { by };
            word_of_codes |= u64::from(by) << shift;
            shift += PAIR_SHIFT;
            if shift == u64::BITS {
                codes[at..at + 8].copy_from_slice(&word_of_codes.to_le_bytes());
                at += 8;
                (all, word_of_codes, shift) = (all | word_of_codes, 0, 0);
            }
            differences[len..len + 8].copy_from_slice(&short.to_le_bytes());
            len += bytes_of(by);
            *known = ValueHistory { last: value, stride: difference };
            (before, last_before) = (value, last);
        }
        self.model.value = before;
        self.columns.differences.advance(len);
        history.is_unsteady = all | word_of_codes != 0;
        if !history.is_unsteady {
            return 0;
        }
        codes[at..at + 8].copy_from_slice(&word_of_codes.to_le_bytes());
        self.columns.value_codes.advance(codes_len);
        VALUES
    }

    /// How many accesses by themselves there are.
    pub(super) fn singles(&self) -> usize {
        self.columns.singles.len() / SINGLE_BYTES
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

/// Makes the cycle of an access by itself that much later: the first of its fields.
fn delay_single(single: &mut [u8; SINGLE_BYTES], cycles: u64) {
    if let Some(own) = single.first_chunk_mut() {
        *own = u64::from_le_bytes(*own).wrapping_add(cycles).to_le_bytes();
    }
}
