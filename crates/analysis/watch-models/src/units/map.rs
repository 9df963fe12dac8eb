//! Watchpoints as a map that software checks on every access: the always-on baseline, which live watchpoints also use.

use std::ops::Range;

use memref::{AccessKind, ThreadId};
use rustc_hash::FxHashMap;

use super::per_thread::PerThread;
use crate::bits::{BLOCK_BYTES, BlockBits};
use crate::{Change, Counters, Origin, UnitKind, Watched, WatchpointUnit};

#[derive(Clone, Debug)]
enum WatchedBlock {
    Uniform(Watched),
    Bits(Box<BlockBits>),
}

impl WatchedBlock {
    #[inline]
    fn meets(&self, from: u64, to: u64, watched: Watched) -> bool {
        match self {
            Self::Uniform(all) => all.meets(watched),
            Self::Bits(bits) => bits.meets(from, to, watched),
        }
    }
}

/// Where a block is in the list of all.
#[derive(Clone, Copy, Debug)]
struct BlockPlace {
    number: u64,
    place: u32,
}

#[derive(Clone, Debug, Default)]
struct Map {
    blocks: FxHashMap<u64, u32>,
    all: Vec<WatchedBlock>,
    /// The last block looked up, and its place; none has the number `u64::MAX`.
    last: Option<BlockPlace>,
}

impl Map {
    #[inline]
    fn find(&mut self, number: u64) -> Option<&mut WatchedBlock> {
        let place = match self.last {
            Some(last) if last.number == number => last.place,
            _ => {
                let place = *self.blocks.get(&number)?;
                self.last = Some(BlockPlace { number, place });
                place
            }
        };
        self.all.get_mut(place as usize)
    }

    fn change(&mut self, range: Range<u64>, change: Change) {
        let mut at = range.start;
        while at < range.end {
            let number = at / BLOCK_BYTES;
            let base = number * BLOCK_BYTES;
            let end = range.end.min(base + BLOCK_BYTES);
            if self.find(number).is_none() {
                self.blocks.insert(number, self.all.len() as u32);
                self.all.push(WatchedBlock::Uniform(Watched::NONE));
            }
            let Some(block) = self.find(number) else { return };
            match block {
                WatchedBlock::Uniform(all) if end - at == BLOCK_BYTES => *all = change.apply(*all),
                WatchedBlock::Uniform(all) if change.apply(*all) == *all => {}
                WatchedBlock::Uniform(all) => {
                    let mut bits = Box::new(BlockBits::new(*all));
                    bits.change(at - base, end - base, change);
                    *block = WatchedBlock::Bits(bits);
                }
                WatchedBlock::Bits(bits) => {
                    bits.change(at - base, end - base, change);
                    if end - at == BLOCK_BYTES
                        && let Some(all) = bits.uniform()
                    {
                        *block = WatchedBlock::Uniform(all);
                    }
                }
            }
            at = end;
        }
    }
}

/// Two bits a byte in blocks of 4 KiB, found by hashing.
#[derive(Clone, Debug)]
pub struct SoftwareMap {
    threads: PerThread<Map>,
    counters: Counters,
}

impl Default for SoftwareMap {
    fn default() -> Self {
        Self { threads: PerThread::new(), counters: Counters::default() }
    }
}

impl WatchpointUnit for SoftwareMap {
    fn kind(&self) -> UnitKind {
        UnitKind::Software
    }

    #[inline]
    fn check(&mut self, thread: ThreadId, addr: u64, len: u64, kind: AccessKind) -> bool {
        self.counters.accesses += 1;
        let hit = Watched::hit_by(kind);
        let map = self.threads.get(thread, Map::default);
        let end = addr.saturating_add(len);
        let mut at = addr;
        while at < end {
            let number = at / BLOCK_BYTES;
            let base = number * BLOCK_BYTES;
            let stop = end.min(base.saturating_add(BLOCK_BYTES));
            if map.find(number).is_some_and(|block| block.meets(at - base, stop - base, hit)) {
                self.counters.faults += 1;
                return true;
            }
            at = stop;
        }
        false
    }

    fn change(&mut self, thread: ThreadId, range: Range<u64>, change: Change, origin: Origin) {
        self.counters.note_change(origin);
        self.threads.get(thread, Map::default).change(range, change);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
