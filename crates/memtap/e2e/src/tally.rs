//! Accesses counted by size and kind.

use std::collections::BTreeMap;
use std::fmt;

/// How often each kind of access was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Counts {
    pub loads: u64,
    pub stores: u64,
    pub modifies: u64,
}

/// Accesses by their size in bytes; sizes without accesses are not kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<u64, Counts>);

impl Tally {
    /// States the counts of one size.
    pub fn set(&mut self, size: u64, counts: Counts) {
        if counts != Counts::default() {
            self.0.insert(size, counts);
        }
    }

    /// Counts one access: `L`, `S` or `M`.
    pub fn count(&mut self, kind: char, size: u64) {
        let counts = self.0.entry(size).or_default();
        match kind {
            'L' => counts.loads += 1,
            'S' => counts.stores += 1,
            'M' => counts.modifies += 1,
            other => panic!("{other} is no kind of access"),
        }
    }

    /// The counts of all sizes together.
    pub fn total(&self) -> Counts {
        self.0.values().fold(Counts::default(), |a, b| Counts {
            loads: a.loads + b.loads,
            stores: a.stores + b.stores,
            modifies: a.modifies + b.modifies,
        })
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(s, c)| (s, (c.loads, c.stores, c.modifies)))).finish()
    }
}
