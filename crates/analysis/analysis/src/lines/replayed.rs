//! The second pass: a replay that follows the shared lines alone, with what each thread accesses of them and from where.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, AccessKind, BlockOp, Event, ProcessId, RegionKind, SyncKind, ThreadId, VirtAddr};
use rustc_hash::{FxHashMap, FxHashSet};
use symbols::{CodeId, VariableId};
use trace_format::Filter;

use super::state::{LineHolder, LineState, Touch};
use super::stretch::Marks;
use super::{LINE_BYTES, LineGroup, TouchedLines, bits_of, group};
use crate::block_lines::line_accesses;
use crate::layout::HeapTypes;
use crate::replay::SliceWorker;
use crate::variable_name::variable_name;
use crate::{Count, Error, Moment, Session, Tool};

/// What one thread accesses of one line by one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PartKey {
    pub(super) line: u32,
    pub(super) thread: ThreadId,
    pub(super) code: CodeId,
    pub(super) variable: VariableId,
    /// The first byte, from the start of the line.
    pub(super) first: u8,
    pub(super) bytes: u8,
}

#[derive(Clone, Debug)]
pub(super) struct PartUse {
    pub(super) key: PartKey,
    pub(super) count: Count,
    /// Changes of owner in which it took or lost the line.
    pub(super) changes: u64,
    /// Whether it lies on a stack.
    is_stack: bool,
    pub(super) name: u32,
}

/// What a part is called.
#[derive(Clone, Debug)]
pub(super) struct PartName {
    /// The whole.
    pub(super) text: String,
    /// The field of a block that has a type, which the name ends with.
    pub(super) field: Option<String>,
}

/// A line by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinePlace {
    pub(super) process: ProcessId,
    pub(super) line: u64,
}

/// When a line was touched first: the accesses that had been told, and of the lines of one access which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FirstTouch {
    told: u64,
    line: u64,
}

/// Follows the lines that threads share.
#[derive(Debug)]
pub struct LineUses {
    touched: TouchedLines,
    /// Accesses so far, also those to other lines.
    told: u64,
    /// Of each line.
    first_touches: Vec<FirstTouch>,
    types: Option<Arc<HeapTypes>>,
    line_of: FxHashMap<LinePlace, u32>,
    pub(super) places: Vec<LinePlace>,
    pub(super) lines: Vec<LineState>,
    part_of: FxHashMap<PartKey, u32>,
    pub(super) parts: Vec<PartUse>,
    /// The part of each thread's last access, most often also that of the next one.
    last: Option<u32>,
    name_of: FxHashMap<(VariableId, u64, u8), u32>,
    pub(super) names: Vec<PartName>,
    pub(super) marks: Marks,
    ended: FxHashSet<ThreadId>,
    /// Missing events, which can have been accesses.
    pub missing: u64,
}

impl LineUses {
    /// Follows these lines.
    pub fn new(touched: TouchedLines) -> Self {
        Self {
            touched,
            told: 0,
            first_touches: Vec::new(),
            types: None,
            line_of: FxHashMap::default(),
            places: Vec::new(),
            lines: Vec::new(),
            part_of: FxHashMap::default(),
            parts: Vec::new(),
            last: None,
            name_of: FxHashMap::default(),
            names: Vec::new(),
            marks: Marks::default(),
            ended: FxHashSet::default(),
            missing: 0,
        }
    }

    /// Names fields of heap blocks, too.
    pub fn with_types(self, types: Arc<HeapTypes>) -> Self {
        Self { types: Some(types), ..self }
    }

    /// Finds the lines that several threads touched, and follows them through all of a session, with types.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(session: &Session) -> Result<Self, Error> {
        let touched = TouchedLines::read(session)?;
        if touched.is_empty() {
            return Ok(Self::new(touched));
        }
        Self::new(touched).with_types(session.heap_types()?).replay(session)
    }

    /// Replays all of a session, on several cores where there are some: lines have nothing to do with each other.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(mut self, session: &Session) -> Result<Self, Error> {
        let count = session.workers();
        if count < 2 {
            session.replay(&Filter::default(), None, &mut self)?;
            return Ok(self);
        }
        let of_share = |touched| Self { types: self.types.clone(), ..Self::new(touched) };
        let workers = self.touched.shares(count).into_iter().map(of_share).collect();
        let (_, workers) = session.replay_shared(workers)?;
        Ok(Self::joined(workers))
    }

    /// All that several followed, each of which was told everything, in the order in which one would have met it.
    fn joined(workers: Vec<Self>) -> Self {
        let mut order = Vec::new();
        for (worker, uses) in workers.iter().enumerate() {
            let touches = uses.first_touches.iter().zip(0..);
            order.extend(touches.map(|(touch, line)| (*touch, worker, line)));
        }
        order.sort_unstable();
        let mut number_of: Vec<Vec<u32>> = workers.iter().map(|uses| vec![0; uses.lines.len()]).collect();
        for (number, (_, worker, line)) in (0..).zip(&order) {
            number_of[*worker][*line as usize] = number;
        }
        let mut all = Self::new(TouchedLines::default());
        let mut lines: Vec<Option<(LinePlace, LineState)>> = order.iter().map(|_| None).collect();
        for (worker, (uses, number_of)) in workers.into_iter().zip(number_of).enumerate() {
            let names = all.names.len() as u32;
            all.names.extend(uses.names);
            for (of_line, number) in uses.places.into_iter().zip(uses.lines).zip(&number_of) {
                lines[*number as usize] = Some(of_line);
            }
            let here = |part: PartUse| {
                let key = PartKey { line: number_of[part.key.line as usize], ..part.key };
                PartUse { key, name: part.name + names, ..part }
            };
            all.parts.extend(uses.parts.into_iter().map(here));
            if worker == 0 {
                (all.marks, all.missing) = (uses.marks, uses.missing);
            }
        }
        (all.places, all.lines) = lines.into_iter().flatten().unzip();
        all
    }

    /// What is shared, most changes of owner first. To be asked after the replay.
    pub fn groups(self, session: &Session) -> Vec<LineGroup> {
        group::groups(self, session)
    }

    #[inline]
    fn access(&mut self, at: &mut Moment<'_>, access: &Access) {
        self.told += 1;
        let end = access.addr.0.saturating_add(access.size.into());
        let mut addr = access.addr.0;
        while addr < end {
            let line = addr / LINE_BYTES;
            let stop = end.min((line + 1).saturating_mul(LINE_BYTES));
            if self.touched.has(at.process, line) {
                self.touch(at, access, VirtAddr(addr)..VirtAddr(stop));
            }
            addr = stop;
        }
    }

    /// A thread touches bytes of one line.
    fn touch(&mut self, at: &mut Moment<'_>, access: &Access, bytes: Range<VirtAddr>) {
        let addr = bytes.start;
        let place = LinePlace { process: at.process, line: addr.0 / LINE_BYTES };
        let Self { lines, places, first_touches, told, .. } = self;
        let line = *self.line_of.entry(place).or_insert_with(|| {
            lines.push(LineState::default());
            places.push(place);
            first_touches.push(FirstTouch { told: *told, line: place.line });
            lines.len() as u32 - 1
        });
        let key = PartKey {
            line,
            thread: at.thread,
            code: at.resolver.resolve_code(access.ip),
            variable: at.resolver.resolve_data(addr).variable,
            first: (addr.0 % LINE_BYTES) as u8,
            bytes: bytes.end.distance(addr) as u8,
        };
        let part = match self.last.filter(|last| self.parts[*last as usize].key == key) {
            Some(last) => last,
            None => self.part(at, key, addr),
        };
        self.last = Some(part);
        self.parts[part as usize].count.add(access);
        let touch = Touch { thread: at.thread, bits: bits_of(&bytes), writes: access.kind.writes(), part };
        let (parts, ended) = (&self.parts, &self.ended);
        let is_gone = |holder: &LineHolder| {
            let part = &parts[holder.part as usize];
            let first = VirtAddr(place.line * LINE_BYTES + u64::from(part.key.first));
            (part.is_stack && ended.contains(&holder.thread))
                || at.resolver.resolve_data(first).variable != part.key.variable
        };
        let handover = self.lines[line as usize].touch(&touch, &self.marks, is_gone);
        if let Some(handover) = handover {
            self.parts[handover.from as usize].changes += 1;
            self.parts[part as usize].changes += 1;
        }
    }

    fn part(&mut self, at: &mut Moment<'_>, key: PartKey, addr: VirtAddr) -> u32 {
        if let Some(&part) = self.part_of.get(&key) {
            return part;
        }
        let offset = at.resolver.resolve_data(addr).offset;
        let names = &mut self.names;
        let name = *self.name_of.entry((key.variable, offset, key.bytes)).or_insert_with(|| {
            let field = self.types.as_ref().and_then(|types| types.field_path(key.variable, addr));
            let text = match &field {
                Some(field) => {
                    let whole = at.resolver.names().variable(key.variable);
                    format!("{}{field}", whole.as_deref().map_or("", |variable| &variable.name))
                }
                None => variable_name(at.resolver, addr, key.bytes.into()),
            };
            names.push(PartName { text, field });
            names.len() as u32 - 1
        });
        let region = at.resolver.resolve_region(addr);
        let region = region.and_then(|region| at.resolver.image().regions().region(region));
        let is_stack = region.is_some_and(|region| region.kind == RegionKind::Stack);
        let part = self.parts.len() as u32;
        self.parts.push(PartUse { key, count: Count::default(), changes: 0, is_stack, name });
        self.part_of.insert(key, part);
        part
    }

    fn block(&mut self, at: &mut Moment<'_>, block: &BlockOp) {
        for access in line_accesses(block, LINE_BYTES) {
            self.access(at, &access);
        }
    }
}

impl SliceWorker for LineUses {}

impl Tool for LineUses {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.marks.pass(at.thread, at.order);
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Prefetch) {
            self.access(at, access);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.marks.pass(at.thread, at.order);
        match event {
            Event::Block(block) => self.block(at, block),
            Event::Sync(sync) if sync.kind == SyncKind::Exit => {
                self.ended.insert(at.thread);
            }
            Event::Gap(gap) => self.missing += gap.count,
            _ => {}
        }
        Ok(())
    }
}
