//! Counts the accesses of a frame by instruction, from how often each block was executed. Where no block's accesses
//! depend on register values, as is the case except for string instructions and masks, values are not even read.

use blocks::{MAX_VALUES, SharedBlock};
use memref::Access;

use super::codes::{BLOCK_MASK, KNOWN, NEW, NUMBERS, SECOND, SINGLE, SINGLE_BYTES, SINGLES, STEP, VALUES};
use super::decoding::{FrameColumns, LENGTH, SHORT, decode_one};
use super::model::BlockModel;
use crate::InstructionTable;
use crate::bytes::ByteReader;
use crate::encoder::codec::{Corrupt, Encoded};
use crate::entry::StreamEntry;

/// Counts the accesses of a frame.
pub(super) fn count_all(encoded: &Encoded<'_>, out: &mut InstructionTable) -> Result<(), Corrupt> {
    let (columns, count) = (FrameColumns::of(encoded)?, encoded.count);
    let blocks = columns.blocks(count)?;
    let mut made = 0;
    let executions = if blocks.iter().all(SharedBlock::is_fixed) {
        walk(&columns, blocks.len())?
    } else {
        walk_with_values(&columns, &blocks, count as u64, &mut made, out)?
    };
    for (block, &times) in blocks.iter().zip(&executions[1..]) {
        made += times.saturating_mul(block.accesses().len() as u64);
        for access in block.accesses() {
            let ip = block.ip(access);
            out.add(ip, access.kind, access.size.into(), times);
        }
    }
    let mut singles = ByteReader::new(columns.columns[SINGLES]);
    while !singles.is_empty() {
        let entry = singles.take(SINGLE_BYTES).ok_or(SHORT)?;
        let access = Access::get(&mut ByteReader::new(entry));
        out.add_all(&[access.ok_or(Corrupt("an entry has a number that stands for nothing"))?]);
        made += 1;
    }
    if made == count as u64 { Ok(()) } else { Err(LENGTH) }
}

/// How often each block was executed, by its number; from codes alone.
fn walk(columns: &FrameColumns<'_>, blocks: usize) -> Result<Vec<u64>, Corrupt> {
    let mut next = vec![[0u32; 2]; blocks + 1];
    let mut executions = vec![0; blocks + 1];
    let mut known = ByteReader::new(columns.columns[NUMBERS]);
    let (mut previous, mut fresh) = (0usize, 0u32);
    for &code in columns.codes() {
        if code == SINGLE {
            continue;
        }
        if code & !(BLOCK_MASK | STEP | VALUES) != 0 {
            return Err(SHORT);
        }
        let successors = &mut next[previous];
        let number = match code & BLOCK_MASK {
            0 => successors[0],
            SECOND => successors[1],
            KNOWN => known.u32().ok_or(SHORT)?,
            NEW.. => {
                fresh += 1;
                fresh
            }
        };
        if code & BLOCK_MASK != 0 {
            *successors = [number, successors[0]];
        }
        previous = number as usize;
        match executions.get_mut(previous) {
            Some(times) if number != 0 && number <= fresh => *times += 1,
            _ => return Err(SHORT),
        }
    }
    Ok(executions)
}

/// As [`walk`], for frames with blocks whose accesses depend on values: these are expanded and counted here.
fn walk_with_values(
    columns: &FrameColumns<'_>,
    blocks: &[SharedBlock],
    most: u64,
    made: &mut u64,
    out: &mut InstructionTable,
) -> Result<Vec<u64>, Corrupt> {
    let (mut rest, mut model) = (columns.readers(), BlockModel::new(columns.start));
    let mut executions = vec![0; blocks.len() + 1];
    let mut values = [0; MAX_VALUES];
    let mut accesses = Vec::new();
    for &code in columns.codes().iter().filter(|&&code| code != SINGLE) {
        let cycle = decode_one(&mut model, code, &mut rest, blocks, &mut values).ok_or(SHORT)?;
        let block = blocks.get(model.previous - 1).ok_or(SHORT)?;
        if block.is_fixed() {
            executions[model.previous] += 1;
            continue;
        }
        let count = block.count(&values);
        if count > most - *made {
            return Err(LENGTH);
        }
        *made += count;
        accesses.clear();
        block.expand(cycle, &values, columns.base, &mut accesses);
        out.add_all(&accesses);
    }
    Ok(executions)
}
