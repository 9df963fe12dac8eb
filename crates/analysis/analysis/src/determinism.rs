//! Deterministic execution by fork and join, as in Grace (Berger et al., OOPSLA 2009; Unlimited
//! Watchpoints, section 3.2). Between forks, joins and barriers each thread would run on memory of its
//! own. What it wrote is merged at the end of the region, in the order of a sequential execution. A region
//! that touched data which an earlier region wrote in the meantime would roll back and run again. Which
//! regions do depends on the granularity at which reads and writes are known: page, cache line or byte.

use std::collections::BTreeMap;

use memref::{Access, AccessKind, Event, ProcessId, Sync, SyncFunction, SyncKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;

use crate::layout::{FieldNames, VariableAddress};
use crate::race::atomics::is_inner;
use crate::variable_name::variable_name;
use crate::watch_units::ends_region;
use crate::{Error, Moment, Session, Tool};

const PAGE_BYTES: u64 = VirtAddr::PAGE_BYTES;
const LINE_BYTES: u64 = 64;

/// How exactly reads and writes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granularity {
    /// 4 KiB.
    Page,
    /// 64 bytes.
    Line,
    /// Single bytes.
    Byte,
}

/// Why a region would roll back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The finest granularity at which it would: at `Byte` the sharing is real, else it is false.
    pub granularity: Granularity,
    /// The region that wrote: its index.
    pub with: usize,
    /// What is there: the first byte that both touched; where there is none, the first one of this region in what they share.
    pub variable: String,
    /// Its address, for its field.
    place: Option<VariableAddress>,
}

/// A variable, as it was called when it was accessed.
#[derive(Clone, Debug)]
struct NamedVariable {
    text: String,
    place: VariableAddress,
}

/// What a thread does between two points at which its memory is merged with others'.
#[derive(Clone, Debug)]
pub struct MergeRegion {
    /// The process of its thread.
    pub process: ProcessId,
    /// The thread that executed it.
    pub thread: ThreadId,
    /// The function of its first access.
    pub function: String,
    /// The source file of that access, where known.
    pub file: Option<String>,
    /// The line there.
    pub line: Option<u32>,
    /// Pages, lines and bytes read.
    pub reads: [u64; 3],
    /// Pages, lines and bytes written.
    pub writes: [u64; 3],
    /// Why it would roll back, the finest reason, if it would.
    pub conflict: Option<Conflict>,
}

/// One line of one region: the bytes read and written, as bits.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    read: u64,
    written: u64,
}

/// Bytes of a line that were accessed at once, and their name at that time.
#[derive(Debug)]
struct NamedBytes {
    /// As bits.
    bytes: u64,
    name: NamedVariable,
}

/// Who touched a line first.
#[derive(Clone, Copy, Debug)]
struct LineOwner {
    thread: ThreadId,
    /// The index of its last region that did.
    region: usize,
}

/// A region's index, a line that it touched, and how.
type RegionLine = (usize, u64, Touched);

/// A point in the forks and joins of the threads.
type Clock = FxHashMap<ThreadId, u32>;

#[derive(Debug)]
struct OpenRegion {
    region: MergeRegion,
    clock: Clock,
    /// Its place in the thread's own time.
    time: u32,
    lines: FxHashMap<u64, Touched>,
}

#[derive(Debug, Default)]
struct ForkThread {
    clock: Clock,
    open: Option<usize>,
    parent: Option<ThreadId>,
    arrived: Clock,
}

/// Finds regions that would roll back.
#[derive(Debug, Default)]
pub struct Determinism {
    threads: BTreeMap<ThreadId, ForkThread>,
    regions: Vec<OpenRegion>,
    created: FxHashMap<(ProcessId, VirtAddr), (ThreadId, Clock)>,
    ended: FxHashMap<(ProcessId, VirtAddr), Clock>,
    objects: FxHashMap<(ProcessId, VirtAddr), Clock>,
    /// What lies in each line that several threads touch, as it was first accessed.
    names: FxHashMap<(ProcessId, u64), Vec<NamedBytes>>,
    owners: FxHashMap<(ProcessId, u64), LineOwner>,
    /// Whether instructions are those of the C library and its like, whose memory is no part of the program's.
    inner: FxHashMap<VirtAddr, bool>,
    /// Missing events, which could have been accesses or joins.
    pub missing: u64,
}

/// The address of the first one of some bytes of a line.
fn first_of(line: u64, bits: u64) -> VirtAddr {
    VirtAddr(line * LINE_BYTES + u64::from(bits.trailing_zeros() % 64))
}

/// The variable there.
fn name_of(at: &mut Moment<'_>, line: u64, bits: u64) -> NamedVariable {
    let addr = first_of(line, bits);
    let text = variable_name(at.resolver, addr, 0);
    NamedVariable { text, place: VariableAddress { variable: at.resolver.resolve_data(addr).variable, addr } }
}

fn join(own: &mut Clock, other: &Clock) {
    for (&thread, &time) in other {
        let place = own.entry(thread).or_default();
        *place = (*place).max(time);
    }
}

impl Determinism {
    fn access(&mut self, at: &mut Moment<'_>, ip: VirtAddr, addr: VirtAddr, len: u64, kind: AccessKind) {
        if kind == AccessKind::Prefetch || len == 0 || self.is_inner(at, ip) {
            return;
        }
        let index = match self.threads.entry(at.thread).or_default().open {
            Some(index) => index,
            None => self.open(at, ip),
        };
        let end = addr.0.saturating_add(len);
        let mut place = addr.0;
        while place < end {
            let line = place / LINE_BYTES;
            let stop = end.min((line + 1).saturating_mul(LINE_BYTES));
            let bits = (u64::MAX >> (64 - (stop - place))) << (place % LINE_BYTES);
            let touched = self.regions[index].lines.entry(line).or_default();
            if kind.reads() {
                touched.read |= bits;
            }
            if kind.writes() {
                touched.written |= bits;
            }
            // What lies in lines that a second thread touches gets names while they are known.
            let touching = LineOwner { thread: at.thread, region: index };
            let owner = self.owners.entry((at.process, line)).or_insert(touching);
            if owner.thread == at.thread {
                *owner = touching;
            }
            let owner = *owner;
            if owner.thread != at.thread || self.names.contains_key(&(at.process, line)) {
                self.name(at, owner, line, bits);
            }
            place = stop;
        }
    }

    /// Names bytes of a line; at the first time also those that its first thread touched in its last region there, by words:
    /// that thread may have ended since.
    fn name(&mut self, at: &mut Moment<'_>, owner: LineOwner, line: u64, bits: u64) {
        let is_others = owner.thread != at.thread;
        let names = self.names.entry((at.process, line)).or_insert_with(|| {
            let before = self.regions.get(owner.region).and_then(|region| region.lines.get(&line));
            let before = before.map_or(0, |touched| touched.read | touched.written);
            let words = (0..8).map(|word| before & 0xff << (word * 8)).filter(|&word| word != 0 && is_others);
            words.map(|word| NamedBytes { bytes: word, name: name_of(at, line, word) }).collect()
        });
        if !names.iter().any(|named| named.bytes == bits) {
            names.push(NamedBytes { bytes: bits, name: name_of(at, line, bits) });
        }
    }

    fn is_inner(&mut self, at: &mut Moment<'_>, ip: VirtAddr) -> bool {
        *self.inner.entry(ip).or_insert_with(|| {
            let code = at.resolver.code_name(ip);
            // The entries of calls read where the loader put the called function.
            let is_entry = |name: &str| name.ends_with("@plt");
            code.is_some_and(|code| {
                code.module.as_deref().is_some_and(is_inner) || code.function.as_deref().is_some_and(is_entry)
            })
        })
    }

    fn open(&mut self, at: &mut Moment<'_>, ip: VirtAddr) -> usize {
        let code = at.resolver.code_name(ip);
        let function = code.as_ref().map_or_else(
            || ip.to_string(),
            |code| code.function.as_ref().map_or_else(|| code.to_string(), |name| name.to_string()),
        );
        let line = code.as_ref().and_then(|code| code.line().map(|(file, line)| (file.to_owned(), line)));
        let (file, line) = line.map_or((None, None), |(file, line)| (Some(file), line));
        let thread = self.threads.entry(at.thread).or_default();
        let time = thread.clock.entry(at.thread).or_insert(1);
        let time = *time;
        let region = MergeRegion {
            process: at.process,
            thread: at.thread,
            function,
            file,
            line,
            reads: [0; 3],
            writes: [0; 3],
            conflict: None,
        };
        let index = self.regions.len();
        thread.open = Some(index);
        let clock = thread.clock.clone();
        self.regions.push(OpenRegion { region, clock, time, lines: FxHashMap::default() });
        index
    }

    fn sync(&mut self, at: &Moment<'_>, event: &Sync) {
        let process = at.process;
        let key = (process, event.object);
        let thread = self.threads.entry(at.thread).or_default();
        thread.clock.entry(at.thread).or_insert(1);
        match event.kind {
            SyncKind::Create => {
                self.created.insert(key, (at.thread, thread.clock.clone()));
            }
            SyncKind::Start => {
                if let Some((parent, clock)) = self.created.remove(&key) {
                    join(&mut thread.clock, &clock);
                    thread.parent = Some(parent);
                }
                self.ended.remove(&(process, VirtAddr(event.value)));
            }
            SyncKind::Exit => {
                self.ended.insert(key, thread.clock.clone());
            }
            SyncKind::Join => {
                if let Some(clock) = self.ended.get(&key) {
                    join(&mut thread.clock, clock);
                }
            }
            SyncKind::Arrive => {
                join(self.objects.entry(key).or_default(), &thread.clock);
                thread.arrived = thread.clock.clone();
            }
            SyncKind::Depart => {
                if let Some(clock) = self.objects.get(&key) {
                    join(&mut thread.clock, clock);
                }
            }
            SyncKind::Release if event.function == SyncFunction::OpenMp => {
                join(self.objects.entry(key).or_default(), &thread.clock);
            }
            SyncKind::Acquire if event.function == SyncFunction::OpenMp => {
                if let Some(clock) = self.objects.get(&key) {
                    join(&mut thread.clock, clock);
                }
            }
            _ => {}
        }
        if ends_region(event) || event.kind == SyncKind::Arrive {
            *thread.clock.entry(at.thread).or_insert(1) += 1;
            thread.open = None;
        }
    }

    /// Whether `b` runs on memory that does not know what `a` did, and `a` comes first in a sequential program.
    fn precedes(&self, a: &OpenRegion, b: &OpenRegion) -> bool {
        let unknown =
            |a: &OpenRegion, b: &OpenRegion| b.clock.get(&a.region.thread).copied().unwrap_or(0) < a.time;
        if a.region.thread == b.region.thread || !unknown(a, b) || !unknown(b, a) {
            return false;
        }
        let is_ancestor = |older: ThreadId, younger: ThreadId| {
            let mut at = Some(younger);
            // A thread's number is given after its parent's, so this ends.
            while let Some(thread) =
                at.and_then(|thread| self.threads.get(&thread)).and_then(|thread| thread.parent)
            {
                if thread == older {
                    return true;
                }
                at = Some(thread);
            }
            false
        };
        // What a thread does after it has made another one comes after that one in a sequential program.
        match (is_ancestor(a.region.thread, b.region.thread), is_ancestor(b.region.thread, a.region.thread)) {
            (true, _) => false,
            (_, true) => true,
            _ => a.region.thread < b.region.thread,
        }
    }

    /// What the first one of some bytes of a line is called, by an access that began with it, or that had it; and where it is.
    fn named(&self, line: (ProcessId, u64), bits: u64) -> (String, Option<VariableAddress>) {
        let (first, addr) = (bits & bits.wrapping_neg(), first_of(line.1, bits));
        let names = self.names.get(&line).map_or(&[][..], Vec::as_slice);
        let begins = |named: &&NamedBytes| named.bytes.trailing_zeros() == first.trailing_zeros();
        let found = names.iter().find(begins).or_else(|| names.iter().find(|named| named.bytes & first != 0));
        found.map_or_else(
            || (addr.to_string(), None),
            |named| (named.name.text.clone(), Some(VariableAddress { addr, ..named.name.place })),
        )
    }

    /// The regions with their sets and conflicts, in the order in which they began.
    pub fn into_regions(mut self) -> Vec<MergeRegion> {
        let mut pages: BTreeMap<(ProcessId, u64), Vec<RegionLine>> = BTreeMap::new();
        for (index, open) in self.regions.iter_mut().enumerate() {
            let mut read_pages = std::collections::BTreeSet::new();
            let mut written_pages = std::collections::BTreeSet::new();
            for (&line, touched) in &open.lines {
                let page = line * LINE_BYTES / PAGE_BYTES;
                let region = &mut open.region;
                if touched.read != 0 {
                    read_pages.insert(page);
                    region.reads[1] += 1;
                    region.reads[2] += u64::from(touched.read.count_ones());
                }
                if touched.written != 0 {
                    written_pages.insert(page);
                    region.writes[1] += 1;
                    region.writes[2] += u64::from(touched.written.count_ones());
                }
                pages.entry((region.process, page)).or_default().push((index, line, *touched));
            }
            open.region.reads[0] = read_pages.len() as u64;
            open.region.writes[0] = written_pages.len() as u64;
        }
        let mut conflicts: BTreeMap<usize, Conflict> = BTreeMap::new();
        for ((process, _), mut touched) in pages {
            touched.sort_unstable_by_key(|&(index, line, _)| (line, index));
            let writers: Vec<_> = touched.iter().filter(|entry| entry.2.written != 0).copied().collect();
            for &(later, line, theirs) in &touched {
                for &(earlier, other, ours) in &writers {
                    if later == earlier
                        || conflicts.get(&later).is_some_and(|c| c.granularity == Granularity::Byte)
                    {
                        continue;
                    }
                    let granularity = match (line == other, ours.written & (theirs.read | theirs.written)) {
                        (true, 0) => Granularity::Line,
                        (true, _) => Granularity::Byte,
                        (false, _) => Granularity::Page,
                    };
                    let worse = conflicts.get(&later).is_none_or(|old| old.granularity < granularity);
                    if worse && self.precedes(&self.regions[earlier], &self.regions[later]) {
                        let touched = theirs.read | theirs.written;
                        let both = ours.written & touched;
                        let shared = if granularity == Granularity::Byte { both } else { touched };
                        let (variable, place) = self.named((process, line), shared);
                        conflicts.insert(later, Conflict { granularity, with: earlier, variable, place });
                    }
                }
            }
        }
        let regions = self.regions.into_iter().enumerate();
        regions
            .map(|(index, open)| MergeRegion { conflict: conflicts.remove(&index), ..open.region })
            .collect()
    }
}

/// Names the fields of heap blocks that conflicts are about, `<malloc0003@make+12>.hits`. It takes a replay, where there is any block.
///
/// # Errors
/// Where the trace can't be read.
pub fn name_fields(session: &Session, regions: &mut [MergeRegion]) -> Result<(), Error> {
    let names = session.names();
    let conflicts = regions.iter().filter_map(|region| region.conflict.as_ref());
    let blocks = conflicts.filter_map(|conflict| conflict.place?.in_block(names));
    let fields = FieldNames::new(session, blocks)?;
    for conflict in regions.iter_mut().filter_map(|region| region.conflict.as_mut()) {
        if let Some(name) = conflict.place.and_then(|place| fields.name(names, place)) {
            conflict.variable = name;
        }
    }
    Ok(())
}

impl Tool for Determinism {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            self.access(at, access.ip, access.addr, access.size.into(), access.kind);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Block(block) => {
                for (addr, len) in [block.read(), block.compared()].into_iter().flatten() {
                    self.access(at, block.ip, addr, len, AccessKind::Load);
                }
                if let Some((addr, len)) = block.written() {
                    self.access(at, block.ip, addr, len, AccessKind::Store);
                }
            }
            Event::Sync(sync) => self.sync(at, sync),
            Event::Gap(gap) => self.missing += gap.count,
            _ => {}
        }
        Ok(())
    }
}
