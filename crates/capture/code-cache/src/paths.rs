//! Long paths: code that is executed again and again in the same order becomes one block, wherever its parts are.
//!
//! A thread's full buffer lists the blocks that it executed, in order. That is the profile, and it costs nothing to gather. From
//! time to time one buffer is sampled ([`Engine::sample`]). Starting from a block that was executed often, the sample is followed
//! to the most frequent successor, as long as that is likely enough. The result is a path: a list of the addresses of its
//! instructions. It is planned and written like any other block ([`Engine::lengthen`]) and replaces the block with which it begins.
//! Blocks without accesses leave only the number of their instructions in a buffer: they are found among the blocks in the cache.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use blocks::MAX_INSTRUCTIONS;
use buffers::flow::{Entries, Entry};
use x86::{Instruction, MAX_INSTRUCTION_BYTES, Transfer};

use crate::engine::{CodeKey, Engine, Environment};
use crate::mode::{Flow, Mode, Task};
use crate::place::Recording;
use crate::plan::Plan;

/// Entries of a buffer that are looked at.
const SAMPLE: usize = 2048;
/// Buffers before the first one that is looked at: short programs are not worth it.
const FIRST: u32 = 64;
/// The next one is looked at when so many more buffers were filled: a sixteenth of all so far, within these bounds. So what looking
/// costs stays a small share, and a program that does something else later gets its paths.
const PAUSES: [u32; 2] = [8, 512];
/// Paths that one sample gives at most.
const MOST: usize = 32;
/// Blocks without accesses, one after the other, that are found.
const HIDDEN: usize = 4;

/// An execution of a block, in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Executed {
    /// The block's number; 0: something else was written here.
    id: u32,
    /// Instructions without accesses that followed.
    after: u32,
}

/// What a thread executed, one after the other.
#[derive(Debug)]
pub struct Sample {
    executed: Vec<Executed>,
}

/// What became of an address where a path could begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathHead {
    Path,
    /// There was none. What the program does there may change: it is looked for again when so many buffers were filled.
    None(u32),
}

/// Which blocks are paths, and when another buffer is looked at.
#[derive(Debug)]
pub(crate) struct PathSearch {
    /// Buffers that were filled.
    buffers: u32,
    /// How many there are when the next one is looked at.
    next: u32,
    /// Where a path begins, or where one was looked for.
    heads: BTreeMap<u64, PathHead>,
    /// Where indirect branches inside of paths go on, those of forgotten paths, too.
    passed: BTreeSet<u64>,
}

impl PathSearch {
    pub(crate) const fn new() -> Self {
        Self { buffers: 0, next: FIRST, heads: BTreeMap::new(), passed: BTreeSet::new() }
    }

    /// The paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = CodeKey> {
        let paths = self.heads.iter().filter(|&(_, &head)| head == PathHead::Path);
        paths.map(|(&addr, _)| CodeKey { addr, mode: Mode::Record })
    }

    /// Whether a path may have an indirect branch to that address inside.
    pub(crate) fn may_pass(&self, addr: u64) -> bool {
        self.passed.contains(&addr)
    }

    /// Whether a path is to be looked for from there.
    fn is_open(&self, addr: u64) -> bool {
        match self.heads.get(&addr) {
            None => true,
            Some(PathHead::Path) => false,
            Some(&PathHead::None(until)) => self.buffers >= until,
        }
    }

    /// One was looked for.
    fn looked(&mut self, addr: u64, is_path: bool) {
        let again = PathHead::None(self.buffers.saturating_mul(2));
        self.heads.insert(addr, if is_path { PathHead::Path } else { again });
    }

    /// Code was forgotten: there may be another path from there.
    pub(crate) fn forget(&mut self, addr: u64) {
        self.heads.remove(&addr);
    }
}

impl Engine {
    /// What was executed, from a full buffer; `None`: nobody wants to know now.
    pub fn sample(&mut self, words: &[[u8; 8]]) -> Option<Sample> {
        if self.task != Task::Addresses || self.flow != Flow::Accesses {
            return None;
        }
        let search = &mut self.search;
        search.buffers = search.buffers.saturating_add(1);
        if search.buffers < search.next {
            return None;
        }
        let [least, most] = PAUSES;
        search.next = search.buffers.saturating_add((search.buffers / 16).clamp(least, most));
        let mut executed = Vec::with_capacity(SAMPLE);
        let mut entries = Entries::new(words);
        while executed.len() < SAMPLE
            && let Some(entry) = entries.next_entry()
        {
            let mut own = Executed { id: 0, after: 0 };
            if let Entry::Block(header) = entry {
                let Some((block, exit)) = self.numbered(header.id) else { break };
                let shorter = |exit: usize| block.exits.get(exit).map_or(0, |own| own.values);
                entries.values(exit.map_or(block.values, shorter));
                if !entries.is_cut() {
                    own = Executed { id: header.id, after: header.after as u32 };
                }
            }
            executed.push(own);
        }
        Some(Sample { executed })
    }

    /// Makes paths of what was executed most. How many.
    pub fn lengthen(&mut self, sample: &Sample, environment: &mut impl Environment) -> usize {
        let executed = &sample.executed;
        let start = |(place, own): (usize, &Executed)| Some((self.numbered(own.id)?.0.addr, place));
        let mut starts: Vec<(u64, usize)> = executed.iter().enumerate().filter_map(start).collect();
        starts.sort_unstable();
        let group = |group: &[(u64, usize)]| {
            let addr = group.first()?.0;
            let is_hot = group.len() >= executed.len() / 128;
            is_hot.then(|| (addr, group.iter().map(|&(_, place)| place).collect()))
        };
        let mut begun: Vec<(u64, Vec<usize>)> =
            starts.chunk_by(|one, other| one.0 == other.0).filter_map(group).collect();
        begun.sort_by_key(|(addr, places)| (core::cmp::Reverse(places.len()), *addr));
        let from = self.links.len();
        let mut made = BTreeMap::new();
        let mut inside = BTreeSet::new();
        for (head, places) in begun {
            if made.len() == MOST {
                break;
            }
            if inside.contains(&head) || !self.search.is_open(head) {
                continue;
            }
            let path = self.follow(executed, places, environment, &mut inside);
            let code = self.make(&path, environment);
            self.search.looked(head, code.is_some());
            if let Some(code) = code {
                made.insert(CodeKey { addr: head, mode: Mode::Record }, code);
            }
        }
        if !made.is_empty() {
            self.replace(&made);
            self.set_links(from);
        }
        made.len()
    }

    /// The addresses of the instructions that were executed most often one after the other from these places of a sample on. Where its blocks
    /// begin goes to `inside`.
    fn follow(
        &mut self,
        executed: &[Executed],
        mut places: Vec<usize>,
        environment: &impl Environment,
        inside: &mut BTreeSet<u64>,
    ) -> Vec<u64> {
        let enough = (places.len() / 8).max(4);
        let mut path: Vec<u64> = Vec::new();
        let mut before: Option<Executed> = None;
        loop {
            let own = |&place: &usize| executed.get(place).copied().filter(|own| own.id != 0);
            let mut next: Vec<Executed> = places.iter().filter_map(own).collect();
            next.sort_unstable();
            let groups = next.chunk_by(|one, other| one == other);
            let Some(most) = groups.max_by_key(|group| group.len()) else { break };
            let is_likely = most.len() >= enough && most.len() * 3 >= next.len();
            let Some(&step) = most.first().filter(|_| is_likely || before.is_none()) else { break };
            let Some((block, exit)) = self.numbered(step.id) else { break };
            let (addr, instructions): (u64, Vec<u64>) = (block.addr, block.executed(exit).collect());
            let len = path.len();
            if let Some(before) = before
                && !self.leads(&mut path, before.after, addr, HIDDEN, environment)
            {
                break;
            }
            if path.len() + instructions.len() > MAX_INSTRUCTIONS {
                path.truncate(len);
                break;
            }
            if before.is_some() {
                inside.insert(addr);
            }
            path.extend(instructions);
            before = Some(step);
            places.retain_mut(|place| {
                let is_same = own(place) == Some(step);
                *place += 1;
                is_same
            });
        }
        path
    }

    /// The instruction there.
    fn instruction(&mut self, addr: u64, environment: &impl Environment) -> Option<Instruction> {
        let mut bytes = [0; MAX_INSTRUCTION_BYTES];
        let len = self.pages.read(addr, &mut bytes, environment);
        Instruction::decode(bytes.get(..len).unwrap_or(&[]), addr)
    }

    /// Where the return at the end of a path leads, if what it returns from was called in the path.
    fn returns_to(&mut self, path: &[u64], environment: &impl Environment) -> Option<u64> {
        let mut calls = Vec::new();
        let (_, before) = path.split_last()?;
        for &addr in before {
            let instruction = self.instruction(addr, environment)?;
            match instruction.transfer() {
                Transfer::Call(_) | Transfer::CallIndirect => calls.push(instruction.next()),
                Transfer::Return(_) => drop(calls.pop()),
                _ => {}
            }
        }
        calls.pop()
    }

    /// Whether the program gets from the end of a path to an address by so many instructions of blocks without accesses, which are added to it.
    fn leads(
        &mut self,
        path: &mut Vec<u64>,
        after: u32,
        to: u64,
        depth: usize,
        environment: &impl Environment,
    ) -> bool {
        let Some(&last) = path.last() else { return false };
        let Some(instruction) = self.instruction(last, environment) else { return false };
        let ways = match instruction.transfer() {
            Transfer::Next => [Some(instruction.next()), None],
            Transfer::Jump(target) | Transfer::Call(target) => [Some(target), None],
            Transfer::Branch(_, target) => [Some(target), Some(instruction.next())],
            Transfer::Return(_) | Transfer::JumpIndirect | Transfer::CallIndirect if after == 0 => {
                // What is looked at each time is not gone past.
                return !self.stops.contains(&CodeKey { addr: to, mode: Mode::Record });
            }
            Transfer::Return(_) => [self.returns_to(path, environment), None],
            _ => return false,
        };
        for way in ways.into_iter().flatten() {
            if after == 0 {
                if way == to {
                    return true;
                }
                continue;
            }
            if depth == 0 {
                return false;
            }
            let Some(&code) = self.blocks.get(&CodeKey { addr: way, mode: Mode::Record }) else { continue };
            let Some(block) = self.block_at(code).filter(|block| block.recording == Recording::Counted)
            else {
                continue;
            };
            let all: Vec<u64> = block.executed(None).collect();
            let counts = block.exits.iter().map(|exit| usize::from(exit.instructions));
            let counts: Vec<usize> =
                counts.chain([all.len()]).filter(|&count| count <= after as usize).collect();
            for count in counts {
                let before = path.len();
                path.extend(all.iter().take(count));
                if self.leads(path, after - count as u32, to, depth - 1, environment) {
                    return true;
                }
                path.truncate(before);
            }
        }
        false
    }

    /// Writes a path into the cache. `None` where it would be no longer than the block that it begins with.
    fn make(&mut self, path: &[u64], environment: &mut impl Environment) -> Option<u64> {
        let head = CodeKey { addr: *path.first()?, mode: Mode::Record };
        let is_asked =
            environment.is_stop(head.addr) || environment.resolve(head.addr, head.mode) != head.addr;
        let code = *self.blocks.get(&head).filter(|_| !is_asked)?;
        let before = self.block_at(code)?.executed(None).count();
        let pages = &mut self.pages;
        let read = |addr: u64, bytes: &mut [u8]| pages.read(addr, bytes, environment);
        let mut plan = Plan::of_path(path, read, |addr| environment.is_stop(addr))?;
        if plan.steps.len() <= before || !plan.records() {
            return None;
        }
        let code = self.append(&mut plan, Mode::Record, false, environment).ok()?;
        let is_indirect = |index: &usize| {
            let transfer = plan.steps.get(*index).map(|step| step.transfer);
            matches!(transfer, Some(Transfer::Return(_) | Transfer::JumpIndirect | Transfer::CallIndirect))
        };
        let passed = (0..plan.steps.len()).filter(is_indirect).filter_map(|index| plan.addr_of(index + 1));
        self.search.passed.extend(passed);
        Some(code)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use buffers::flow::{EMBED, ID_BITS};

    use super::*;
    use crate::{Defined, changes};

    const AT: u64 = 0x40_0000;
    const CALLED: u64 = AT + 0x800;
    /// After the call.
    const BEHIND: u64 = AT + 5;
    const PAGE: usize = 4096;

    /// A program of one page, and what was defined of it.
    struct Program {
        page: [u8; PAGE],
        stop: u64,
        defined: Vec<(u32, u64, u16, Vec<i64>)>,
    }

    impl Program {
        /// A loop: call; test eax, eax; jne over ud2; mov rax, [rsi]; jmp the start. What is called: mov rcx, [rdi]; ret.
        fn new() -> Self {
            let mut page = [0xcc; PAGE];
            let caller =
                [0xe8, 0xfb, 0x07, 0, 0, 0x85, 0xc0, 0x75, 2, 0x0f, 0x0b, 0x48, 0x8b, 0x06, 0xeb, 0xf0];
            page[..16].copy_from_slice(&caller);
            page[0x800..0x804].copy_from_slice(&[0x48, 0x8b, 0x0f, 0xc3]);
            Self { page, stop: 0, defined: Vec::new() }
        }

        fn engine(&mut self) -> Engine {
            let mut engine = Engine::new();
            assert!(engine.prepare(Task::Addresses, Flow::Accesses));
            for addr in [AT, CALLED, BEHIND, AT + 11] {
                engine.code(addr, Mode::Record, self).expect("it is code");
            }
            engine.search.next = 1;
            engine
        }

        /// The number of the last block there that has so many instructions.
        fn id(&self, addr: u64, instructions: u16) -> u64 {
            let is_it = |own: &&(u32, u64, u16, Vec<i64>)| (own.1, own.2) == (addr, instructions);
            u64::from(self.defined.iter().rfind(is_it).expect("it was defined").0)
        }

        /// A buffer of so many turns of the loop: test and jne have no accesses, and are counted after the return.
        fn buffer(&self, turns: usize) -> Vec<[u8; 8]> {
            let turn = [self.id(AT, 1), 0, self.id(CALLED, 2) | 2 << ID_BITS, 0, 0, self.id(AT + 11, 2), 0];
            turn.repeat(turns).into_iter().map(u64::to_le_bytes).collect()
        }
    }

    impl Environment for Program {
        fn read(&self, addr: u64, into: &mut [u8]) -> usize {
            let page = if addr == AT { &self.page[..] } else { &[] };
            into.iter_mut().zip(page).for_each(|(to, &from)| *to = from);
            into.len().min(page.len())
        }

        fn resolve(&self, addr: u64, _: Mode) -> u64 {
            addr
        }

        fn is_stop(&self, addr: u64) -> bool {
            addr == self.stop
        }

        fn is_own(&self, _: u64) -> bool {
            false
        }

        fn define(&mut self, id: u32, block: Defined<'_>) -> bool {
            let offsets = block.accesses.iter().map(|access| access.offset).collect();
            self.defined.push((id, block.extent.addr.0, block.extent.instructions, offsets));
            true
        }
    }

    /// Gives the engine a buffer that it looks at.
    fn lengthen(engine: &mut Engine, program: &mut Program, words: &[[u8; 8]]) {
        let sample = engine.sample(words).expect("it is due");
        engine.lengthen(&sample, program);
        engine.search.next = 0;
    }

    fn paths(engine: &Engine) -> Vec<u64> {
        engine.search.paths().map(|key| key.addr).collect()
    }

    #[test]
    fn what_is_executed_again_and_again_becomes_a_path() {
        let mut program = Program::new();
        let mut engine = program.engine();
        let (before, told) = (engine.known(AT, Mode::Record).expect("it is translated"), changes());
        let words = program.buffer(200);
        lengthen(&mut engine, &mut program, &words);
        assert_ne!(changes(), told, "who keeps the answer would not find the path");
        assert_eq!(paths(&engine), [AT]);
        let code = engine.known(AT, Mode::Record).expect("it is translated");
        assert_ne!(code, before);
        let block = engine.block_at(code).expect("it is a block");
        let turn = [AT, CALLED, CALLED + 3, BEHIND, BEHIND + 2, AT + 11, AT + 14];
        let way: Vec<u64> = block.executed(None).collect();
        assert!(way.len() > 5 * turn.len() && way.iter().eq(turn.iter().cycle().take(way.len())), "{way:x?}");
        // Accesses where they are, and the shorter blocks of a return and a branch in each turn.
        let whole = program.defined.iter().find(|own| own.0 == block.id).expect("it was defined");
        assert_eq!(whole.3[..4], [0, 0x800, 0x803, 11]);
        let shorter: Vec<u16> = block.exits.iter().map(|exit| exit.instructions).collect();
        assert_eq!(shorter[..4], [3, 5, 10, 12]);
        let (found, exit) = engine.numbered(block.id + 2).expect("it has a number");
        assert_eq!((found.code, exit), (code, Some(1)));
        assert_eq!(found.executed(exit).collect::<Vec<_>>(), turn[..5]);
        // Whoever jumps to the start gets there now.
        let end =
            engine.known(AT + 11, Mode::Record).and_then(|code| engine.block_at(code)).expect("a block");
        let jump = end.code + u64::from(end.steps[1].at);
        // SAFETY: five bytes of the cache, a jump.
        let distance = unsafe { ((jump + 1) as *const i32).read_unaligned() };
        assert_eq!(jump.wrapping_add(5).wrapping_add_signed(distance.into()), code);
        // SAFETY: nobody runs in it.
        unsafe { engine.clear() };
    }

    #[test]
    fn a_path_ends_where_the_tracer_is_asked() {
        let mut program = Program::new();
        program.stop = CALLED;
        let mut engine = program.engine();
        // What is executed after a stop is the block there.
        engine.code_after(CALLED, Mode::Record, &mut program).expect("it is code");
        let words = program.buffer(200);
        lengthen(&mut engine, &mut program, &words);
        for head in paths(&engine) {
            let code = engine.known(head, Mode::Record).expect("it is translated");
            let way: Vec<u64> = engine.block_at(code).expect("a block").executed(None).collect();
            assert!(head != CALLED && !way.contains(&CALLED), "{way:x?}");
        }
        // SAFETY: nobody runs in it.
        unsafe { engine.clear() };
    }

    #[test]
    fn a_path_is_forgotten_where_its_code_is_changed_or_looked_at() {
        let forget: [fn(&mut Engine); 3] = [
            |engine| engine.invalidate(CALLED + 1, CALLED + 2),
            |engine| engine.invalidate(AT, AT + 1),
            |engine| engine.intercept(BEHIND, Mode::Record),
        ];
        for forget in forget {
            let mut program = Program::new();
            let mut engine = program.engine();
            let words = program.buffer(200);
            lengthen(&mut engine, &mut program, &words);
            assert_eq!(paths(&engine), [AT]);
            let path = engine.known(AT, Mode::Record).expect("it is translated");
            assert!(
                engine.is_of(path, CALLED + 3, CALLED + 4) && !engine.is_of(path, CALLED + 4, CALLED + 9)
            );
            // A direct branch leads there.
            engine.intercept(AT + 11, Mode::Record);
            assert_eq!(paths(&engine), [AT]);
            let told = changes();
            forget(&mut engine);
            assert_ne!(changes(), told);
            assert_eq!((engine.known(AT, Mode::Record), paths(&engine)), (None, vec![]));
            // What was intercepted stays so.
            lengthen(&mut engine, &mut program, &words);
            // SAFETY: nobody runs in it.
            unsafe { engine.clear() };
        }
    }

    #[test]
    fn what_was_not_executed_in_a_row_is_no_path() {
        let mut program = Program::new();
        let mut engine = program.engine();
        let record = [EMBED | 1 << ID_BITS, 7].map(u64::to_le_bytes);
        let words = program.buffer(1);
        // A record after each execution: something happened there.
        let parts = [&words[..2], &record, &words[2..5], &record, &words[5..], &record].concat();
        lengthen(&mut engine, &mut program, &parts.repeat(200));
        assert_eq!(paths(&engine), []);
        // Later the program does something else there.
        let words = program.buffer(200);
        lengthen(&mut engine, &mut program, &words);
        assert_eq!((engine.search.buffers, paths(&engine)), (2, vec![AT]));
        // SAFETY: nobody runs in it.
        unsafe { engine.clear() };
    }

    #[test]
    fn few_buffers_are_looked_at() {
        let mut engine = Engine::new();
        let looked: Vec<u32> = (1..200).filter(|_| engine.sample(&[]).is_some()).take(5).collect();
        assert_eq!(looked, [0, 1, 2, 3, 4].map(|number| FIRST + number * PAUSES[0]));
    }
}
