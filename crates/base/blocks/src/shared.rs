//! A block as a recorder hands it on, execution by execution.

use alloc::sync::Arc;
use core::ops::Deref;

use crate::BasicBlock;

/// A block that many hold, with what each of its executions needs beside the pointer to it: what is looked at for every execution
/// is not fetched from wherever the block lies in memory.
#[derive(Clone, Debug)]
pub struct SharedBlock {
    block: Arc<BasicBlock>,
    instructions: u16,
    /// Accesses of each execution, or [`VARIES`].
    count: u16,
    values: u8,
    kept_values: u8,
    has_orders: bool,
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
            block: Arc::new(block),
        }
    }
}

impl Deref for SharedBlock {
    type Target = BasicBlock;

    fn deref(&self) -> &BasicBlock {
        &self.block
    }
}

impl SharedBlock {
    /// Whether the other is this same block, not only one of equal code.
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
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

    /// As [`BasicBlock::count_words`].
    #[inline]
    pub fn count_words(&self, words: &[[u8; 8]]) -> u64 {
        if self.count == VARIES { self.block.count_words(words) } else { self.count.into() }
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
                assert!(shared.is(&shared.clone()) && !shared.is(&SharedBlock::from(one)));
            }
        }
    }
}
