//! Reading the entries of a buffer. They are found from its end, since each header stands after its payload, and then read in the
//! order in which they were written.

use super::{CUT, CUT_ALL, EMBED, FIRST_BLOCK, ID_BITS, PAD};
use crate::layout::BUFFER_BYTES;

/// Words of a buffer.
const BUFFER_WORDS: usize = BUFFER_BYTES / 8;
const ID_MASK: u64 = (1 << ID_BITS) - 1;
/// In a noted place: see [`EntryPlace::is_cut`].
const IS_CUT: u16 = 1 << 15;
const _: () = assert!(BUFFER_WORDS <= IS_CUT as usize);

/// One entry of a translated thread's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Instructions without accesses.
    Instructions(u64),
    /// A record.
    Record(&'a [u8]),
    /// An execution of a block: its number, its values, and the instructions without accesses that followed it.
    Block(u32, &'a [[u8; 8]], u64),
    /// Only that many instructions of the block before were executed; `true`: but all its accesses were made.
    Cut(u64, bool),
}

/// Where the entries of one buffer are.
#[derive(Debug)]
pub struct EntryPlaces {
    /// The places of the headers, in words, from [`Self::first`] on.
    headers: [u16; BUFFER_WORDS],
    first: usize,
    /// Where the first entry starts, in words.
    start: u16,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    /// In words: where its payload starts, and where its header is.
    start: u16,
    header: u16,
    /// Whether only a part of the block that it tells of was executed: a [`Entry::Cut`] follows.
    pub is_cut: bool,
}

impl Default for EntryPlaces {
    fn default() -> Self {
        Self::new()
    }
}

/// An entry as it is found.
#[derive(Clone, Copy, Debug)]
pub struct FoundEntry {
    /// What its header says that it is: a block's number, or one of the numbers below [`FIRST_BLOCK`].
    pub id: u32,
    /// The number that its header has beside that.
    pub number: u64,
    /// Its index, for [`EntryPlaces::range`]: entries that follow one another have indices that do.
    pub index: u16,
    /// Where it is.
    pub place: EntryPlace,
}

impl FoundEntry {
    /// Its payload, of the buffer that it was found in.
    #[inline]
    pub fn payload<'a>(&self, words: &'a [[u8; 8]]) -> &'a [[u8; 8]] {
        words.get(usize::from(self.place.start)..usize::from(self.place.header)).unwrap_or(&[])
    }
}

impl EntryPlaces {
    /// The index after that of the last entry.
    pub const END: u16 = BUFFER_WORDS as u16;

    /// Of an empty buffer.
    pub const fn new() -> Self {
        Self { headers: [0; BUFFER_WORDS], first: BUFFER_WORDS, start: 0 }
    }

    /// Finds the entries of a buffer. `values` says how many values a block has. `false` where some bytes are no entries: then
    /// those after them were found.
    #[inline]
    pub fn find(&mut self, words: &[[u8; 8]], values: impl Fn(u32) -> Option<u8>) -> bool {
        self.find_each(words, values, |_| {})
    }

    /// As [`Self::find`]; `found` is told of each entry, the last one first.
    #[inline]
    pub fn find_each(
        &mut self,
        words: &[[u8; 8]],
        values: impl Fn(u32) -> Option<u8>,
        mut found: impl FnMut(FoundEntry),
    ) -> bool {
        let words = words.get(..BUFFER_WORDS).unwrap_or(words);
        let mut end = words.len();
        let mut first = BUFFER_WORDS;
        // What the entry found before, which follows, says of the one before it.
        let mut cut = 0;
        let whole = loop {
            let Some(at) = end.checked_sub(1) else { break true };
            let Some(word) = words.get(at) else { break false };
            let header = u64::from_le_bytes(*word);
            let id = header & ID_MASK;
            let (payload, next_cut) = if id >= u64::from(FIRST_BLOCK) {
                match values(id as u32) {
                    Some(values) => (usize::from(values), 0),
                    None => break false,
                }
            } else {
                match id {
                    // An empty one says nothing.
                    PAD => (0, if header == PAD { cut } else { 0 }),
                    EMBED => ((header >> ID_BITS) as usize, 0),
                    CUT => (1, IS_CUT),
                    _ => break false,
                }
            };
            let Some(start) = at.checked_sub(payload) else { break false };
            // There are no more entries than words.
            first -= 1;
            if let Some(place) = self.headers.get_mut(first) {
                *place = at as u16 | cut;
            }
            found(FoundEntry {
                id: id as u32,
                number: header >> ID_BITS,
                index: first as u16,
                place: EntryPlace { start: start as u16, header: at as u16, is_cut: cut != 0 },
            });
            cut = next_cut;
            end = start;
        };
        (self.first, self.start) = (first, end as u16);
        whole
    }

    /// The places, in the order in which they were written.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = EntryPlace> {
        self.range(self.first as u16, Self::END)
    }

    /// As [`Self::iter`], from the entry that was found with that index to the one before that with the other.
    #[inline]
    pub fn range(&self, from: u16, end: u16) -> impl Iterator<Item = EntryPlace> {
        let (from, end) = (usize::from(from).max(self.first), usize::from(end));
        let before = if from > self.first { self.headers.get(from - 1) } else { None };
        let mut start = before.map_or(self.start, |noted| (noted & !IS_CUT) + 1);
        self.headers.get(from..end).unwrap_or(&[]).iter().map(move |&noted| {
            let header = noted & !IS_CUT;
            let place = EntryPlace { start, header, is_cut: noted & IS_CUT != 0 };
            start = header + 1;
            place
        })
    }
}

/// The entry of a buffer at a place that was found in it.
#[inline]
pub fn entry(words: &[[u8; 8]], place: EntryPlace) -> Option<Entry<'_>> {
    let header = u64::from_le_bytes(*words.get(usize::from(place.header))?);
    let payload = words.get(usize::from(place.start)..usize::from(place.header))?;
    let number = header >> ID_BITS;
    let id = header & ID_MASK;
    if id >= u64::from(FIRST_BLOCK) {
        return Some(Entry::Block(id as u32, payload, number));
    }
    Some(match id {
        PAD => Entry::Instructions(number),
        EMBED => Entry::Record(payload.as_flattened()),
        _ => {
            let word = u64::from_le_bytes(*payload.first()?);
            Entry::Cut(word & 0xffff_ffff, word & CUT_ALL != 0)
        }
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn places(words: &[u64], values: impl Fn(u32) -> Option<u8>) -> (bool, Vec<[u8; 8]>, Vec<EntryPlace>) {
        let words: Vec<[u8; 8]> = words.iter().map(|word| word.to_le_bytes()).collect();
        let mut places = Box::new(EntryPlaces::new());
        let whole = places.find(&words, values);
        let found = places.iter().collect();
        (whole, words, found)
    }

    #[test]
    fn entries_are_found_from_the_end_and_read_in_order() {
        let all = [5u64 << ID_BITS, 11, 22, 17 | 3 << ID_BITS, 9, 8, EMBED | 2 << ID_BITS, 1 | CUT_ALL, CUT];
        let (whole, words, found) = places(&all, |id| (id == 17).then_some(2));
        assert!(whole);
        let entries: Vec<_> = found.iter().map(|&place| entry(&words, place).unwrap()).collect();
        assert_eq!(
            entries,
            [
                Entry::Instructions(5),
                Entry::Block(17, &words[1..3], 3),
                Entry::Record(words[4..6].as_flattened()),
                Entry::Cut(1, true)
            ]
        );
        let (whole, words, found) = places(&all[1..], |id| (id == 18).then_some(2));
        assert!(!whole, "nobody knows block 17");
        let entries: Vec<_> = found.iter().map(|&place| entry(&words, place).unwrap()).collect();
        assert!(matches!(entries[..], [Entry::Record(_), Entry::Cut(1, true)]), "{entries:?}");
        assert!(!places(&[CUT], |_| None).0);
        assert!(!places(&[3], |_| Some(0)).0, "3 is the header of nothing");
        assert_eq!(places(&[], |_| None), (true, Vec::new(), Vec::new()));
        assert_eq!(places(&[17; BUFFER_WORDS], |_| Some(0)).2.len(), BUFFER_WORDS);
    }

    #[test]
    fn ranges_begin_where_the_entry_before_ends() {
        let words: Vec<[u8; 8]> =
            [1, 2, 17, 17 << ID_BITS, 3, 4, 18].map(|word: u64| word.to_le_bytes()).into();
        let mut places = Box::new(EntryPlaces::new());
        let mut found = Vec::new();
        assert!(places.find_each(&words, |_| Some(2), |entry| found.push(entry)));
        found.reverse();
        assert_eq!(found.iter().map(|entry| entry.id).collect::<Vec<_>>(), [17, PAD as u32, 18]);
        assert_eq!(found[1].number, 17);
        assert_eq!(found[2].payload(&words), &words[4..6]);
        let all: Vec<_> = places.iter().collect();
        assert_eq!(found.iter().map(|entry| entry.place).collect::<Vec<_>>(), all);
        for (from, entry) in found.iter().enumerate() {
            assert!(places.range(entry.index, EntryPlaces::END).eq(all[from..].iter().copied()));
            assert!(places.range(entry.index, entry.index + 1).eq([all[from]]));
        }
    }

    #[test]
    fn a_block_that_is_cut_says_so() {
        let cut = |words: &[u64]| {
            let (_, words, found) = places(words, |_| Some(0));
            let cut = found.iter().filter(|place| place.is_cut);
            let ids = cut.map(|&place| entry(&words, place).unwrap());
            ids.map(|entry| if let Entry::Block(id, ..) = entry { id } else { 0 }).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[16, 17, 1, CUT, 18]), [17]);
        // Handlers leave an empty header after what they write.
        assert_eq!(cut(&[16, 17, PAD, 1, CUT, 18]), [17, 0]);
        assert_eq!(cut(&[16, 17, 1 << ID_BITS, 1, CUT, 18]), [0]);
        assert_eq!(cut(&[16, 17, 18]), []);
    }
}
