//! The letters of events (MadT, Table I).

use memref::{AllocationKind, BlockKind};

/// An event that has a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letter {
    Load,
    Store,
    Block(BlockKind),
    Allocation(AllocationKind),
}

/// Its letter; `None` for what the paper does not log (the end of the heap).
pub(super) fn letter(event: Letter) -> Option<char> {
    Some(match event {
        Letter::Load => 'L',
        Letter::Store => 'S',
        Letter::Block(BlockKind::Copy) => 'Y',
        Letter::Block(BlockKind::Fill) => 'W',
        Letter::Block(BlockKind::Fetch) => 'G',
        Letter::Allocation(kind) => match kind {
            AllocationKind::Malloc => 'M',
            AllocationKind::Calloc => 'C',
            AllocationKind::Mmap => 'P',
            AllocationKind::Realloc => 'R',
            AllocationKind::Mremap => 'E',
            AllocationKind::Free => 'F',
            AllocationKind::Munmap => 'U',
            AllocationKind::Brk => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_are_those_of_table_i() {
        let allocations: String =
            AllocationKind::ALL.iter().filter_map(|kind| letter(Letter::Allocation(*kind))).collect();
        let blocks: String = BlockKind::ALL.iter().filter_map(|kind| letter(Letter::Block(*kind))).collect();
        assert_eq!((&*allocations, &*blocks), ("MCRPEFU", "YWG"));
        assert_eq!((letter(Letter::Load), letter(Letter::Store)), (Some('L'), Some('S')));
    }
}
