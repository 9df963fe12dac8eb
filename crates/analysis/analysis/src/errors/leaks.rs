//! Blocks that were never released, never used, or released again at once. These
//! are not errors but may indicate one; they are reported after the replay.

use memref::{ProcessId, RegionKind, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{BlockId, BlockState, Resolver};

use super::blocks::FollowedBlock;
use super::finding::{ErrorKey, FoundError, MemoryErrorKind};
use super::inner::{InnerPointers, KeptByLibraries};
use super::reach::{self, LeakKind, LiveBlock};
use super::tool::{MemoryErrors, Pointers};
use crate::FirstPlace;

impl MemoryErrors {
    /// Which blocks that were not released could still be reached, by process and block.
    pub(super) fn leak_kinds(
        &self,
        resolvers: &[Resolver],
        kept: &mut KeptByLibraries<'_>,
    ) -> FxHashMap<(ProcessId, BlockId), LeakKind> {
        let mut kinds = FxHashMap::default();
        let Some(Pointers { words, .. }) = &self.pointers else { return kinds };
        for resolver in resolvers {
            let process = resolver.process();
            let of_process = |block: &&FollowedBlock| block.process == process && block.is_leak();
            let mut blocks: Vec<&FollowedBlock> = self.blocks.iter().filter(of_process).collect();
            blocks.sort_unstable_by_key(|block| block.start);
            let words = words.of(process);
            let is_root = |addr: u64| {
                let addr = VirtAddr(addr);
                let region =
                    resolver.image().region_at(addr).and_then(|id| resolver.image().regions().region(id));
                match resolver.heap().get(addr) {
                    Some(hit) if hit.state == BlockState::Freed => false,
                    Some(hit) => self.blocks.known(process, hit.block).is_none_or(|block| block.is_mapping),
                    // What the allocator keeps between blocks is its own.
                    None => region.is_some_and(|region| region.kind != RegionKind::Heap),
                }
            };
            let live = blocks.iter().map(|block| {
                let inner = block.allocated.map_or(InnerPointers::None, |allocated| kept.of(allocated));
                LiveBlock { start: block.start.0, len: block.len, inner }
            });
            let live: Vec<LiveBlock> = live.collect();
            let roots = words.iter().filter(|word| is_root(word.at)).map(|word| word.value);
            let all = reach::leak_kinds(&live, &words, roots);
            kinds.extend(blocks.iter().zip(all).map(|(block, kind)| ((process, block.id), kind)));
        }
        kinds
    }

    pub(super) fn add_leaks(&mut self, leak_kinds: &FxHashMap<(ProcessId, BlockId), LeakKind>) {
        let kinds = [
            (MemoryErrorKind::Leak, "never released"),
            (MemoryErrorKind::Unused, "never accessed"),
            (MemoryErrorKind::Temporary, "released before anything else was allocated"),
        ];
        for block in self.blocks.iter().filter(|block| !block.is_mapping && block.allocated.is_some()) {
            for (kind, what) in kinds {
                let is_one = match kind {
                    MemoryErrorKind::Leak => block.is_leak(),
                    MemoryErrorKind::Unused => !block.is_accessed,
                    _ => block.is_temporary,
                };
                if !is_one {
                    continue;
                }
                let leak_kind = leak_kinds.get(&(block.process, block.id)).copied();
                let leak_kind = leak_kind.filter(|_| kind == MemoryErrorKind::Leak);
                let key = ErrorKey { leak_kind, ..ErrorKey::new(kind, None, block.allocated) };
                let one = self.found.entry(key).or_insert_with(|| {
                    let what = leak_kind.map_or(what.to_owned(), |kind| format!("{what}, {}", kind.words()));
                    let name = block.function.name().to_owned();
                    let first_seen = Some(FirstPlace::of_memory(block.process, block.start));
                    let place = Some(block.place(block.start));
                    FoundError { first_seen, ..FoundError::new(what, 0, name, place) }
                });
                if kind == MemoryErrorKind::Leak {
                    one.last = block.last.or(one.last);
                }
                one.bytes += block.len;
                one.times += 1;
            }
        }
    }
}
