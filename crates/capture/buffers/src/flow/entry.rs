//! Reads the entries of a buffer in the order in which they were written.

use super::{CUT, CUT_ALL, EMBED, FIRST_BLOCK, ID_BITS, PAD};

const ID_MASK: u64 = (1 << ID_BITS) - 1;

/// One entry of a translated thread's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Instructions without accesses.
    Instructions(u64),
    /// A record.
    Record(&'a [u8]),
    /// An execution of a block.
    Block(EntryHeader),
    /// Only that many instructions of the block before were executed; `true`: but all its accesses were made.
    Cut(u64, bool),
}

/// The header of an execution: its values follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// The block's number.
    pub id: u32,
    /// The instructions without accesses that followed.
    pub after: u64,
}

/// The entries of a buffer that were not read yet.
///
/// How many values an execution has is the block's to say: who reads one takes them ([`Entries::values`]) before the next entry.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    words: &'a [[u8; 8]],
    is_broken: bool,
}

impl<'a> Entries<'a> {
    /// Those of a buffer.
    pub fn new(words: &'a [[u8; 8]]) -> Self {
        Self { words, is_broken: false }
    }

    /// The next entry; `None` at the end, or where some bytes are none.
    #[inline]
    pub fn next_entry(&mut self) -> Option<Entry<'a>> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        let header = u64::from_le_bytes(*word);
        let (id, number) = (header & ID_MASK, header >> ID_BITS);
        if id >= u64::from(FIRST_BLOCK) {
            return Some(Entry::Block(EntryHeader { id: id as u32, after: number }));
        }
        match id {
            PAD => Some(Entry::Instructions(number)),
            EMBED => self.take(number as usize).map(|payload| Entry::Record(payload.as_flattened())),
            CUT => {
                let word = u64::from_le_bytes(*self.take(1)?.first()?);
                Some(Entry::Cut(word & 0xffff_ffff, word & CUT_ALL != 0))
            }
            _ => {
                self.end_here();
                None
            }
        }
    }

    /// The values of the execution whose header was read last.
    #[inline]
    pub fn values(&mut self, count: u8) -> Option<&'a [[u8; 8]]> {
        self.take(count.into())
    }

    /// Whether only a part of the execution that was read last took place: a [`Entry::Cut`] follows.
    #[inline]
    pub fn is_cut(&self) -> bool {
        let mut headers = self.words.iter().map(|word| u64::from_le_bytes(*word));
        // An empty one says nothing.
        headers.find(|&header| header != PAD).is_some_and(|header| header & ID_MASK == CUT)
    }

    /// What comes next are no entries: nothing more is read.
    #[cold]
    pub fn end_here(&mut self) {
        (self.words, self.is_broken) = (&[], true);
    }

    /// Words that were not read yet.
    pub fn left(&self) -> usize {
        self.words.len()
    }

    /// Whether bytes were met that are no entries. What comes after them was not found.
    pub fn are_broken(&self) -> bool {
        self.is_broken
    }

    #[inline]
    fn take(&mut self, count: usize) -> Option<&'a [[u8; 8]]> {
        match self.words.split_at_checked(count) {
            Some((taken, rest)) => {
                self.words = rest;
                Some(taken)
            }
            None => {
                self.end_here();
                None
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn buffer(words: &[u64]) -> Vec<[u8; 8]> {
        words.iter().map(|word| word.to_le_bytes()).collect()
    }

    /// An entry, and its values if it is an execution.
    type WithValues<'a> = (Entry<'a>, &'a [[u8; 8]]);

    /// The entries of blocks that have two values each; whether there was something else.
    fn read(words: &[[u8; 8]]) -> (Vec<WithValues<'_>>, bool) {
        let mut entries = Entries::new(words);
        let mut all = Vec::new();
        while let Some(entry) = entries.next_entry() {
            let values = if let Entry::Block(_) = entry { entries.values(2) } else { Some(&[][..]) };
            all.extend(values.map(|values| (entry, values)));
        }
        (all, entries.are_broken())
    }

    #[test]
    fn entries_are_read_in_order() {
        let words =
            buffer(&[5 << ID_BITS, 17 | 3 << ID_BITS, 11, 22, EMBED | 2 << ID_BITS, 9, 8, CUT, 1 | CUT_ALL]);
        let block = Entry::Block(EntryHeader { id: 17, after: 3 });
        let expected = [
            (Entry::Instructions(5), &[][..]),
            (block, &words[2..4]),
            (Entry::Record(words[5..7].as_flattened()), &[]),
            (Entry::Cut(1, true), &[]),
        ];
        assert_eq!(read(&words), (expected.to_vec(), false));
        assert_eq!(read(&[]), (Vec::new(), false));
    }

    #[test]
    fn what_is_no_entry_ends_the_buffer() {
        let check = |words: &[u64], found: usize| {
            let words = buffer(words);
            let (entries, is_broken) = read(&words);
            assert!(is_broken);
            assert_eq!(entries.len(), found);
        };
        check(&[PAD, 3, PAD], 1);
        check(&[PAD, 17, 1], 1);
        check(&[CUT], 0);
        check(&[PAD, PAD, EMBED | 2 << ID_BITS, 1], 2);
        check(&[EMBED | u64::MAX << ID_BITS, 1], 0);
    }

    #[test]
    fn a_block_that_is_cut_says_so() {
        let cut = |words: &[u64]| {
            let words = buffer(words);
            let mut entries = Entries::new(&words);
            let mut cut = Vec::new();
            while let Some(entry) = entries.next_entry() {
                if let Entry::Block(EntryHeader { id, .. }) = entry
                    && entries.is_cut()
                {
                    cut.push(id);
                }
            }
            cut
        };
        assert_eq!(cut(&[16, 17, CUT, 1, 18]), [17]);
        // Handlers leave an empty header after what they write.
        assert_eq!(cut(&[16, 17, PAD, PAD, CUT, 1, 18]), [17]);
        assert_eq!(cut(&[16, 17, 1 << ID_BITS, CUT, 1, 18]), []);
        assert_eq!(cut(&[16, 17, 18]), []);
    }
}
