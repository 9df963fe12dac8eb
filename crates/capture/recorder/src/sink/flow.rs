//! The control flow of translated programs (`--flow full`): every block of code
//! is listed once, and each thread has a stream of the blocks that it entered.

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

#[cfg(test)]
mod tests {
    use trace_format::control_flow::blocks;
    use trace_format::{CreateOptions, Trace};

    use super::*;

    fn block(ip: u64, instructions: u32, bytes: u32) -> BlockEntry {
        BlockEntry { ip: VirtAddr(ip), instructions, bytes }
    }

    /// What a thread has entered, and when.
    fn entered(trace: &Trace, thread: u32) -> Vec<FlowEntry> {
        let mut all = Vec::new();
        let mut cursor = trace.typed(StreamKind::Flow, Some(ThreadId(thread))).expect("its stream");
        while let Some(frame) = cursor.next_frame().unwrap() {
            assert_eq!(frame.first_index, all.len() as u64);
            all.extend(frame.bytes.chunks_exact(FlowEntry::BYTES).map(FlowEntry::from_bytes));
        }
        all
    }

    #[test]
    fn blocks_are_listed_once_and_threads_name_them_by_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.memtap");
        let trace = TraceWriter::create(&path, CreateOptions::default()).unwrap();
        let mut list = BlockList::new(&trace);
        let mut threads = [0, 1].map(|number| list.thread(ProcessId(number), ThreadId(number)));
        // A block that is translated again is another one; an instruction of a process always the same one.
        let extent = Extent { addr: VirtAddr(0x1000), instructions: 3, bytes: 11 };
        assert_eq!([(); 2].map(|()| list.add(&extent).unwrap()), [0, 1]);
        let at = |addr| VirtAddr(addr);
        assert_eq!(list.instruction(0, at(0x1000), 2).unwrap(), 2);
        assert_eq!(list.instruction(1, at(0x1000), 4).unwrap(), 3);
        assert_eq!(list.instruction(0, at(0x1002), 5).unwrap(), 4);
        list.flush().unwrap();
        // Also when they are written.
        assert_eq!(list.instruction(0, at(0x1000), 2).unwrap(), 2);
        assert_eq!(list.instruction(1, at(0x1000), 4).unwrap(), 3);
        assert_eq!(list.add(&extent).unwrap(), 5);
        for (cycle, block) in [(7, 0), (10, 2), (11, 0)] {
            threads[0].enter(cycle, block).unwrap();
        }
        threads[1].enter(u64::MAX / 2, 3).unwrap();
        list.flush().unwrap();
        threads.iter_mut().for_each(|thread| thread.flush().unwrap());
        drop((list, threads));
        trace.finish().unwrap();
        let trace = Trace::open(&path).unwrap();
        let whole = block(0x1000, 3, 11);
        let expect = [whole, whole, block(0x1000, 1, 2), block(0x1000, 1, 4), block(0x1002, 1, 5), whole];
        assert_eq!(blocks(&trace).unwrap(), expect);
        let entry = |cycle, block| FlowEntry { cycle, block };
        assert_eq!(entered(&trace, 0), [entry(7, 0), entry(10, 2), entry(11, 0)]);
        assert_eq!(entered(&trace, 1), [entry(u64::MAX / 2, 3)]);
    }
}
