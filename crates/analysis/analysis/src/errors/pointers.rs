//! Which words of memory hold pointers to blocks, as far as the recorded values tell. This
//! determines which of the blocks that were never released the program could still have reached.
//!
//! A word is eight bytes at an address that is a multiple of eight, as compilers store pointers.
//! Stacks are tracked separately: what lies below a return address when it is written, or below
//! the stack pointer after a function has returned, no longer belongs to the program.

use memref::{Access, ProcessId, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{RegionId, Resolver};

use super::reach::PointerWord;
use crate::stack::{CallEdge, Instructions};

const WORD: u64 = 8;
const PAGE_WORDS: usize = (VirtAddr::PAGE_BYTES / WORD) as usize;
/// The longest and the shortest call.
const CALL_BYTES: std::ops::RangeInclusive<u64> = 2..=15;

/// The words of all processes that may be pointers.
#[derive(Debug, Default)]
pub(super) struct PointerWords {
    processes: FxHashMap<ProcessId, ProcessWords>,
    threads: FxHashMap<ThreadId, ThreadWords>,
}

/// The words of a process, but for those on stacks. Zero: no pointer.
#[derive(Debug, Default)]
struct ProcessWords {
    pages: FxHashMap<u64, Box<[u64; PAGE_WORDS]>>,
    /// Where blocks have been.
    lowest: u64,
    highest: u64,
}

/// The words on the stack of a thread.
#[derive(Debug, Default)]
struct ThreadWords {
    process: ProcessId,
    /// The region of the last return address that was written.
    stack: Option<RegionId>,
    /// The highest address first.
    words: Vec<PointerWord>,
    partial: PartialWord,
}

/// A word that is written in several parts.
#[derive(Debug, Default)]
struct PartialWord {
    at: u64,
    value: u64,
    /// A bit for each byte that was written.
    written: u8,
}

impl PartialWord {
    /// The whole word, if these bytes of it are the last ones.
    fn add(&mut self, at: u64, from: u64, bytes: &[u8]) -> Option<u64> {
        if self.at != at || self.written == u8::MAX {
            *self = Self { at, value: 0, written: 0 };
        }
        for (&byte, place) in bytes.iter().zip(from..WORD) {
            self.value = self.value & !(0xff << (8 * place)) | u64::from(byte) << (8 * place);
            self.written |= 1 << place;
        }
        (self.written == u8::MAX).then_some(self.value)
    }
}

impl ProcessWords {
    fn may_point(&self, value: u64) -> bool {
        (self.lowest..self.highest).contains(&value)
    }

    fn set(&mut self, at: u64, value: u64) {
        let (page, place) = (at / VirtAddr::PAGE_BYTES, (at % VirtAddr::PAGE_BYTES / WORD) as usize);
        match self.pages.get_mut(&page) {
            Some(words) => words[place] = value,
            None if value == 0 => {}
            None => {
                let mut words = Box::new([0; PAGE_WORDS]);
                words[place] = value;
                self.pages.insert(page, words);
            }
        }
    }

    fn get(&self, at: u64) -> u64 {
        let place = (at % VirtAddr::PAGE_BYTES / WORD) as usize;
        self.pages.get(&(at / VirtAddr::PAGE_BYTES)).map_or(0, |words| words[place])
    }

    /// The words that a range touches are no pointers any more.
    fn clear(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        let mut at = start / WORD * WORD;
        while at < end && !self.pages.is_empty() {
            let page_end = (at / VirtAddr::PAGE_BYTES + 1).saturating_mul(VirtAddr::PAGE_BYTES);
            let stop = end.min(page_end);
            if let Some(words) = self.pages.get_mut(&(at / VirtAddr::PAGE_BYTES)) {
                let place = |at: u64| (at % VirtAddr::PAGE_BYTES / WORD) as usize;
                words[place(at)..=place(stop - 1)].fill(0);
            }
            at = stop;
        }
    }
}

impl ThreadWords {
    /// The stack pointer is there: what lies below is left from functions that returned.
    fn leave_below(&mut self, stack_pointer: u64) {
        while self.words.pop_if(|word| word.at < stack_pointer).is_some() {}
    }

    fn set(&mut self, at: u64, value: Option<u64>) {
        let place = self.words.partition_point(|word| word.at > at);
        let is_there = self.words.get(place).is_some_and(|word| word.at == at);
        match value {
            Some(value) if is_there => self.words[place].value = value,
            Some(value) => self.words.insert(place, PointerWord { at, value }),
            None if is_there => _ = self.words.remove(place),
            None => {}
        }
    }

    fn clear(&mut self, start: u64, len: u64) {
        let is_above = self.words.first().is_none_or(|first| first.at < start / WORD * WORD);
        if !is_above {
            let (first, end) = (start / WORD * WORD, start.saturating_add(len));
            self.words.retain(|word| !(first..end).contains(&word.at));
        }
    }
}

impl PointerWords {
    /// A process has a block there; of a new one nobody knows what is in it.
    pub(super) fn allocated(&mut self, process: ProcessId, start: VirtAddr, len: u64, is_new: bool) {
        let words = self.processes.entry(process).or_default();
        let end = start.0.saturating_add(len.max(1));
        (words.lowest, words.highest) = match words.highest {
            0 => (start.0, end),
            _ => (words.lowest.min(start.0), words.highest.max(end)),
        };
        if is_new {
            words.clear(start.0, len);
        }
    }

    /// What an access left in memory, or found there: nothing where that is not known.
    pub(super) fn access(
        &mut self,
        resolver: &mut Resolver,
        instructions: &mut Instructions,
        thread: ThreadId,
        access: &Access,
        bytes: Option<&[u8]>,
    ) {
        let process = resolver.process();
        let Some(words) = self.processes.get_mut(&process) else { return };
        let own = self.threads.entry(thread).or_default();
        own.process = process;
        let addr = access.addr.0;
        let Some(bytes) = bytes else {
            if access.kind.writes() {
                words.clear(addr, access.size.into());
                own.clear(addr, access.size.into());
            }
            return;
        };
        if let ([a, b, c, d, e, f, g, h], true) = (bytes, access.kind.writes()) {
            let value = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            if CALL_BYTES.contains(&value.wrapping_sub(access.ip.0)) {
                own.stack = resolver.resolve_data(access.addr).region;
                own.leave_below(addr);
            }
        }
        // A return takes its address from the stack, which then begins behind it.
        let is_below = own.words.last().is_some_and(|lowest| lowest.at < addr);
        if is_below
            && instructions.edge(resolver, access) == CallEdge::Return
            && own.stack == resolver.resolve_data(access.addr).region
        {
            own.leave_below(addr.saturating_add(WORD));
        }
        let mut rest = bytes;
        let mut at = addr;
        while !rest.is_empty() {
            let (word, from) = (at / WORD * WORD, at % WORD);
            let (part, after) = rest.split_at(rest.len().min((WORD - from) as usize));
            let whole = match <[u8; WORD as usize]>::try_from(part) {
                Ok(whole) => Some(u64::from_le_bytes(whole)),
                // A part of a pointer that is read tells nothing of the rest.
                Err(_) if access.kind.writes() => Some(own.partial.add(word, from, part).unwrap_or(0)),
                Err(_) => None,
            };
            if let Some(value) = whole {
                let pointer = Some(value).filter(|value| words.may_point(*value));
                let mut is_on_stack = || {
                    let region = resolver.resolve_data(VirtAddr(word)).region;
                    region.is_some() && region == own.stack
                };
                if pointer.is_some() && is_on_stack() {
                    own.set(word, pointer);
                } else {
                    words.set(word, pointer.unwrap_or(0));
                    own.set(word, None);
                }
            }
            (at, rest) = (at + part.len() as u64, after);
        }
    }

    /// The allocator moved what a block held.
    pub(super) fn moved(&mut self, process: ProcessId, from: VirtAddr, to: VirtAddr, len: u64) {
        let Some(words) = self.processes.get_mut(&process) else { return };
        let held: Vec<u64> =
            (from.0..from.0.saturating_add(len)).step_by(WORD as usize).map(|at| words.get(at)).collect();
        words.clear(to.0, len);
        for (value, at) in held.into_iter().zip((to.0..).step_by(WORD as usize)) {
            words.set(at, value);
        }
    }

    /// Something else than single accesses wrote a range.
    pub(super) fn written(&mut self, process: ProcessId, start: VirtAddr, len: u64) {
        let Some(words) = self.processes.get_mut(&process) else { return };
        words.clear(start.0, len);
        for own in self.threads.values_mut().filter(|own| own.process == process) {
            own.clear(start.0, len);
        }
    }

    /// All words of a process that may be pointers.
    pub(super) fn of(&self, process: ProcessId) -> Vec<PointerWord> {
        let pages = self.processes.get(&process).into_iter().flat_map(|words| &words.pages);
        let in_pages = pages.flat_map(|(page, words)| {
            let at = (page * VirtAddr::PAGE_BYTES..).step_by(WORD as usize);
            at.zip(words.iter()).filter(|(_, value)| **value != 0)
        });
        let on_stacks = self.threads.values().filter(|own| own.process == process);
        let mut all: Vec<PointerWord> = in_pages
            .map(|(at, &value)| PointerWord { at, value })
            .chain(on_stacks.flat_map(|own| own.words.iter().copied()))
            .collect();
        all.sort_unstable_by_key(|word| word.at);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_whole() {
        let mut part = PartialWord::default();
        assert_eq!(part.add(0x100, 0, &[1, 2, 3, 4]), None);
        assert_eq!(part.add(0x100, 4, &[5, 6, 7, 8]), Some(0x0807_0605_0403_0201));
        assert_eq!(part.add(0x100, 0, &[9]), None, "a new beginning");
        assert_eq!(part.add(0x108, 1, &[9; 7]), None, "another word");
    }

    #[test]
    fn a_range_takes_the_words_that_it_touches() {
        let mut words = ProcessWords::default();
        for at in (0xff0..0x1020).step_by(8) {
            words.set(at, at + 1);
        }
        words.clear(0xfff, 0x11);
        let left: Vec<u64> = (0xff0..0x1020).step_by(8).filter(|at| words.get(*at) != 0).collect();
        assert_eq!(left, [0xff0, 0x1010, 0x1018]);
        let mut own = ThreadWords::default();
        for at in [0x20, 0x10, 0x18] {
            own.set(at, Some(at));
        }
        own.set(0x18, None);
        own.clear(0x21, 1);
        assert_eq!(own.words, [PointerWord { at: 0x10, value: 0x10 }]);
    }

    #[test]
    fn what_lies_below_the_stack_pointer_is_left() {
        let mut own = ThreadWords::default();
        for at in [0x20, 0x10, 0x18] {
            own.set(at, Some(at));
        }
        own.leave_below(0x18);
        let left: Vec<u64> = own.words.iter().map(|word| word.at).collect();
        assert_eq!(left, [0x20, 0x18]);
    }
}
