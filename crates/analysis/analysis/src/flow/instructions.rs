//! The execution of each thread, instruction by instruction with
//! accesses: the control flow and the accesses of one trace combined.
//!
//! Code is read from the files that the processes mapped. Instructions elsewhere (generated
//! at run time, in the vdso) are not known, only their number is reported. The same applies
//! to functions that are one event (malloc), whose instructions were only counted.

use std::sync::Arc;

use memref::{Access, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use trace_format::Trace;
use trace_format::control_flow::BlockEntry;
use x86::{Instruction, MAX_INSTRUCTION_BYTES, Transfer};

use super::{Executed, ExecutedStretch, Flow, blocks};
use crate::code_files::CodeFiles;
use crate::{Error, Moment, Session, Tool};

/// How an instruction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionKind {
    /// At the next one, if the kernel does not decide otherwise.
    Plain,
    /// At the place that it names.
    Jump,
    /// At a place that a register or memory names.
    IndirectJump,
    /// At the place that it names, or at the next one.
    Branch,
    /// In the function that it names.
    Call,
    /// In a function that a register or memory names.
    IndirectCall,
    /// After the call.
    Return,
}

impl From<Transfer> for InstructionKind {
    fn from(transfer: Transfer) -> Self {
        match transfer {
            Transfer::Jump(_) => Self::Jump,
            Transfer::JumpIndirect | Transfer::FarJump => Self::IndirectJump,
            Transfer::Branch(..) | Transfer::CountBranch(_) => Self::Branch,
            Transfer::Call(_) => Self::Call,
            Transfer::CallIndirect | Transfer::FarCall => Self::IndirectCall,
            Transfer::Return(_) | Transfer::FarReturn => Self::Return,
            Transfer::Next
            | Transfer::Syscall
            | Transfer::Kernel
            | Transfer::Interrupt
            | Transfer::Exception
            | Transfer::Transaction(_) => Self::Plain,
        }
    }
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutedInstruction {
    /// Its address.
    pub ip: VirtAddr,
    /// How it goes on.
    pub kind: InstructionKind,
    bytes: [u8; MAX_INSTRUCTION_BYTES],
    len: u8,
}

impl ExecutedInstruction {
    /// Its bytes, 1 to 15.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// What could not be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnknownInstructions {
    /// Instructions that were executed.
    pub instructions: u64,
    /// Accesses of such instructions.
    pub accesses: u64,
}

/// Takes what threads did, of each thread in its order.
pub trait InstructionSink {
    /// An instruction; its accesses follow.
    ///
    /// # Errors
    /// Where the sink's output can't be written; this ends the replay.
    fn instruction(&mut self, thread: ThreadId, instruction: &ExecutedInstruction) -> Result<(), Error>;

    /// An access of the last instruction.
    ///
    /// # Errors
    /// See [`Self::instruction`].
    fn access(&mut self, thread: ThreadId, access: &Access) -> Result<(), Error>;
}

/// Code that was decoded, by the places that blocks begin at.
#[derive(Default)]
struct DecodedCode {
    files: CodeFiles,
    rows: FxHashMap<CodeId, Vec<ExecutedInstruction>>,
}

impl DecodedCode {
    /// So many instructions from `start` on; fewer where the code is in no file.
    fn row(&mut self, resolver: &mut Resolver, start: VirtAddr, count: u64) -> &[ExecutedInstruction] {
        let row = self.rows.entry(resolver.resolve_code(start)).or_default();
        // A module that is mapped a second time has other addresses.
        if row.first().is_some_and(|first| first.ip != start) {
            row.clear();
        }
        while (row.len() as u64) < count {
            let at = row.last().map_or(start, |last| VirtAddr(last.ip.0.wrapping_add(last.len.into())));
            let mut bytes = [0; MAX_INSTRUCTION_BYTES];
            let Some(found) = self.files.at(resolver, at, &mut bytes) else { break };
            let Some(instruction) = Instruction::decode(found, at.0) else { break };
            let (kind, len) = (instruction.transfer().into(), instruction.len_bytes() as u8);
            bytes[len.into()..].fill(0);
            row.push(ExecutedInstruction { ip: at, kind, bytes, len });
        }
        &row[..row.len().min(count as usize)]
    }
}

/// A thread on its way.
struct FollowedThread {
    executed: Executed,
    /// Instructions that are passed.
    passed: u64,
    /// Where the last of them was, if that is known.
    last: Option<VirtAddr>,
}

/// Feeds a sink from a replay.
pub struct InstructionFeed<S> {
    sink: S,
    trace: Trace,
    blocks: Arc<[BlockEntry]>,
    code: DecodedCode,
    threads: FxHashMap<ThreadId, FollowedThread>,
    unknown: UnknownInstructions,
}

impl<S: InstructionSink> InstructionFeed<S> {
    /// Replays a session into a sink; gives it back, with what could not be told.
    ///
    /// # Errors
    /// Where the trace can't be read, or the sink's output can't be written.
    pub fn replay(session: &Session, sink: S) -> Result<(S, UnknownInstructions), Error> {
        let mut feed = Self {
            sink,
            trace: session.trace().clone(),
            blocks: blocks(session.trace())?,
            code: DecodedCode::default(),
            threads: FxHashMap::default(),
            unknown: UnknownInstructions::default(),
        };
        let mut resolvers = session.replay(&Default::default(), None, &mut feed)?;
        // What came after the last access of each thread; those without any have flow, too.
        for record in session.trace().threads() {
            let known = resolvers.iter_mut().find(|resolver| resolver.process() == record.process);
            let Some(resolver) = known else { continue };
            feed.follow(resolver, record.thread, u64::MAX)?;
        }
        Ok((feed.sink, feed.unknown))
    }

    /// Tells the instructions of a thread up to that cycle.
    fn follow(&mut self, resolver: &mut Resolver, thread: ThreadId, to: u64) -> Result<(), Error> {
        let Self { trace, blocks, .. } = self;
        let followed = self.threads.entry(thread).or_insert_with(|| FollowedThread {
            executed: Executed::new(Flow::of(trace, thread, blocks)),
            passed: 0,
            last: None,
        });
        loop {
            let before = followed.passed;
            let ExecutedStretch { start, skipped, count, .. } =
                followed.executed.next(&mut followed.passed, to)?;
            // After the last block nothing is known, nor how much.
            if to != u64::MAX || count > 0 {
                self.unknown.instructions += followed.passed - before - count;
            }
            if count == 0 {
                return Ok(());
            }
            let row = self.code.row(resolver, start, skipped + count);
            let row = row.get(skipped as usize..).unwrap_or_default();
            for instruction in row {
                self.sink.instruction(thread, instruction)?;
            }
            followed.last = row.last().map(|last| last.ip).filter(|_| row.len() as u64 == count);
            self.unknown.instructions += count - row.len() as u64;
        }
    }
}

impl<S: InstructionSink> Tool for InstructionFeed<S> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            self.follow(at.resolver, at.thread, access.cycle.saturating_add(1))?;
            let last = self.threads.get(&at.thread).and_then(|followed| followed.last);
            if last == Some(access.ip) {
                self.sink.access(at.thread, access)?;
            } else {
                self.unknown.accesses += 1;
            }
        }
        Ok(())
    }
}
