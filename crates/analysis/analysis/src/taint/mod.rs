//! Taint analysis: input from outside is followed through memory and registers to places
//! where it must not affect a decision: the target of a jump, the arguments of a system
//! call, the format of a printf, the size of a block (Unlimited Watchpoints, section 3.1).
//!
//! The analysis is demand-driven. As long as no register of a thread is tainted, its accesses are only checked for tainted
//! bytes, which is what a watchpoint unit would do. When one is found, every instruction is followed until the registers are
//! clean again. The trace has every access with the number of instructions before it. The instructions between accesses are
//! in its control flow ([`crate::flow`]) if that was recorded; otherwise they are found in the program's files (`path`).
//!
//! Data is followed: moves, and what is computed from data. Addresses are not followed (what is read through
//! a tainted pointer is not tainted by it), and neither are decisions (comparisons and what depends on them).

mod finding;
mod formats;
mod inherited;
mod path;
mod sizes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use memref::{
    Access, Allocation, AllocationKind, BlockFunction, BlockKind, BlockOp, Event, ProcessId, RegionKind,
    ThreadId, VirtAddr,
};
use rustc_hash::FxHashMap;
use symbols::{HeapChange, Resolver};
use watch_models::{CostModel, Origin, UnitKind, Watched};
use x86::RegisterBytes;

use self::finding::{is_of_language, spot, way};
use self::formats::FormatTexts;
use self::inherited::{Inherited, inherited};
use self::path::KnownWay;
use self::sizes::size_registers;
use crate::labelled::{
    CALL_NUMBER, KnownInstruction, Label, LabelRules, LabelledBytes, LabelledMemory, LabelledThread, Labels,
    LastAccess, OpenCall, ProgramCode, Propagation, RecordedFlow, RegisterLabels, SYSCALL_ARGUMENTS,
    Successor, arguments_of, call_number,
};
use crate::race::atomics::is_inner;
use crate::watch_units::{UnitFigure, UnitSet, figure};
use crate::{Error, Moment, Session, Tool};

pub use self::finding::{Finding, Input, SinkKind, Spot};

/// Bytes of an input that have labels of their own; beyond, each run of as many has one.
const OWN_LABELS: u64 = 4096;
/// The longest way that is kept to be found again.
const MAX_KEPT: u64 = 256;
/// Frames that one unseen return may leave.
const MAX_UNWIND: usize = 4;

/// What a way is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WayEnds {
    from: VirtAddr,
    to: VirtAddr,
    /// How many instructions it has.
    len: u64,
    /// Where a return goes.
    returns: Option<VirtAddr>,
}

#[derive(Debug, Default)]
struct ProcessTaint {
    shadow: LabelledBytes,
    code: ProgramCode,
    /// Ways that were found, by their ends, their length, and where a return went.
    ways: FxHashMap<WayEnds, Rc<[KnownWay]>>,
    /// Memory that is input from the beginning: the command line's and the environment's.
    inherited: Vec<Inherited>,
    threads: Vec<ThreadId>,
}

impl ProcessTaint {
    /// Its memory, as one of its threads changes it.
    fn told<'a>(&'a mut self, thread: ThreadId, units: &'a mut UnitSet) -> Told<'a> {
        Told { shadow: &mut self.shadow, threads: &self.threads, thread, units }
    }
}

/// What a finding is known by: where, and which input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FindingKey {
    sink: SinkKind,
    ip: VirtAddr,
    source: u32,
}

/// Follows input.
#[derive(Debug)]
pub struct Taint {
    threads: FxHashMap<ThreadId, LabelledThread>,
    processes: BTreeMap<ProcessId, ProcessTaint>,
    labels: Labels,
    inputs: Vec<Input>,
    findings: BTreeMap<FindingKey, Finding>,
    arguments: Option<Range<VirtAddr>>,
    units: UnitSet,
    /// By thread, where input was printed.
    formats: FxHashMap<ThreadId, FormatTexts>,
    /// Where it was recorded.
    flow: Option<RecordedFlow>,
    /// Bytes that came in.
    pub input_bytes: u64,
    /// Accesses looked at.
    pub accesses: u64,
    /// Accesses that touched a tainted byte.
    pub tainted_accesses: u64,
    /// Instructions followed.
    pub followed: u64,
    /// Times that the way from one access to the next was not found: registers are taken for clean there.
    pub lost: u64,
    /// Missing events.
    pub missing: u64,
}

impl Taint {
    /// For a session; units of these kinds are asked and told.
    ///
    /// # Errors
    /// [`Error::NoControlFlow`] where the trace does not count instructions; others where it can't be read.
    pub fn new(session: &Session, kinds: &[UnitKind]) -> Result<Self, Error> {
        let properties = session.trace().properties();
        if properties.get("tracer").is_none_or(|tracer| tracer != "translate") {
            return Err(Error::NoControlFlow);
        }
        let number = |text: Option<&str>| u64::from_str_radix(text?.trim_start_matches("0x"), 16).ok();
        let arguments = properties.get("argv").and_then(|range| {
            let mut words = range.split(' ');
            Some(VirtAddr(number(words.next())?)..VirtAddr(number(words.next())?))
        });
        Ok(Self {
            threads: FxHashMap::default(),
            processes: BTreeMap::new(),
            labels: Labels::default(),
            inputs: Vec::new(),
            findings: BTreeMap::new(),
            arguments,
            units: UnitSet::new(kinds),
            formats: FxHashMap::default(),
            flow: RecordedFlow::of(session)?,
            input_bytes: 0,
            accesses: 0,
            tainted_accesses: 0,
            followed: 0,
            lost: 0,
            missing: 0,
        })
    }

    /// What was found: jumps first, then by place.
    pub fn findings(&self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.findings.values().cloned().collect();
        all.sort_by(|a, b| (a.sink, &a.at, &a.operand).cmp(&(b.sink, &b.at, &b.operand)));
        all
    }

    /// What each unit would take; the baseline looks every access up in software.
    pub fn figures(&self, model: &CostModel) -> Vec<UnitFigure> {
        self.units
            .iter()
            .map(|unit| {
                let baseline = unit.counters().accesses as f64 * model.software.taint_access;
                figure(unit, 1, model, baseline)
            })
            .collect()
    }

    fn process(&mut self, at: &Moment<'_>) -> &mut ProcessTaint {
        let first = self.processes.is_empty();
        let arguments = self.arguments.clone().filter(|_| first);
        let process = self.processes.entry(at.process).or_insert_with(|| {
            let inherited = arguments.map(|bytes| inherited(at.resolver, bytes)).unwrap_or_default();
            ProcessTaint { inherited, ..Default::default() }
        });
        if !process.threads.contains(&at.thread) {
            process.threads.push(at.thread);
        }
        process
    }

    /// One instruction's accesses.
    fn group(
        &mut self,
        at: &mut Moment<'_>,
        thread: &mut LabelledThread,
        accesses: &[Access],
    ) -> Result<(), Error> {
        let Some(&Access { ip, cycle, .. }) = accesses.first() else { return Ok(()) };
        self.accesses += accesses.len() as u64;
        for access in accesses {
            self.units.check(at.thread, access.addr, access.size.into(), access.kind);
            self.look(at, access.addr, access.size.into());
        }
        if !thread.registers.are_clean() {
            self.follow(at, thread, ip, cycle)?;
        }
        let Some(process) = self.processes.get_mut(&at.process) else { return Ok(()) };
        let touched =
            accesses.iter().filter(|access| process.shadow.any(access.addr, access.size.into())).count();
        self.tainted_accesses += touched as u64;
        let decoded = process.code.at(at.resolver, ip);
        let follows_text =
            self.formats.get(&at.thread).is_some_and(|texts| texts.before(&thread.calls, accesses).is_some());
        if touched > 0 || follows_text {
            self.format(at, thread, ip, accesses);
        }
        if touched > 0 || !thread.registers.are_clean() {
            match &decoded {
                Some(decoded) if touched == 0 && !thread.registers.has_any(decoded.registers) => {
                    self.followed += 1;
                }
                Some(decoded) => self.execute(at, thread, decoded, accesses),
                None => {
                    // Unknown code: what it wrote is taken for clean.
                    for access in accesses.iter().filter(|access| access.kind.writes()) {
                        self.put(at, access.addr, &vec![0; access.size as usize]);
                    }
                    thread.registers.clear();
                    self.lost += 1;
                }
            }
        }
        if let Some(decoded) = &decoded {
            thread.note_call(decoded, accesses);
        }
        if let Some(texts) = self.formats.get_mut(&at.thread) {
            texts.leave(&thread.calls);
        }
        thread.last = Some(LastAccess { ip, cycle });
        Ok(())
    }

    /// The instructions between a thread's last access and this one, as they were recorded.
    fn follow(
        &mut self,
        at: &mut Moment<'_>,
        thread: &mut LabelledThread,
        ip: VirtAddr,
        cycle: u64,
    ) -> Result<(), Error> {
        let Some(mut way) = thread.way_to(ip, cycle) else { return Ok(()) };
        let Some(flow) = self.flow.clone() else {
            self.search(at, thread, ip, cycle);
            return Ok(());
        };
        while !thread.registers.are_clean() {
            let Some(process) = self.processes.get_mut(&at.process) else { break };
            let (of, code) = ((&flow, at.thread), &mut process.code);
            let Some(next) = thread.next_stretch(of, code, at.resolver, &mut way, (ip, cycle))? else {
                break;
            };
            let next = KnownWay::of(&next, code, at.resolver);
            self.walk(at, thread, &[next]);
        }
        self.lost += std::mem::take(&mut thread.lost);
        Ok(())
    }

    /// The instructions between a thread's last access and this one, where only their number is known.
    fn search(&mut self, at: &mut Moment<'_>, thread: &mut LabelledThread, ip: VirtAddr, cycle: u64) {
        let Some(LastAccess { ip: from, cycle: before }) = thread.last else { return };
        let Some(process) = self.processes.get_mut(&at.process) else { return };
        let len = cycle.saturating_sub(before + 1);
        // A return has taken its call from the list: see `note_call`.
        let returned = matches!(process.code.at(at.resolver, from), Some(decoded) if decoded.successor == Successor::Return);
        let returns = thread.left.filter(|_| returned).map(|call| call.to);
        let key = WayEnds { from, to: ip, len, returns };
        let ways = match process.ways.get(&key) {
            Some(ways) => Rc::clone(ways),
            None => {
                let code = &mut process.code;
                let found = path::ways(code, at.resolver, from, len, ip, returns);
                let ways: Rc<[KnownWay]> =
                    found.iter().map(|way| KnownWay::of(way, code, at.resolver)).collect();
                if len <= MAX_KEPT {
                    process.ways.insert(key, Rc::clone(&ways));
                }
                ways
            }
        };
        if !ways.is_empty() {
            self.walk(at, thread, &ways);
            return;
        }
        // A function that is not recorded, such as malloc: it returned to one of the last callers.
        for depth in 0..MAX_UNWIND.min(thread.calls.len()) {
            let call = thread.calls[thread.calls.len() - 1 - depth];
            if let Some(way) = path::way_after(&mut process.code, at.resolver, call.to, ip) {
                thread.registers.after_unseen_call();
                thread.calls.truncate(thread.calls.len() - 1 - depth);
                let way = KnownWay::of(&way, &mut process.code, at.resolver);
                self.walk(at, thread, &[way]);
                return;
            }
        }
        thread.lose();
        self.lost += std::mem::take(&mut thread.lost);
    }

    /// Executes instructions without accesses, on all ways.
    fn walk(&mut self, at: &mut Moment<'_>, thread: &mut LabelledThread, ways: &[KnownWay]) {
        if ways.iter().all(|way| !thread.registers.has_any(way.registers)) {
            self.followed += ways.iter().map(|way| way.instructions.len() as u64).sum::<u64>();
            return;
        }
        let LabelledThread { registers, calls, .. } = thread;
        let [first, others @ ..] = ways else { return };
        let before = (!others.is_empty()).then(|| registers.clone());
        self.walk_way(at, registers, calls, first);
        for way in others {
            let Some(mut own) = before.clone() else { break };
            self.walk_way(at, &mut own, calls, way);
            registers.join(&own);
        }
    }

    fn walk_way(
        &mut self,
        at: &mut Moment<'_>,
        registers: &mut RegisterLabels,
        calls: &[OpenCall],
        way: &KnownWay,
    ) {
        for decoded in &way.instructions {
            if registers.are_clean() {
                break;
            }
            self.followed += 1;
            if registers.has_any(decoded.registers) {
                self.sinks(at, registers, calls, decoded, &[]);
                let (flow, ip) = (&decoded.flow, decoded.addr());
                let propagation = Propagation { flow, ip, accesses: &[], rules: LabelRules::Any };
                let Some(process) = self.processes.get_mut(&at.process) else { return };
                propagation.execute(registers, &mut process.shadow, &mut self.labels);
            }
        }
    }

    /// Executes an instruction with its accesses.
    fn execute(
        &mut self,
        at: &mut Moment<'_>,
        thread: &mut LabelledThread,
        decoded: &KnownInstruction,
        accesses: &[Access],
    ) {
        self.followed += 1;
        self.sinks(at, &thread.registers, &thread.calls, decoded, accesses);
        let propagation =
            Propagation { flow: &decoded.flow, ip: decoded.addr(), accesses, rules: LabelRules::Any };
        let Some(process) = self.processes.get_mut(&at.process) else { return };
        let mut memory = process.told(at.thread, &mut self.units);
        propagation.execute(&mut thread.registers, &mut memory, &mut self.labels);
    }

    fn put(&mut self, at: &Moment<'_>, addr: VirtAddr, value: &[Label]) {
        let Some(process) = self.processes.get_mut(&at.process) else { return };
        let mut memory = process.told(at.thread, &mut self.units);
        memory.put(addr, value);
    }

    /// Whether data decides here where execution goes on, or what the kernel does.
    fn sinks(
        &mut self,
        at: &mut Moment<'_>,
        registers: &RegisterLabels,
        calls: &[OpenCall],
        decoded: &KnownInstruction,
        accesses: &[Access],
    ) {
        let instruction = &decoded.instruction;
        match decoded.successor {
            Successor::IndirectJump | Successor::IndirectCall | Successor::Return => {
                let Some(process) = self.processes.get(&at.process) else { return };
                let (label, detail) = match instruction.target_register() {
                    Some(number) => (
                        registers.label(RegisterBytes::general(number)),
                        x86::general_name(number).to_owned(),
                    ),
                    None => {
                        let propagation = Propagation {
                            flow: &decoded.flow,
                            ip: decoded.addr(),
                            accesses,
                            rules: LabelRules::Any,
                        };
                        let what = if decoded.successor == Successor::Return {
                            "return address"
                        } else {
                            "target in memory"
                        };
                        (propagation.loaded(&process.shadow), what.to_owned())
                    }
                };
                self.find(at, SinkKind::Jump, decoded.addr(), label, detail);
            }
            Successor::Syscall => {
                let number = self.call_number(at, decoded.addr());
                let count = number.map_or(0, |number| arguments_of(number).0);
                let ip = self.caller(at, calls, decoded.addr());
                let name = number.map_or("?".to_owned(), |number| arguments_of(number).1.to_owned());
                for (index, number) in SYSCALL_ARGUMENTS.into_iter().enumerate().take(count) {
                    let label = registers.label(RegisterBytes::general(number));
                    let detail = format!("argument {} of {name}", index + 1);
                    self.find(at, SinkKind::SystemCall, ip, label, detail);
                }
                let label = registers.label(RegisterBytes::general(CALL_NUMBER));
                self.find(at, SinkKind::SystemCall, ip, label, "number".to_owned());
            }
            _ => {}
        }
    }

    /// The number of a system call.
    fn call_number(&mut self, at: &mut Moment<'_>, ip: VirtAddr) -> Option<u64> {
        call_number(&mut self.processes.get_mut(&at.process)?.code, at.resolver, ip)
    }

    /// A format: a byte of it that printf itself reads, and not a function that it calls to read an argument; or the byte behind a text
    /// that it has just copied, which is input up to there.
    fn format(&mut self, at: &mut Moment<'_>, thread: &LabelledThread, ip: VirtAddr, accesses: &[Access]) {
        let Some(process) = self.processes.get_mut(&at.process) else { return };
        let texts = self.formats.entry(at.thread).or_default();
        let own = accesses.iter().filter(|access| access.kind.reads()).find_map(|access| {
            let bytes = 0..u64::from(access.size);
            bytes.map(|index| process.shadow.get(access.addr.offset(index))).find(|&label| label != 0)
        });
        let Some(label) = own.or_else(|| texts.before(&thread.calls, accesses)) else { return };
        let Some(call) = texts.call(&mut process.code, at.resolver, &thread.calls) else { return };
        if call.reader + 1 != thread.calls.len() {
            texts.copied(&process.shadow, &thread.calls, &call, accesses);
        } else if let [Access { size: 1, .. }] = accesses {
            // Arguments are read as words.
            let ip = call.caller.unwrap_or(ip);
            self.find(at, SinkKind::Format, ip, label, call.name.to_owned());
        }
    }

    fn find(&mut self, at: &mut Moment<'_>, sink: SinkKind, ip: VirtAddr, label: Label, operand: String) {
        if label == 0 {
            return;
        }
        let (source, offset, steps) = self.labels.path(label);
        let key = FindingKey { sink, ip, source };
        if let Some(found) = self.findings.get_mut(&key) {
            found.times += 1;
            return;
        }
        let path = way(at.resolver, &steps);
        let unknown = || Input { kind: "unknown".into(), spot: None, name: None };
        let finding = Finding {
            sink,
            operand,
            at: spot(at.resolver, ip),
            thread: at.thread,
            source: self.inputs.get(source as usize).cloned().unwrap_or_else(unknown),
            offset,
            path,
            times: 1,
            uncertain: self.missing > 0,
        };
        self.findings.insert(key, finding);
    }

    /// A page that was not accessed before: it may be input all the same.
    fn look(&mut self, at: &mut Moment<'_>, addr: VirtAddr, len: u64) {
        while let Some(process) = self.processes.get_mut(&at.process)
            && let Some(page) = process.shadow.unseen(addr, len)
        {
            let page_end = page.offset(VirtAddr::PAGE_BYTES);
            for Inherited { kind, bytes: Range { start, end } } in process.inherited.clone() {
                let (from, to) = (start.max(page), end.min(page_end));
                if from < to {
                    let source = self.input(Input { kind: kind.into(), spot: None, name: None });
                    self.taint(at, source, from, to.0 - from.0, from.0 - start.0);
                }
            }
            let region = at.resolver.resolve_region(page);
            let region = region.and_then(|id| at.resolver.image().regions().region(id));
            let Some(region) = region.filter(|region| region.kind == RegionKind::File) else { continue };
            let name = region.name.to_string();
            let from = page.max(region.start);
            let to = page_end.min(region.start.offset(region.len));
            let offset = from.0 - region.start.0;
            let source = self.input(Input { kind: "mmap".into(), spot: None, name: Some(name) });
            self.taint(at, source, from, to.checked_sub(from).unwrap_or(0), offset);
        }
    }

    /// The number of an input.
    fn input(&mut self, input: Input) -> u32 {
        if let Some(index) = self.inputs.iter().rposition(|other| *other == input) {
            return index as u32;
        }
        self.inputs.push(input);
        self.inputs.len() as u32 - 1
    }

    /// Bytes came in.
    fn taint(&mut self, at: &Moment<'_>, source: u32, addr: VirtAddr, len: u64, offset: u64) {
        self.input_bytes += len;
        let mut label = 0;
        let mut values = Vec::with_capacity(len.min(1 << 16) as usize);
        let mut start = addr;
        for index in 0..len {
            let place = offset + index;
            if label == 0 || place < OWN_LABELS || place.is_multiple_of(OWN_LABELS) {
                label = self.labels.input(source, place);
            }
            values.push(label);
            if values.len() == values.capacity() {
                self.put(at, start, &values);
                start = start.offset(values.len() as u64);
                values.clear();
            }
        }
        self.put(at, start, &values);
    }

    fn block(&mut self, at: &mut Moment<'_>, block: &BlockOp) {
        use BlockFunction as F;
        self.process(at);
        if let Some((addr, len)) = block.read()
            && block.kind == BlockKind::Fetch
            && block.function == F::Syscall
        {
            self.look(at, addr, len);
            let Some(process) = self.processes.get(&at.process) else { return };
            // What the kernel reads may be put together from several inputs.
            let mut labels: Vec<(u32, Label)> = Vec::new();
            for byte in addr.0..addr.0.saturating_add(len) {
                let label = process.shadow.get(VirtAddr(byte));
                let source = if label == 0 { continue } else { self.labels.origin(label).0 };
                if labels.iter().all(|&(known, _)| known != source) {
                    labels.push((source, label));
                }
            }
            if !labels.is_empty() {
                let number = self.call_number(at, block.ip);
                let name = number.map_or("a system call", |number| arguments_of(number).1);
                let ip = self.caller_of(at, block.ip);
                for (_, label) in labels {
                    self.find(at, SinkKind::SystemCallMemory, ip, label, name.to_owned());
                }
            }
        }
        let Some((addr, len)) = block.written() else { return };
        match block.function {
            F::Read | F::Pread | F::Readv | F::Recv => {
                self.look(at, addr, len);
                let ip = self.caller_of(at, block.ip);
                let spot = spot(at.resolver, ip);
                let source =
                    self.input(Input { kind: block.function.name().into(), spot: Some(spot), name: None });
                self.taint(at, source, addr, len, 0);
            }
            _ => {
                let dirty =
                    self.processes.get(&at.process).is_some_and(|process| process.shadow.any(addr, len));
                if dirty {
                    self.put(at, addr, &vec![0; len as usize]);
                }
            }
        }
    }

    /// Whether data decides how much memory a call gave. The call itself is not recorded: registers are as it found them.
    fn allocation(&mut self, at: &mut Moment<'_>, event: &Allocation) {
        let Some(thread) = self.threads.get(&at.thread) else { return };
        let registers = size_registers(event.function).iter();
        let label = registers
            .map(|&register| thread.registers.label(RegisterBytes::general(register)))
            .find(|&label| label != 0);
        let Some(label) = label else { return };
        // What the C library asks for by itself, such as for the locale's files, is its own business.
        let code = at.resolver.code_name(event.ip);
        let module = code.as_ref().and_then(|code| code.module.as_deref());
        let Some(module) = module.filter(|module| !is_inner(module)) else {
            return;
        };
        let ip = if is_of_language(module) { self.caller_of(at, event.ip) } else { event.ip };
        self.find(at, SinkKind::AllocationSize, ip, label, event.function.name().to_owned());
    }

    /// The program's own call that leads to an instruction of the C library, or one of the C++ library.
    fn caller(&self, at: &mut Moment<'_>, calls: &[OpenCall], ip: VirtAddr) -> VirtAddr {
        let mut nearest = None;
        for call in calls.iter().rev() {
            let name = at.resolver.code_name(call.from);
            let Some(module) = name.as_ref().and_then(|name| name.module.as_deref()) else { continue };
            if is_inner(module) {
                continue;
            }
            if !is_of_language(module) {
                return call.from;
            }
            nearest = nearest.or(Some(call.from));
        }
        nearest.unwrap_or(ip)
    }

    /// The program's own call that leads there, for a thread that is not at work.
    fn caller_of(&self, at: &mut Moment<'_>, ip: VirtAddr) -> VirtAddr {
        let calls = self.threads.get(&at.thread).map_or(&[][..], |thread| &thread.calls);
        self.caller(at, calls, ip)
    }
}

/// Memory whose changes the watchpoint units are told.
struct Told<'a> {
    shadow: &'a mut LabelledBytes,
    threads: &'a [ThreadId],
    thread: ThreadId,
    units: &'a mut UnitSet,
}

impl LabelledMemory for Told<'_> {
    fn get(&self, addr: VirtAddr) -> Label {
        self.shadow.get(addr)
    }

    fn put(&mut self, addr: VirtAddr, value: &[Label]) {
        if !self.units.is_empty() {
            let mut index = 0;
            while index < value.len() {
                let is = |index: usize| value[index] != 0;
                let was = |index: usize| self.shadow.get(addr.offset(index as u64)) != 0;
                let (now, before) = (is(index), was(index));
                let mut end = index + 1;
                while end < value.len() && (is(end), was(end)) == (now, before) {
                    end += 1;
                }
                if now != before {
                    let range = addr.offset(index as u64)..addr.offset(end as u64);
                    let watched = if now { Watched::BOTH } else { Watched::NONE };
                    for &thread in self.threads {
                        let origin = if thread == self.thread { Origin::Local } else { Origin::Remote };
                        self.units.set(thread, range.clone(), watched, origin);
                    }
                }
                index = end;
            }
        }
        self.shadow.put(addr, value);
    }
}

impl Tool for Taint {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.process(at);
        let mut thread = self.threads.remove(&at.thread).unwrap_or_default();
        let mut groups = accesses.chunk_by(|a, b| a.cycle == b.cycle && a.ip == b.ip);
        let result = groups.try_for_each(|group| self.group(at, &mut thread, group));
        self.threads.insert(at.thread, thread);
        result
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Block(block) => self.block(at, block),
            Event::Allocation(allocation) => self.allocation(at, allocation),
            Event::Gap(gap) => self.missing += gap.count,
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        let Some(process) = self.processes.get_mut(&resolver.process()) else { return };
        match (event.kind, change) {
            (AllocationKind::Calloc, _) => process.shadow.clear(event.addr, event.len),
            (_, HeapChange::Replaced { old, .. }) if event.kind == AllocationKind::Realloc => {
                let Some(block) = resolver.heap().block(old) else { return };
                let (from, len) = (block.start, block.extent().min(event.len));
                if from != event.addr && process.shadow.any(from, len) {
                    let moved: Vec<Label> =
                        (0..len).map(|index| process.shadow.get(from.offset(index))).collect();
                    process.shadow.put(event.addr, &moved);
                }
            }
            (_, HeapChange::Unmapped) => process.shadow.forget(event.addr, event.len),
            (AllocationKind::Mmap, _) => process.shadow.forget(event.addr, event.len),
            _ => {}
        }
    }
}
