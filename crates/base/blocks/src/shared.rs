//! A block as a recorder passes it on with each execution.

use alloc::sync::Arc;
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

use crate::BasicBlock;

/// A block that many hold, with what each of its executions needs beside the pointer to it: what is looked at for every execution
/// is not fetched from wherever the block lies in memory.
#[derive(Clone, Debug)]
pub struct SharedBlock {
    held: Arc<HeldBlock>,
    instructions: u16,
    /// Accesses of each execution, or [`VARIES`].
    count: u16,
    values: u8,
    kept_values: u8,
    has_orders: bool,
}

/// What all holders have in common.
#[derive(Debug)]
struct HeldBlock {
    block: BasicBlock,
    /// Where the block is defined. The writer of a trace alone writes it, with release, after the definition is in the file; who
    /// relies on the definition reads it with acquire.
    defined_at: AtomicU64,
}

/// How many accesses an execution makes follows from its values. More than a block can have.
const VARIES: u16 = u16::MAX;
const _: () = assert!(crate::MAX_ACCESSES < VARIES as usize);

impl From<BasicBlock> for SharedBlock {
    fn from(block: BasicBlock) -> Self {
        Self {
            instructions: block.instructions(),
            count: if block.is_fixed() { block.accesses().len() as u16 } else { VARIES },
            values: block.values(),
            kept_values: block.kept_values(),
            has_orders: block.values() != block.kept_values(),
            held: Arc::new(HeldBlock { block, defined_at: AtomicU64::new(0) }),
        }
    }
}

impl Deref for SharedBlock {
    type Target = BasicBlock;

    fn deref(&self) -> &BasicBlock {
        &self.held.block
    }
}

impl SharedBlock {
    /// Whether the other is this same block, not only one of equal code.
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// A word for the writer of a trace, 0 at first: where it has defined the block. Looking that up elsewhere would cost more than
    /// all else that naming a block takes.
    #[inline]
    pub fn defined_at(&self) -> &AtomicU64 {
        &self.held.defined_at
    }

    /// As [`BasicBlock::instructions`].
    #[inline]
    pub fn instructions(&self) -> u16 {
        self.instructions
    }

    /// As [`BasicBlock::values`].
    #[inline]
    pub fn values(&self) -> u8 {
        self.values
    }

    /// As [`BasicBlock::kept_values`].
    #[inline]
    pub fn kept_values(&self) -> u8 {
        self.kept_values
    }

    /// Whether its executions have no orders.
    #[inline]
    pub fn has_no_orders(&self) -> bool {
        !self.has_orders
    }

    /// Accesses of each execution, where it [`is_fixed`](Self::is_fixed).
    #[inline]
    pub fn fixed_count(&self) -> Option<u16> {
        self.is_fixed().then_some(self.count)
    }

    /// As [`BasicBlock::is_fixed`].
    #[inline]
    pub fn is_fixed(&self) -> bool {
        self.count != VARIES
    }

    /// As [`BasicBlock::count`].
    #[inline]
    pub fn count(&self, values: &[u64]) -> u64 {
        if self.count == VARIES { self.held.block.count(values) } else { self.count.into() }
    }

    /// As [`BasicBlock::count_words`].
    #[inline]
    pub fn count_words(&self, words: &[[u8; 8]]) -> u64 {
        if self.count == VARIES { self.held.block.count_words(words) } else { self.count.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::tests::block;
    use crate::{BlockAccess, Masked, RecordedValues, Repeated};

    #[test]
    fn what_stands_beside_the_pointer_is_what_the_block_says() {
        let access = BlockAccess { base: 0, index: 1, size: 8, ..BlockAccess::NONE };
        let masked = Some(Masked { value: 1, bytes: 4, chosen: crate::Chosen::Each });
        let repeated = Some(Repeated { count_after: 1, place_after: 0 });
        for accesses in [
            &[][..],
            &[access],
            &[access, BlockAccess { masked, ..access }],
            &[BlockAccess { repeated, ..access }],
        ] {
            for values in [RecordedValues::plain(2), RecordedValues { count: 4, ordered: true }] {
                let one = block(values, accesses).expect("it has the values that it needs");
                let shared = SharedBlock::from(block(values, accesses).expect("as before"));
                assert_eq!(*shared, one);
                assert_eq!(shared.instructions(), one.instructions());
                assert_eq!((shared.values(), shared.kept_values()), (one.values(), one.kept_values()));
                assert_eq!(shared.has_no_orders(), !values.ordered);
                assert_eq!(shared.is_fixed(), one.is_fixed());
                assert_eq!(shared.fixed_count().is_some(), one.is_fixed());
                let words = [[5, 0, 0, 0, 0, 0, 0, 0]; 4];
                assert_eq!(shared.count_words(&words), one.count_words(&words));
                assert_eq!(shared.count(&[5, 0, 0, 0]), one.count(&[5, 0, 0, 0]));
                assert!(shared.is(&shared.clone()) && !shared.is(&SharedBlock::from(one)));
            }
        }
    }
}
