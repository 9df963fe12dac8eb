//! A thread's cache of answers from the code cache. The thread asks for the same few
//! addresses again and again, and the code cache has only one lock for all threads.

use code_cache::{Mode, changes};

const KNOWN: usize = 1 << KNOWN_BITS;
const KNOWN_BITS: u32 = 8;

#[derive(Clone, Copy)]
enum Answer {
    Nothing,
    /// Code for the address is there.
    Code(u64),
    /// Indirect branches to the address leave the cache.
    Stop,
}

#[derive(Clone, Copy)]
struct KnownCode {
    addr: u64,
    mode: Mode,
    /// When it was told.
    changes: u32,
    answer: Answer,
}

/// Some answers, by their addresses.
pub(crate) struct KnownCodes([KnownCode; KNOWN]);

impl KnownCodes {
    pub(crate) const NONE: Self =
        Self([KnownCode { addr: 0, mode: Mode::Record, changes: 0, answer: Answer::Nothing }; KNOWN]);

    fn place(addr: u64, mode: Mode) -> usize {
        // A call's return is asked for in two modes. The factor is 2^64 over the golden ratio: it spreads what differs in few bits.
        let key = addr.rotate_left(2) ^ mode as u64;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - KNOWN_BITS)) as usize
    }

    fn answer(&self, addr: u64, mode: Mode) -> Answer {
        match self.0.get(Self::place(addr, mode)) {
            Some(known) if (known.addr, known.mode, known.changes) == (addr, mode, changes()) => known.answer,
            _ => Answer::Nothing,
        }
    }

    /// Code for an address, where it is known.
    pub(crate) fn code(&self, addr: u64, mode: Mode) -> Option<u64> {
        match self.answer(addr, mode) {
            Answer::Code(code) => Some(code),
            Answer::Stop | Answer::Nothing => None,
        }
    }

    /// Whether it is known that branches to the address leave the cache.
    pub(crate) fn is_stop(&self, addr: u64, mode: Mode) -> bool {
        matches!(self.answer(addr, mode), Answer::Stop)
    }

    fn note(&mut self, addr: u64, mode: Mode, answer: Answer) {
        if let Some(place) = self.0.get_mut(Self::place(addr, mode)) {
            *place = KnownCode { addr, mode, changes: changes(), answer };
        }
    }

    /// The cache's answer, noted while its lock is held.
    pub(crate) fn note_code(&mut self, addr: u64, mode: Mode, code: u64) {
        self.note(addr, mode, Answer::Code(code));
    }

    /// The cache has been told, noted while its lock is held.
    pub(crate) fn note_stop(&mut self, addr: u64, mode: Mode) {
        self.note(addr, mode, Answer::Stop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_its_address_and_mode() {
        let mut known = KnownCodes::NONE;
        assert_eq!((known.code(0, Mode::Record), known.is_stop(0, Mode::Record)), (None, false));
        known.note_code(0x1000, Mode::Record, 7);
        known.note_stop(0x1000, Mode::Silent);
        assert_eq!((known.code(0x1000, Mode::Record), known.is_stop(0x1000, Mode::Record)), (Some(7), false));
        assert_eq!((known.code(0x1000, Mode::Silent), known.is_stop(0x1000, Mode::Silent)), (None, true));
        // Another one takes its place.
        let other = (1..)
            .map(|turn| 0x1000 + turn)
            .find(|&other| KnownCodes::place(other, Mode::Record) == KnownCodes::place(0x1000, Mode::Record));
        known.note_code(other.unwrap(), Mode::Record, 8);
        assert_eq!(
            (known.code(0x1000, Mode::Record), known.code(other.unwrap(), Mode::Record)),
            (None, Some(8))
        );
    }
}
