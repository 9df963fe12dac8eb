//! A frame of accesses as the executions of blocks that made them, for counting what many accesses have in common in one step.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use blocks::{BasicBlock, SharedBlock};
use memref::Access;

/// One item of a frame.
#[derive(Clone, Copy, Debug)]
pub enum ExecutedItem<'a> {
    /// A block was executed.
    Block {
        /// Its place among the blocks of the frame.
        number: u32,
        /// The block.
        block: &'a BasicBlock,
        /// The cycle at which it began.
        cycle: u64,
        /// The values that it recorded.
        values: &'a [u64],
    },
    /// An access by itself.
    Single(&'a Access),
}

/// Where an item is.
#[derive(Clone, Copy, Debug)]
struct ListedItem {
    cycle: u64,
    /// The block's place in the list of blocks, or [`SINGLE`].
    block: u32,
    /// The place of its first value, or of the single access.
    place: u32,
}

/// Stands in place of a block.
const SINGLE: u32 = u32::MAX;

/// The executions of a frame, in their order.
#[derive(Debug, Default)]
pub struct ExecutedFrame {
    serial: u64,
    fs_base: u64,
    blocks: Vec<SharedBlock>,
    items: Vec<ListedItem>,
    values: Vec<u64>,
    singles: Vec<Access>,
    accesses: u64,
}

impl ExecutedFrame {
    /// Empties it, for another frame.
    pub(crate) fn begin(&mut self) {
        /// Numbers only have to differ, so no order is needed.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.serial = NEXT.fetch_add(1, Ordering::Relaxed);
        self.fs_base = 0;
        self.blocks.clear();
        self.items.clear();
        self.values.clear();
        self.singles.clear();
        self.accesses = 0;
    }

    /// Adds an access by itself.
    pub(crate) fn push_single(&mut self, access: Access) {
        self.items.push(ListedItem { cycle: access.cycle, block: SINGLE, place: self.singles.len() as u32 });
        self.singles.push(access);
        self.accesses += 1;
    }

    /// Adds an execution of a block that [`Self::end`] will tell of, which makes so many accesses.
    #[inline]
    pub(crate) fn push(&mut self, block: u32, cycle: u64, values: &[u64], accesses: u64) {
        self.items.push(ListedItem { cycle, block, place: self.values.len() as u32 });
        // They are few: not worth a call.
        self.values.extend(values.iter().copied());
        self.accesses += accesses;
    }

    /// Values so far.
    pub(crate) fn values(&self) -> usize {
        self.values.len()
    }

    /// The blocks of its executions, and the thread's fs base.
    pub(crate) fn end(&mut self, blocks: Vec<SharedBlock>, fs_base: u64) {
        self.blocks = blocks;
        self.fs_base = fs_base;
    }

    /// A number that no other frame of this process has, whenever it is read: for those who remember what its blocks are.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The fs base of the thread.
    pub fn fs_base(&self) -> u64 {
        self.fs_base
    }

    /// Its blocks.
    pub fn blocks(&self) -> &[SharedBlock] {
        &self.blocks
    }

    /// How many accesses all items make.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items of a part of it.
    #[inline]
    pub fn items(&self, part: Range<usize>) -> impl Iterator<Item = ExecutedItem<'_>> {
        self.items[part].iter().map(|listed| self.item(listed))
    }

    #[inline]
    fn item(&self, listed: &ListedItem) -> ExecutedItem<'_> {
        let place = listed.place as usize;
        match self.blocks.get(listed.block as usize) {
            Some(block) => {
                let values = &self.values[place..place + usize::from(block.kept_values())];
                ExecutedItem::Block { number: listed.block, block, cycle: listed.cycle, values }
            }
            None => ExecutedItem::Single(&self.singles[place]),
        }
    }

    /// Appends the accesses that an item makes.
    pub fn expand(&self, item: &ExecutedItem<'_>, into: &mut Vec<Access>) {
        match item {
            ExecutedItem::Block { block, cycle, values, .. } => {
                block.expand(*cycle, values, self.fs_base, into);
            }
            ExecutedItem::Single(access) => into.push(**access),
        }
    }

    /// Appends the accesses of a part of it.
    pub fn expand_part(&self, part: Range<usize>, into: &mut Vec<Access>) {
        self.items(part).for_each(|item| self.expand(&item, into));
    }

    /// The cycle of the first access that an item may make.
    pub(crate) fn first_cycle(&self, item: usize) -> u64 {
        self.cycle_of(item, |block| block.accesses().first().map_or(0, |access| access.instruction))
    }

    /// The cycle of the last access that an item may make.
    pub(crate) fn last_cycle(&self, item: usize) -> u64 {
        self.cycle_of(item, |block| block.accesses().last().map_or(0, |access| access.instruction))
    }

    fn cycle_of(&self, item: usize, instruction: impl Fn(&BasicBlock) -> u16) -> u64 {
        let listed = &self.items[item];
        let after = self.blocks.get(listed.block as usize).map_or(0, |block| instruction(block));
        listed.cycle.saturating_add(after.into())
    }
}
