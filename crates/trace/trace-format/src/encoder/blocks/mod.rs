//! The encoder of accesses that are recorded as executions of basic blocks (docs/format.md, *Encoders*, 8): what a block does
//! stands once in a frame, an execution is a byte that says what was predicted, and columns with the register values that
//! were not.
//!
//! A recorder that has blocks gives them to a [`BlockFrame`], which keeps executions as they come; the worker that stores the
//! frame encodes them, so that frames are encoded beside each other. No access is made before somebody reads it: [`Blocks`] expands
//! them. Encoder and decoder walk the same [`Model`]: each block of the frame has its last two
//! successors, with the instructions that lay between, and each of its values the last one, its stride, and its distance from
//! the value recorded before it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use blocks::{BasicBlock, BlockAccess, Definition, MAX_ACCESSES, MAX_VALUES, NO_VALUE, values_of};
use memref::{Access, VirtAddr};

use super::{BLOCKS, Coding, Corrupt, Encoded, Encoder, OTHERS, Part, entries_part, others, raw_bytes};
use crate::{
    Bounds, EntryType, Interval, KindSet, MAX_FRAME_ENTRIES,
    bytes::{Reader, put_varint, unzigzag, zigzag},
    entry::{Entry, StreamKind},
};

/// The low bits of a code: which block was executed.
const SECOND: u8 = 1;
const KNOWN: u8 = 2;
const NEW: u8 = 3;
const BLOCK_MASK: u8 = 3;
/// Other instructions lay between the block before and this one than the last time.
const STEP: u8 = 1 << 2;
/// Some value was not predicted: a code for each follows.
const VALUES: u8 = 1 << 3;
/// An access by itself, and nothing else of the above.
const SINGLE: u8 = 1 << 4;

/// Codes of values: as predicted, or by a difference of 1, 2, 4 or 8 bytes from the last one.
const STRIDE: u8 = 0;
const RELATION: u8 = 1;
const BY_1: u8 = 2;
/// Bytes in the column of differences, by code.
const BYTES: [usize; 6] = [0, 0, 1, 2, 4, 8];
/// What is added to [`BY_1`], by the bits of the difference.
const LENGTHS: [u8; 65] = {
    let mut lengths = [0; 65];
    let mut bits = 0;
    while bits <= 64 {
        lengths[bits] = if bits <= 8 {
            0
        } else if bits <= 16 {
            1
        } else if bits <= 32 {
            2
        } else {
            3
        };
        bits += 1;
    }
    lengths
};

/// The columns of a frame, in their order: codes, new blocks, numbers of known ones, steps, codes of values, differences,
/// single accesses.
const COLUMNS: usize = 7;
/// Bytes in front of the columns: cycle and fs base at the beginning, and the columns' lengths.
const HEAD_BYTES: usize = (2 + COLUMNS) * 8;
/// Accesses of a frame.
const FRAME_ACCESSES: u64 = 1 << 20;
/// A string instruction that made more of them is kept as single ones, frame by frame.
const MANY: u64 = 1 << 18;
const SINGLE_BYTES: usize = 32;

/// What is known of one block.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Where its values are among all.
    values: u32,
    count: u8,
    next: [u32; 2],
    /// Instructions between it and the next one.
    steps: [u64; 2],
}

/// What is known of one value of one block.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    last: u64,
    stride: u64,
    relation: u64,
}

impl Known {
    #[inline]
    fn settle(&mut self, value: u64, before: u64) {
        self.stride = value.wrapping_sub(self.last);
        self.relation = value.wrapping_sub(before);
        self.last = value;
    }
}

/// What execution after execution leaves behind. Block 0 is none: where the frame begins.
#[derive(Debug)]
struct Model {
    states: Vec<State>,
    values: Vec<Known>,
    previous: usize,
    /// The value recorded before.
    value: u64,
    /// The cycle behind the last block.
    cycle: u64,
}

impl Model {
    fn new(cycle: u64) -> Self {
        let start = State { values: 0, count: 0, next: [0; 2], steps: [0; 2] };
        Self { states: vec![start], values: Vec::new(), previous: 0, value: 0, cycle }
    }

    fn add(&mut self, count: u8) -> u32 {
        let number = self.states.len() as u32;
        let values = self.values.len() as u32;
        self.states.push(State { values, count, next: [0; 2], steps: [0; 2] });
        self.values.resize(self.values.len() + usize::from(count), Known::default());
        number
    }

    /// Enters what came behind the previous block.
    #[inline]
    fn follow(&mut self, code: u8, number: u32, step: u64) {
        if let Some(previous) = self.states.get_mut(self.previous) {
            if code & BLOCK_MASK != 0 {
                previous.next = [number, previous.next[0]];
                previous.steps[1] = previous.steps[0];
            }
            previous.steps[0] = step;
        }
        self.previous = number as usize;
    }
}

/// What a frame is coded from: executions and single accesses, in the order in which they came.
#[derive(Debug, Default)]
struct Recorded {
    /// Its blocks, from number 1.
    used: Vec<Arc<BasicBlock>>,
    /// Of each execution the number of its block and the instructions between it and the one before ([`LONG_STEP`], and two
    /// halves, where those are many). A zero stands for a single access.
    order: Vec<u32>,
    /// The values of all executions.
    values: Vec<[u8; 8]>,
    singles: Vec<Access>,
    start: u64,
    base: u64,
    count: u64,
}

/// See [`Recorded::order`].
const LONG_STEP: u32 = u32::MAX;
/// Frames whose memory is kept for the next ones: fresh pages cost more than what is written to them.
const SPARES: usize = 4;
static SPARE: Mutex<Vec<Recorded>> = Mutex::new(Vec::new());

impl Recorded {
    /// Empty, with the memory of one that was coded.
    fn spare() -> Self {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(self) {
        let Self { mut order, mut values, .. } = self;
        order.clear();
        values.clear();
        let mut spares = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES {
            spares.push(Self { order, values, ..Self::default() });
        }
    }
}

/// A frame of block executions that grows. They are kept as they come, and coded by whoever first looks at the frame when it is
/// finished: mostly not the thread that records.
#[derive(Debug, Default)]
pub struct BlockFrame {
    recorded: Recorded,
    /// From the recorder's numbers of blocks to ours; those of earlier frames are told by the block.
    numbers: Vec<u32>,
    /// The cycle behind the last block.
    cycle: u64,
}

/// A frame that is complete.
#[derive(Debug)]
pub struct CodedFrame {
    recorded: Recorded,
    coded: OnceLock<(Bounds, Vec<Part>)>,
}

impl Drop for CodedFrame {
    fn drop(&mut self) {
        std::mem::take(&mut self.recorded).give_back();
    }
}

impl CodedFrame {
    fn coded(&self) -> &(Bounds, Vec<Part>) {
        thread_local! {
            /// Room for the columns of one frame after the other.
            static COLUMNS_OF_THREAD: RefCell<[Vec<u8>; COLUMNS]> = const { RefCell::new([const { Vec::new() }; COLUMNS]) };
        }
        self.coded.get_or_init(|| {
            COLUMNS_OF_THREAD.with_borrow_mut(|columns| Coder::new(&self.recorded, columns).code())
        })
    }

    /// What the accesses span, but for the wall clock: of blocks from the extremes of their values, so that it may be a little
    /// more. As [`Self::parts`], this takes a while the first time.
    pub fn bounds(&self) -> Bounds {
        self.coded().0
    }

    /// Its attributes.
    pub fn parts(&self) -> &[Part] {
        &self.coded().1
    }

    /// Accesses in it.
    pub fn count(&self) -> u64 {
        self.recorded.count
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let Recorded { order, values, singles, .. } = &self.recorded;
        size_of_val(&order[..]) + size_of_val(&values[..]) + size_of_val(&singles[..])
    }
}

impl BlockFrame {
    /// Accesses in it.
    pub fn len(&self) -> u64 {
        self.recorded.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.recorded.count == 0
    }

    /// Whether it is as long as a frame should be.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.recorded.count >= FRAME_ACCESSES
    }

    /// Whether an execution can be added: so many accesses, with that fs base. If not, and the frame is not empty, the frame is
    /// to be finished first; if not even then, the accesses are to be added one by one.
    #[inline]
    pub fn takes(&self, count: u64, base: u64) -> bool {
        count <= MANY
            && self.recorded.count + count <= MAX_FRAME_ENTRIES as u64
            && (self.recorded.used.is_empty() || self.recorded.base == base)
    }

    fn begin(&mut self, cycle: u64) {
        self.recorded.start = cycle;
        self.cycle = cycle;
    }

    /// Adds an execution that [`Self::takes`] accepts. `id` is the recorder's number of the block, one number for one block at a
    /// time; `count` what the block says of the values.
    #[inline]
    pub fn push(
        &mut self,
        id: u32,
        block: &Arc<BasicBlock>,
        cycle: u64,
        values: &[[u8; 8]],
        base: u64,
        count: u64,
    ) {
        if count == 0 {
            return;
        }
        if self.recorded.count == 0 {
            self.begin(cycle);
        }
        let number = match self.numbers.get(id as usize) {
            Some(&number)
                if self
                    .recorded
                    .used
                    .get((number as usize).wrapping_sub(1))
                    .is_some_and(|used| Arc::ptr_eq(used, block)) =>
            {
                number
            }
            _ => self.enter(id as usize, block, base),
        };
        let recorded = &mut self.recorded;
        let step = cycle.wrapping_sub(self.cycle);
        match u32::try_from(step) {
            Ok(short) if short != LONG_STEP => recorded.order.extend_from_slice(&[number, short]),
            _ => {
                let halves = [step as u32, (step >> 32) as u32];
                recorded.order.extend_from_slice(&[number, LONG_STEP, halves[0], halves[1]]);
            }
        }
        recorded.values.extend_from_slice(values.get(..usize::from(block.kept_values())).unwrap_or(values));
        recorded.count += count;
        self.cycle = cycle + u64::from(block.instructions());
    }

    /// The number of a block that appears for the first time.
    #[cold]
    fn enter(&mut self, id: usize, block: &Arc<BasicBlock>, base: u64) -> u32 {
        let recorded = &mut self.recorded;
        if recorded.used.is_empty() {
            recorded.base = base;
        }
        recorded.used.push(block.clone());
        let number = recorded.used.len() as u32;
        if self.numbers.len() <= id {
            self.numbers.resize(id + 1, 0);
        }
        self.numbers[id] = number;
        number
    }

    /// Adds an access by itself. The caller keeps the frame within [`crate::MAX_FRAME_ENTRIES`].
    pub fn push_single(&mut self, access: &Access) {
        if self.recorded.count == 0 {
            self.begin(access.cycle);
        }
        self.recorded.count += 1;
        self.recorded.order.push(0);
        self.recorded.singles.push(*access);
    }

    /// The fs base of the executions in it.
    pub fn base(&self) -> u64 {
        self.recorded.base
    }

    /// The cycle of the first access; all ones where there is none.
    pub fn first_cycle(&self) -> u64 {
        if self.is_empty() { u64::MAX } else { self.recorded.start }
    }

    /// Ends the frame and begins an empty one.
    pub fn finish(&mut self) -> CodedFrame {
        let recorded = std::mem::replace(&mut self.recorded, Recorded::spare());
        CodedFrame { recorded, coded: OnceLock::new() }
    }
}

/// Codes a frame.
struct Coder<'a> {
    recorded: &'a Recorded,
    model: Model,
    /// The smallest and largest of each value.
    spans: Vec<Interval>,
    columns: &'a mut [Vec<u8>; COLUMNS],
    bounds: Bounds,
}

impl<'a> Coder<'a> {
    fn new(recorded: &'a Recorded, columns: &'a mut [Vec<u8>; COLUMNS]) -> Self {
        columns.iter_mut().for_each(Vec::clear);
        let (model, spans) = (Model::new(recorded.start), Vec::new());
        Self { recorded, model, spans, columns, bounds: Bounds::NONE }
    }

    fn code(mut self) -> (Bounds, Vec<Part>) {
        let mut singles = self.recorded.singles.iter();
        let mut values = &self.recorded.values[..];
        let mut order = self.recorded.order.iter().copied();
        while let Some(number) = order.next() {
            if number == 0 {
                if let Some(access) = singles.next() {
                    self.push_single(access);
                }
                continue;
            }
            let Some(block) = self.recorded.used.get(number as usize - 1) else { break };
            let step = match order.next() {
                Some(LONG_STEP) => {
                    u64::from(order.next().unwrap_or(0)) | u64::from(order.next().unwrap_or(0)) << 32
                }
                step => step.unwrap_or(0).into(),
            };
            let (own, rest) = values.split_at(usize::from(block.kept_values()).min(values.len()));
            values = rest;
            self.push(number, block, step, own);
        }
        let bounds = self.bounds();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.columns.iter().map(Vec::len).sum::<usize>());
        bytes.extend(self.recorded.start.to_le_bytes());
        bytes.extend(self.recorded.base.to_le_bytes());
        for column in self.columns.iter() {
            bytes.extend((column.len() as u64).to_le_bytes());
        }
        for column in self.columns.iter() {
            bytes.extend_from_slice(column);
        }
        (bounds, vec![Part { kind: 0, coding: Coding::Zstd, bytes }])
    }

    #[inline]
    fn push(&mut self, number: u32, block: &Arc<BasicBlock>, step: u64, values: &[[u8; 8]]) {
        let previous = &self.model.states[self.model.previous];
        let (mut code, predicted) = if previous.next[0] == number {
            (0, previous.steps[0])
        } else if previous.next[1] == number {
            (SECOND, previous.steps[1])
        } else {
            (self.find(number, block), 0)
        };
        if step != predicted {
            code |= STEP;
            put_varint(&mut self.columns[3], step);
        }
        self.model.follow(code, number, step);
        self.model.cycle = self.model.cycle.wrapping_add(step) + u64::from(block.instructions());
        if self.put_values(number, values) {
            code |= VALUES;
        }
        if block.is_repeated() {
            self.span_repeated(block, &values_of(values));
        }
        self.columns[0].push(code);
    }

    /// A block that was not expected.
    #[cold]
    fn find(&mut self, number: u32, block: &Arc<BasicBlock>) -> u8 {
        if (number as usize) < self.model.states.len() {
            self.columns[2].extend_from_slice(&number.to_le_bytes());
            return KNOWN;
        }
        block.put_definition(&mut self.columns[1]);
        self.model.add(block.kept_values());
        self.spans.resize(self.model.values.len(), Interval::NONE);
        NEW
    }

    /// Writes the values; `false` where all were predicted.
    #[inline]
    fn put_values(&mut self, number: u32, values: &[[u8; 8]]) -> bool {
        let state = self.model.states[number as usize];
        let (start, count) = (state.values as usize, usize::from(state.count));
        let [.., all_codes, differences, _] = &mut *self.columns;
        let mut codes = [0; MAX_VALUES];
        let mut before = self.model.value;
        let mut all = 0;
        let known = &mut self.model.values[start..start + count];
        for (((known, span), word), code) in
            known.iter_mut().zip(&mut self.spans[start..]).zip(values).zip(&mut codes)
        {
            let value = u64::from_le_bytes(*word);
            span.add(value);
            let difference = value.wrapping_sub(known.last);
            let short = zigzag(difference);
            // Without branches: what a program does next can't be predicted here, or it would be predicted.
            let by = BY_1 + LENGTHS[(64 - (short | 1).leading_zeros()) as usize];
            let by = if value.wrapping_sub(before) == known.relation { RELATION } else { by };
            *code = if difference == known.stride { STRIDE } else { by };
            differences.extend_from_slice(&short.to_le_bytes());
            differences.truncate(differences.len() - 8 + BYTES[usize::from(*code)]);
            known.settle(value, before);
            before = value;
            all |= *code;
        }
        self.model.value = before;
        if all != 0 {
            all_codes.extend_from_slice(&codes[..count]);
        }
        all != 0
    }

    /// Enters the addresses of a string instruction.
    fn span_repeated(&mut self, block: &BasicBlock, values: &[u64]) {
        for access in block.accesses() {
            let Some(times) = access.times(values).filter(|&times| times > 0) else { continue };
            for time in [0, times - 1] {
                if let Some(addr) = access.repeated_address(values, self.recorded.base, time) {
                    self.bounds.addrs.add_bytes(VirtAddr(addr), access.size.into());
                }
            }
        }
    }

    fn push_single(&mut self, access: &Access) {
        access.bound(&mut self.bounds);
        self.columns[0].push(SINGLE);
        access.put(&mut self.columns[COLUMNS - 1]);
    }

    fn bounds(&self) -> Bounds {
        let mut bounds = self.bounds;
        let Recorded { used, start, .. } = self.recorded;
        if !used.is_empty() {
            bounds.cycles.add(*start);
            bounds.cycles.add(self.model.cycle.saturating_sub(1).max(*start));
        }
        for (block, state) in used.iter().zip(&self.model.states[1..]) {
            let spans = &self.spans[state.values as usize..];
            for access in block.accesses() {
                bounds.ips.add(block.addr().0.wrapping_add(access.offset.into()));
                bounds.kinds = bounds.kinds | KindSet::access(access.kind);
                if access.repeated.is_none() {
                    bounds.addrs.join(self.addresses(access, spans));
                }
            }
        }
        bounds
    }

    /// The bytes of an access whose values have these spans: all of memory where they say nothing.
    fn addresses(&self, access: &BlockAccess, spans: &[Interval]) -> Interval {
        let span = |value: u8| match spans.get(usize::from(value)) {
            Some(span) if value != NO_VALUE => Signed::of(*span),
            _ => Some(Signed { min: 0, max: 0 }),
        };
        let everything = Interval { min: 0, max: u64::MAX };
        let (Some(base), Some(index)) = (span(access.base), span(access.index)) else { return everything };
        let base_of_fs = if access.fs { i128::from(self.recorded.base) } else { 0 };
        let fixed = i128::from(access.displacement) + base_of_fs;
        let scale = i128::from(access.scale);
        let min = base.min + index.min * scale + fixed;
        let max = base.max + index.max * scale + fixed + i128::from(access.size.max(1)) - 1;
        let end = if access.short { i128::from(u32::MAX) } else { i128::from(u64::MAX) };
        match (u64::try_from(min), u64::try_from(max)) {
            (Ok(min), Ok(max)) if i128::from(max) <= end => Interval { min, max },
            // Adding wraps for some of the values.
            _ => everything,
        }
    }
}

/// The span of a value that may be a negative number.
#[derive(Clone, Copy, Debug)]
struct Signed {
    min: i128,
    max: i128,
}

impl Signed {
    /// `None` where some of the values may be negative and some are not.
    fn of(span: Interval) -> Option<Self> {
        let negative = |value: u64| value >> 63 != 0;
        (negative(span.min) == negative(span.max))
            .then_some(Self { min: i128::from(span.min as i64), max: i128::from(span.max as i64) })
    }
}

/// Accesses, by the blocks that made them.
#[derive(Debug)]
pub(crate) struct Blocks;

impl Encoder for Blocks {
    fn id(&self) -> u32 {
        BLOCKS
    }

    fn name(&self) -> &'static str {
        "blocks"
    }

    /// Entries have no blocks: each is an access by itself. Those that are no accesses stay as they are.
    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Part> {
        if !are_accesses(entry_type) {
            return others(entries);
        }
        let mut frame = BlockFrame::default();
        for entry in entries.chunks_exact(SINGLE_BYTES) {
            match Access::get(&mut Reader::new(entry)) {
                Some(access) => frame.push_single(&access),
                None => return others(entries),
            }
        }
        frame.finish().parts().to_vec()
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        if let [Part { kind: OTHERS, bytes, .. }] = encoded.parts {
            return raw_bytes(encoded, bytes, out);
        }
        let mut accesses = Vec::new();
        self.decode_accesses(encoded, None, &mut accesses)?;
        out.reserve(accesses.len() * SINGLE_BYTES);
        accesses.iter().for_each(|access| access.put(out));
        Ok(())
    }

    fn decode_accesses(
        &self,
        encoded: &Encoded<'_>,
        end: Option<u64>,
        out: &mut Vec<Access>,
    ) -> Result<(), Corrupt> {
        if !are_accesses(encoded.entry_type) {
            return Err(Corrupt("blocks make accesses without data, and no other entries"));
        }
        decode_all(encoded.count, encoded.parts, end.unwrap_or(u64::MAX), out)
    }
}

fn are_accesses(entry_type: &EntryType) -> bool {
    entry_type.guid == StreamKind::Accesses.guid() && entry_type.entry_bytes as usize == SINGLE_BYTES
}

const SHORT: Corrupt = Corrupt("a column is too short, or has a code that stands for nothing");
const LENGTH: Corrupt = Corrupt("the blocks do not make as many accesses as the header says");

/// Expands a frame; stops behind the first access whose cycle is not below `end`.
fn decode_all(count: usize, parts: &[Part], end: u64, out: &mut Vec<Access>) -> Result<(), Corrupt> {
    let mut reader = Reader::new(entries_part(parts)?);
    let (start, base) = (reader.u64().ok_or(SHORT)?, reader.u64().ok_or(SHORT)?);
    let mut lens = [0; COLUMNS];
    for len in &mut lens {
        *len = reader.u64().and_then(|len| usize::try_from(len).ok()).ok_or(SHORT)?;
    }
    let mut columns: [&[u8]; COLUMNS] = Default::default();
    for (column, len) in columns.iter_mut().zip(lens) {
        *column = reader.take(len).ok_or(SHORT)?;
    }
    if !reader.is_empty() {
        return Err(Corrupt("the columns do not have the length that the header says"));
    }
    let [codes, rest @ ..] = columns;
    let mut rest = rest.map(Reader::new);
    let mut model = Model::new(start);
    let mut blocks: Vec<BasicBlock> = Vec::new();
    let most = out.len() + count;
    let mut values = [0; MAX_VALUES];
    for &code in codes {
        if code == SINGLE {
            let entry = rest[COLUMNS - 2].take(SINGLE_BYTES).ok_or(SHORT)?;
            let access = Access::get(&mut Reader::new(entry));
            out.push(access.ok_or(Corrupt("an entry has a number that stands for nothing"))?);
        } else {
            let cycle = decode_one(&mut model, code, &mut rest, &mut blocks, &mut values).ok_or(SHORT)?;
            let block = &blocks[model.previous - 1];
            if block.count(&values) > (most - out.len()) as u64 {
                return Err(LENGTH);
            }
            block.expand(cycle, &values, base, out);
        }
        if out.len() > most {
            return Err(LENGTH);
        }
        if out.last().is_some_and(|access| access.cycle >= end) {
            return Ok(());
        }
    }
    if out.len() != most {
        return Err(LENGTH);
    }
    if rest.iter().all(Reader::is_empty) { Ok(()) } else { Err(Corrupt("a column is too long")) }
}

/// Moves the model on by one execution. Returns its cycle; the block is the model's previous one then.
#[inline]
fn decode_one(
    model: &mut Model,
    code: u8,
    columns: &mut [Reader<'_>; COLUMNS - 1],
    blocks: &mut Vec<BasicBlock>,
    values: &mut [u64; MAX_VALUES],
) -> Option<u64> {
    let [new, known, steps, codes, differences, _] = columns;
    if code & !(BLOCK_MASK | STEP | VALUES) != 0 {
        return None;
    }
    let previous = model.states.get(model.previous)?;
    let (number, predicted) = match code & BLOCK_MASK {
        0 => (previous.next[0], previous.steps[0]),
        SECOND => (previous.next[1], previous.steps[1]),
        KNOWN => (known.u32()?, 0),
        _ => {
            let block = read_block(new)?;
            let number = model.add(block.kept_values());
            blocks.push(block);
            (number, 0)
        }
    };
    let block = blocks.get((number as usize).checked_sub(1)?)?;
    let step = if code & STEP == 0 { predicted } else { steps.varint()? };
    model.follow(code, number, step);
    let cycle = model.cycle.checked_add(step)?;
    model.cycle = cycle.checked_add(block.instructions().into())?;
    let state = model.states.get(number as usize)?;
    let (start, count) = (state.values as usize, usize::from(state.count));
    let mut before = model.value;
    let known = model.values.get_mut(start..start + count)?;
    for (known, value) in known.iter_mut().zip(values) {
        let code = if code & VALUES == 0 { STRIDE } else { codes.u8()? };
        *value = match code {
            STRIDE => known.last.wrapping_add(known.stride),
            RELATION => before.wrapping_add(known.relation),
            by => {
                let mut difference = [0; 8];
                let bytes = *BYTES.get(usize::from(by))?;
                difference[..bytes].copy_from_slice(differences.take(bytes)?);
                known.last.wrapping_add(unzigzag(u64::from_le_bytes(difference)))
            }
        };
        known.settle(*value, before);
        before = *value;
    }
    model.value = before;
    Some(cycle)
}

fn read_block(reader: &mut Reader<'_>) -> Option<BasicBlock> {
    let (definition, len) = Definition::decode(reader.rest())?;
    reader.take(len)?;
    BasicBlock::new(&definition)
}

const _: () = assert!(MAX_ACCESSES <= MANY as usize);

#[cfg(test)]
mod tests {
    use blocks::{Chosen, Extent, MAX_DEFINITION_BYTES, Masked, RecordedValues, Repeated, encode_definition};
    use memref::AccessKind;
    use proptest::prelude::*;

    use super::*;

    fn block(
        id: u32,
        addr: u64,
        instructions: u16,
        values: u8,
        accesses: &[BlockAccess],
    ) -> Option<Arc<BasicBlock>> {
        block_of(id, addr, instructions, RecordedValues::plain(values), accesses)
    }

    fn block_of(
        id: u32,
        addr: u64,
        instructions: u16,
        values: RecordedValues,
        accesses: &[BlockAccess],
    ) -> Option<Arc<BasicBlock>> {
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(VirtAddr(addr), instructions);
        let len = encode_definition(id, extent, values, accesses, &mut bytes);
        let (definition, _) = Definition::decode(&bytes[..len]).expect("it was just encoded");
        BasicBlock::new(&definition).map(Arc::new)
    }

    fn words(values: &[u64]) -> Vec<[u8; 8]> {
        values.iter().map(|value| value.to_le_bytes()).collect()
    }

    fn bytes_of(accesses: &[Access]) -> Vec<u8> {
        let mut entries = Vec::new();
        accesses.iter().for_each(|access| access.put(&mut entries));
        entries
    }

    fn decoded(count: u64, parts: &[Part]) -> Result<Vec<Access>, Corrupt> {
        let entry_type = StreamKind::Accesses.entry_type();
        let (mut bytes, mut direct) = (Vec::new(), Vec::new());
        let encoded = Encoded { entry_type: &entry_type, count: count as usize, parts };
        Blocks.decode(&encoded, &mut bytes)?;
        Blocks.decode_accesses(&encoded, None, &mut direct)?;
        assert_eq!(bytes, bytes_of(&direct));
        Ok(direct)
    }

    const VALUES_OF_ALL: u8 = 4;

    prop_compose! {
        fn access()(
            instruction in 0u16..4, size in prop::sample::select(&[1u16, 2, 4, 8, 32]),
            kind in prop::sample::select(AccessKind::ALL), base in prop::sample::select(&[0u8, 1, 2, 3, NO_VALUE]),
            index in prop::sample::select(&[0u8, 1, 2, 3, NO_VALUE, NO_VALUE]), scale in prop::sample::select(&[1u8, 2, 4, 8]),
            fs: bool, short in prop::bool::weighted(0.1), masked in prop::option::weighted(0.2, 0u8..4), displacement in -500i64..500,
        ) -> BlockAccess {
            let masked = masked.map(|value| Masked { value, bytes: 1, chosen: Chosen::Each });
            BlockAccess {
                instruction, offset: instruction * 5, size, kind, base, index, scale, fs, short,
                repeated: None, masked, data: 0, displacement,
            }
        }
    }

    fn repeated() -> BlockAccess {
        BlockAccess {
            instruction: 4,
            size: 8,
            kind: AccessKind::Store,
            base: 0,
            index: 1,
            repeated: Some(Repeated { count_after: 2, place_after: 3 }),
            ..BlockAccess::NONE
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Block, values, instructions before.
        Execution(usize, [u64; 4], u64),
        Single(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let value = prop_oneof![0x1000u64..0x1100, 0x7fff_0000_0000u64..0x7fff_0000_1000, any::<u64>()];
        prop_oneof![
            6 => (0usize..6, prop::array::uniform4(value), 0u64..3)
                .prop_map(|(block, values, step)| Step::Execution(block, values, step)),
            1 => (any::<u64>(), 0u64..9).prop_map(|(addr, step)| Step::Single(addr, step)),
        ]
    }

    proptest! {
        #[test]
        fn executions_come_back_as_accesses(
            parts in prop::collection::vec(prop::collection::vec(access(), 0..5), 5), steps in prop::collection::vec(step(), 1..200),
            base in prop_oneof![Just(0u64), 0x7000_0000_0000u64..0x7000_0000_1000, any::<u64>()], frames in 1usize..3,
        ) {
            let mut blocks: Vec<_> = parts.iter().zip(0..)
                .map(|(accesses, id)| block(id, 0x40_0000 + u64::from(id) * 64, 5, VALUES_OF_ALL, accesses).unwrap())
                .collect();
            blocks.push(block(9, 0x50_0000, 5, VALUES_OF_ALL, &[parts[0].as_slice(), &[repeated()]].concat()).unwrap());
            let mut frame = BlockFrame::default();
            for _ in 0..frames {
                let (mut cycle, mut expected) = (77, Vec::new());
                for step in &steps {
                    match *step {
                        Step::Execution(number, mut values, before) => {
                            if number == 5 {
                                // It went down by not too many.
                                values[2] = values[1].wrapping_sub(values[1] % 50);
                            }
                            cycle += before;
                            let block = &blocks[number];
                            let count = block.count(&values);
                            prop_assert!(frame.takes(count, base));
                            frame.push(number as u32 * 3, block, cycle, &words(&values), base, count);
                            let len = expected.len();
                            block.expand(cycle, &values, base, &mut expected);
                            prop_assert_eq!((expected.len() - len) as u64, count);
                            let mut pieces = Vec::new();
                            block.expand_in_pieces(cycle, &words(&values), base, |some| pieces.extend_from_slice(some));
                            prop_assert_eq!(&pieces, &expected[len..]);
                            cycle += u64::from(block.instructions());
                        }
                        Step::Single(addr, before) => {
                            cycle += before;
                            let access = Access {
                                cycle, ip: VirtAddr(1), addr: VirtAddr(addr), size: 3, kind: AccessKind::Load,
                            };
                            frame.push_single(&access);
                            expected.push(access);
                        }
                    }
                }
                prop_assert_eq!(frame.len(), expected.len() as u64);
                let coded = frame.finish();
                prop_assert!(frame.is_empty());
                prop_assert!(coded.bounds().hold(&Bounds::of(&StreamKind::Accesses.entry_type(), &bytes_of(&expected))));
                prop_assert_eq!(decoded(coded.count(), coded.parts()).unwrap(), expected);
            }
        }

        #[test]
        fn entries_are_kept_one_by_one(accesses in prop::collection::vec(
            (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), prop::sample::select(AccessKind::ALL)).prop_map(
                |(cycle, ip, addr, size, kind)| Access { cycle, ip: VirtAddr(ip), addr: VirtAddr(addr), size, kind }), 1..50,
        )) {
            let entry_type = StreamKind::Accesses.entry_type();
            let parts = Blocks.encode(&entry_type, &bytes_of(&accesses));
            prop_assert_eq!(decoded(accesses.len() as u64, &parts).unwrap(), accesses);
        }

        #[test]
        fn damage_is_an_error_and_no_panic(at: prop::sample::Index, byte: u8, count in 0usize..1000) {
            let mut frame = BlockFrame::default();
            let block = block(0, 64, 5, VALUES_OF_ALL, &[BlockAccess::NONE, repeated()]).unwrap();
            for n in 0..20u64 {
                let values = [n * n, 9, 4, n];
                frame.push(1, &block, n * 10, &words(&values), 0, block.count(&values));
            }
            let mut parts = frame.finish().parts().to_vec();
            let bytes = &mut parts[0].bytes;
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut out = Vec::new();
            let encoded =
                Encoded { entry_type: &StreamKind::Accesses.entry_type(), count, parts: &parts };
            let result = Blocks.decode_accesses(&encoded, None, &mut out);
            prop_assert!(result.is_err() || out.len() == count);
        }
    }

    /// Found by the fuzz target `trace_encoders`.
    #[test]
    fn words_that_are_no_accesses_come_back() {
        let (entry_type, entries) = (EntryType::flow(), [7; 16]);
        let parts = Blocks.encode(&entry_type, &entries);
        let encoded = Encoded { entry_type: &entry_type, count: 2, parts: &parts };
        let mut out = Vec::new();
        assert_eq!(Blocks.decode(&encoded, &mut out), Ok(()));
        assert_eq!(out, entries);
    }

    #[test]
    fn what_repeats_itself_takes_a_byte() {
        let accesses = [
            BlockAccess { base: 0, size: 8, ..BlockAccess::NONE },
            BlockAccess { base: 1, size: 8, kind: AccessKind::Store, ..BlockAccess::NONE },
        ];
        let block = block(0, 0x1000, 7, 2, &accesses).unwrap();
        let mut frame = BlockFrame::default();
        for n in 0..10_000 {
            frame.push(3, &block, n * 9, &words(&[0x5000 + 8 * n, 0x9000]), 0, 2);
        }
        let coded = frame.finish();
        assert_eq!(coded.count(), 20_000);
        let bytes = coded.parts()[0].bytes.len();
        assert!(bytes < 10_000 + 300, "{bytes}");
    }

    #[test]
    fn orders_are_told_and_not_kept() {
        let access = BlockAccess { base: 0, size: 8, kind: AccessKind::Modify, ..BlockAccess::NONE };
        let ordered = |count| RecordedValues { count, ordered: true };
        let block = block_of(0, 0x1000, 1, ordered(3), &[access]).unwrap();
        assert_eq!(block.values(), 3);
        assert_eq!(block.orders(&words(&[0x5000, 41, 44])), Some([41, 44]));
        assert_eq!(block.orders(&words(&[0x5000, 0, 0])), None, "the thread was alone");
        assert_eq!(block.orders(&words(&[0x5000, 41])), None);
        let (mut with, mut without) = (BlockFrame::default(), BlockFrame::default());
        let plain = block_of(0, 0x1000, 1, RecordedValues::plain(1), &[access]).unwrap();
        for n in 0..100 {
            with.push(0, &block, n, &words(&[0x5000, 41 + 2 * n, 50 + 3 * n]), 0, 1);
            without.push(0, &plain, n, &words(&[0x5000]), 0, 1);
        }
        assert_eq!(with.finish().parts(), without.finish().parts());
        assert_eq!(block_of(0, 0, 1, ordered(1), &[]), None);
    }

    #[test]
    fn too_many_for_a_frame_are_not_taken() {
        let frame = BlockFrame::default();
        assert!(frame.takes(MANY, 5));
        assert!(!frame.takes(MANY + 1, 5));
    }
}
