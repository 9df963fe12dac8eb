//! The state of each block: who allocated and released it, and which bytes were written.

use memref::{AllocationFunction, ProcessId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::BlockId;

use super::operators::CalledOperator;
use crate::layout::BlockAddress;
use crate::stack::CallPlace;

/// Larger blocks are not followed byte by byte.
const MOST_FOLLOWED: u64 = 1 << 26;

/// A block of a process, from its allocation on.
#[derive(Clone, Debug)]
pub(super) struct FollowedBlock {
    pub(super) process: ProcessId,
    pub(super) id: BlockId,
    pub(super) start: VirtAddr,
    pub(super) len: u64,
    /// The bytes that the allocator gave, at least `len`: the program may use them all, once it asked how many they are.
    pub(super) usable: u64,
    pub(super) function: AllocationFunction,
    pub(super) is_mapping: bool,
    pub(super) allocated: Option<CallPlace>,
    pub(super) freed: Option<CallPlace>,
    pub(super) is_live: bool,
    pub(super) is_accessed: bool,
    /// Where it was accessed last.
    pub(super) last: Option<CallPlace>,
    /// What is known of the call that allocated.
    pub(super) operator: CalledOperator,
    /// Whether it was released before its thread allocated anything else.
    pub(super) is_temporary: bool,
    /// A bit for each byte that was written; empty where all count as written.
    written: Vec<u64>,
}

impl FollowedBlock {
    /// A block whose bytes nobody wrote; with `is_written` they count as written.
    pub(super) fn new(start: VirtAddr, len: u64, function: AllocationFunction, is_written: bool) -> Self {
        let words = if is_written || len > MOST_FOLLOWED { 0 } else { len.div_ceil(64) as usize };
        Self {
            process: ProcessId(0),
            id: BlockId(0),
            start,
            len,
            usable: len,
            function,
            is_mapping: false,
            allocated: None,
            freed: None,
            is_live: true,
            is_accessed: false,
            last: None,
            operator: CalledOperator::default(),
            is_temporary: false,
            written: vec![0; words],
        }
    }

    /// Bytes from its first one; 0 for what is below it.
    fn offset_of(&self, addr: VirtAddr) -> u64 {
        addr.checked_sub(self.start).unwrap_or(0)
    }

    /// It was accessed there, as far as that is known.
    #[inline]
    pub(super) fn accessed(&mut self, place: Option<CallPlace>) {
        self.is_accessed = true;
        self.last = place;
    }

    /// Whether bytes that begin in it, or behind it within what the allocator gave, end after what was asked for. A mapping ends with
    /// its last page.
    #[inline]
    pub(super) fn is_overrun(&self, addr: VirtAddr, len: u64) -> bool {
        self.offset_of(addr).saturating_add(len) > self.len && !self.is_mapping
    }

    /// Bytes are written.
    #[inline]
    pub(super) fn write(&mut self, addr: VirtAddr, len: u64) {
        if self.written.is_empty() {
            return;
        }
        let first = self.offset_of(addr).min(self.len);
        let end = self.offset_of(VirtAddr(addr.0.saturating_add(len))).min(self.len);
        let mut at = first;
        while at < end {
            let stop = end.min((at / 64 + 1) * 64);
            self.written[(at / 64) as usize] |= (u64::MAX >> (64 - (stop - at))) << (at % 64);
            at = stop;
        }
    }

    /// Whether none of these bytes was written.
    pub(super) fn is_unwritten(&self, addr: VirtAddr, len: u64) -> bool {
        let first = self.offset_of(addr);
        !self.written.is_empty()
            && first + len <= self.len
            && (first..first + len).all(|byte| self.written[(byte / 64) as usize] >> (byte % 64) & 1 == 0)
    }

    /// Those of these bytes that were not written.
    pub(super) fn unwritten(&self, addr: VirtAddr, len: u64) -> impl Iterator<Item = VirtAddr> + use<'_> {
        let first = self.offset_of(addr);
        let end = if self.written.is_empty() { 0 } else { first.saturating_add(len).min(self.len) };
        let bytes = (first..end).filter(|byte| self.written[(byte / 64) as usize] >> (byte % 64) & 1 == 0);
        bytes.map(|byte| self.start.offset(byte))
    }

    /// An address of it.
    pub(super) fn place(&self, addr: VirtAddr) -> BlockAddress {
        BlockAddress { process: self.process, block: self.id, addr }
    }

    /// Whether it was never released.
    pub(super) fn is_leak(&self) -> bool {
        self.is_live && !self.is_mapping && self.allocated.is_some()
    }

    /// Nobody asks for its bytes any more.
    pub(super) fn release(&mut self, by: Option<CallPlace>) {
        self.is_live = false;
        self.freed = by;
        self.written = Vec::new();
    }
}

/// The blocks of all processes. A child's are those that it allocates itself.
#[derive(Debug, Default)]
pub(super) struct FollowedBlocks {
    number_of: FxHashMap<(ProcessId, BlockId), u32>,
    all: Vec<FollowedBlock>,
}

impl FollowedBlocks {
    pub(super) fn add(&mut self, process: ProcessId, id: BlockId, block: FollowedBlock) {
        self.number_of.insert((process, id), self.all.len() as u32);
        self.all.push(FollowedBlock { process, id, ..block });
    }

    pub(super) fn number(&self, process: ProcessId, id: BlockId) -> Option<u32> {
        self.number_of.get(&(process, id)).copied()
    }

    pub(super) fn get(&mut self, number: u32) -> &mut FollowedBlock {
        &mut self.all[number as usize]
    }

    pub(super) fn of(&mut self, process: ProcessId, id: BlockId) -> Option<&mut FollowedBlock> {
        let number = self.number(process, id)?;
        Some(self.get(number))
    }

    /// As it is, to be looked at.
    pub(super) fn known(&self, process: ProcessId, id: BlockId) -> Option<&FollowedBlock> {
        self.all.get(self.number(process, id)? as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FollowedBlock> {
        self.all.iter()
    }
}

/// Whether a release by that function, and that operator of C++, goes with the block.
pub(super) fn is_right_release(
    block: &FollowedBlock,
    released: AllocationFunction,
    operator: CalledOperator,
) -> bool {
    use AllocationFunction::{Delete, DeleteArray, New, NewArray};
    let is_new = matches!(block.function, New | NewArray) || block.operator.is_operator();
    let is_delete = matches!(released, Delete | DeleteArray) || operator.is_operator();
    match (is_new && is_delete, block.operator.is_array, operator.is_array) {
        (true, Some(allocated), Some(released)) => allocated == released,
        (true, ..) => true,
        // What is not known to be a call of malloc or free may be one of an operator that went on to it by a jump.
        _ if !is_certain(block.function, block.operator) || !is_certain(released, operator) => true,
        (false, ..) => go_together(block.function, released),
    }
}

/// Whether the program called that function, or an operator that is known.
fn is_certain(function: AllocationFunction, call: CalledOperator) -> bool {
    use AllocationFunction::{Delete, DeleteArray, New, NewArray};
    matches!(function, New | NewArray | Delete | DeleteArray) || call.is_operator() || call.is_plain
}

/// Whether a function of a release goes with one that allocates, of two families.
fn go_together(allocated: AllocationFunction, released: AllocationFunction) -> bool {
    use AllocationFunction::{Delete, DeleteArray, Free, New, NewArray, Realloc, Reallocarray};
    match released {
        Free | Realloc | Reallocarray => !matches!(allocated, New | NewArray),
        Delete | DeleteArray => matches!(allocated, New | NewArray),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_once() {
        let mut block = FollowedBlock::new(VirtAddr(0x1000), 100, AllocationFunction::Malloc, false);
        block.write(VirtAddr(0x1008), 4);
        block.write(VirtAddr(0x1030), 32);
        block.write(VirtAddr(0x1060), 50);
        assert!(
            block.is_unwritten(VirtAddr(0x1000), 8)
                && block.is_unwritten(VirtAddr(0x100c), 8)
                && block.is_unwritten(VirtAddr(0x1050), 8)
        );
        assert!(
            !block.is_unwritten(VirtAddr(0x1004), 8)
                && !block.is_unwritten(VirtAddr(0x103f), 2)
                && !block.is_unwritten(VirtAddr(0x1063), 1)
        );
        assert!(!block.is_unwritten(VirtAddr(0x1064), 1), "what lies outside is not told here");
        assert!(
            !FollowedBlock::new(VirtAddr(0), 8, AllocationFunction::Calloc, true)
                .is_unwritten(VirtAddr(0), 8)
        );
    }

    #[test]
    fn the_end_of_an_access_counts_too() {
        let mut block = FollowedBlock::new(VirtAddr(0x1000), 21, AllocationFunction::Malloc, false);
        let check = |addr, len, expect| assert_eq!(block.is_overrun(VirtAddr(addr), len), expect, "{addr:x}");
        check(0x1010, 5, false);
        check(0x1014, 1, false);
        check(0x1010, 8, true);
        check(0x1015, 1, true);
        check(0x1000, u64::MAX, true);
        block.is_mapping = true;
        assert!(!block.is_overrun(VirtAddr(0x1017), 64));
    }

    #[test]
    fn releases_go_with_allocations() {
        use AllocationFunction::{Delete, DeleteArray, Free, Malloc, New, NewArray, Realloc};
        let told = |is_array| CalledOperator { is_array, ..CalledOperator::default() };
        let plain = CalledOperator { is_plain: true, ..CalledOperator::default() };
        let check = |allocated, made, released, by, expect| {
            let mut block = FollowedBlock::new(VirtAddr(0), 8, allocated, true);
            block.operator = made;
            assert_eq!(is_right_release(&block, released, by), expect, "{allocated:?} {released:?}");
        };
        check(New, told(Some(true)), Delete, told(Some(false)), false);
        check(New, told(Some(false)), Delete, told(Some(true)), false);
        check(New, told(Some(true)), Delete, told(Some(true)), true);
        check(New, told(Some(true)), Delete, told(None), true);
        let within = CalledOperator { is_within: true, ..CalledOperator::default() };
        check(Malloc, within, Delete, told(Some(true)), true);
        // An operator that ends with a jump: the call is the operator's, the function malloc or free.
        check(New, told(None), Free, told(Some(false)), true);
        check(NewArray, told(Some(true)), Free, told(Some(false)), false);
        check(Malloc, told(Some(false)), Delete, told(None), true);
        check(New, told(Some(true)), Free, within, true);
        check(Malloc, plain, Delete, told(Some(false)), false);
        check(New, told(Some(false)), Free, plain, false);
        check(New, within, Free, plain, false);
        // A call through a pointer, of a function that jumps to an operator.
        check(New, told(Some(false)), Free, told(None), true);
        check(Malloc, told(None), Delete, told(Some(false)), true);
        for (allocated, released, expect) in [
            (Malloc, Free, true),
            (Realloc, Free, true),
            (Malloc, Realloc, true),
            (NewArray, Realloc, false),
            (New, Delete, true),
            (NewArray, DeleteArray, true),
            (New, Free, false),
            (Malloc, DeleteArray, false),
            (NewArray, DeleteArray, true),
        ] {
            assert_eq!(go_together(allocated, released), expect, "{allocated:?} {released:?}");
        }
    }
}
