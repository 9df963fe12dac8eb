//! Mondriaan memory protection: a trie in memory, and a lookaside buffer whose entries have don't-care bits (section 4.1.1).
//!
//! The trie has the shape of Witchel's multi-level permission table with two bits per
//! byte in its lowest level: an entry covers 64 bytes, 64 entries cover a 4 KiB table,
//! 1,024 of those 4 MiB, 1,024 of those 4 GiB, and there is one level above for 48 bits.

use std::ops::Range;

use memref::{AccessKind, ThreadId};
use rustc_hash::FxHashMap;

use super::per_thread::PerThread;
use crate::bits::{self, BLOCK_BYTES, BitPair, BlockBits, PAIR_BYTES};
use crate::slots::{CacheSlot, Slots};
use crate::{Change, Counters, Origin, UnitKind, Watched, WatchpointUnit};

const FAN_OUT: u64 = 1024;
const ROOT_BYTES: u64 = BLOCK_BYTES * FAN_OUT * FAN_OUT;

/// Sizes of the unit.
#[derive(Clone, Copy, Debug)]
pub struct MondriaanOptions {
    /// Entries of the protection lookaside buffer: 256.
    pub entries: usize,
}

impl Default for MondriaanOptions {
    fn default() -> Self {
        Self { entries: 256 }
    }
}

#[derive(Clone, Debug)]
enum TrieNode {
    Uniform(Watched),
    Leaf(Box<BlockBits>),
    /// Entries for the level below, and how many of them, from the first on, are uniform and watched as that one.
    Table(u16, Box<TrieTable>),
}

type TrieTable = [TrieNode; FAN_OUT as usize];

/// Tables that were given up because all their entries had become the same, by what these are watched for. A table that
/// comes and goes with a single watchpoint is not worth making anew.
#[derive(Clone, Debug, Default)]
struct SpareTables([Option<Box<TrieTable>>; 4]);

impl SpareTables {
    fn take(&mut self, watched: Watched) -> Box<TrieTable> {
        let made = || {
            let all: Box<[TrieNode]> = vec![TrieNode::Uniform(watched); FAN_OUT as usize].into();
            all.try_into().expect("it has as many entries as a table")
        };
        self.0[usize::from(watched.bits())].take().unwrap_or_else(made)
    }

    fn keep(&mut self, watched: Watched, table: Box<TrieTable>) {
        self.0[usize::from(watched.bits())] = Some(table);
    }
}

/// How many entries from the first on are uniform and the same, where this was `same` before those from `first` on changed.
fn same_entries(table: &TrieTable, same: u16, first: usize) -> u16 {
    // What comes behind the first that differs does not matter.
    if first > usize::from(same) {
        return same;
    }
    let watched = table[0].uniform();
    let equal = |child: &&TrieNode| watched.is_some() && child.uniform() == watched;
    (first + table[first..].iter().take_while(equal).count()) as u16
}

/// How many pairs, from the first on, are as that one.
fn same_pairs(pairs: &[BitPair]) -> usize {
    let first = pairs[0];
    let differs = |pair: &BitPair| (pair.read ^ first.read) | (pair.write ^ first.write);
    let mut same = 0;
    // Without a decision at each pair.
    for some in pairs.chunks(8) {
        if some.iter().fold(0, |all, pair| all | differs(pair)) != 0 {
            return same + some.iter().take_while(|pair| differs(pair) == 0).count();
        }
        same += some.len();
    }
    same
}

/// What a lookaside entry holds.
#[derive(Clone, Copy, Debug)]
enum LookasideBits {
    Uniform(Watched),
    /// Of 64 bytes, for reads and writes.
    Bits(BitPair),
}

impl Default for LookasideBits {
    fn default() -> Self {
        Self::Uniform(Watched::NONE)
    }
}

impl TrieNode {
    /// The entry for `addr` in a node that begins at `base`; counts the entries read.
    fn find(&self, base: u64, bytes: u64, addr: u64, loads: &mut u64) -> CacheSlot<LookasideBits> {
        *loads += 1;
        match self {
            Self::Uniform(watched) => CacheSlot {
                start: base,
                end: base + bytes,
                status: LookasideBits::Uniform(*watched),
                dirty: false,
            },
            Self::Leaf(bits) => {
                *loads += 1;
                let start = addr & !63;
                let pair = bits.pairs()[((start - base) / PAIR_BYTES) as usize];
                CacheSlot { start, end: start + PAIR_BYTES, status: LookasideBits::Bits(pair), dirty: false }
            }
            Self::Table(_, table) => {
                let bytes = bytes / FAN_OUT;
                let index = (addr - base) / bytes;
                table[index as usize].find(base + index * bytes, bytes, addr, loads)
            }
        }
    }

    fn uniform(&self) -> Option<Watched> {
        match self {
            Self::Uniform(watched) => Some(*watched),
            _ => None,
        }
    }

    /// Changes what is in `range`; returns whether an entry was written.
    fn change(
        &mut self,
        (base, bytes): (u64, u64),
        range: &Range<u64>,
        change: Change,
        spare: &mut SpareTables,
        counters: &mut Counters,
    ) -> bool {
        let (from, to) = (range.start.max(base), range.end.min(base + bytes));
        if from >= to {
            return false;
        }
        let whole = from == base && to == base + bytes;
        if let (true, Change::Set(watched)) = (whole, change) {
            counters.trie_writes += 1;
            *self = Self::Uniform(watched);
            return true;
        }
        if let Self::Uniform(old) = *self {
            let new = change.apply(old);
            if new == old {
                return false;
            }
            if whole {
                counters.trie_writes += 1;
                *self = Self::Uniform(new);
                return true;
            }
            if bytes == BLOCK_BYTES {
                counters.trie_writes += BLOCK_BYTES / 64;
                *self = Self::Leaf(Box::new(BlockBits::new(old)));
            } else {
                counters.trie_writes += FAN_OUT;
                *self = Self::Table(FAN_OUT as u16, spare.take(old));
            }
        }
        match self {
            Self::Uniform(_) => {}
            Self::Leaf(bits) => {
                bits.change(from - base, to - base, change);
                counters.trie_writes += (to - 1) / 64 - from / 64 + 1;
                // The entries up to the first that differs tell whether the level above can stand for all. Who has just
                // written one that is not the same throughout need not read them.
                let pairs = bits.pairs();
                if pairs[((from - base) / PAIR_BYTES) as usize].uniform().is_some() {
                    counters.trie_scans += same_pairs(pairs) as u64;
                }
                if let Some(watched) = bits.uniform() {
                    counters.trie_writes += 1;
                    *self = Self::Uniform(watched);
                }
            }
            Self::Table(same, table) => {
                let bytes = bytes / FAN_OUT;
                let first = (from - base) / bytes;
                let mut written = false;
                for index in first..=(to - 1 - base) / bytes {
                    let part = (base + index * bytes, bytes);
                    written |= table[index as usize].change(part, range, change, spare, counters);
                }
                if !written {
                    return false;
                }
                *same = same_entries(table, *same, first as usize);
                if table[first as usize].uniform().is_some() {
                    counters.trie_scans += u64::from(*same) + 1;
                }
                if u64::from(*same) == FAN_OUT
                    && let Some(watched) = table[0].uniform()
                {
                    counters.trie_writes += 1;
                    if let Self::Table(_, table) = std::mem::replace(self, Self::Uniform(watched)) {
                        spare.keep(watched, table);
                    }
                }
            }
        }
        true
    }
}

#[derive(Clone, Debug)]
struct CoreTrie {
    buffer: Slots<LookasideBits>,
    roots: FxHashMap<u64, TrieNode>,
    spare: SpareTables,
}

/// The unit.
#[derive(Clone, Debug)]
pub struct Mondriaan {
    options: MondriaanOptions,
    cores: PerThread<CoreTrie>,
    counters: Counters,
}

impl Mondriaan {
    /// A unit of these sizes.
    pub fn new(options: MondriaanOptions) -> Self {
        Self { options, cores: PerThread::new(), counters: Counters::default() }
    }

    fn core<'a>(
        options: &MondriaanOptions,
        cores: &'a mut PerThread<CoreTrie>,
        thread: ThreadId,
    ) -> &'a mut CoreTrie {
        cores.get(thread, || CoreTrie {
            buffer: Slots::new(options.entries),
            roots: FxHashMap::default(),
            spare: SpareTables::default(),
        })
    }
}

impl WatchpointUnit for Mondriaan {
    fn kind(&self) -> UnitKind {
        UnitKind::Mondriaan
    }

    fn check(&mut self, thread: ThreadId, addr: u64, len: u64, kind: AccessKind) -> bool {
        let counters = &mut self.counters;
        counters.accesses += 1;
        let hit = Watched::hit_by(kind);
        if hit.is_none() {
            return false;
        }
        let core = Self::core(&self.options, &mut self.cores, thread);
        let end = addr.saturating_add(len);
        let mut at = addr;
        let mut fault = false;
        while at < end {
            let slot = match core.buffer.find(at) {
                Some(slot) => slot,
                None => {
                    counters.misses += 1;
                    let root = at / ROOT_BYTES;
                    counters.hardware_loads += 1;
                    let slot = match core.roots.get(&root) {
                        Some(node) => {
                            node.find(root * ROOT_BYTES, ROOT_BYTES, at, &mut counters.hardware_loads)
                        }
                        None => {
                            let start = root * ROOT_BYTES;
                            let status = LookasideBits::default();
                            CacheSlot { start, end: start.saturating_add(ROOT_BYTES), status, dirty: false }
                        }
                    };
                    // Upper levels may stand by now for what older entries hold; an address is in one entry only.
                    while let Some(old) = core.buffer.first_in(&(slot.start..slot.end)) {
                        core.buffer.remove(old.start);
                    }
                    // Nothing in it is dirty: changes go to the trie.
                    let _ = core.buffer.insert(slot);
                    slot
                }
            };
            let stop = end.min(slot.end);
            fault |= match slot.status {
                LookasideBits::Uniform(watched) => watched.meets(hit),
                LookasideBits::Bits(pair) => {
                    bits::union(&[pair], at - slot.start, stop - slot.start).meets(hit)
                }
            };
            at = stop;
        }
        counters.faults += u64::from(fault);
        fault
    }

    fn change(&mut self, thread: ThreadId, range: Range<u64>, change: Change, origin: Origin) {
        let counters = &mut self.counters;
        counters.note_change(origin);
        if range.is_empty() {
            return;
        }
        let core = Self::core(&self.options, &mut self.cores, thread);
        for root in range.start / ROOT_BYTES..=(range.end - 1) / ROOT_BYTES {
            let node = core.roots.entry(root).or_insert(TrieNode::Uniform(Watched::NONE));
            node.change((root * ROOT_BYTES, ROOT_BYTES), &range, change, &mut core.spare, counters);
        }
        while let Some(slot) = core.buffer.first_in(&range) {
            core.buffer.remove(slot.start);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::change::tests::any_change;

    /// What each table says of its entries is true, and nothing stands lower than it must.
    fn audit(node: &TrieNode) {
        let TrieNode::Table(same, table) = node else { return };
        let first = table[0].uniform();
        let counted = table.iter().take_while(|child| first.is_some() && child.uniform() == first).count();
        assert_eq!(usize::from(*same), counted);
        assert!(counted < table.len());
        table.iter().for_each(audit);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn tables_know_their_equal_entries(
            ops in prop::collection::vec((0..40_u64, 0..5_u64, 0..3_u8, any_change()), 0..60),
        ) {
            let mut unit = Mondriaan::new(MondriaanOptions::default());
            for (at, len, level, change) in ops {
                // Bytes of the first block, first blocks, or tables of them.
                let scale = [1, BLOCK_BYTES, BLOCK_BYTES * FAN_OUT / 8][usize::from(level)];
                unit.change(ThreadId(0), at * scale..(at + len) * scale, change, Origin::Local);
                let core = Mondriaan::core(&unit.options, &mut unit.cores, ThreadId(0));
                core.roots.values().for_each(audit);
                for (bits, table) in core.spare.0.iter().enumerate() {
                    let watched = Some(Watched::from_bits(bits as u8));
                    assert!(table.iter().flat_map(|table| table.iter()).all(|child| child.uniform() == watched));
                }
            }
        }
    }
}
