//! A block read from its definition and checked: the form that a recorder keeps, and from which executions are expanded.

use alloc::boxed::Box;
use alloc::vec::Vec;

use memref::{AccessKind, Order, VirtAddr};

use crate::{
    BlockAccess, Definition, Extent, MAX_DEFINITION_BYTES, MAX_VALUES, Masked, NO_VALUE, RecordedValues,
    encode_definition, values_of,
};

/// Values that are orders.
const ORDERS: u8 = 2;

/// Instructions that are executed one after the other, wherever they are, and their accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicBlock {
    addr: VirtAddr,
    instructions: u16,
    /// Values of an execution, without the orders.
    values: u8,
    /// Whether two more are recorded: the orders around it.
    ordered: bool,
    /// Accesses of each execution, where that does not depend on its values.
    count: Option<u16>,
    is_repeated: bool,
    accesses: Box<[BlockAccess]>,
}

impl BasicBlock {
    /// The block that is defined so; `None` where its accesses need values that it does not have.
    pub fn new(definition: &Definition<'_>) -> Option<Self> {
        let accesses: Box<[BlockAccess]> = definition.accesses().collect();
        let RecordedValues { count, ordered } = definition.values;
        let values = if ordered { count.checked_sub(ORDERS)? } else { count };
        let known = |value: u8| value < values;
        let addressed = |value: u8| value == NO_VALUE || known(value);
        let whole = usize::from(count) <= MAX_VALUES
            && accesses.iter().all(|access| {
                let repeated = access.repeated.is_none_or(|after| {
                    known(after.count_after)
                        && known(after.place_after)
                        && known(access.base)
                        && known(access.index)
                });
                let masked = access.masked.is_none_or(|masked| known(masked.value) && masked.bytes > 0);
                repeated && masked && addressed(access.base) && addressed(access.index)
            });
        let is_repeated = accesses.iter().any(|access| access.repeated.is_some());
        let varies = is_repeated || accesses.iter().any(|access| access.masked.is_some());
        whole.then(|| Self {
            addr: definition.extent.addr,
            instructions: definition.extent.instructions,
            values,
            ordered,
            count: (!varies).then_some(accesses.len() as u16),
            is_repeated,
            accesses,
        })
    }

    /// Its first instruction.
    #[inline]
    pub fn addr(&self) -> VirtAddr {
        self.addr
    }

    /// Instructions.
    #[inline]
    pub fn instructions(&self) -> u16 {
        self.instructions
    }

    /// The instruction that makes an access of it.
    #[inline]
    pub fn ip(&self, access: &BlockAccess) -> VirtAddr {
        VirtAddr(self.addr.0.wrapping_add_signed(access.offset))
    }

    /// Its accesses, in their order.
    #[inline]
    pub fn accesses(&self) -> &[BlockAccess] {
        &self.accesses
    }

    /// Values that an execution of it records.
    pub fn values(&self) -> u8 {
        if self.ordered { self.values + ORDERS } else { self.values }
    }

    /// Values without the orders: what a frame keeps of an execution.
    #[inline]
    pub fn kept_values(&self) -> u8 {
        self.values
    }

    /// The orders around an execution, if it has them: its one instruction was executed after the first, and before whatever
    /// comes after the second.
    #[inline]
    pub fn orders(&self, words: &[[u8; 8]]) -> Option<[Order; 2]> {
        if !self.ordered {
            return None;
        }
        let words: &[[u8; 8]; 2] = words.get(usize::from(self.values)..)?.first_chunk()?;
        Some(words.map(u64::from_le_bytes)).filter(|orders| orders[0] != 0)
    }

    /// Whether it ends with a repeated string instruction, so that its accesses are as many as its values say.
    #[inline]
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Whether each execution makes its accesses once each, whatever its values are.
    #[inline]
    pub fn is_fixed(&self) -> bool {
        self.count.is_some()
    }

    /// Accesses of one execution, from the values that it recorded.
    #[inline]
    pub fn count(&self, values: &[u64]) -> u64 {
        match self.count {
            Some(count) => count.into(),
            None => self.count_varying(values),
        }
    }

    /// As [`Self::count`], of values as a recorder finds them: little-endian, at any address.
    #[inline]
    pub fn count_words(&self, words: &[[u8; 8]]) -> u64 {
        match self.count {
            Some(count) => count.into(),
            None => self.count_varying(&values_of(words)),
        }
    }

    fn count_varying(&self, values: &[u64]) -> u64 {
        let mut count = 0u64;
        self.count_kinds(values, |_, times| count = count.saturating_add(times));
        count
    }

    /// Tells how often one execution makes each of its accesses, and of which kind that is, from the values that it recorded.
    pub fn count_kinds(&self, values: &[u64], mut add: impl FnMut(AccessKind, u64)) {
        let mut repeated = None;
        for access in &self.accesses {
            // All repeated accesses of a block are one instruction's, its last: they are made in turn.
            repeated = repeated.or_else(|| access.times(values));
            let elements = |masked: Masked| u64::from(masked.elements(access.size, values).count_ones());
            let times = repeated.or_else(|| access.masked.map(elements)).unwrap_or(1);
            add(access.kind, times);
        }
    }

    /// Appends its definition as a frame keeps it: with number 0, without the orders and its bytes of code.
    pub fn put_definition(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(self.addr, self.instructions);
        let values = RecordedValues::plain(self.values);
        let len = encode_definition(0, extent, values, &self.accesses, &mut bytes);
        out.extend_from_slice(&bytes[..len]);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use memref::AccessKind;
    use std::vec;

    pub(crate) const ADDR: VirtAddr = VirtAddr(0x40_1000);

    pub(crate) fn block(values: RecordedValues, accesses: &[BlockAccess]) -> Option<BasicBlock> {
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(ADDR, 5);
        let len = encode_definition(7, extent, values, accesses, &mut bytes);
        let (definition, _) = Definition::decode(&bytes[..len]).expect("it was just encoded");
        BasicBlock::new(&definition)
    }

    #[test]
    fn blocks_that_need_what_they_do_not_have_are_none() {
        let access = BlockAccess { base: 2, ..BlockAccess::NONE };
        assert_eq!(block(RecordedValues::plain(2), &[access]), None);
        assert!(block(RecordedValues::plain(3), &[access]).is_some());
        assert_eq!(block(RecordedValues::plain(MAX_VALUES as u8 + 1), &[]), None);
    }

    #[test]
    fn orders_stand_after_the_values() {
        let access = BlockAccess { base: 0, size: 8, kind: AccessKind::Modify, ..BlockAccess::NONE };
        let ordered = |count| RecordedValues { count, ordered: true };
        let words = |values: &[u64]| values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let found = block(ordered(3), &[access]).unwrap();
        assert_eq!((found.values(), found.kept_values()), (3, 1));
        assert_eq!(found.orders(&words(&[0x5000, 41, 44])), Some([41, 44]));
        assert_eq!(found.orders(&words(&[0x5000, 0, 0])), None, "the thread was alone");
        assert_eq!(found.orders(&words(&[0x5000, 41])), None);
        assert_eq!(block(ordered(1), &[]), None, "orders are two");
    }

    #[test]
    fn a_kept_definition_has_neither_number_nor_orders() {
        let access = BlockAccess { base: 0, size: 8, ..BlockAccess::NONE };
        let found = block(RecordedValues { count: 3, ordered: true }, &[access]).unwrap();
        let mut bytes = vec![];
        found.put_definition(&mut bytes);
        let (definition, len) = Definition::decode(&bytes).unwrap();
        assert_eq!((definition.id, len), (0, bytes.len()));
        assert_eq!(BasicBlock::new(&definition), block(RecordedValues::plain(1), &[access]));
    }
}
