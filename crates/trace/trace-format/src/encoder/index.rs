//! From a word to a number: open addressing, at most half full.

/// The table.
#[derive(Debug)]
pub(super) struct Index {
    slots: Vec<(u64, u32)>,
    shift: u32,
    used: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        Self { slots: vec![(0, 0); 1 << 12], shift: 64 - 12, used: 0 }
    }

    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        // Number 0 marks a free slot. One is always free.
        while self.slots[at].1 != 0 && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }

    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let number = self.slots[self.slot(key)].1;
        (number != 0).then_some(number)
    }

    /// The word's number, or `new`, which is not 0, after entering it.
    pub(super) fn find_or_insert(&mut self, key: u64, new: u32) -> u32 {
        let at = self.slot(key);
        if self.slots[at].1 == 0 {
            self.put(at, key, new);
            return new;
        }
        self.slots[at].1
    }

    /// Enters a number that is not 0, or replaces the one that is there.
    pub(super) fn insert(&mut self, key: u64, number: u32) {
        self.put(self.slot(key), key, number);
    }

    fn put(&mut self, at: usize, key: u64, number: u32) {
        self.used += usize::from(self.slots[at].1 == 0);
        self.slots[at] = (key, number);
        if self.used * 2 > self.slots.len() {
            let twice = vec![(0, 0); self.slots.len() * 2];
            self.shift -= 1;
            for entry in std::mem::replace(&mut self.slots, twice) {
                if entry.1 != 0 {
                    let at = self.slot(entry.0);
                    self.slots[at] = entry;
                }
            }
        }
    }
}
