//! The blocks of translated processes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use blocks::{BasicBlock, BlockAccess, Definition, SharedBlock};
use buffers::flow::ID_BITS;
use trace_format::Error;

use crate::sink::block_table::{BlockTable, DefinedBlock};
use crate::sink::flow::BlockList;

/// The blocks of one process.
#[derive(Debug, Default)]
struct ProcessBlocks {
    parent: Option<u32>,
    /// It executes nothing more.
    has_ended: bool,
    table: Arc<BlockTable>,
    /// Bytes that were read of each of its buffers of definitions.
    read: HashMap<u32, usize>,
    /// Bytes of memory that its blocks take, about.
    memory_bytes: usize,
}

/// What a block takes beside its accesses: its place in a table that is half full at least, and what the allocator adds to its two parts.
const BLOCK_BYTES: usize = 2 * size_of::<DefinedBlock>() + size_of::<BasicBlock>() + 48;

/// The blocks of all processes.
#[derive(Debug, Default)]
pub(crate) struct SessionBlocks {
    processes: HashMap<u32, ProcessBlocks>,
    /// Bytes of memory that the blocks of all of them take, and the most that they took.
    memory_bytes: usize,
    peak_bytes: usize,
}

/// The blocks that a process can execute: its own, and those that its parent had before the fork. Whoever has them sees what is
/// defined later, too.
#[derive(Debug)]
pub(crate) struct ExecutableBlocks {
    chain: Vec<Arc<BlockTable>>,
}

/// Ancestors that are looked through.
const MAX_LINE: usize = 1024;

impl ExecutableBlocks {
    /// The block of that number.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&SharedBlock> {
        self.chain.iter().find_map(|table| table.get(id)?.block.as_ref())
    }

    /// The number in the list of blocks of the block of that number.
    #[inline]
    pub(crate) fn listed(&self, id: u32) -> Option<u32> {
        self.chain.iter().find_map(|table| table.get(id)?.listed)
    }
}

impl SessionBlocks {
    /// A process was forked.
    pub(crate) fn add_process(&mut self, number: u32, parent: u32) {
        self.processes.entry(number).or_default().parent = Some(parent);
    }

    /// A process has ended, and all that it executed was read. Its blocks are still those of its children.
    pub(crate) fn end(&mut self, number: u32) {
        if let Some(process) = self.processes.get_mut(&number) {
            process.has_ended = true;
        }
    }

    /// Forgets the blocks that nobody can execute any more. All children that were forked must be known.
    pub(crate) fn forget_ended(&mut self) {
        let needed: HashSet<u32> = self
            .processes
            .iter()
            .filter(|(_, process)| !process.has_ended)
            .flat_map(|(&number, _)| self.line(number).map(|(number, _)| number))
            .collect();
        self.processes.retain(|number, process| {
            let is_needed = needed.contains(number);
            self.memory_bytes -= if is_needed { 0 } else { process.memory_bytes };
            is_needed
        });
    }

    /// A process, its parent, and so on.
    fn line(&self, number: u32) -> impl Iterator<Item = (u32, &ProcessBlocks)> {
        let find = |number| Some((number, self.processes.get(&number)?));
        std::iter::successors(find(number), move |(_, process)| find(process.parent?)).take(MAX_LINE)
    }

    /// Reads a buffer of definitions, as far as it was not read before, and lists what is new.
    pub(crate) fn add(
        &mut self,
        process: u32,
        sequence: u32,
        bytes: &[u8],
        mut list: Option<&mut BlockList>,
    ) -> Result<(), Error> {
        let process = self.processes.entry(process).or_default();
        let read = process.read.entry(sequence).or_default();
        while let Some((definition, len)) = bytes.get(*read..).and_then(Definition::decode) {
            *read += len;
            let id = definition.id;
            if id >= 1 << ID_BITS {
                break;
            }
            // A number is given out once: what comes again is not of the tracer.
            if process.table.get(id).is_none() {
                let listed = list.as_mut().map(|list| list.add(&definition.extent)).transpose()?;
                let block = BasicBlock::new(&definition).map(SharedBlock::from);
                let accesses = block.as_ref().map_or(0, |block| block.accesses().len());
                let memory_bytes = BLOCK_BYTES + accesses * size_of::<BlockAccess>();
                process.memory_bytes += memory_bytes;
                self.memory_bytes += memory_bytes;
                self.peak_bytes = self.peak_bytes.max(self.memory_bytes);
                process.table.add(id, DefinedBlock { block, listed });
            }
        }
        Ok(())
    }

    /// Bytes of memory that all blocks take, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The most that they took.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// What a process can execute.
    pub(crate) fn of(&self, process: u32) -> ExecutableBlocks {
        ExecutableBlocks { chain: self.line(process).map(|(_, process)| process.table.clone()).collect() }
    }
}

#[cfg(test)]
mod tests {
    use blocks::{Extent, MAX_DEFINITION_BYTES, RecordedValues, encode_definition};
    use memref::VirtAddr;

    use super::*;

    fn define(blocks: &mut SessionBlocks, process: u32, id: u32) {
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(VirtAddr(64), 1);
        let len = encode_definition(id, extent, RecordedValues::plain(0), &[BlockAccess::NONE], &mut bytes);
        blocks.add(process, 0, &bytes[..len], None).unwrap();
    }

    #[test]
    fn what_a_child_was_forked_with_stays_as_long_as_the_child() {
        let mut blocks = SessionBlocks::default();
        define(&mut blocks, 0, 20);
        blocks.add_process(1, 0);
        define(&mut blocks, 1, 21);
        blocks.add_process(2, 1);
        for ended in [0, 1] {
            blocks.end(ended);
            blocks.forget_ended();
            let known = blocks.of(2);
            assert!(known.get(20).is_some() && known.get(21).is_some());
        }
        blocks.add_process(3, 0);
        blocks.end(2);
        blocks.forget_ended();
        assert!(blocks.of(3).get(20).is_some(), "of its parent, not of its sister");
        assert!(blocks.of(2).get(21).is_none());
        assert!(blocks.memory_bytes() > 0);
        blocks.end(3);
        blocks.forget_ended();
        assert!(blocks.processes.is_empty());
        assert_eq!(blocks.memory_bytes(), 0);
    }
}
