//! The sink of records: the buffers of each traced thread go, in their order, into its shard of the trace.
//!
//! [`Sink`] knows the session's processes and threads. Its methods are in the modules of their subject.
//! Buffers come in through `intake`, which hands their bytes to `pieces`, and so to the workers, or reads them
//! itself: `translated` (`values` where accesses come with their bytes), `records`. `stepped` compares what
//! was recorded with single-stepping. When buffers are read, and in which order, is decided by `run::drain`.

mod announcements;
#[cfg(test)]
mod begin_tests;
mod block_table;
mod build_id;
mod causes;
mod deaths;
pub(crate) mod flow;
mod gathered;
mod intake;
mod lost;
mod open_shards;
mod piece_coder;
mod piece_queue;
mod pieces;
mod records;
pub(crate) mod regions;
mod session_blocks;
mod stepped;
#[cfg(test)]
mod tests;
mod thread;
mod translated;
mod values;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use buffers::Pool;
use memref::{Access, Event, Gap, GapReason, ProcessId, VirtAddr};
use trace_format::{COUNTER_SLOW_PATH, CounterRecord, Error, ProcessRecord, TraceWriter};
use trace_server::Workers;

use crate::clock::now_ns;
use crate::feedback::totals::{GapCause, MissingEvents, Totals, Verified, add_missing};
use crate::listener::{Heard, Listener};
use crate::sink::announcements::Announcements;
use crate::sink::flow::{BlockList, ThreadFlow};
use crate::sink::regions::WantedRegions;
use crate::sink::session_blocks::SessionBlocks;
use crate::store::memory_plan::MemoryPlan;
use crate::target::pid_namespaces;
use causes::GapCauses;
use open_shards::OpenShards;
use piece_queue::Pieces;
use thread::TracedThread;

/// Accesses that are gathered before they go to the shard.
const WAITING_ACCESSES: usize = 16_384;

/// A traced process of the session.
struct TracedProcess {
    id: ProcessId,
    record: ProcessRecord,
    /// When it was added, ns since the Unix epoch.
    added_ns: u64,
    /// Its command line, as far as it was told.
    arguments: Vec<u8>,
    status: Option<i32>,
    /// Whether recording ever began in it.
    has_begun: bool,
}

/// An instruction of a process that takes the slow path.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SlowSite {
    /// The process's number in the pool.
    process: u32,
    ip: VirtAddr,
}

/// How often it did, and what it is.
#[derive(Default)]
struct SlowPath {
    count: u64,
    name: String,
}

/// When the pool was looked at, ns since the Unix epoch.
#[derive(Default)]
struct Looks {
    this_ns: u64,
    /// Threads that are new, of a process that was known, had not begun then.
    previous_ns: u64,
}

/// What is kept of translated programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents {
    /// Accesses to these kinds of regions: bit n is `RegionKind` n.
    pub(crate) regions: u32,
    /// The bytes of each access.
    pub(crate) data: bool,
    /// Which blocks are entered.
    pub(crate) flow: bool,
    /// Whether what is recorded is compared with stepping.
    pub(crate) verify: bool,
}

/// All threads of the session.
pub(crate) struct Sink<'a> {
    trace: TraceWriter,
    processes: HashMap<u32, TracedProcess>,
    threads: HashMap<u32, TracedThread>,
    slow: HashMap<SlowSite, SlowPath>,
    totals: Totals,
    /// Events that are missing, by their reason.
    missing: Vec<MissingEvents>,
    /// Programs that ran untraced, each once.
    untraced: BTreeSet<String>,
    /// What is known of the causes of missing events.
    causes: GapCauses,
    /// Programs that are expected.
    announced: Announcements,
    /// Buffers on their way through the workers.
    pieces: Pieces,
    /// What is buffered of all threads.
    open: OpenShards,
    looks: Looks,
    /// Whether buffers of translated threads are coded by pieces: nothing else is wanted of their executions.
    makes_pieces: bool,
    blocks: SessionBlocks,
    /// All blocks, where control flow is kept.
    list: Option<BlockList>,
    wanted: WantedRegions,
    /// Whether accesses come with their bytes.
    data: bool,
    /// What was compared with stepping.
    verified: Verified,
    /// Executed by threads that have ended.
    instructions: u64,
    /// Room for accesses that follow from a buffer.
    accesses: Vec<Access>,
    /// Told of regions, allocations and hits as they come; allocations and hits are not kept then.
    listener: Option<&'a mut dyn Listener>,
}

impl<'a> Sink<'a> {
    /// Records go to that trace.
    pub(crate) fn new(
        trace: TraceWriter,
        Contents { regions, data, flow, verify }: Contents,
        workers: Option<Arc<Workers>>,
        memory: MemoryPlan,
        listener: Option<&'a mut dyn Listener>,
    ) -> Self {
        let wanted = WantedRegions::new(regions);
        Self {
            makes_pieces: wanted.are_all() && !data && !flow && !verify && listener.is_none(),
            pieces: Pieces::new(workers, memory),
            open: OpenShards::new(memory.open_bytes),
            looks: Looks::default(),
            list: flow.then(|| BlockList::new(&trace)),
            trace,
            processes: HashMap::new(),
            threads: HashMap::new(),
            slow: HashMap::new(),
            totals: Totals::default(),
            missing: Vec::new(),
            untraced: BTreeSet::new(),
            causes: GapCauses::default(),
            announced: Announcements::default(),
            blocks: SessionBlocks::default(),
            wanted,
            data,
            verified: Verified { with_bytes: data.then_some(0), ..Verified::default() },
            instructions: 0,
            accesses: Vec::new(),
            listener,
        }
    }

    /// All buffers were looked at. Whether the listener wants another look.
    pub(crate) fn looked(&mut self, pool: &Pool) -> Result<bool, crate::Error> {
        self.listener.as_mut().map_or(Ok(false), |listener| listener.looked(pool))
    }

    fn hear(&mut self, process: u32, order: u64, heard: Heard) {
        if let Some(listener) = &mut self.listener {
            listener.hear(process, order, heard);
        }
    }

    /// What was recorded.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether so many buffers wait that workers are to help with what they hold.
    pub(crate) fn fall_behind(&mut self, is_behind: bool) {
        self.pieces.is_behind = is_behind;
    }

    /// Whether workers code now, or are about to.
    pub(crate) fn awaits_pieces(&self) -> bool {
        self.pieces.are_some()
    }

    /// Accesses that were read so far, about: those of buffers that are being coded are not counted yet.
    pub(crate) fn accesses_read(&self) -> u64 {
        self.totals.accesses + self.pieces.expected_accesses()
    }

    /// Events that are missing, by their reason.
    pub(crate) fn missing(&self) -> &[MissingEvents] {
        &self.missing
    }

    /// Why events are missing, as far as that was told.
    pub(crate) fn gap_causes(&self) -> Vec<GapCause> {
        self.causes.list()
    }

    /// Programs that ran untraced.
    pub(crate) fn untraced(&self) -> Vec<String> {
        self.untraced.iter().cloned().collect()
    }

    /// A process appeared. Its number in the pool is given by whoever appeared first, so parents come before children.
    pub(crate) fn add_process(
        &mut self,
        number: u32,
        pid: u32,
        parent: Option<u32>,
        start_ns: u64,
    ) -> Result<(), Error> {
        let parent_number = parent;
        let parent = parent.and_then(|parent| self.processes.get(&parent)).map(|parent| parent.id);
        let mut record = ProcessRecord { pid, parent, start_ns, ..Default::default() };
        record.exe = pid_namespaces::executable(pid);
        let id = self.trace.add_process(&record)?;
        record.process = id;
        self.wanted.add_process(number, parent_number);
        if let Some(parent) = parent_number {
            self.blocks.add_process(number, parent);
        }
        let process = TracedProcess {
            id,
            record,
            added_ns: now_ns(),
            arguments: Vec::new(),
            status: None,
            has_begun: parent.is_some(),
        };
        self.processes.insert(number, process);
        if let Some(listener) = &mut self.listener {
            listener.process(number, pid, parent_number);
        }
        Ok(())
    }

    /// What was compared with stepping.
    pub(crate) fn verified(&self) -> &Verified {
        &self.verified
    }

    /// Whether that process was added.
    pub(crate) fn knows(&self, number: u32) -> bool {
        self.processes.contains_key(&number)
    }

    /// A process has no more to say.
    pub(crate) fn end_process(&mut self, number: u32) -> Result<(), Error> {
        self.blocks.end(number);
        let Some(process) = self.processes.get(&number) else { return Ok(()) };
        self.trace.end_process(process.id, now_ns(), process.status)
    }

    /// All processes that there are were added: forgets what only those that have ended could execute.
    pub(crate) fn forget_ended(&mut self) {
        self.blocks.forget_ended();
    }

    /// The trace's number of a process of the pool.
    fn process_id(&self, number: u32) -> ProcessId {
        self.processes.get(&number).map_or(ProcessId(0), |process| process.id)
    }

    /// Events of a thread are missing.
    fn gap(
        &mut self,
        thread: &mut TracedThread,
        reason: GapReason,
        count: u64,
        (addr, cause): (VirtAddr, &str),
    ) -> Result<(), Error> {
        self.totals.gaps += count;
        add_missing(&mut self.missing, reason, count);
        let process = self.process_id(thread.process);
        self.causes.add(&mut self.trace, process, (reason, cause), count)?;
        let gap = Gap { process, thread: thread.id, cycle: thread.cycle, count, reason, addr };
        thread.push_counted(&Event::Gap(gap))
    }

    /// Writes what is buffered, so that a killed recorder loses little.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.finish_pieces()?;
        self.flush_flow()?;
        self.trace.flush()
    }

    fn flush_flow(&mut self) -> Result<(), Error> {
        let mut threads = self.threads.values_mut().filter_map(|thread| thread.flow.as_mut());
        self.list.as_mut().map_or(Ok(()), BlockList::flush)?;
        threads.try_for_each(ThreadFlow::flush)
    }

    /// Bytes of memory that what is known of programs' code took at most, about.
    pub(crate) fn code_bytes(&self) -> usize {
        self.blocks.peak_bytes()
    }

    /// Buffers that were read from that place on in the pool are not to stay mapped; `None`: they are.
    pub(crate) fn mapped_buffers(&self) -> Option<usize> {
        self.pieces.limits.mapped_buffers
    }

    /// Instructions executed by all threads, where the tracer counts them.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions + self.threads.values().map(|thread| thread.cycle).sum::<u64>()
    }

    /// The last counts.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.flush_flow()?;
        self.causes.finish(&mut self.trace)?;
        for (site, slow) in &self.slow {
            let Some(process) = self.processes.get(&site.process) else { continue };
            self.trace.add_counter(&CounterRecord {
                process: process.id,
                thread: None,
                ip: site.ip,
                code: COUNTER_SLOW_PATH,
                count: slow.count,
                name: slow.name.clone(),
            })?;
        }
        Ok(())
    }
}
