//! A cache of an object: its most recently used blocks of bytes, and which blocks are being fetched.

use bytes::Bytes;
use rustc_hash::FxHashMap;

/// Bytes of a block; the last one of an object may have fewer. Few, since a reader that jumps is given whole ones.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;
/// Blocks that are kept: 64 MiB.
const MOST_KEPT: usize = 1 << 10;
/// Blocks that are fetched ahead of a reader that goes forwards, at most: 4 MiB.
const MOST_AHEAD: u64 = 64;

/// A block.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// Somebody asked for it.
    Fetching,
    Ready(Bytes),
    /// It can't be had; whoever waits for it is told, and who comes later asks again.
    Failed(String),
}

#[derive(Debug)]
struct Kept {
    block: Block,
    /// When it was last used, in uses.
    used: u64,
}

/// The blocks of an object.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// How many the object has.
    count: u64,
    kept: FxHashMap<u64, Kept>,
    uses: u64,
}

impl Blocks {
    pub(crate) fn new(object_bytes: u64) -> Self {
        Self { count: object_bytes.div_ceil(BLOCK_BYTES), kept: FxHashMap::default(), uses: 0 }
    }

    /// The block of that number, if it is there or on its way.
    pub(crate) fn get(&mut self, number: u64) -> Option<&Block> {
        self.uses += 1;
        let kept = self.kept.get_mut(&number)?;
        kept.used = self.uses;
        Some(&kept.block)
    }

    /// Which blocks are to be fetched now, as runs of numbers, for a reader that needs those from `first` to `last`; they count as being on
    /// their way from now on. Whoever goes forwards is given the next ones, too, twice as many as lie behind him.
    pub(crate) fn wanted(&mut self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let behind = (1..=MOST_AHEAD / 2).take_while(|back| {
            first.checked_sub(*back).is_some_and(|number| self.kept.contains_key(&number))
        });
        let ahead = 2 * behind.count() as u64;
        // Not one by one: only where less than half of them are there.
        let is_short = (last + 1..last + 1 + ahead.div_ceil(2)).any(|number| self.is_absent(number));
        let end = if is_short { last + ahead } else { last };
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for number in (first..=end).filter(|number| self.is_absent(*number)) {
            match runs.last_mut() {
                Some((begin, run_end)) if *run_end + 1 == number && number - *begin < MOST_AHEAD => {
                    *run_end = number;
                }
                _ => runs.push((number, number)),
            }
        }
        for number in runs.iter().flat_map(|(begin, end)| *begin..=*end) {
            self.put(number, Block::Fetching);
        }
        runs
    }

    fn is_absent(&self, number: u64) -> bool {
        let is_kept = |kept: &Kept| !matches!(kept.block, Block::Failed(_));
        number < self.count && !self.kept.get(&number).is_some_and(is_kept)
    }

    /// A block has come, or can't.
    pub(crate) fn put(&mut self, number: u64, block: Block) {
        self.uses += 1;
        let used = self.uses;
        self.kept.insert(number, Kept { block, used });
        while self.kept.len() > MOST_KEPT {
            let come = self.kept.iter().filter(|(_, kept)| !matches!(kept.block, Block::Fetching));
            let Some(oldest) = come.min_by_key(|(_, kept)| kept.used).map(|(number, _)| *number) else {
                break;
            };
            self.kept.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(blocks: &mut Blocks, first: u64, last: u64) -> Vec<(u64, u64)> {
        let runs = blocks.wanted(first, last);
        for number in runs.iter().flat_map(|(begin, end)| *begin..=*end) {
            blocks.put(number, Block::Ready(Bytes::new()));
        }
        runs
    }

    #[test]
    fn who_goes_forwards_is_given_more_ahead() {
        let mut blocks = Blocks::new(1000 * BLOCK_BYTES);
        assert_eq!(fetch(&mut blocks, 10, 10), [(10, 10)]);
        assert_eq!(fetch(&mut blocks, 10, 10), []);
        assert_eq!(fetch(&mut blocks, 11, 11), [(11, 13)]);
        // One of the two that are to lie ahead is there.
        assert_eq!(fetch(&mut blocks, 12, 12), [(14, 16)]);
        let mut requests = 0;
        for number in 13..200 {
            requests += fetch(&mut blocks, number, number).len();
        }
        assert!(requests < 40, "{requests}");
    }

    #[test]
    fn who_jumps_is_given_what_he_asks_for() {
        let mut blocks = Blocks::new(1000 * BLOCK_BYTES);
        for number in (0..900).step_by(7) {
            assert_eq!(fetch(&mut blocks, number, number), [(number, number)]);
        }
        // As many at a time as are fetched ahead, and none behind the end.
        let most = MOST_AHEAD;
        let mut blocks = Blocks::new((2 * most + 8) * BLOCK_BYTES - 1);
        let runs = [(0, most - 1), (most, 2 * most - 1), (2 * most, 2 * most + 7)];
        assert_eq!(fetch(&mut blocks, 0, 2 * most + 7), runs);
        let mut blocks = Blocks::new(3 * BLOCK_BYTES);
        assert_eq!(fetch(&mut blocks, 0, 1), [(0, 1)]);
        assert_eq!(fetch(&mut blocks, 2, 2), [(2, 2)]);
    }

    #[test]
    fn what_failed_is_asked_for_again() {
        let mut blocks = Blocks::new(10 * BLOCK_BYTES);
        assert_eq!(blocks.wanted(3, 3), [(3, 3)]);
        assert_eq!(blocks.wanted(3, 3), [], "it is on its way");
        blocks.put(3, Block::Failed("busy".to_owned()));
        assert!(matches!(blocks.get(3), Some(Block::Failed(_))));
        assert_eq!(blocks.wanted(3, 3), [(3, 3)]);
    }

    #[test]
    fn the_latest_are_kept() {
        let mut blocks = Blocks::new(10_000 * BLOCK_BYTES);
        for number in (0..2 * MOST_KEPT as u64).map(|number| number * 2) {
            fetch(&mut blocks, number, number);
            assert!(blocks.get(0).is_some(), "one that is used again and again stays");
        }
        assert_eq!(blocks.kept.len(), MOST_KEPT);
        assert!(blocks.get(2).is_none());
    }
}
