//! A map from words to numbers: open addressing, at most half full.

/// A place of the table. Number 0 marks a free one.
#[derive(Clone, Copy, Debug, Default)]
struct IndexSlot {
    key: u64,
    number: u32,
}

/// The table.
#[derive(Debug)]
pub(super) struct Index {
    slots: Vec<IndexSlot>,
    shift: u32,
    used: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        Self { slots: vec![IndexSlot::default(); 1 << 12], shift: 64 - 12, used: 0 }
    }

    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        // One is always free.
        while self.slots[at].number != 0 && self.slots[at].key != key {
            at = (at + 1) & mask;
        }
        at
    }

    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let number = self.slots[self.slot(key)].number;
        (number != 0).then_some(number)
    }

    /// The word's number, or `new`, which is not 0, after entering it.
    pub(super) fn find_or_insert(&mut self, key: u64, new: u32) -> u32 {
        let at = self.slot(key);
        if self.slots[at].number == 0 {
            self.put(at, key, new);
            return new;
        }
        self.slots[at].number
    }

    /// Enters a number that is not 0, or replaces the one that is there.
    pub(super) fn insert(&mut self, key: u64, number: u32) {
        self.put(self.slot(key), key, number);
    }

    fn put(&mut self, at: usize, key: u64, number: u32) {
        self.used += usize::from(self.slots[at].number == 0);
        self.slots[at] = IndexSlot { key, number };
        if self.used * 2 > self.slots.len() {
            let twice = vec![IndexSlot::default(); self.slots.len() * 2];
            self.shift -= 1;
            for slot in std::mem::replace(&mut self.slots, twice) {
                if slot.number != 0 {
                    let at = self.slot(slot.key);
                    self.slots[at] = slot;
                }
            }
        }
    }
}
