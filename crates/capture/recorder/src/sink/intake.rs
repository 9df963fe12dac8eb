//! The intake of buffers from the pool: each buffer is given to its thread when its turn comes. Its bytes
//! are read by `pieces` (executed blocks, coded by workers or the reading thread), `translated` (the
//! same, one after the other), `values` (the same with bytes) and `records` (one record after the other).

use std::collections::{BTreeMap, VecDeque};

use buffers::{Buffer, BufferState, Content, Pool};
use memref::{GapReason, ProcessId, VirtAddr};
use trace_format::{Error, ThreadRecord};

use super::causes::LOST_BUFFER;
use super::gathered::HeldBuffer;
use super::thread::TracedThread;
use super::{Looks, Sink};
use crate::clock::now_ns;
use crate::sink::flow::ThreadFlow;

impl Sink<'_> {
    /// For a listener: reads what threads wrote into buffers that they still fill. Whether there was anything.
    pub(crate) fn read_filling(&mut self, pool: &Pool) -> Result<bool, Error> {
        let mut some = false;
        if self.listener.is_none() {
            return Ok(some);
        }
        for buffer in pool.buffers() {
            let header = buffer.header();
            // What is filled is written last: once it is there, the rest of the header is this owner's.
            let filled = header.filled();
            let (process, number) = (header.process(), header.thread());
            if filled == 0 || header.state() != BufferState::Owned || header.content() != Content::Records {
                continue;
            }
            let Some(owner) = self.processes.get(&process).map(|process| process.id) else { continue };
            self.enter(process, owner, number, header.tid())?;
            let Some(mut thread) = self.threads.remove(&number) else { continue };
            let mut result = Ok(());
            if header.sequence() == thread.sequence && filled > thread.read {
                let held = self.pieces.hold(buffer, filled);
                let from = std::mem::replace(&mut thread.read, held.bytes().len());
                result = self.records(&mut thread, held.bytes().get(from..).unwrap_or(&[]));
                self.pieces.release(held);
                some = true;
            }
            self.threads.insert(number, thread);
            result?;
        }
        Ok(some)
    }

    /// Reads a buffer that was handed over, or that a dead process left.
    pub(crate) fn read(&mut self, buffer: Buffer) -> Result<(), Error> {
        let header = buffer.header();
        self.read_filled(buffer, header.filled())
    }

    /// Reads a buffer that does not say itself how far it was filled.
    pub(crate) fn read_filled(&mut self, buffer: Buffer, filled: usize) -> Result<(), Error> {
        let header = buffer.header();
        let (process, number, tid, sequence) =
            (header.process(), header.thread(), header.tid(), header.sequence());
        let content = header.content();
        let held = self.pieces.hold(buffer, filled);
        if content == Content::Definitions {
            return self.define(process, sequence, held);
        }
        self.take(process, number, tid, sequence, content, held)?;
        self.enter_coded()
    }

    /// What a process defined.
    fn define(&mut self, process: u32, sequence: u32, held: HeldBuffer) -> Result<(), Error> {
        let result = self.blocks.add(process, sequence, held.bytes(), self.list.as_mut());
        self.pieces.release(held);
        self.limit_beside_code();
        result
    }

    /// Reads what processes defined since the last look, in buffers that they still fill.
    pub(crate) fn read_definitions(&mut self, pool: &Pool) -> Result<(), Error> {
        for buffer in pool.buffers() {
            let header = buffer.header();
            if header.content() == Content::Definitions && header.state() != BufferState::Free {
                let held = self.pieces.hold(buffer, header.filled());
                self.define(header.process(), header.sequence(), held)?;
            }
        }
        Ok(())
    }

    /// The buffers of the pool are looked at from here on.
    pub(crate) fn begin_look(&mut self) {
        self.looks = Looks { previous_ns: self.looks.this_ns, this_ns: now_ns() };
    }

    /// Enters the threads that have a buffer and are not known yet, the first-born first: threads are numbered in the order
    /// in which they appeared, whichever fills its buffer first.
    pub(crate) fn announce(&mut self, pool: &Pool, threads: u32) -> Result<(), Error> {
        if threads as usize <= self.threads.len() {
            return Ok(());
        }
        let mut new: Vec<(u32, u32, u32)> = pool
            .buffers()
            .filter(|buffer| {
                buffer.header().state() != BufferState::Free
                    && buffer.header().content() != Content::Definitions
            })
            .map(|buffer| (buffer.header().thread(), buffer.header().process(), buffer.header().tid()))
            .filter(|(number, _, _)| !self.threads.contains_key(number))
            .collect();
        new.sort_unstable();
        for (number, process, tid) in new {
            if let Some(owner) = self.processes.get(&process).map(|process| process.id) {
                self.enter(process, owner, number, tid)?;
            }
        }
        Ok(())
    }

    /// A thread begins.
    fn enter(&mut self, process: u32, owner: ProcessId, number: u32, tid: u32) -> Result<(), Error> {
        if self.threads.contains_key(&number) {
            return Ok(());
        }
        let since_ns = self.processes.get(&process).map_or(0, |process| {
            // A look passes over threads of processes that are not known.
            let looked = Some(self.looks.previous_ns).filter(|looked| *looked >= process.added_ns);
            looked.unwrap_or(0).max(process.record.start_ns)
        });
        let record = ThreadRecord { process: owner, tid, start_ns: now_ns(), ..Default::default() };
        let id = self.trace.add_thread(&record)?;
        let shard = self.trace.shard(id)?;
        let by_pieces = self.makes_pieces && shard.blocks()?.is_some();
        let thread = TracedThread {
            process,
            id,
            shard,
            open_bytes: 0,
            cycle: 0,
            order: 0,
            sequence: 0,
            early: BTreeMap::new(),
            by_pieces,
            gathered: Vec::new(),
            coding: VecDeque::new(),
            base: 0,
            since_ns,
            read: 0,
            number,
            last: None,
            stretch: None,
            flow: self.list.as_ref().map(|list| list.thread(owner, id)),
        };
        self.threads.insert(number, thread);
        Ok(())
    }

    /// A buffer that was read: now, or when those that were filled before it have come.
    pub(super) fn take(
        &mut self,
        process: u32,
        number: u32,
        tid: u32,
        sequence: u32,
        content: Content,
        held: HeldBuffer,
    ) -> Result<(), Error> {
        let Some(owner) = self.processes.get(&process).map(|process| process.id) else { return Ok(()) };
        self.enter(process, owner, number, tid)?;
        let Some(mut thread) = self.threads.remove(&number) else { return Ok(()) };
        let mut result = Ok(());
        if sequence != thread.sequence {
            thread.early.insert(sequence, (content, held));
        } else {
            result = self.entries(&mut thread, content, held);
            thread.sequence = thread.sequence.wrapping_add(1);
            while let Some((content, next)) = thread.early.remove(&thread.sequence) {
                result = result.and_then(|()| self.entries(&mut thread, content, next));
                thread.sequence = thread.sequence.wrapping_add(1);
            }
        }
        result = result.and(self.count_open(&mut thread));
        self.threads.insert(number, thread);
        result.and(self.relieve_open())
    }

    fn entries(
        &mut self,
        thread: &mut TracedThread,
        content: Content,
        mut held: HeldBuffer,
    ) -> Result<(), Error> {
        // One that came before its turn may have been read before the one that it follows.
        held.since_ns = thread.since_ns.min(held.read_ns);
        thread.since_ns = held.read_ns;
        thread.shard.begin_from(held.since_ns);
        // So much was read while it was being filled.
        let read = std::mem::take(&mut thread.read);
        if content == Content::Flow && thread.by_pieces {
            return self.gather(thread, held);
        }
        let result = if content == Content::Flow {
            self.flow(thread, held.words())
        } else {
            let finished = self.finish_pieces_of(thread);
            finished.and(self.records(thread, held.bytes().get(read..).unwrap_or(&[])))
        };
        self.pieces.release(held);
        result
    }

    /// All buffers of a process are in: what came before its turn has lost its predecessor.
    pub(crate) fn settle(&mut self, process: u32) -> Result<(), Error> {
        let numbers: Vec<u32> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.process == process)
            .map(|(&number, _)| number)
            .collect();
        for number in numbers {
            let Some(mut thread) = self.threads.remove(&number) else { continue };
            self.finish_pieces_of(&mut thread)?;
            for (_, (content, held)) in std::mem::take(&mut thread.early) {
                self.gap(&mut thread, GapReason::Killed, 1, (VirtAddr(0), LOST_BUFFER))?;
                self.entries(&mut thread, content, held)?;
                self.finish_pieces_of(&mut thread)?;
            }
            thread.shard.end()?;
            thread.flow.as_mut().map_or(Ok(()), ThreadFlow::flush)?;
            self.forget_open(&mut thread);
            self.instructions += thread.cycle;
        }
        Ok(())
    }
}
