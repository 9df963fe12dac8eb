//! Bytes that were never written, followed through registers and copies to where
//! they affect a decision. Needs recorded control flow (`record --flow full`).
//!
//! Only real cases are reported: a value carries the label only if all of it comes from such bytes
//! ([`LabelRules::Whole`]). A value that is masked, selected or assembled from parts has no label. Nothing
//! that the C library computes has one either, since its string functions read past the ends of strings.

use memref::{Access, ProcessId, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use x86::{ByteRule, RegisterBytes};

use crate::labelled::{
    KnownInstruction, Label, LabelRules, LabelledBytes, LabelledThread, Labels, LastAccess, ProgramCode,
    Propagation, RecordedFlow, SYSCALL_ARGUMENTS, Successor, arguments_of, call_number,
};
use crate::{Error, Moment, Owner};

/// What such bytes decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// Where a jump goes.
    Jump,
    /// Where memory is accessed, or what is called.
    Address,
    /// What a system call does: which argument, and its name.
    SystemCall(usize, &'static str),
}

/// A place where they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnwrittenDecision {
    pub(super) by: DecidedBy,
    pub(super) ip: VirtAddr,
    /// The number of the block that they come from, and where in it they are.
    pub(super) block: u32,
    pub(super) offset: u64,
}

/// One thread.
#[derive(Debug, Default)]
struct UnwrittenThread {
    labelled: LabelledThread,
    /// The label of what the flags were set by.
    flags: Label,
}

impl UnwrittenThread {
    fn is_clean(&self) -> bool {
        self.flags == 0 && self.labelled.registers.are_clean()
    }

    fn clear(&mut self) {
        self.labelled.registers.clear();
        self.flags = 0;
    }
}

/// The memory and the code of one process.
#[derive(Debug, Default)]
struct UnwrittenProcess {
    bytes: LabelledBytes,
    code: ProgramCode,
    /// Whether instructions are the program's, and not of a library that comes with every program.
    is_own: FxHashMap<CodeId, bool>,
}

impl UnwrittenProcess {
    fn is_own(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> bool {
        let code = resolver.resolve_code(ip);
        *self.is_own.entry(code).or_insert_with(|| {
            let name = resolver.names().code(code);
            let module = name.as_deref().and_then(|name| name.module.as_deref());
            module.is_some_and(|module| Owner::of_module(module) == Owner::Program)
        })
    }
}

/// Follows them.
#[derive(Debug)]
pub(super) struct UnwrittenBytes {
    flow: RecordedFlow,
    labels: Labels,
    threads: FxHashMap<ThreadId, UnwrittenThread>,
    processes: FxHashMap<ProcessId, UnwrittenProcess>,
    decided: Vec<UnwrittenDecision>,
}

impl UnwrittenBytes {
    pub(super) fn new(flow: RecordedFlow) -> Self {
        Self {
            flow,
            labels: Labels::plain(),
            threads: FxHashMap::default(),
            processes: FxHashMap::default(),
            decided: Vec::new(),
        }
    }

    /// These bytes of a block, of which the next instruction reads some, were not written.
    pub(super) fn mark(
        &mut self,
        process: ProcessId,
        block: u32,
        offset: u64,
        bytes: impl Iterator<Item = VirtAddr>,
    ) {
        let known = &mut self.processes.entry(process).or_default().bytes;
        let mut label = 0;
        for byte in bytes {
            if known.get(byte) == 0 {
                if label == 0 {
                    label = self.labels.input(block, offset);
                }
                known.set(byte, label);
            }
        }
    }

    /// What is there is new, or was written by other ways than instructions.
    pub(super) fn forget(&mut self, process: ProcessId, start: VirtAddr, len: u64) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.bytes.clear(start, len);
        }
    }

    /// A signal's handler begins.
    pub(super) fn interrupt(&mut self, thread: ThreadId) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.clear();
        }
    }

    /// One instruction's accesses; what led there comes before them. Gives what was decided.
    pub(super) fn group(
        &mut self,
        at: &mut Moment<'_>,
        accesses: &[Access],
    ) -> Result<Vec<UnwrittenDecision>, Error> {
        let Some(&Access { ip, cycle, .. }) = accesses.first() else { return Ok(Vec::new()) };
        let mut thread = self.threads.remove(&at.thread).unwrap_or_default();
        if !thread.is_clean() {
            self.follow(at, &mut thread, ip, cycle)?;
        }
        let process = self.processes.entry(at.process).or_default();
        let is_touched = accesses.iter().any(|access| process.bytes.any(access.addr, access.size.into()));
        let decoded = process.code.at(at.resolver, ip);
        if is_touched || !thread.is_clean() {
            match &decoded {
                Some(decoded) => self.step(at, &mut thread, decoded, accesses),
                None => {
                    // Unknown code: what it wrote is written.
                    for access in accesses.iter().filter(|access| access.kind.writes()) {
                        process.bytes.clear(access.addr, access.size.into());
                    }
                    thread.clear();
                }
            }
        }
        if let Some(decoded) = &decoded {
            thread.labelled.note_call(decoded, accesses);
        }
        thread.labelled.last = Some(LastAccess { ip, cycle });
        self.threads.insert(at.thread, thread);
        Ok(std::mem::take(&mut self.decided))
    }

    /// The instructions between a thread's last access and this one.
    fn follow(
        &mut self,
        at: &mut Moment<'_>,
        thread: &mut UnwrittenThread,
        ip: VirtAddr,
        cycle: u64,
    ) -> Result<(), Error> {
        let Some(mut way) = thread.labelled.way_to(ip, cycle) else { return Ok(()) };
        while !thread.is_clean() {
            let process = self.processes.entry(at.process).or_default();
            let of = (&self.flow, at.thread);
            let lost = thread.labelled.lost;
            let code = &mut process.code;
            let next = thread.labelled.next_stretch(of, code, at.resolver, &mut way, (ip, cycle))?;
            if thread.labelled.lost > lost {
                thread.flags = 0;
            }
            let Some(next) = next else { break };
            for ip in next {
                let process = self.processes.entry(at.process).or_default();
                let Some(decoded) = process.code.at(at.resolver, ip) else { continue };
                self.step(at, thread, &decoded, &[]);
            }
        }
        Ok(())
    }

    /// Executes an instruction.
    fn step(
        &mut self,
        at: &mut Moment<'_>,
        thread: &mut UnwrittenThread,
        decoded: &KnownInstruction,
        accesses: &[Access],
    ) {
        let process = self.processes.entry(at.process).or_default();
        let ip = decoded.addr();
        let is_own = process.is_own(at.resolver, ip);
        let registers = &mut thread.labelled.registers;
        let mut decided: Vec<(DecidedBy, Label)> = Vec::new();
        if is_own {
            if matches!(decoded.successor, Successor::Branch(_)) {
                decided.push((DecidedBy::Jump, std::mem::take(&mut thread.flags)));
            }
            let target = decoded.instruction.target_register().map_or(0, |register| 1 << register);
            let in_addresses = decoded.address_registers | target;
            for register in (0..16).filter(|register| in_addresses >> register & 1 == 1) {
                decided.push((DecidedBy::Address, registers.label(RegisterBytes::general(register))));
            }
        }
        if decoded.successor == Successor::Syscall && !registers.are_clean() {
            let number = call_number(&mut process.code, at.resolver, ip);
            let (count, name) = number.map_or((0, ""), arguments_of);
            for (index, register) in SYSCALL_ARGUMENTS.into_iter().enumerate().take(count) {
                let label = registers.label(RegisterBytes::general(register));
                decided.push((DecidedBy::SystemCall(index + 1, name), label));
            }
        }
        for (by, label) in decided.into_iter().filter(|(_, label)| *label != 0) {
            let (block, offset) = self.labels.origin(label);
            self.decided.push(UnwrittenDecision { by, ip, block, offset });
        }
        let rules = if is_own { LabelRules::Whole } else { LabelRules::Moves };
        let propagation = Propagation { flow: &decoded.flow, ip, accesses, rules };
        let assignments = &decoded.flow.assignments;
        let is = |rule: fn(&ByteRule) -> bool| assignments.iter().any(|assignment| rule(&assignment.rule));
        let is_plain = !is(|rule| matches!(rule, ByteRule::Constant | ByteRule::Bitwise(..)));
        if decoded.changes_flags {
            let whole = is_own && is_plain && !decoded.flow.is_elementwise;
            thread.flags = if whole { propagation.whole(registers, &process.bytes) } else { 0 };
        }
        propagation.execute(registers, &mut process.bytes, &mut self.labels);
    }
}
