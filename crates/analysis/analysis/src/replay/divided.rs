//! A replay whose counting is divided among several workers, each of which counts some *slices* of it. The reader of
//! the trace follows each thread from start to end; a worker receives the state at the beginning of each of its slices.
//!
//! The meaning of an access depends on two things. What lies at an address changes with allocations and mappings:
//! each worker has resolvers of its own and applies all changes to them. Which frames are on a thread's stack changes
//! with calls and returns: the reader follows them through the whole trace, which costs a third of counting or less,
//! and a worker starts with a copy. Thus a worker may receive slices that are far apart, but always in order.
//!
//! Where what one access means depends on all others before it, but only on those nearby in memory, each
//! worker receives all slices and counts its *share* of the addresses ([`Session::replay_shared`]).

use std::collections::HashSet;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use memref::{Access, Event, Order, ProcessId, SyncFunction, SyncKind, ThreadId};
use symbols::Resolver;
use trace_format::{ExecutedFrame, Shard};

use super::processes::Processes;
use super::{Moment, Tool, told_parts};
use crate::stack::{CreatedStacks, Stacks, StacksOfThread};
use crate::thread_events::accesses_of;
use crate::{Error, Session, TracePart};

/// Accesses of a slice, about: half a frame.
const SLICE_ACCESSES: u64 = 1 << 19;
/// Slices that each worker gets at least, so that none is left with much at the end.
const SLICES_OF_EACH: u64 = 8;
/// A slice ends within a frame where it is so many times as long.
const LONG: u64 = 4;
/// An event takes as much memory as so many accesses.
const EVENT_WEIGHT: u64 = 16;
/// Slices that wait for a worker, so that none waits for whoever reads. Each has a frame of a thread, of ten megabytes or so.
const WAITING: usize = 3;

/// Counts slices of a replay.
pub(crate) trait SliceWorker: Tool + Send {
    /// All stacks that it follows.
    fn stacks(&mut self) -> Vec<&mut Stacks> {
        Vec::new()
    }

    /// A slice was told.
    fn end_slice(&mut self, number: usize) {
        let _ = number;
    }
}

/// Which slices a worker counted, and how many things it knew after each: so things are numbered in the order in which they were met.
#[derive(Debug, Default)]
pub(crate) struct SliceMarks(Vec<SliceMark>);

/// The things that a worker knew after a slice.
#[derive(Clone, Copy, Debug)]
struct SliceMark {
    slice: usize,
    things: usize,
}

impl SliceMarks {
    /// A slice was told, and so many things are known.
    pub(crate) fn end_slice(&mut self, number: usize, things: usize) {
        self.0.push(SliceMark { slice: number, things });
    }

    /// The worker and the things that it met first, slice by slice.
    pub(crate) fn in_order(all: &[Self]) -> Vec<(usize, Range<usize>)> {
        let mut slices = Vec::new();
        for (worker, Self(marks)) in all.iter().enumerate() {
            let mut known = 0;
            for &SliceMark { slice, things } in marks {
                slices.push((slice, worker, known..things));
                known = things;
            }
        }
        slices.sort_unstable_by_key(|(slice, ..)| *slice);
        slices.into_iter().map(|(_, worker, things)| (worker, things)).collect()
    }
}

/// What a worker is told.
enum Told {
    /// A process begins.
    Process,
    /// So far has the thread come in what it calls.
    Stacks(Option<StacksOfThread>),
    /// So far had another one, when it made the thread.
    Created(CreatedStacks),
    Accesses(Vec<Access>),
    Executions(Arc<ExecutedFrame>, Range<usize>),
    Event(Event<String>),
}

/// And of whom, and when.
struct ToldOf {
    process: ProcessId,
    thread: ThreadId,
    order: Order,
    told: Told,
}

/// A part of a replay.
#[derive(Default)]
struct Slice {
    number: usize,
    /// The processes that began before it, as long as there is one that a worker may not know of.
    begun: Arc<Vec<(ProcessId, Order)>>,
    all: Vec<ToldOf>,
}

/// Reads the trace, follows stacks and makes slices.
struct Divider<'s> {
    /// They are the same, but several may be asked at the end.
    stacks: Vec<&'s mut Stacks>,
    /// To whom each slice goes.
    slices: Vec<SyncSender<Arc<Slice>>>,
    /// Whether order marks are told, too.
    tells_marks: bool,
    slice: Slice,
    accesses: u64,
    /// From so many on a slice ends with a frame.
    most: u64,
    /// The threads of which this slice tells.
    threads: HashSet<ThreadId>,
    begun: Arc<Vec<(ProcessId, Order)>>,
}

impl Divider<'_> {
    fn tell(&mut self, at: &Moment<'_>, told: Told) {
        let of = |told| ToldOf { process: at.process, thread: at.thread, order: at.order, told };
        if let Some(stacks) = self.stacks.first()
            && self.threads.insert(at.thread)
        {
            self.slice.all.push(of(Told::Stacks(stacks.of_thread(at.thread))));
        }
        self.slice.all.push(of(told));
    }

    fn count(&mut self, accesses: u64, is_end_of_frame: bool) {
        self.accesses += accesses;
        if self.accesses >= if is_end_of_frame { self.most } else { self.most * LONG } {
            self.end_slice();
        }
    }

    fn end_slice(&mut self) {
        self.accesses = 0;
        self.threads.clear();
        let next = Slice { number: self.slice.number + 1, begun: self.begun.clone(), all: Vec::new() };
        let slice = Arc::new(std::mem::replace(&mut self.slice, next));
        for slices in &self.slices {
            // Where nobody takes it any more a worker has panicked, which is told when it is waited for.
            let _ = slices.send(slice.clone());
        }
    }
}

impl Tool for Divider<'_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.tell(at, Told::Accesses(accesses.to_vec()));
        for stacks in &mut self.stacks {
            for access in accesses {
                stacks.access(at, access);
            }
        }
        self.count(accesses.len() as u64, true);
        Ok(())
    }

    fn takes_executions(&self) -> bool {
        true
    }

    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        self.tell(at, Told::Executions(frame.clone(), part.clone()));
        let (accesses, is_end) = (accesses_of(frame, &part), part.end == frame.len());
        for stacks in &mut self.stacks {
            stacks.executions_in_frames(at, frame, part.clone());
        }
        self.count(accesses, is_end);
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        if matches!(event, Event::Order(_)) && !self.tells_marks {
            // What is told next has it. Threads that spin have millions.
            return Ok(());
        }
        if let (Some(stacks), Event::Sync(sync)) = (self.stacks.first(), event)
            && (sync.function, sync.kind) == (SyncFunction::Thread, SyncKind::Start)
            && let Some(created) = stacks.created(sync.object.0)
        {
            self.tell(at, Told::Created(created));
        }
        self.tell(at, Told::Event(event.clone()));
        for stacks in &mut self.stacks {
            stacks.event(at, event);
        }
        self.count(EVENT_WEIGHT, true);
        Ok(())
    }

    fn process(&mut self, process: ProcessId, order: Order) {
        Arc::make_mut(&mut self.begun).push((process, order));
        self.slice.all.push(ToldOf { process, thread: ThreadId(0), order, told: Told::Process });
    }
}

/// A worker, and where it is.
struct Working<W> {
    worker: W,
    processes: Processes,
    /// Processes that began and that it was told of, also those in slices of others.
    begun: usize,
    expanded: Vec<Access>,
}

impl<W: SliceWorker> Working<W> {
    fn slice(&mut self, slice: &Slice) -> Result<(), Error> {
        for &(process, order) in slice.begun.iter().skip(self.begun) {
            self.processes.enter(process, order, &mut self.worker);
        }
        self.begun = slice.begun.len();
        for &ToldOf { process, thread, order, ref told } in &slice.all {
            if let Told::Process = told {
                self.processes.enter(process, order, &mut self.worker);
                continue;
            }
            let resolver = self.processes.at(process, order, &mut self.worker);
            let mut at = Moment { resolver, process, thread, order, places: &[], cfas: &[] };
            match told {
                Told::Process => {}
                Told::Stacks(of_thread) => {
                    for stacks in self.worker.stacks() {
                        stacks.set_thread(thread, of_thread.clone());
                    }
                }
                Told::Created(created) => {
                    for stacks in self.worker.stacks() {
                        stacks.set_created(created.clone());
                    }
                }
                Told::Accesses(accesses) => self.worker.accesses(&mut at, accesses)?,
                Told::Executions(frame, part) if self.worker.takes_executions() => {
                    self.worker.executions(&mut at, frame, part.clone())?;
                }
                Told::Executions(frame, part) => {
                    for part in told_parts(part.clone()) {
                        self.expanded.clear();
                        frame.expand_part(part, &mut self.expanded);
                        self.worker.accesses(&mut at, &self.expanded)?;
                    }
                }
                Told::Event(event) => self.worker.event(&mut at, event)?,
            }
        }
        self.worker.end_slice(slice.number);
        Ok(())
    }

    fn run(mut self, slices: &Mutex<Receiver<Arc<Slice>>>) -> Result<W, Error> {
        let next = || slices.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let mut result = Ok(());
        while let Ok(slice) = next() {
            if result.is_ok() {
                result = self.slice(&slice);
            }
        }
        result.map(|()| self.worker)
    }
}

impl Session {
    /// Replays everything, and has it counted by workers, each some slices. `stacks` are followed from beginning to end. Returns the
    /// resolvers as they are at the end, and the workers.
    ///
    /// # Errors
    /// Where the trace can't be read, or a worker fails.
    pub(crate) fn replay_divided<W: SliceWorker>(
        &self,
        workers: Vec<W>,
        stacks: Vec<&mut Stacks>,
    ) -> Result<(Vec<Resolver>, Vec<W>), Error> {
        self.replay_divided_part(&TracePart::default(), workers, stacks)
    }

    /// The same of the events of a part. Stacks can be followed only where nothing is left out.
    ///
    /// # Errors
    /// Where the trace can't be read, or a worker fails.
    pub(crate) fn replay_divided_part<W: SliceWorker>(
        &self,
        part: &TracePart,
        workers: Vec<W>,
        stacks: Vec<&mut Stacks>,
    ) -> Result<(Vec<Resolver>, Vec<W>), Error> {
        self.has_threads(part)?;
        let (sender, slices) = sync_channel(WAITING);
        let slices = Mutex::new(slices);
        let workers = workers.into_iter().map(|worker| (worker, &slices));
        self.replay_slices(part, workers, vec![sender], stacks, false)
    }

    /// Replays everything, and has it counted by workers that are all told everything, order marks as well. Returns the resolvers as
    /// they are at the end, and the workers.
    ///
    /// # Errors
    /// Where the trace can't be read, or a worker fails.
    pub(crate) fn replay_shared<W: SliceWorker>(
        &self,
        workers: Vec<W>,
    ) -> Result<(Vec<Resolver>, Vec<W>), Error> {
        let channel = |_: &W| {
            let (sender, slices) = sync_channel(WAITING);
            (sender, Mutex::new(slices))
        };
        let (senders, slices): (Vec<_>, Vec<_>) = workers.iter().map(channel).unzip();
        let all = TracePart::default();
        self.replay_slices(&all, workers.into_iter().zip(&slices), senders, Vec::new(), true)
    }

    /// Replays a part to workers, each of which takes slices from a channel.
    fn replay_slices<'c, W: SliceWorker>(
        &self,
        part: &TracePart,
        workers: impl ExactSizeIterator<Item = (W, &'c Mutex<Receiver<Arc<Slice>>>)>,
        slices: Vec<SyncSender<Arc<Slice>>>,
        stacks: Vec<&mut Stacks>,
        tells_marks: bool,
    ) -> Result<(Vec<Resolver>, Vec<W>), Error> {
        let changes = self.changes()?;
        let most = (self.accesses() / (workers.len() as u64 * SLICES_OF_EACH)).clamp(1, SLICE_ACCESSES);
        std::thread::scope(|scope| {
            let start = |(worker, slices): (W, &'c Mutex<Receiver<Arc<Slice>>>)| {
                let processes = Processes::new(self, changes.clone());
                let working = Working { worker, processes, begun: 0, expanded: Vec::new() };
                let thread = std::thread::Builder::new().name("memtap-count".to_owned());
                thread.spawn_scoped(scope, move || working.run(slices)).map_err(Error::Thread)
            };
            // Those that were started end where the senders do.
            let running = workers.map(start).collect::<Result<Vec<_>, Error>>()?;
            let mut divider = Divider {
                stacks,
                slices,
                tells_marks,
                slice: Slice::default(),
                accesses: 0,
                most,
                threads: HashSet::new(),
                begun: Arc::default(),
            };
            let chosen = |thread| part.filter_of(thread);
            let kinds = part.filter().kinds;
            let resolvers = self.replay_threads(kinds, &chosen, Shard::events, changes, &mut divider);
            divider.end_slice();
            drop(divider);
            let workers: Result<Vec<W>, Error> = running
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            Ok((resolvers?, workers?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_numbered_as_they_were_met() {
        let mut marks = [SliceMarks::default(), SliceMarks::default()];
        marks[0].end_slice(0, 3);
        marks[1].end_slice(1, 2);
        marks[1].end_slice(2, 2);
        marks[0].end_slice(3, 7);
        assert_eq!(SliceMarks::in_order(&marks), [(0, 0..3), (1, 0..2), (1, 2..2), (0, 3..7)]);
    }
}
