//! The control flow of translated programs (`--flow full`): every block of code is listed once, and each thread has a stream of
//! those that it entered.

use std::collections::HashMap;

use blocks::Extent;
use memref::{ProcessId, ThreadId, VirtAddr};
use trace_format::control_flow::{BlockEntry, FlowEntry};
use trace_format::{Error, StreamDescription, StreamKind, TraceWriter, TypedWriter};

/// Entries of a thread that are coded together.
const THREAD_ENTRIES: usize = 1 << 17;
/// Blocks that are coded together.
const LISTED: usize = 1 << 12;

/// The list of blocks.
pub(crate) struct BlockList {
    trace: TraceWriter,
    stream: TypedWriter,
    /// Instructions that the tracer executed itself: a block each.
    alone: HashMap<LoneInstruction, u32>,
}

/// Where an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LoneInstruction {
    process: u32,
    ip: VirtAddr,
}

/// The blocks that one thread enters.
pub(crate) struct ThreadFlow(TypedWriter);

impl BlockList {
    pub(crate) fn new(trace: &TraceWriter) -> Self {
        let stream = trace.typed(StreamDescription::of_kind(StreamKind::BasicBlocks, None), LISTED);
        Self { trace: trace.clone(), stream, alone: HashMap::new() }
    }

    /// Lists a block, and gives its number.
    pub(crate) fn add(&mut self, extent: &Extent) -> Result<u32, Error> {
        // So many blocks would take a file of 64 GiB.
        let number = self.stream.next_index() as u32;
        let (instructions, bytes) = (extent.instructions.into(), extent.bytes.into());
        let entry = BlockEntry { ip: extent.addr, instructions, bytes };
        self.stream.push(0, &entry.to_bytes())?;
        Ok(number)
    }

    /// The number of the block that is this one instruction of a process.
    pub(crate) fn instruction(&mut self, process: u32, ip: VirtAddr, len: u8) -> Result<u32, Error> {
        if let Some(&number) = self.alone.get(&LoneInstruction { process, ip }) {
            return Ok(number);
        }
        let number = self.add(&Extent { addr: ip, instructions: 1, bytes: len.into() })?;
        self.alone.insert(LoneInstruction { process, ip }, number);
        Ok(number)
    }

    /// A thread begins.
    pub(crate) fn thread(&self, process: ProcessId, thread: ThreadId) -> ThreadFlow {
        let description = StreamDescription::of_kind(StreamKind::Flow, Some((process, thread)));
        ThreadFlow(self.trace.typed(description, THREAD_ENTRIES))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.stream.flush()
    }
}

impl ThreadFlow {
    /// The thread enters the block of that number.
    pub(crate) fn enter(&mut self, cycle: u64, block: u32) -> Result<(), Error> {
        self.0.push(cycle, &FlowEntry { cycle, block }.to_bytes())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.0.flush()
    }
}
