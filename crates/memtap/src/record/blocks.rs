//! The blocks of translated processes.

use std::collections::HashMap;
use std::sync::Arc;

use segment::flow::{Definition, ID_BITS};
use trace_format::Block;

/// The blocks of one process.
#[derive(Debug, Default)]
struct Process {
    parent: Option<u32>,
    /// By their numbers.
    blocks: Vec<Option<Arc<Block>>>,
    /// How many values each has, or [`UNKNOWN`]: what finding the entries of a buffer needs, close together.
    values: Vec<u8>,
    /// Bytes that were read of each of its buffers of definitions.
    read: HashMap<u32, usize>,
}

/// The blocks of all processes.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    processes: HashMap<u32, Process>,
}

/// The blocks that a process can execute: its own, and those that its parent had before the fork.
pub(crate) struct Known<'a> {
    chain: Vec<&'a Process>,
}

const UNKNOWN: u8 = u8::MAX;

impl Known<'_> {
    /// The block of that number.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<Block>> {
        self.chain.iter().find_map(|process| process.blocks.get(id as usize)?.as_ref())
    }

    /// How many values the block of that number has.
    #[inline]
    pub(crate) fn values(&self, id: u32) -> Option<u8> {
        let mut values = self.chain.iter().filter_map(|process| process.values.get(id as usize).copied());
        values.find(|&values| values != UNKNOWN)
    }
}

impl Blocks {
    /// A process was forked.
    pub(crate) fn add_process(&mut self, number: u32, parent: u32) {
        self.processes.entry(number).or_default().parent = Some(parent);
    }

    /// Reads a buffer of definitions, as far as it was not read before.
    pub(crate) fn add(&mut self, process: u32, sequence: u32, bytes: &[u8]) {
        let process = self.processes.entry(process).or_default();
        let read = process.read.entry(sequence).or_default();
        while let Some((definition, len)) = bytes.get(*read..).and_then(Definition::decode) {
            *read += len;
            let place = definition.id as usize;
            if place >= 1 << ID_BITS {
                return;
            }
            if process.blocks.len() <= place {
                process.blocks.resize_with(place + 1, || None);
                process.values.resize(place + 1, UNKNOWN);
            }
            let block = Block::new(&definition).map(Arc::new);
            process.values[place] = block.as_ref().map_or(UNKNOWN, |block| block.values());
            process.blocks[place] = block;
        }
    }

    /// What a process can execute.
    pub(crate) fn of(&self, process: u32) -> Known<'_> {
        let mut chain = Vec::new();
        let mut next = Some(process);
        while let Some(found) = next.and_then(|number| self.processes.get(&number)) {
            chain.push(found);
            next = found.parent.filter(|_| chain.len() < 1024);
        }
        Known { chain }
    }
}
