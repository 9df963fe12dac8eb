//! The storage of a data structure's words, so that each touched word can be counted.

use core::cell::Cell;

/// An array of words. Indices beyond [`WordStore::len`] panic; the structures check pages before they compute an index.
pub trait WordStore<W> {
    /// Words there are.
    fn len(&self) -> usize;
    /// Reads one word.
    fn load(&self, index: usize) -> W;
    /// Writes one word.
    fn store(&mut self, index: usize, word: W);
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads one word without being counted: to have it in the processor's cache when a model needs it.
    #[inline]
    fn peek(&self, index: usize) -> W {
        self.load(index)
    }
}

macro_rules! slices {
    ($(<$($p:tt),+> $t:ty),+) => { $(
        impl<$($p)+, W: Copy> WordStore<W> for $t {
            #[inline]
            fn len(&self) -> usize {
                self[..].len()
            }
            #[inline]
            fn load(&self, index: usize) -> W {
                self[index]
            }
            #[inline]
            fn store(&mut self, index: usize, word: W) {
                self[index] = word;
            }
        }
    )+ };
}
slices!(<'a> &'a mut [W]);

#[cfg(feature = "std")]
impl<W: Copy> WordStore<W> for std::vec::Vec<W> {
    #[inline]
    fn len(&self) -> usize {
        self[..].len()
    }
    #[inline]
    fn load(&self, index: usize) -> W {
        self[index]
    }
    #[inline]
    fn store(&mut self, index: usize, word: W) {
        self[index] = word;
    }
}

/// Every `STRIDE`-th word of a shared array: arrays with the same index lie beside each other, in one cache line.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a, W: Copy, const STRIDE: usize> {
    words: &'a [Cell<W>],
    lane: usize,
}

impl<'a, W: Copy, const STRIDE: usize> Lane<'a, W, STRIDE> {
    /// The words `lane`, `lane + STRIDE`, ...
    ///
    /// # Panics
    /// Where `lane` is not below `STRIDE`.
    pub fn new(words: &'a [Cell<W>], lane: usize) -> Self {
        assert!(lane < STRIDE, "a lane is one of {STRIDE}");
        Self { words, lane }
    }
}

impl<W: Copy, const STRIDE: usize> WordStore<W> for Lane<'_, W, STRIDE> {
    #[inline]
    fn len(&self) -> usize {
        self.words.len() / STRIDE
    }
    #[inline]
    fn load(&self, index: usize) -> W {
        self.words[index * STRIDE + self.lane].get()
    }
    #[inline]
    fn store(&mut self, index: usize, word: W) {
        self.words[index * STRIDE + self.lane].set(word);
    }
}

/// Counts the touches of a store: each load and each store of a word is one.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'c, S> {
    inner: S,
    touches: &'c Cell<u64>,
}

impl<'c, S> Counted<'c, S> {
    /// Counts in `touches`, which several stores may share.
    pub fn new(inner: S, touches: &'c Cell<u64>) -> Self {
        Self { inner, touches }
    }
}

impl<W, S: WordStore<W>> WordStore<W> for Counted<'_, S> {
    #[inline]
    fn len(&self) -> usize {
        self.inner.len()
    }
    #[inline]
    fn load(&self, index: usize) -> W {
        self.touches.set(self.touches.get() + 1);
        self.inner.load(index)
    }
    #[inline]
    fn peek(&self, index: usize) -> W {
        self.inner.peek(index)
    }
    #[inline]
    fn store(&mut self, index: usize, word: W) {
        self.touches.set(self.touches.get() + 1);
        self.inner.store(index, word);
    }
}

/// A store of two levels, as a hierarchical page table has them: a directory, and leaves of `2^leaf_bits` words that are
/// taken when something is first stored in them. Reading where there is no leaf gives `W::default()`; the structures
/// above don't ask for initialised words, except of the stack pointers, and those start as zero.
///
/// The leaves come from a pool that holds zeros. None is given back: a directory costs one more touch an access, and a
/// pool that is smaller than the address space bounds how many distinct leaves can ever be used.
#[derive(Clone, Debug)]
pub struct TwoLevel<D, P> {
    directory: D,
    pool: P,
    leaf_bits: u32,
    used: u32,
}

impl<D: WordStore<u32>, P> TwoLevel<D, P> {
    /// A store over a directory of zeros and a pool of zeros.
    pub fn new<W>(directory: D, pool: P, leaf_bits: u32) -> Self
    where
        P: WordStore<W>,
    {
        Self { directory, pool, leaf_bits, used: 0 }
    }

    /// Leaves in use.
    pub fn leaves(&self) -> u32 {
        self.used
    }

    fn split(&self, index: usize) -> (usize, usize) {
        (index >> self.leaf_bits, index & ((1 << self.leaf_bits) - 1))
    }
}

impl<W: Default, D: WordStore<u32>, P: WordStore<W>> WordStore<W> for TwoLevel<D, P> {
    fn len(&self) -> usize {
        self.directory.len() << self.leaf_bits
    }
    fn load(&self, index: usize) -> W {
        let (slot, within) = self.split(index);
        match self.directory.load(slot) {
            0 => W::default(),
            leaf => self.pool.load(((leaf as usize - 1) << self.leaf_bits) + within),
        }
    }
    fn store(&mut self, index: usize, word: W) {
        let (slot, within) = self.split(index);
        let mut leaf = self.directory.load(slot);
        if leaf == 0 {
            self.used += 1;
            leaf = self.used;
            self.directory.store(slot, leaf);
        }
        self.pool.store(((leaf as usize - 1) << self.leaf_bits) + within, word);
    }
}
