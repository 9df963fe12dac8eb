//! The bounds of a frame's accesses without expanding it: computed from the smallest and largest of each value.
//!
//! A value that is as predicted advances by its stride, so for a *run* of such executions only the
//! ends are examined: the first one when the run begins, the last one when it ends ([`end_runs`]).

use blocks::{BasicBlock, BlockAccess, NO_VALUE, SharedBlock};
use memref::Access;

use super::model::{BlockModel, ValueHistory};
use crate::entry::StreamEntry;
use crate::{Bounds, Interval, KindSet};

const EVERYTHING: Interval = Interval { min: 0, max: u64::MAX };

/// The extremes of the values of a frame, and the bounds of what does not follow from them.
#[derive(Debug)]
pub(super) struct ValueSpans {
    /// The smallest and largest of each value of the model.
    pub(super) values: Vec<Interval>,
    bounds: Bounds,
    /// Bytes of string instructions that are addressed from the thread's fs base, relative to it: it may not be known before the end.
    from_base: Interval,
}

impl Default for ValueSpans {
    fn default() -> Self {
        Self { values: Vec::new(), bounds: Bounds::NONE, from_base: Interval::NONE }
    }
}

impl ValueSpans {
    /// Begins anew, with the memory that it has.
    pub(super) fn begin(&mut self) {
        self.values.clear();
        (self.bounds, self.from_base) = (Bounds::NONE, Interval::NONE);
    }

    /// All cycles are that much later.
    pub(super) fn delay(&mut self, cycles: u64) {
        let own = &mut self.bounds.cycles;
        if !own.is_none() {
            *own = Interval { min: own.min.wrapping_add(cycles), max: own.max.wrapping_add(cycles) };
        }
    }

    /// Enters an access by itself.
    pub(super) fn add_single(&mut self, access: &Access) {
        access.bound(&mut self.bounds);
    }

    /// Enters the addresses of a string instruction, which do not follow from the extremes of its values.
    pub(super) fn add_repeated(&mut self, block: &BasicBlock, values: &[u64]) {
        for access in block.accesses() {
            let spanned = if access.fs { &mut self.from_base } else { &mut self.bounds.addrs };
            let Some(times) = access.times(values).filter(|&times| times > 0) else { continue };
            for time in [0, times - 1] {
                if let Some(addr) = access.repeated_address(values, 0, time) {
                    spanned.add_bytes(addr, access.size.into());
                }
            }
        }
    }

    /// The bounds of a frame that begins at that cycle and has these blocks, whose executions were all entered, in the end that
    /// the model has.
    pub(super) fn bounds(
        &mut self,
        used: &[SharedBlock],
        start: u64,
        fs_base: u64,
        model: &BlockModel,
    ) -> Bounds {
        let mut bounds = self.bounds;
        if !self.from_base.is_none() {
            let ends = [self.from_base.min, self.from_base.max].map(|addr| addr.checked_add(fs_base));
            bounds.addrs.join(match ends {
                [Some(min), Some(max)] => Interval { min, max },
                // Adding wraps for some of the addresses.
                _ => EVERYTHING,
            });
        }
        if !used.is_empty() {
            bounds.cycles.add(start);
            bounds.cycles.add(model.cycle.saturating_sub(1).max(start));
        }
        for (block, history) in used.iter().zip(&model.blocks[1..]) {
            let (start, count) = (history.values as usize, usize::from(history.count));
            let values = &mut self.values[start..start + count];
            end_runs(values, &model.values[start..start + count], history.times - history.looked_at);
            for access in block.accesses() {
                bounds.ips.add(block.ip(access).0);
                bounds.kinds = bounds.kinds | KindSet::access(access.kind);
                if access.repeated.is_none() {
                    bounds.addrs.join(addresses(access, values, fs_base));
                }
            }
        }
        bounds
    }
}

/// Enters the values of a block whose last `executions` were as predicted.
#[inline]
pub(super) fn end_runs(spans: &mut [Interval], values: &[ValueHistory], executions: u32) {
    for (span, value) in spans.iter_mut().zip(values) {
        span.join(run_span(value, executions));
    }
}

/// What a value spanned that went on by its stride so many times: everything where it went over the end of numbers on its way.
#[inline]
fn run_span(ValueHistory { last, stride }: &ValueHistory, times: u32) -> Interval {
    let first = i128::from(*last) - i128::from(*stride as i64) * i128::from(times);
    match u64::try_from(first) {
        Ok(first) => Interval { min: first.min(*last), max: first.max(*last) },
        Err(_) => EVERYTHING,
    }
}

/// The bytes of an access whose values have these spans: all of memory where they say nothing.
fn addresses(access: &BlockAccess, values: &[Interval], fs_base: u64) -> Interval {
    let span = |value: u8| match values.get(usize::from(value)) {
        Some(span) if value != NO_VALUE => SignedSpan::of(*span),
        _ => Some(SignedSpan { min: 0, max: 0 }),
    };
    let (Some(base), Some(index)) = (span(access.base), span(access.index)) else { return EVERYTHING };
    let base_of_fs = if access.fs { i128::from(fs_base) } else { 0 };
    let fixed = i128::from(access.displacement) + base_of_fs;
    let scale = i128::from(access.scale);
    let min = base.min + index.min * scale + fixed;
    let max = base.max + index.max * scale + fixed + i128::from(access.size.max(1)) - 1;
    let end = if access.short { i128::from(u32::MAX) } else { i128::from(u64::MAX) };
    match (u64::try_from(min), u64::try_from(max)) {
        (Ok(min), Ok(max)) if i128::from(max) <= end => Interval { min, max },
        // Adding wraps for some of the values.
        _ => EVERYTHING,
    }
}

/// The span of a value that may be a negative number.
#[derive(Clone, Copy, Debug)]
struct SignedSpan {
    min: i128,
    max: i128,
}

impl SignedSpan {
    /// `None` where some of the values may be negative and some are not.
    fn of(span: Interval) -> Option<Self> {
        let negative = |value: u64| value >> 63 != 0;
        (negative(span.min) == negative(span.max))
            .then_some(Self { min: i128::from(span.min as i64), max: i128::from(span.max as i64) })
    }
}
