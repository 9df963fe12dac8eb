//! Processes executions of basic blocks: each instruction is examined once, and accesses that change nothing are skipped early.

use std::ops::Range;
use std::sync::Arc;

use blocks::{BasicBlock, BlockAccess};
use memref::{AccessKind, ThreadId, VirtAddr};
use symbols::{DataVersion, Resolver};
use trace_format::{ExecutedFrame, ExecutedItem};

use super::atomics::{Atomics, CodeKind, Nature};
use super::calls::CallEffect;
use super::copies::LibraryCall;
use super::past::Present;
use super::shadow::AccessHistory;
use super::{ProcessClocks, RaceAccess, Races};
use crate::Moment;
use crate::executed_blocks::ExecutedBlocks;

/// Whether an access reads or writes anything.
fn is_of_bytes(access: &BlockAccess) -> bool {
    access.kind != AccessKind::Prefetch && access.size > 0
}

/// What has to be known of an access before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It is not looked at.
    Never,
    /// Nothing: it is plain.
    Plain,
    /// Whether the variable is atomic.
    ByVariable,
    /// For which call of the program it is made.
    ByCall,
    /// Both the variable and what others did there: [`Atomics::of_access`].
    ByAccess,
}

impl Look {
    fn of(code: CodeKind, access: &BlockAccess) -> Self {
        match code {
            CodeKind::Ignored => Self::Never,
            CodeKind::CLibrary => Self::ByCall,
            CodeKind::PlainLine | CodeKind::Unknown => {
                let is_move = access.kind != AccessKind::Modify;
                if is_move && Atomics::has_atomic_size(access.size.into()) {
                    Self::ByVariable
                } else {
                    Self::Plain
                }
            }
            _ => Self::ByAccess,
        }
    }
}

/// Addresses of a variable that is not atomic, as long as the resolver says that they are its.
#[derive(Clone, Copy, Debug)]
struct PlainRange {
    start: VirtAddr,
    end: VirtAddr,
    version: DataVersion,
}

impl PlainRange {
    const NONE: Self = Self { start: VirtAddr(1), end: VirtAddr(0), version: DataVersion::NONE };

    #[inline]
    fn has(&self, resolver: &Resolver, addr: VirtAddr) -> bool {
        self.start <= addr && addr < self.end && resolver.holds_since(addr..addr.offset(1), self.version)
    }
}

/// Such ranges by page, for accesses that go from page to page of a large variable: what is found at once is a page of it.
#[derive(Debug, Default)]
struct PlainPages(Vec<PlainRange>);

impl PlainPages {
    /// A power of two.
    const SLOTS: usize = 1024;

    fn slot(addr: VirtAddr) -> usize {
        addr.page_number() as usize % Self::SLOTS
    }

    #[inline]
    fn has(&self, resolver: &Resolver, addr: VirtAddr) -> bool {
        self.0.get(Self::slot(addr)).is_some_and(|range| range.has(resolver, addr))
    }

    fn note(&mut self, addr: VirtAddr, range: PlainRange) {
        if self.0.is_empty() {
            self.0 = vec![PlainRange::NONE; Self::SLOTS];
        }
        self.0[Self::slot(addr)] = range;
    }
}

/// The site that an access had last.
#[derive(Clone, Copy, Debug)]
struct LastSite {
    thread: ThreadId,
    row: u32,
    locks: u32,
    site: u32,
}

/// An access of a block.
#[derive(Clone, Copy, Debug)]
struct KnownAccess {
    access: BlockAccess,
    ip: VirtAddr,
    code: CodeKind,
    look: Look,
    control: CallEffect,
    plain: PlainRange,
    last: Option<LastSite>,
}

/// The blocks of a process.
#[derive(Debug, Default)]
pub(super) struct KnownBlocks {
    blocks: ExecutedBlocks,
    /// Of each block that was executed.
    ranges: Vec<Option<KnownRange>>,
    accesses: Vec<KnownAccess>,
    plain_pages: PlainPages,
}

/// Which of all accesses are a block's.
#[derive(Clone, Debug)]
struct KnownRange {
    accesses: Range<u32>,
    /// Whether some of them are the C library's.
    is_by_call: bool,
}

impl KnownBlocks {
    fn enter(&mut self, thread: ThreadId, frame: &ExecutedFrame) -> Arc<[u32]> {
        let numbers = self.blocks.enter(thread, frame);
        self.ranges.resize(self.blocks.all().len(), None);
        numbers
    }

    /// The accesses of a block that are accesses of bytes.
    #[inline]
    fn range(
        &mut self,
        number: u32,
        block: &BasicBlock,
        atomics: &mut Atomics,
        resolver: &mut Resolver,
    ) -> KnownRange {
        match &self.ranges[number as usize] {
            Some(range) => range.clone(),
            None => self.add(number, block, atomics, resolver),
        }
    }

    #[cold]
    fn add(
        &mut self,
        number: u32,
        block: &BasicBlock,
        atomics: &mut Atomics,
        resolver: &mut Resolver,
    ) -> KnownRange {
        let start = self.accesses.len() as u32;
        for access in block.accesses().iter().filter(|access| is_of_bytes(access)) {
            let ip = block.ip(access);
            let (code, control) = atomics.code(resolver, ip);
            let look = Look::of(code, access);
            let (access, plain) = (*access, PlainRange::NONE);
            self.accesses.push(KnownAccess { access, ip, code, look, control, plain, last: None });
        }
        let accesses = start..self.accesses.len() as u32;
        let is_by_call = self.accesses[start as usize..].iter().any(|known| known.look == Look::ByCall);
        let range = KnownRange { accesses, is_by_call };
        self.ranges[number as usize] = Some(range.clone());
        range
    }

    /// Whether an access is known to be one of a variable that is not atomic.
    #[inline]
    fn is_in_plain(&self, known: &KnownAccess, addr: VirtAddr, resolver: &Resolver) -> bool {
        known.plain.has(resolver, addr) || self.plain_pages.has(resolver, addr)
    }

    fn note_plain(&mut self, number: u32, addr: VirtAddr, range: PlainRange) {
        self.accesses[number as usize].plain = range;
        self.plain_pages.note(addr, range);
    }

    /// Goes on to the first access that has to be looked at; `passed` counts those that need not.
    #[inline]
    fn pass_repeated(
        &self,
        range: Range<u32>,
        (values, fs_base): (&[u64], u64),
        by: &mut Repeating<'_>,
        passed: &mut u64,
    ) -> Option<u32> {
        range.into_iter().find(|&number| {
            let known = &self.accesses[number as usize];
            if known.look == Look::ByAccess || known.control != CallEffect::Other {
                return true;
            }
            if known.look == Look::Never {
                return false;
            }
            let addr = known.access.address(values, fs_base);
            if known.look == Look::ByVariable
                && (!self.is_in_plain(known, addr, by.resolver) || by.atomics.is_cell(addr))
            {
                return true;
            }
            if known.look == Look::ByCall && by.call.is_none_or(|call| !call.counts(known.access.kind, false))
            {
                return false;
            }
            by.now.kind = known.access.kind;
            let repeats = by.shadow.repeats(&by.now, addr, known.access.size.into());
            *passed += u64::from(repeats);
            !repeats
        })
    }
}

/// What tells whether accesses change anything.
struct Repeating<'a> {
    resolver: &'a Resolver,
    atomics: &'a Atomics,
    shadow: &'a mut AccessHistory,
    /// The call that accesses of the C library are made for.
    call: Option<LibraryCall>,
    now: Present<'a>,
}

impl Races {
    /// Looks at a part of a frame's executions.
    pub(super) fn look_at_executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &ExecutedFrame,
        part: Range<usize>,
    ) {
        let numbers = self.process(at.process).blocks.enter(at.thread, frame);
        let mut expanded = std::mem::take(&mut self.expanded);
        let mut has_begun = false;
        for item in frame.items(part) {
            if let ExecutedItem::Block { number, block, values, .. } = item
                && block.is_fixed()
            {
                if !has_begun && block.accesses().iter().any(is_of_bytes) {
                    self.begin(at, None);
                    has_begun = true;
                }
                self.look_at_execution(at, (numbers[number as usize], block), (values, frame.fs_base()));
                continue;
            }
            expanded.clear();
            frame.expand(&item, &mut expanded);
            for access in &expanded {
                self.access(at, access.ip, access.addr, access.size.into(), access.kind, false);
            }
        }
        self.expanded = expanded;
    }

    fn look_at_execution(
        &mut self,
        at: &mut Moment<'_>,
        (number, block): (u32, &BasicBlock),
        by: (&[u64], u64),
    ) {
        let mut rest = None;
        loop {
            let Some(process) = self.processes.get_mut(&at.process) else { return };
            let Some(state) = self.threads.get(at.thread.0 as usize) else { return };
            let ProcessClocks { blocks, atomics, shadow, library_calls, .. } = process;
            let range = rest.unwrap_or_else(|| blocks.range(number, block, atomics, at.resolver));
            let call = match range.is_by_call {
                true => library_calls.of(at.resolver, atomics, &self.rows, state.frames.row()),
                false => None,
            };
            let now = Present::new(&state.clock, at.thread, (AccessKind::Load, false), &self.sites);
            let mut repeating = Repeating { resolver: at.resolver, atomics, shadow, call, now };
            let next = blocks.pass_repeated(range.accesses.clone(), by, &mut repeating, &mut self.accesses);
            let Some(next) = next else { return };
            self.look_at_known(at, next, by, call);
            rest = Some(KnownRange { accesses: next + 1..range.accesses.end, ..range });
        }
    }

    /// Looks at an access of a block; where it is the C library's, made for that call.
    fn look_at_known(
        &mut self,
        at: &mut Moment<'_>,
        number: u32,
        (values, fs_base): (&[u64], u64),
        call: Option<LibraryCall>,
    ) {
        let process = self.process(at.process);
        let known = process.blocks.accesses[number as usize];
        let KnownAccess { access, ip, code, look, control, .. } = known;
        let (addr, len, kind) = (access.address(values, fs_base), u64::from(access.size), access.kind);
        let counts = match look {
            Look::Never => false,
            Look::ByCall => call.is_some_and(|call| call.counts(kind, false)),
            Look::Plain | Look::ByVariable | Look::ByAccess => true,
        };
        let ProcessClocks { blocks, atomics, .. } = process;
        let is_in_plain = look == Look::ByVariable && blocks.is_in_plain(&known, addr, at.resolver);
        let is_known = match look {
            Look::Never | Look::Plain | Look::ByCall => true,
            Look::ByVariable => is_in_plain && !atomics.is_cell(addr),
            Look::ByAccess => false,
        };
        let mut atomic = false;
        if !is_known {
            let nature = atomics.of_access(at.resolver, at.thread, code, addr, len as u32, kind);
            atomic = nature == Nature::Atomic;
        }
        if look == Look::ByVariable
            && !is_in_plain
            && let Some(Range { start, end }) = atomics.plain_range(at.resolver, addr)
        {
            blocks.note_plain(number, addr, PlainRange { start, end, version: at.resolver.data_version() });
        }
        let access = RaceAccess { addr, len, kind, atomic };
        if counts {
            self.accesses += 1;
            if !self.repeats(at.process, at.thread, access) {
                let site = self.site_of(at, number, call.filter(|_| look == Look::ByCall));
                self.note(at, access, site);
            }
        }
        if control != CallEffect::Other {
            self.threads[at.thread.0 as usize].frames.follow(&mut self.rows, control, ip, addr, kind);
        }
    }

    /// The site of an access of a block, which is that of the call that it is made for, if there is one.
    fn site_of(&mut self, at: &Moment<'_>, number: u32, call: Option<LibraryCall>) -> u32 {
        let state = &self.threads[at.thread.0 as usize];
        let (thread, row, locks) = (at.thread, state.frames.row(), state.locks);
        let KnownAccess { access, ip, last, .. } = self.process(at.process).blocks.accesses[number as usize];
        let is_same = |last: &LastSite| (last.thread, last.row, last.locks) == (thread, row, locks);
        if let Some(last) = last.filter(is_same) {
            return last.site;
        }
        let site = match call {
            Some(call) => self.site(thread, call.ip, access.kind, call.row),
            None => self.site(thread, ip, access.kind, row),
        };
        let last = Some(LastSite { thread, row, locks, site });
        self.process(at.process).blocks.accesses[number as usize].last = last;
        site
    }
}
