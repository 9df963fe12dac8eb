//! The geometry of the caches: sizes, ways, line size, and which line is evicted when a set is full.

use std::fmt;
use std::str::FromStr;

/// The shape of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// All its bytes.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u64,
}

/// A shape that no cache has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// It can't be read.
    #[error("expected SIZE,WAYS,LINE, as in 48k,12,64 (k, M and G are binary units)")]
    Form,
    /// Its line is no power of two from 8 to 4096.
    #[error("a line of {0} bytes: it must be a power of two from 8 to 4096")]
    Line(u64),
    /// More ways than are modelled, or none.
    #[error("{0} ways: from 1 to 64 are possible")]
    Ways(u64),
    /// No whole number of sets.
    #[error("{bytes} bytes are not a whole number of sets of {ways} lines of {line} bytes")]
    Sets {
        /// All its bytes.
        bytes: u64,
        /// Lines of a set.
        ways: u64,
        /// Bytes of a line.
        line: u64,
    },
    /// Larger than 4 GiB.
    #[error("{0} bytes: 4G is the largest cache that is modelled")]
    Size(u64),
    /// The levels have different lines.
    #[error("lines of {0} and of {1} bytes: all levels must have lines of the same length")]
    Lines(u64, u64),
}

impl CacheShape {
    /// A shape that can be.
    ///
    /// # Errors
    /// Where it can't.
    pub fn new(bytes: u64, ways: u64, line: u64) -> Result<Self, ShapeError> {
        if !line.is_power_of_two() || !(8..=4096).contains(&line) {
            return Err(ShapeError::Line(line));
        }
        if !(1..=64).contains(&ways) {
            return Err(ShapeError::Ways(ways));
        }
        if bytes > 4 << 30 {
            return Err(ShapeError::Size(bytes));
        }
        if bytes == 0 || !bytes.is_multiple_of(ways * line) {
            return Err(ShapeError::Sets { bytes, ways, line });
        }
        Ok(Self { bytes, ways: ways as u32, line_bytes: line })
    }

    /// How many sets it has.
    pub fn sets(&self) -> u64 {
        self.bytes / (u64::from(self.ways) * self.line_bytes)
    }
}

impl FromStr for CacheShape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let [bytes, ways, line] = parts.as_slice() else { return Err(ShapeError::Form) };
        let number = |text: &str| text.parse::<u64>().map_err(|_| ShapeError::Form);
        Self::new(size(bytes)?, number(ways)?, number(line)?)
    }
}

/// A number of bytes with a binary unit, as `48k`.
fn size(text: &str) -> Result<u64, ShapeError> {
    let text = text.trim_end_matches("iB").trim_end_matches('B');
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = number.parse().map_err(|_| ShapeError::Form)?;
    number.checked_mul(unit).ok_or(ShapeError::Size(u64::MAX))
}

impl fmt::Display for CacheShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.bytes {
            bytes if bytes.is_multiple_of(1 << 20) => (bytes >> 20, "M"),
            bytes if bytes.is_multiple_of(1 << 10) => (bytes >> 10, "k"),
            bytes => (bytes, ""),
        };
        write!(f, "{number}{unit},{},{}", self.ways, self.line_bytes)
    }
}

/// Which line of a full set goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was not used for longest.
    #[default]
    Lru,
    /// What a tree of bits takes for that; ways that are no power of two are those of the next one, without the rest.
    PseudoLru,
    /// Any, by a generator that gives the same in each run.
    Random,
}

impl Replacement {
    /// In JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::PseudoLru => "plru",
            Self::Random => "random",
        }
    }
}

/// All levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSetup {
    /// The first, of each thread.
    pub l1: CacheShape,
    /// The second, of each thread.
    pub l2: Option<CacheShape>,
    /// The last, which all share.
    pub ll: Option<CacheShape>,
    /// Which line goes.
    pub replacement: Replacement,
    /// Whether lines are fetched that a run of misses is likely to come to.
    pub prefetch: bool,
}

/// Lines by some bits of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineShare {
    shift: u32,
    mask: u64,
    number: u64,
}

impl LineShare {
    /// All lines.
    pub(super) const ALL: Self = Self { shift: 0, mask: 0, number: 0 };

    #[inline]
    pub(super) fn has(self, line: u64) -> bool {
        line >> self.shift & self.mask == self.number
    }

    /// Whether all lines from one to another are in one share, whichever it is. An access that saves the state of a processor has
    /// dozens of lines: the first and the last can be in a share that those between them are not in.
    #[inline]
    pub(super) fn has_no_bound_between(self, first: u64, last: u64) -> bool {
        self.mask == 0 || first >> self.shift == last >> self.shift
    }
}

impl CacheSetup {
    /// Shares of all lines that have no set of any level in common, as many as are asked for or less.
    pub(super) fn shares(&self, most: usize) -> Vec<LineShare> {
        let levels = [Some(self.l1), self.l2, self.ll].into_iter().flatten();
        // What these bits of a line's number are, its set tells.
        let bits = levels.map(|level| level.sets().trailing_zeros()).min().unwrap_or(0);
        // Who goes at random, or is fetched ahead, other sets have to do with.
        let is_by_set = self.replacement != Replacement::Random && !self.prefetch;
        let share_bits = if is_by_set { most.max(1).ilog2().min(bits) } else { 0 };
        // The highest ones: most accesses to two lines are then to one share.
        let (shift, mask) = (bits - share_bits, (1 << share_bits) - 1);
        (0..=mask).map(|number| LineShare { shift, mask, number }).collect()
    }

    /// Refuses levels whose lines differ.
    ///
    /// # Errors
    /// [`ShapeError::Lines`].
    pub fn check(&self) -> Result<(), ShapeError> {
        let line = self.l1.line_bytes;
        match [self.l2, self.ll].into_iter().flatten().find(|level| level.line_bytes != line) {
            Some(level) => Err(ShapeError::Lines(line, level.line_bytes)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<(u64, u32, u64, u64), &str>) {
        let shape = text.parse::<CacheShape>();
        let got = shape.map(|shape| (shape.bytes, shape.ways, shape.line_bytes, shape.sets()));
        assert_eq!(got.map_err(|error| error.to_string()), expect.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn long_accesses_are_of_several_shares() {
        let share = LineShare { shift: 5, mask: 1, number: 0 };
        assert!(share.has_no_bound_between(0, 31) && share.has_no_bound_between(40, 41));
        assert!(!share.has_no_bound_between(31, 32));
        // It begins and ends in one, and the other has what is between.
        assert!(share.has(31) && share.has(64) && !share.has_no_bound_between(31, 64));
        assert!(LineShare::ALL.has_no_bound_between(0, 1000));
    }

    #[test]
    fn shapes_are_read() {
        check("48k,12,64", Ok((48 << 10, 12, 64, 64)));
        check("2M, 16, 64", Ok((2 << 20, 16, 64, 2048)));
        check("105MiB,15,64", Ok((105 << 20, 15, 64, 114_688)));
        check("64,1,64", Ok((64, 1, 64, 1)));
        check("48k,12", Err("expected SIZE,WAYS,LINE, as in 48k,12,64 (k, M and G are binary units)"));
        check("x,12,64", Err("expected SIZE,WAYS,LINE, as in 48k,12,64 (k, M and G are binary units)"));
        check("48k,12,48", Err("a line of 48 bytes: it must be a power of two from 8 to 4096"));
        check("48k,0,64", Err("0 ways: from 1 to 64 are possible"));
        check("1000,1,64", Err("1000 bytes are not a whole number of sets of 1 lines of 64 bytes"));
        check("0,1,64", Err("0 bytes are not a whole number of sets of 1 lines of 64 bytes"));
        check(
            "99999999999999G,1,64",
            Err("18446744073709551615 bytes: 4G is the largest cache that is modelled"),
        );
    }

    #[test]
    fn lines_are_the_same_in_all_levels() {
        let shape = |text: &str| text.parse::<CacheShape>().unwrap();
        let (l1, ll) = (shape("32k,8,64"), Some(shape("1M,16,128")));
        let setup = CacheSetup { l1, l2: None, ll, replacement: Replacement::Lru, prefetch: false };
        assert_eq!(setup.check(), Err(ShapeError::Lines(64, 128)));
        assert_eq!(setup.l1.to_string(), "32k,8,64");
    }

    #[test]
    fn shares_have_no_set_in_common() {
        let setup = |levels: [&str; 3]| {
            let [l1, l2, ll] = levels.map(|text| text.parse::<CacheShape>().unwrap());
            CacheSetup { l1, l2: Some(l2), ll: Some(ll), replacement: Replacement::Lru, prefetch: false }
        };
        let usual = setup(["48k,12,64", "2M,16,64", "105MiB,15,64"]);
        let counts = |setup: CacheSetup| [1, 2, 3, 4, 1000].map(|most| setup.shares(most).len());
        assert_eq!(counts(usual), [1, 2, 2, 4, 64]);
        // Three sets, and one set.
        assert_eq!(counts(setup(["48k,12,64", "384,2,64", "105MiB,15,64"])), [1; 5]);
        assert_eq!(counts(setup(["48k,12,64", "2M,16,64", "1k,16,64"])), [1; 5]);
        assert_eq!(counts(CacheSetup { prefetch: true, ..usual }), [1; 5]);
        assert_eq!(counts(CacheSetup { replacement: Replacement::Random, ..usual }), [1; 5]);
        let levels = [Some(usual.l1), usual.l2, usual.ll].into_iter().flatten();
        for (level, share) in
            levels.flat_map(|level| usual.shares(4).into_iter().map(move |share| (level, share)))
        {
            let lines = |is_in: bool| (0..1 << 20).filter(move |line| share.has(*line) == is_in);
            let sets = |is_in| {
                lines(is_in).map(|line| line % level.sets()).collect::<std::collections::BTreeSet<u64>>()
            };
            assert!(sets(true).is_disjoint(&sets(false)), "{level:?} {share:?}");
        }
        let two = usual.shares(2)[0];
        assert!(two.has_no_bound_between(30, 31) && !two.has_no_bound_between(31, 32));
    }
}
