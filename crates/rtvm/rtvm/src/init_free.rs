//! The initialisation-free array (Böhnert and Scholl, section II-C1; Mehlhorn 1984).

use crate::WordStore;

/// An array whose elements all have a default value after [`InitFreeArray::reset`], which touches one word however long
/// the array is. Read, write and reset take constant time; what the stores hold at the start does not matter.
///
/// Invariant: element `i` was written since the reset exactly if `helper[i] < used` and `stack[helper[i]] == i`.
#[derive(Clone, Debug)]
pub struct InitFreeArray<W, S> {
    data: S,
    helper: S,
    stack: S,
    used: usize,
    default: W,
}

impl<W: Copy + TryFrom<usize> + TryInto<usize>, S: WordStore<W>> InitFreeArray<W, S> {
    /// An array over three stores of equal length with any content, all elements `default`.
    ///
    /// # Panics
    /// Where the stores differ in length, or `W` can't count their elements.
    pub fn new(data: S, helper: S, stack: S, default: W) -> Self {
        assert!(data.len() == helper.len() && data.len() == stack.len(), "three stores of one length");
        assert!(W::try_from(data.len()).is_ok(), "a word counts the elements");
        Self { data, helper, stack, used: 0, default }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    fn valid(&self, index: usize) -> bool {
        // Garbage that is no index is not valid.
        let Ok(place) = self.helper.load(index).try_into() else { return false };
        place < self.used && self.stack.load(place).try_into().is_ok_and(|back| back == index)
    }

    /// The element.
    ///
    /// # Panics
    /// Where there is none.
    pub fn get(&self, index: usize) -> W {
        if self.valid(index) { self.data.load(index) } else { self.default }
    }

    /// Writes an element.
    ///
    /// # Panics
    /// Where there is none.
    pub fn set(&mut self, index: usize, value: W) {
        if !self.valid(index)
            && let (Ok(place), Ok(back)) = (W::try_from(self.used), W::try_from(index))
        {
            self.helper.store(index, place);
            self.stack.store(self.used, back);
            self.used += 1;
        }
        self.data.store(index, value);
    }

    /// Makes all elements the default again, in constant time.
    pub fn reset(&mut self) {
        self.used = 0;
    }

    /// Elements written since the reset.
    pub fn written(&self) -> usize {
        self.used
    }
}
