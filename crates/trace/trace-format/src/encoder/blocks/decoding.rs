//! Decodes the bytes of a frame to its accesses: walks the model as the encoder did, and expands each execution.

use std::borrow::Cow;

use blocks::{BasicBlock, Definition, MAX_VALUES, SharedBlock};
use memref::Access;

use super::codes::{
    BLOCK_MASK, BYTES, CODES, COLUMNS, KNOWN, NEW_BLOCKS, PAIR_MASK, PAIR_SHIFT, PAIRED, RELATION, SECOND,
    SINGLE, SINGLE_BYTES, STEP, STRIDE, UNPAIRED, VALUES,
};
use super::model::BlockModel;
use super::names::NAMES;
use crate::ExecutedFrame;
use crate::bytes::{ByteReader, unzigzag};
use crate::encoder::attribute::Attribute;
use crate::encoder::codec::{Corrupt, Encoded};
use crate::entry::StreamEntry;

pub(super) const SHORT: Corrupt = Corrupt("a column is too short, or has a code that stands for nothing");
const PARTS: Corrupt = Corrupt("the frame does not consist of columns, and the names of its blocks");
pub(super) const LONG: Corrupt = Corrupt("a column is too long");
pub(super) const LENGTH: Corrupt = Corrupt("the blocks do not make as many accesses as the header says");

/// A frame's columns, and what stands before them.
pub(super) struct FrameColumns<'a> {
    /// The cycle at which the frame begins.
    pub(super) start: u64,
    /// The thread's fs base.
    pub(super) base: u64,
    /// The columns, by the numbers of `codes`.
    pub(super) columns: [&'a [u8]; COLUMNS],
    /// Its blocks, in the order in which they appear, where it does not define them itself.
    named: Option<&'a [SharedBlock]>,
    /// Whether two codes of values are in a byte.
    are_paired: bool,
}

/// The columns that are read while the codes are walked.
pub(super) struct ColumnReaders<'a> {
    numbers: ByteReader<'a>,
    steps: ByteReader<'a>,
    value_codes: ByteReader<'a>,
    are_paired: bool,
    differences: ByteReader<'a>,
    singles: ByteReader<'a>,
}

impl ColumnReaders<'_> {
    /// The next single access.
    fn single(&mut self) -> Result<Access, Corrupt> {
        let entry = self.singles.take(SINGLE_BYTES).ok_or(SHORT)?;
        let access = Access::get(&mut ByteReader::new(entry));
        access.ok_or(Corrupt("an entry has a number that stands for nothing"))
    }

    fn are_empty(&self) -> bool {
        let Self { numbers, steps, value_codes, are_paired: _, differences, singles } = self;
        [numbers, steps, value_codes, differences, singles].into_iter().all(ByteReader::is_empty)
    }
}

impl<'a> FrameColumns<'a> {
    pub(super) fn of(encoded: &Encoded<'a>) -> Result<Self, Corrupt> {
        let (part, named) = match encoded.parts {
            [columns] => (columns, None),
            [columns, Attribute { kind: NAMES, .. }] => (columns, Some(encoded.blocks)),
            _ => return Err(PARTS),
        };
        let are_paired = match part.kind {
            UNPAIRED => false,
            PAIRED => true,
            _ => return Err(PARTS),
        };
        let mut reader = ByteReader::new(&part.bytes);
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
        if named.is_some() && !columns[NEW_BLOCKS].is_empty() {
            return Err(Corrupt("it names its blocks and defines them as well"));
        }
        Ok(Self { start, base, columns, named, are_paired })
    }

    /// Its blocks, in the order in which they appear: `most` at most, since each makes an access.
    pub(super) fn blocks(&self, most: usize) -> Result<Cow<'a, [SharedBlock]>, Corrupt> {
        if let Some(named) = self.named {
            return Ok(named.into());
        }
        let mut blocks = Vec::new();
        let mut definitions = ByteReader::new(self.columns[NEW_BLOCKS]);
        while !definitions.is_empty() {
            let (definition, len) = Definition::decode(definitions.rest()).ok_or(SHORT)?;
            if blocks.len() == most {
                return Err(LENGTH);
            }
            definitions.take(len);
            blocks.push(BasicBlock::new(&definition).ok_or(SHORT)?.into());
        }
        Ok(blocks.into())
    }

    /// A byte an execution or single access.
    pub(super) fn codes(&self) -> &'a [u8] {
        self.columns[CODES]
    }

    /// The columns beside codes and definitions, to be read.
    pub(super) fn readers(&self) -> ColumnReaders<'a> {
        let [_, _, rest @ ..] = self.columns;
        let [numbers, steps, value_codes, differences, singles] = rest.map(ByteReader::new);
        ColumnReaders { numbers, steps, value_codes, are_paired: self.are_paired, differences, singles }
    }
}

/// Accesses of a piece: what a core keeps near while it looks at them.
const PIECE: usize = 1 << 12;

/// Expands a frame; stops after the first access whose cycle is not below `end`.
pub(super) fn decode_all(encoded: &Encoded<'_>, end: u64, out: &mut Vec<Access>) -> Result<(), Corrupt> {
    expand(encoded, end, out, usize::MAX, |_| ())
}

/// Expands a frame, some accesses at a time.
pub(super) fn decode_pieces(encoded: &Encoded<'_>, act: &mut dyn FnMut(&[Access])) -> Result<(), Corrupt> {
    let mut piece = Vec::with_capacity(2 * PIECE);
    expand(encoded, u64::MAX, &mut piece, PIECE, &mut *act)?;
    act(&piece);
    Ok(())
}

/// Expands a frame to `out`, which is given to `full` and emptied whenever it has `piece` accesses.
#[inline]
fn expand(
    encoded: &Encoded<'_>,
    end: u64,
    out: &mut Vec<Access>,
    piece: usize,
    mut full: impl FnMut(&[Access]),
) -> Result<(), Corrupt> {
    let columns = FrameColumns::of(encoded)?;
    let (base, mut rest, blocks) = (columns.base, columns.readers(), columns.blocks(encoded.count)?);
    let mut model = BlockModel::new(columns.start);
    let mut most = out.len() + encoded.count;
    let mut values = [0; MAX_VALUES];
    for &code in columns.codes() {
        if code == SINGLE {
            out.push(rest.single()?);
        } else {
            let cycle = decode_one(&mut model, code, &mut rest, &blocks, &mut values).ok_or(SHORT)?;
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
        if out.len() >= piece {
            full(out);
            most -= out.len();
            out.clear();
        }
    }
    if out.len() != most {
        return Err(LENGTH);
    }
    at_end(&model, &blocks, &rest)
}

/// Whether all that the columns have was used.
fn at_end(model: &BlockModel, blocks: &[SharedBlock], rest: &ColumnReaders<'_>) -> Result<(), Corrupt> {
    let whole = model.blocks.len() == blocks.len() + 1 && rest.are_empty();
    if whole { Ok(()) } else { Err(LONG) }
}

/// Values of a frame that are kept for each access that it can have: executions record fewer, but for vectors under masks that are
/// mostly off.
const MOST_VALUES: usize = 8;

/// Lists the executions of a frame, and makes no access.
pub(super) fn decode_executions(encoded: &Encoded<'_>, out: &mut ExecutedFrame) -> Result<(), Corrupt> {
    let columns = FrameColumns::of(encoded)?;
    let (mut rest, blocks) = (columns.readers(), columns.blocks(encoded.count)?);
    let mut model = BlockModel::new(columns.start);
    let mut values = [0; MAX_VALUES];
    let mut left = encoded.count as u64;
    for &code in columns.codes() {
        if code == SINGLE {
            out.push_single(rest.single()?);
            left = left.checked_sub(1).ok_or(LENGTH)?;
            continue;
        }
        let cycle = decode_one(&mut model, code, &mut rest, &blocks, &mut values).ok_or(SHORT)?;
        let block = &blocks[model.previous - 1];
        let made = block.count(&values);
        left = left.checked_sub(made).ok_or(LENGTH)?;
        let values = values.get(..block.kept_values().into()).ok_or(SHORT)?;
        if made > 0 {
            out.push(model.previous as u32 - 1, cycle, values, made);
        }
        if out.values() > MOST_VALUES.saturating_mul(encoded.count) {
            // The accesses take less memory.
            out.begin();
            return decode_pieces(encoded, &mut |accesses| {
                accesses.iter().for_each(|access| out.push_single(*access));
            });
        }
    }
    if left != 0 {
        return Err(LENGTH);
    }
    let ended = at_end(&model, &blocks, &rest);
    out.end(blocks.into_owned(), columns.base);
    ended
}

/// Moves the model on by one execution. Returns its cycle; the block is the model's previous one then.
#[inline]
pub(super) fn decode_one(
    model: &mut BlockModel,
    code: u8,
    columns: &mut ColumnReaders<'_>,
    blocks: &[SharedBlock],
    values: &mut [u64; MAX_VALUES],
) -> Option<u64> {
    let ColumnReaders { numbers, steps, value_codes, are_paired, differences, .. } = columns;
    if code & !(BLOCK_MASK | STEP | VALUES) != 0 {
        return None;
    }
    let previous = model.blocks.get(model.previous)?;
    let (number, predicted) = match code & BLOCK_MASK {
        0 => (previous.next[0], previous.steps[0]),
        SECOND => (previous.next[1], previous.steps[1]),
        KNOWN => (numbers.u32()?, 0),
        _ => {
            // Numbers are given out from 1 on.
            let number = model.blocks.len() as u32;
            (model.add(number, blocks.get(number as usize - 1)?), 0)
        }
    };
    let step = if code & STEP == 0 { predicted } else { steps.varint()? };
    model.follow(code, number, step);
    let cycle = model.cycle.checked_add(step)?;
    if number == 0 {
        return None;
    }
    let history = model.blocks.get_mut(number as usize)?;
    model.cycle = cycle.checked_add(history.instructions.into())?;
    let (start, count) = (history.values as usize, usize::from(history.count));
    let known = model.values.get_mut(start..start + count)?;
    let mut last_before = std::mem::replace(&mut history.before, model.value);
    if code & VALUES == 0 {
        for (known, value) in known.iter_mut().zip(values) {
            *value = known.next();
            known.last = *value;
            model.value = *value;
        }
        return Some(cycle);
    }
    let mut before = model.value;
    let mut second = None;
    for (known, value) in known.iter_mut().zip(values) {
        let code = match second.take() {
            Some(second) => second,
            None if *are_paired => {
                let both = value_codes.u8()?;
                second = Some(both >> PAIR_SHIFT);
                both & PAIR_MASK
            }
            None => value_codes.u8()?,
        };
        let last = known.last;
        *value = match code {
            STRIDE => known.next(),
            RELATION => before.wrapping_add(last.wrapping_sub(last_before)),
            by => {
                let mut difference = [0; 8];
                let bytes = *BYTES.get(usize::from(by))?;
                difference[..bytes].copy_from_slice(differences.take(bytes)?);
                last.wrapping_add(unzigzag(u64::from_le_bytes(difference)))
            }
        };
        known.settle(*value);
        (before, last_before) = (*value, last);
    }
    model.value = before;
    Some(cycle)
}
