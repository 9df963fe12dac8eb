//! From executions to the bytes of a frame: walks the model, and writes what it did not predict.

use std::sync::Arc;

use blocks::{BasicBlock, MAX_VALUES, values_of};
use memref::Access;

use super::codes::{
    BY_1, BYTES, CODES, COLUMNS, HEAD_BYTES, KNOWN, LENGTHS, NEW, NEW_BLOCKS, NUMBERS, RELATION, SECOND,
    SINGLE, SINGLES, STEP, STEPS, STRIDE, VALUES,
};
use super::executions::{Executions, LONG_STEP};
use super::model::BlockModel;
use super::spans::ValueSpans;
use crate::bytes::{put_varint, zigzag};
use crate::encoder::attribute::{Attribute, Coding};
use crate::entry::StreamEntry;
use crate::{Bounds, Interval};

/// Codes a frame.
pub(super) struct FrameCoder<'a> {
    executions: &'a Executions,
    model: BlockModel,
    spans: ValueSpans,
    columns: &'a mut [Vec<u8>; COLUMNS],
}

impl<'a> FrameCoder<'a> {
    pub(super) fn new(executions: &'a Executions, columns: &'a mut [Vec<u8>; COLUMNS]) -> Self {
        columns.iter_mut().for_each(Vec::clear);
        let (model, spans) = (BlockModel::new(executions.start), ValueSpans::new(executions.base));
        Self { executions, model, spans, columns }
    }

    pub(super) fn code(mut self) -> (Bounds, Vec<Attribute>) {
        let mut singles = self.executions.singles.iter();
        let mut values = &self.executions.values[..];
        let mut order = self.executions.order.iter().copied();
        while let Some(number) = order.next() {
            if number == 0 {
                if let Some(access) = singles.next() {
                    self.push_single(access);
                }
                continue;
            }
            let Some(block) = self.executions.used.get(number as usize - 1) else { break };
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
        let bounds = self.spans.bounds(self.executions, &self.model);
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.columns.iter().map(Vec::len).sum::<usize>());
        bytes.extend(self.executions.start.to_le_bytes());
        bytes.extend(self.executions.base.to_le_bytes());
        for column in self.columns.iter() {
            bytes.extend((column.len() as u64).to_le_bytes());
        }
        for column in self.columns.iter() {
            bytes.extend_from_slice(column);
        }
        (bounds, vec![Attribute { kind: 0, coding: Coding::Zstd, bytes }])
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
            put_varint(&mut self.columns[STEPS], step);
        }
        self.model.follow(code, number, step);
        self.model.cycle = self.model.cycle.wrapping_add(step) + u64::from(block.instructions());
        if self.put_values(number, values) {
            code |= VALUES;
        }
        if block.is_repeated() {
            self.spans.add_repeated(block, &values_of(values));
        }
        self.columns[CODES].push(code);
    }

    /// A block that was not expected.
    #[cold]
    fn find(&mut self, number: u32, block: &Arc<BasicBlock>) -> u8 {
        if (number as usize) < self.model.states.len() {
            self.columns[NUMBERS].extend_from_slice(&number.to_le_bytes());
            return KNOWN;
        }
        block.put_definition(&mut self.columns[NEW_BLOCKS]);
        self.model.add(block.kept_values());
        self.spans.values.resize(self.model.values.len(), Interval::NONE);
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
            known.iter_mut().zip(&mut self.spans.values[start..]).zip(values).zip(&mut codes)
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

    fn push_single(&mut self, access: &Access) {
        self.spans.add_single(access);
        self.columns[CODES].push(SINGLE);
        access.put(&mut self.columns[SINGLES]);
    }
}
