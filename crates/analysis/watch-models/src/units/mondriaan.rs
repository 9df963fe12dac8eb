//! Mondriaan memory protection: a trie in memory, and a lookaside buffer whose entries have don't-care bits (section 4.1.1).
//!
//! The trie has the shape of Witchel's multi-level permission table with two bits a byte in its lowest level: 64-byte
//! entries, 64 of them a 4 KiB table, 1,024 of those 4 MiB, 1,024 of those 4 GiB, and one level above for 48 bits.

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
    Table(Box<[TrieNode]>),
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
            Self::Table(children) => {
                let bytes = bytes / FAN_OUT;
                let index = (addr - base) / bytes;
                children[index as usize].find(base + index * bytes, bytes, addr, loads)
            }
        }
    }

    fn uniform(&self) -> Option<Watched> {
        match self {
            Self::Uniform(watched) => Some(*watched),
            _ => None,
        }
    }

    fn change(&mut self, base: u64, bytes: u64, range: &Range<u64>, change: Change, counters: &mut Counters) {
        let (from, to) = (range.start.max(base), range.end.min(base + bytes));
        if from >= to {
            return;
        }
        let whole = from == base && to == base + bytes;
        if let (true, Change::Set(watched)) = (whole, change) {
            counters.trie_writes += 1;
            *self = Self::Uniform(watched);
            return;
        }
        if let Self::Uniform(old) = *self {
            let new = change.apply(old);
            if new == old {
                return;
            }
            if whole {
                counters.trie_writes += 1;
                *self = Self::Uniform(new);
                return;
            }
            if bytes == BLOCK_BYTES {
                counters.trie_writes += BLOCK_BYTES / 64;
                *self = Self::Leaf(Box::new(BlockBits::new(old)));
            } else {
                counters.trie_writes += FAN_OUT;
                *self = Self::Table(vec![Self::Uniform(old); FAN_OUT as usize].into());
            }
        }
        match self {
            Self::Uniform(_) => {}
            Self::Leaf(bits) => {
                bits.change(from - base, to - base, change);
                counters.trie_writes += (to - 1) / 64 - from / 64 + 1;
                // The entries up to the first that differs tell whether the level above can stand for all.
                let pairs = bits.pairs();
                let same = pairs.iter().take_while(|&pair| pair == &pairs[0]).count();
                counters.trie_scans += same as u64;
                if let Some(watched) = bits.uniform() {
                    counters.trie_writes += 1;
                    *self = Self::Uniform(watched);
                }
            }
            Self::Table(children) => {
                let bytes = bytes / FAN_OUT;
                for index in (from - base) / bytes..=(to - 1 - base) / bytes {
                    children[index as usize].change(base + index * bytes, bytes, range, change, counters);
                }
                let first = children[0].uniform();
                let same =
                    children.iter().take_while(|child| first.is_some() && child.uniform() == first).count();
                counters.trie_scans += same as u64 + 1;
                if let Some(watched) = first.filter(|_| same == children.len()) {
                    counters.trie_writes += 1;
                    *self = Self::Uniform(watched);
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
struct CoreTrie {
    buffer: Slots<LookasideBits>,
    roots: FxHashMap<u64, TrieNode>,
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
        cores.get(thread, || CoreTrie { buffer: Slots::new(options.entries), roots: FxHashMap::default() })
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
            node.change(root * ROOT_BYTES, ROOT_BYTES, &range, change, counters);
        }
        while let Some(slot) = core.buffer.first_in(&range) {
            core.buffer.remove(slot.start);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
