//! A range in parts of nearly the same length: columns of time, rows of places.

use std::ops::Range;

/// `value * times / by`, rounded down.
#[inline]
fn scaled(value: u64, times: u64, by: u64) -> u64 {
    // Mostly the product fits, and the division is a fast one.
    match value.checked_mul(times) {
        Some(product) => product / by,
        None => (u128::from(value) * u128::from(times) / u128::from(by)) as u64,
    }
}

/// The same, rounded up.
#[inline]
fn scaled_up(value: u64, times: u64, by: u64) -> u64 {
    match value.checked_mul(times) {
        Some(product) => product.div_ceil(by),
        None => (u128::from(value) * u128::from(times)).div_ceil(u128::from(by)) as u64,
    }
}

/// A range in so many parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Divided {
    pub(crate) range: Range<u64>,
    pub(crate) parts: u64,
}

impl Divided {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The part that a value of the range is in.
    #[inline]
    pub(crate) fn part(&self, value: u64) -> u64 {
        scaled(value - self.range.start, self.parts, self.len())
    }

    /// The first value of a part.
    #[inline]
    pub(crate) fn first(&self, part: u64) -> u64 {
        self.range.start + scaled_up(self.len(), part, self.parts)
    }

    /// How many parts are as long as that, rounded up.
    pub(crate) fn parts_of(&self, len: u64) -> u64 {
        scaled_up(len, self.parts, self.len())
    }

    /// Divides a count that belongs to all of `over` evenly, and says what comes to the parts here. However a range is cut, each cut gets the same.
    pub(crate) fn spread(&self, count: u64, over: &Range<u64>, mut each: impl FnMut(u64, u64)) {
        let here = over.start.max(self.range.start)..over.end.min(self.range.end);
        if here.is_empty() || count == 0 {
            return;
        }
        let len = over.end - over.start;
        let until = |value: u64| scaled(value - over.start, count, len);
        let (first, last) = (self.part(here.start), self.part(here.end - 1));
        let mut done = until(here.start);
        for part in first..=last {
            let end = if part == last { here.end } else { self.first(part + 1) };
            let now = until(end);
            if now > done {
                each(part, now - done);
            }
            done = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_value_is_in_one_part((start, len) in (0..u64::MAX).prop_flat_map(|start| (Just(start), 1..=u64::MAX - start)), parts in 1..=4096_u64, at in 0.0..1.0) {
            let divided = Divided { range: start..start + len, parts };
            let value = start + ((len - 1) as f64 * at) as u64 % len;
            let part = divided.part(value);
            prop_assert!(part < parts && divided.first(part) <= value);
            prop_assert!(part + 1 == parts || value < divided.first(part + 1));
        }
    }
}
