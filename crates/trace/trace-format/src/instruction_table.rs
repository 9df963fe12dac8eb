//! Counts by instruction, without addresses and order: the table into which a frame is counted.

use std::collections::HashMap;

use memref::{Access, AccessKind, VirtAddr};

/// What one instruction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstructionCount {
    /// Where it is.
    pub ip: VirtAddr,
    /// Its loads, stores and modifies. Prefetches are not counted.
    pub counts: [u64; 3],
    /// Bytes of these.
    pub bytes: u64,
}

/// Places of the table by the lowest bits of addresses, asked before the map of all.
const NEAR: usize = 1 << 10;

/// Counts by instruction, while they are counted.
#[derive(Debug)]
pub struct InstructionTable {
    all: Vec<InstructionCount>,
    numbers: HashMap<u64, u32>,
    near: Box<[u32; NEAR]>,
}

impl Default for InstructionTable {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: HashMap::new(), near: Box::new([u32::MAX; NEAR]) }
    }
}

impl InstructionTable {
    /// Adds accesses of one instruction, all of the same kind and size.
    pub fn add(&mut self, ip: VirtAddr, kind: AccessKind, size: u32, times: u64) {
        if times == 0 {
            return;
        }
        let count = self.of(ip);
        // Prefetches have no place among the counts.
        if let Some(place) = count.counts.get_mut(usize::from(kind.code())) {
            *place += times;
            count.bytes += u64::from(size) * times;
        }
    }

    /// Adds accesses.
    pub fn add_all(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.add(access.ip, access.kind, access.size, 1);
        }
    }

    #[inline]
    fn of(&mut self, ip: VirtAddr) -> &mut InstructionCount {
        let near = (ip.0 ^ ip.0 >> 10) as usize % NEAR;
        let number = self.near[near] as usize;
        if self.all.get(number).is_some_and(|count| count.ip == ip) {
            return &mut self.all[number];
        }
        let fresh = self.all.len() as u32;
        let number = *self.numbers.entry(ip.0).or_insert(fresh);
        if number == fresh {
            self.all.push(InstructionCount { ip, ..InstructionCount::default() });
        }
        self.near[near] = number;
        &mut self.all[number as usize]
    }

    pub(crate) fn join(&mut self, other: Self) {
        for more in other.all {
            let count = self.of(more.ip);
            for (count, more) in count.counts.iter_mut().zip(more.counts) {
                *count += more;
            }
            count.bytes += more.bytes;
        }
    }

    /// All of them, in the order of their addresses.
    pub(crate) fn into_sorted(mut self) -> Vec<InstructionCount> {
        self.all.sort_unstable_by_key(|count| count.ip);
        self.all
    }
}
