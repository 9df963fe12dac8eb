//! Storage for what a hit passes on instead of the program's own argument: signal sets, and the argument of `sigaction`.

/// Words of the longest: glibc's `struct sigaction`.
const WORDS: usize = size_of::<libc::sigaction>() / size_of::<u64>();
/// A handler of a signal may come between a hit and the call that reads its copy, and make calls of its own.
const COPIES: usize = 16;

/// The latest copies of a thread. Written by that thread only.
#[derive(Debug)]
pub struct MaskCopies {
    copies: [[u64; WORDS]; COPIES],
    next: usize,
}

impl MaskCopies {
    pub(crate) const fn new() -> Self {
        Self { copies: [[0; WORDS]; COPIES], next: 0 }
    }

    /// Keeps a copy of `words`, without SIGTRAP in the word `set`; its address.
    pub fn without_trap(&mut self, words: &[u64], set: usize) -> Option<usize> {
        let at = self.next % COPIES;
        self.next = self.next.wrapping_add(1);
        let copy = self.copies.get_mut(at)?;
        copy.fill(0);
        copy.get_mut(..words.len())?.copy_from_slice(words);
        *copy.get_mut(set)? &= !TRAP;
        Some(copy.as_ptr() as usize)
    }
}

/// SIGTRAP in the first word of a set.
pub const TRAP: u64 = 1 << (libc::SIGTRAP - 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lack_sigtrap_alone_and_outlive_those_of_a_few_handlers() {
        let mut copies = MaskCopies::new();
        let first = copies.without_trap(&[u64::MAX, 7], 0).unwrap();
        for word in 0..COPIES as u64 - 1 {
            copies.without_trap(&[word; WORDS], 1).unwrap();
        }
        // SAFETY: two words of a copy.
        assert_eq!(unsafe { *(first as *const [u64; 2]) }, [!TRAP, 7]);
        assert_eq!(copies.without_trap(&[0; WORDS + 1], 0), None);
    }
}
