//! Binary range coding with adaptive probabilities, and the byte columns beside it.
//!
//! The model asks its questions through [`Coder`], whose two halves answer them from the current entry or
//! from the frame. Because both use the same code path, encoder and decoder are identical by construction.

use crate::encoder::{
    attribute::{Attribute, Coding},
    codec::Corrupt,
};

/// Attribute type of the answers.
const ANSWERS: u16 = 32;
/// That of the first column.
pub(super) const FIRST_COLUMN: u16 = ANSWERS + 1;

/// The probability that a question is answered with yes, learned from the answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probability {
    /// In 1/65,536.
    yes: u16,
    /// Answers so far, up to the limit: the first ones count more.
    count: u16,
}

/// `1 / (n + 1.5)` in 1/65,536.
const RATES: [u16; 256] = {
    let mut rates = [0; 256];
    let mut n = 0;
    while n < rates.len() {
        rates[n] = (131_072 / (2 * n as u32 + 3)) as u16;
        n += 1;
    }
    rates
};

impl Probability {
    pub(super) const EVEN: Self = Self { yes: 1 << 15, count: 0 };

    #[inline(always)]
    fn update<const LIMIT: u16>(&mut self, yes: bool) {
        let rate = u32::from(RATES[usize::from(self.count & 0xff)]);
        let p = u32::from(self.yes);
        let target = if yes { 65_535 - 16 } else { 16 };
        self.yes = if target > p {
            (p + (((target - p) * rate) >> 16)) as u16
        } else {
            (p - (((p - target) * rate) >> 16)) as u16
        };
        self.count += u16::from(self.count < LIMIT);
    }
}

/// The answers that a steady question remembers.
const STEADY: u16 = 120;

/// Asks the model's questions of the entry at hand, or of the frame.
pub(super) trait Coder {
    /// Whether the answers are known and written down, or read.
    const ENCODES: bool;

    /// A yes or no.
    fn bit(&mut self, p: &mut Probability, yes: bool) -> bool;

    /// A byte of column `column`. The column stands for its context, except that a coder may use `context` as well.
    fn byte(&mut self, column: usize, context: u32, byte: u8) -> u8;

    /// A number below `p.len()`, which is a power of two.
    #[inline]
    fn symbol(&mut self, p: &mut [Probability], symbol: usize) -> usize {
        let mut node = 1;
        let mut rest = p.len() >> 1;
        while rest > 0 {
            let yes = self.bit(&mut p[node], symbol & rest != 0);
            node = node << 1 | usize::from(yes);
            rest >>= 1;
        }
        node - p.len()
    }
}

/// Probabilities of literal bytes where the range coder takes them too.
const BYTE_CONTEXTS: usize = 1 << 14;

/// Chooses the node of a literal byte.
struct LiteralContexts(Vec<Probability>);

impl LiteralContexts {
    fn new(archive: bool) -> Self {
        Self(if archive { vec![Probability::EVEN; BYTE_CONTEXTS * 256] } else { Vec::new() })
    }

    fn nodes(&mut self, column: usize, context: u32) -> Option<&mut [Probability]> {
        let hash = (context.wrapping_mul(24).wrapping_add(column as u32)).wrapping_mul(0x9e37_79b1);
        let at = (hash >> (32 - BYTE_CONTEXTS.trailing_zeros())) as usize * 256;
        self.0.get_mut(at..at + 256)
    }
}

/// Writes answers down.
pub(super) struct RangeEncoder<const COLUMNS: usize> {
    low: u64,
    range: u64,
    out: Vec<u8>,
    columns: [Vec<u8>; COLUMNS],
    bytes: LiteralContexts,
}

impl<const COLUMNS: usize> RangeEncoder<COLUMNS> {
    pub(super) fn new(archive: bool) -> Self {
        Self {
            low: 0,
            range: u64::MAX,
            out: Vec::new(),
            columns: std::array::from_fn(|_| Vec::new()),
            bytes: LiteralContexts::new(archive),
        }
    }

    /// The answers, then the columns that are not empty.
    pub(super) fn finish(mut self) -> Vec<Attribute> {
        self.out.extend(self.low.to_be_bytes());
        let mut parts = vec![Attribute { kind: ANSWERS, coding: Coding::Stored, bytes: self.out }];
        for (number, bytes) in self.columns.into_iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            parts.push(Attribute { kind: FIRST_COLUMN + number as u16, coding: Coding::Zstd, bytes });
        }
        parts
    }

    #[cold]
    fn carry(&mut self) {
        for byte in self.out.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }
}

impl<const COLUMNS: usize> Coder for RangeEncoder<COLUMNS> {
    const ENCODES: bool = true;

    #[inline(always)]
    fn bit(&mut self, p: &mut Probability, yes: bool) -> bool {
        let bound = (self.range >> 16) * u64::from(p.yes);
        if yes {
            self.range = bound;
        } else {
            let (low, carry) = self.low.overflowing_add(bound);
            self.low = low;
            self.range -= bound;
            if carry {
                self.carry();
            }
        }
        p.update::<STEADY>(yes);
        if self.range >> 32 == 0 {
            self.out.extend(((self.low >> 32) as u32).to_be_bytes());
            self.low <<= 32;
            self.range <<= 32;
        }
        yes
    }

    #[inline]
    fn byte(&mut self, column: usize, context: u32, byte: u8) -> u8 {
        if self.bytes.0.is_empty() {
            self.columns[column].push(byte);
            return byte;
        }
        let mut bytes = std::mem::replace(&mut self.bytes, LiteralContexts(Vec::new()));
        if let Some(nodes) = bytes.nodes(column, context) {
            self.symbol(nodes, byte.into());
        }
        self.bytes = bytes;
        byte
    }
}

/// Reads answers.
pub(super) struct RangeDecoder<'a, const COLUMNS: usize> {
    code: u64,
    range: u64,
    rest: &'a [u8],
    /// Bytes asked for after the end.
    beyond: usize,
    columns: [&'a [u8]; COLUMNS],
    short: bool,
    bytes: LiteralContexts,
}

impl<'a, const COLUMNS: usize> RangeDecoder<'a, COLUMNS> {
    /// Of the parts that [`RangeEncoder::finish`] gave.
    pub(super) fn new(
        archive: bool,
        parts: impl IntoIterator<Item = &'a Attribute>,
    ) -> Result<Self, Corrupt> {
        let mut answers = None;
        let mut columns = [&[][..]; COLUMNS];
        for part in parts {
            match part.kind.checked_sub(ANSWERS).map(usize::from) {
                Some(0) if answers.is_none() => answers = Some(&*part.bytes),
                Some(number @ 1..) if columns.get(number - 1).is_some_and(|column| column.is_empty()) => {
                    columns[number - 1] = &part.bytes;
                }
                _ => return Err(Corrupt("the frame has an attribute that its encoder does not write")),
            }
        }
        let answers = answers.ok_or(Corrupt("the frame has no answers"))?;
        let mut decoder = Self {
            code: 0,
            range: u64::MAX,
            rest: answers,
            beyond: 0,
            columns,
            short: false,
            bytes: LiteralContexts::new(archive),
        };
        decoder.code = u64::from(decoder.word()) << 32;
        decoder.code |= u64::from(decoder.word());
        Ok(decoder)
    }

    #[inline]
    fn word(&mut self) -> u32 {
        if let Some((front, rest)) = self.rest.split_first_chunk() {
            self.rest = rest;
            return u32::from_be_bytes(*front);
        }
        self.beyond += 4;
        0
    }

    /// Whether more was read than there is.
    pub(super) fn exhausted(&self) -> bool {
        self.short || self.beyond > 0
    }

    /// Whether exactly what there is was read.
    pub(super) fn finished(&self) -> bool {
        !self.exhausted() && self.rest.is_empty() && self.columns.iter().all(|column| column.is_empty())
    }
}

impl<const COLUMNS: usize> Coder for RangeDecoder<'_, COLUMNS> {
    const ENCODES: bool = false;

    #[inline(always)]
    fn bit(&mut self, p: &mut Probability, _: bool) -> bool {
        let bound = (self.range >> 16) * u64::from(p.yes);
        let yes = self.code < bound;
        if yes {
            self.range = bound;
        } else {
            // Content that no encoder writes may exceed the range; wrapping keeps that harmless.
            self.code = self.code.wrapping_sub(bound);
            self.range -= bound;
        }
        p.update::<STEADY>(yes);
        if self.range >> 32 == 0 {
            self.code = self.code << 32 | u64::from(self.word());
            self.range <<= 32;
        }
        yes
    }

    #[inline]
    fn byte(&mut self, column: usize, context: u32, _: u8) -> u8 {
        if self.bytes.0.is_empty() {
            let Some((&byte, rest)) = self.columns[column].split_first() else {
                self.short = true;
                return 0;
            };
            self.columns[column] = rest;
            return byte;
        }
        let mut bytes = std::mem::replace(&mut self.bytes, LiteralContexts(Vec::new()));
        let byte = bytes.nodes(column, context).map_or(0, |nodes| self.symbol(nodes, 0));
        self.bytes = bytes;
        byte as u8
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn answers_and_bytes_round_trip(answers: Vec<(bool, u8, u8)>, archive: bool) {
            let mut p = [Probability::EVEN; 8];
            let mut encoder = RangeEncoder::<2>::new(archive);
            for &(yes, context, byte) in &answers {
                encoder.bit(&mut p[usize::from(context % 8)], yes);
                encoder.byte(usize::from(yes), context.into(), byte);
            }
            let parts = encoder.finish();
            let mut p = [Probability::EVEN; 8];
            let mut decoder = RangeDecoder::<2>::new(archive, &parts).unwrap();
            for &(yes, context, byte) in &answers {
                prop_assert_eq!(decoder.bit(&mut p[usize::from(context % 8)], false), yes);
                prop_assert_eq!(decoder.byte(usize::from(yes), context.into(), 0), byte);
            }
            prop_assert!(decoder.finished());
        }
    }

    #[test]
    fn steady_answers_cost_next_to_nothing() {
        let mut p = Probability::EVEN;
        let mut encoder = RangeEncoder::<0>::new(false);
        for _ in 0..100_000 {
            encoder.bit(&mut p, true);
        }
        assert!(encoder.finish()[0].bytes.len() < 64);
    }
}
