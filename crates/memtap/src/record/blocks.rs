//! The blocks of translated processes, and the accesses that follow from executing one.

use std::collections::HashMap;

use memref::{Access, VirtAddr};
use segment::flow::{BlockAccess, Definition, ID_BITS};

/// One block.
#[derive(Debug)]
pub(crate) struct Block {
    addr: u64,
    /// Instructions.
    pub(crate) instructions: u16,
    /// Values that an execution of it records.
    pub(crate) values: u8,
    accesses: Box<[BlockAccess]>,
}

impl Block {
    /// Appends the accesses of one execution that begins at `cycle`.
    #[inline]
    pub(crate) fn expand(&self, cycle: u64, values: &[u64], base: u64, into: &mut Vec<Access>) {
        let mut rest = &self.accesses[..];
        while let Some((access, behind)) = rest.split_first() {
            rest = behind;
            if access.repeated.is_some() {
                // All repeated accesses of a block are one instruction's.
                self.expand_repeated(cycle, values, base, into);
                return;
            }
            let addr = access.address(values, base);
            let Some(masked) = access.masked else {
                into.push(self.access(access, cycle, addr));
                continue;
            };
            let mut elements = masked.elements(access.size, values);
            while elements != 0 {
                let distance = u64::from(elements.trailing_zeros()) * u64::from(masked.bytes);
                let element = self.access(access, cycle, addr.wrapping_add(distance));
                into.push(Access { size: masked.bytes.into(), ..element });
                elements &= elements - 1;
            }
        }
    }

    #[inline]
    fn access(&self, access: &BlockAccess, cycle: u64, addr: u64) -> Access {
        Access {
            cycle: cycle + u64::from(access.instruction),
            ip: VirtAddr(self.addr + u64::from(access.offset)),
            addr: VirtAddr(addr),
            size: access.size.into(),
            kind: access.kind,
        }
    }

    /// A string instruction made its accesses as often as its count went down, each behind the last one or in front of it.
    fn expand_repeated(&self, cycle: u64, values: &[u64], base: u64, into: &mut Vec<Access>) {
        let value = |index: u8| values.get(usize::from(index)).copied().unwrap_or(0);
        let Some((count_after, _)) = self.accesses.first().and_then(|access| access.repeated) else { return };
        let index = self.accesses.first().map_or(0, |access| access.index);
        let times = value(index).wrapping_sub(value(count_after));
        for time in 0..times {
            for access in &self.accesses {
                let Some((_, after)) = access.repeated else { continue };
                let start = value(access.base);
                let size = u64::from(access.size);
                let distance = time.wrapping_mul(size);
                let backwards = (value(after).wrapping_sub(start) as i64) < 0;
                let addr =
                    if backwards { start.wrapping_sub(distance) } else { start.wrapping_add(distance) };
                let segment = if access.fs { base } else { 0 };
                into.push(self.access(access, cycle, addr.wrapping_add(segment)));
            }
        }
    }
}

/// The blocks of one process.
#[derive(Debug, Default)]
struct Process {
    parent: Option<u32>,
    /// By their numbers.
    blocks: Vec<Option<Block>>,
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
    chain: Vec<&'a [Option<Block>]>,
}

impl Known<'_> {
    /// The block of that number.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Block> {
        self.chain.iter().find_map(|blocks| blocks.get(id as usize)?.as_ref())
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
            let block = Block {
                addr: definition.addr.0,
                instructions: definition.instructions,
                values: definition.values,
                accesses: definition.accesses().collect(),
            };
            let place = definition.id as usize;
            if place >= 1 << ID_BITS {
                return;
            }
            if process.blocks.len() <= place {
                process.blocks.resize_with(place + 1, || None);
            }
            process.blocks[place] = Some(block);
        }
    }

    /// What a process can execute.
    pub(crate) fn of(&self, process: u32) -> Known<'_> {
        let mut chain = Vec::new();
        let mut next = Some(process);
        while let Some(found) = next.and_then(|number| self.processes.get(&number)) {
            chain.push(found.blocks.as_slice());
            next = found.parent.filter(|_| chain.len() < 1024);
        }
        Known { chain }
    }
}
