//! Pseudo-LRU replacement for any number of ways: one bit per way, set on use; when all bits are set, all
//! others are cleared. The victim is the first way whose bit is clear. (Known as bit-PLRU or MRU replacement.)

/// The bits.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    words: Vec<u64>,
    ways: usize,
    used: usize,
}

impl Recency {
    pub(crate) fn new(ways: usize) -> Self {
        Self { words: vec![0; ways.div_ceil(64)], ways, used: 0 }
    }

    #[inline]
    pub(crate) fn touch(&mut self, way: usize) {
        let (word, bit) = (way / 64, 1 << (way % 64));
        if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.used += 1;
            if self.used == self.ways {
                self.words.fill(0);
                self.words[word] = bit;
                self.used = 1;
            }
        }
    }

    /// The way to give up next.
    pub(crate) fn victim(&self) -> usize {
        for (index, &word) in self.words.iter().enumerate() {
            if word != u64::MAX {
                let way = index * 64 + word.trailing_ones() as usize;
                if way < self.ways {
                    return way;
                }
            }
        }
        0
    }

    /// The way is empty: it is as good as never used.
    pub(crate) fn forget(&mut self, way: usize) {
        let (word, bit) = (way / 64, 1 << (way % 64));
        if self.words[word] & bit != 0 {
            self.words[word] &= !bit;
            self.used -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_is_never_the_victim() {
        for ways in [2, 3, 64, 65, 128] {
            let mut recency = Recency::new(ways);
            for step in 0..1000 {
                let way = step * 7 % ways;
                recency.touch(way);
                assert_ne!(recency.victim(), way);
                assert!(recency.victim() < ways);
            }
        }
    }
}
