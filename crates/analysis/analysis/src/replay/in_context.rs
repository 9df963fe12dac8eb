//! A replay in which each event comes with its place: its instruction, and the calling context.
//!
//! The thread that reads the trace follows the stacks. On several cores the tool runs
//! on another thread, some ten thousand accesses behind, with resolvers of its own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use memref::{Access, Allocation, Event, Order, ProcessId, ThreadId, VirtAddr};
use symbols::{HeapChange, Resolver};
use trace_format::{ExecutedFrame, Filter, KindSet, Shard};

use super::processes::Processes;
use super::{Moment, Tool, told_parts};
use crate::stack::{CallPlace, ContextId, Stacks, StepFollower, TakenStep};
use crate::{Error, Session};

/// Accesses that are passed on together.
const PASSED_ACCESSES: usize = 1 << 15;
/// An event takes as much memory as so many accesses.
const EVENT_WEIGHT: usize = 4;
/// Passes that wait for the tool.
const WAITING: usize = 2;

impl Session {
    /// As [`replay`](Self::replay) of everything, and the [`Moment`] of the tool has a place for each event. Order marks are not told.
    ///
    /// # Errors
    /// Where the trace can't be read, or the tool fails.
    pub fn replay_in_context<T: Tool + Send>(
        &self,
        stacks: &mut Stacks,
        tool: &mut T,
    ) -> Result<Vec<Resolver>, Error> {
        if self.workers() < 2 {
            let mut tool = InContext { stacks, tool, placed: PlacedAccesses::default() };
            return self.replay(&Filter::default(), None, &mut tool);
        }
        let changes = self.changes()?;
        let (sender, passes) = sync_channel(WAITING);
        let (emptied, spare) = channel();
        std::thread::scope(|scope| {
            let processes = Processes::new(self, Arc::clone(&changes));
            let thread = std::thread::Builder::new().name("memtap-tool".to_owned());
            let told = thread
                .spawn_scoped(scope, move || tell(&passes, &emptied, processes, tool))
                .map_err(Error::Thread)?;
            let mut follower = Follower { stacks, pass: Pass::default(), passes: sender, spare };
            let chosen = |_| Some(Filter::default());
            let read = self.replay_threads(KindSet::ALL, &chosen, Shard::events, changes, &mut follower);
            follower.pass_on();
            drop(follower);
            let told = told.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            read.and(told)
        })
    }
}

/// Accesses, and where each was made.
#[derive(Debug, Default)]
struct PlacedAccesses {
    accesses: Vec<Access>,
    places: Vec<CallPlace>,
    cfas: Vec<Option<VirtAddr>>,
}

impl PlacedAccesses {
    fn clear(&mut self) {
        self.accesses.clear();
        self.places.clear();
        self.cfas.clear();
    }

    /// Adds accesses, which are their thread's next events.
    fn add(&mut self, stacks: &mut Stacks, at: &mut Moment<'_>, accesses: &[Access]) {
        for access in accesses {
            let place = stacks.access(at, access);
            self.access(stacks, at, place, access);
        }
    }

    fn tell<T: Tool>(&self, part: Range<usize>, at: &mut Moment<'_>, tool: &mut T) -> Result<(), Error> {
        let (places, cfas) = (&self.places[part.clone()], &self.cfas[part.clone()]);
        tool.accesses(&mut at.with(places, cfas), &self.accesses[part])
    }
}

impl StepFollower for PlacedAccesses {
    const WANTS_FRAMES: bool = true;

    #[inline]
    fn step(&mut self, _: &Stacks, _: &mut Moment<'_>, context: ContextId, step: &TakenStep<'_>) {
        let TakenStep { cycle, values, fs_base, cfa, .. } = *step;
        for (made, &code) in step.accesses.iter().zip(step.codes) {
            step.block.for_each_element(made, cycle, values, fs_base, |access| {
                self.accesses.push(access);
                self.places.push(CallPlace { context, code });
                self.cfas.push(cfa);
            });
        }
    }

    fn access(&mut self, stacks: &Stacks, at: &mut Moment<'_>, place: CallPlace, access: &Access) {
        self.accesses.push(*access);
        self.places.push(place);
        self.cfas.push(stacks.cfa(at.thread));
    }
}

/// Follows the stacks, and tells another tool what happens where.
struct InContext<'a, T> {
    stacks: &'a mut Stacks,
    tool: &'a mut T,
    placed: PlacedAccesses,
}

impl<T: Tool> Tool for InContext<'_, T> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.placed.clear();
        self.placed.add(self.stacks, at, accesses);
        self.placed.tell(0..accesses.len(), at, self.tool)
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
        for part in told_parts(part) {
            self.placed.clear();
            self.stacks.follow_in_frames(at, frame, part, &mut self.placed);
            self.placed.tell(0..self.placed.accesses.len(), at, self.tool)?;
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        let place = self.stacks.event(at, event);
        if let Event::Order(_) = event {
            return Ok(());
        }
        self.tool.event(&mut at.with(place.as_slice(), &[]), event)
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        self.tool.change(resolver, event, change);
    }

    fn process(&mut self, process: ProcessId, order: Order) {
        self.tool.process(process, order);
    }
}

/// What the tool is told.
enum Told {
    /// A process begins.
    Process,
    /// Those of the pass.
    Accesses(Range<usize>),
    Event(Event<String>, Option<CallPlace>),
}

/// And of whom, and when.
struct ToldOf {
    process: ProcessId,
    thread: ThreadId,
    order: Order,
    told: Told,
}

/// A part of a replay, with the places of its accesses.
#[derive(Default)]
struct Pass {
    told: Vec<ToldOf>,
    placed: PlacedAccesses,
}

impl Pass {
    fn clear(&mut self) {
        self.told.clear();
        self.placed.clear();
    }
}

/// Follows the stacks, and passes on what happens where.
struct Follower<'a> {
    stacks: &'a mut Stacks,
    pass: Pass,
    passes: SyncSender<Pass>,
    /// Passes that were told, whose memory is used again.
    spare: Receiver<Pass>,
}

impl Follower<'_> {
    fn tell(&mut self, at: &Moment<'_>, told: Told) {
        self.pass.told.push(ToldOf { process: at.process, thread: at.thread, order: at.order, told });
        if self.pass.placed.accesses.len() + self.pass.told.len() * EVENT_WEIGHT >= PASSED_ACCESSES {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let next = self.spare.try_recv().unwrap_or_default();
        // Where nobody takes it any more the tool has panicked, which is told when it is waited for.
        let _ = self.passes.send(std::mem::replace(&mut self.pass, next));
    }
}

impl Tool for Follower<'_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let begin = self.pass.placed.accesses.len();
        self.pass.placed.add(self.stacks, at, accesses);
        self.tell(at, Told::Accesses(begin..begin + accesses.len()));
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
        for part in told_parts(part) {
            let begin = self.pass.placed.accesses.len();
            self.stacks.follow_in_frames(at, frame, part, &mut self.pass.placed);
            self.tell(at, Told::Accesses(begin..self.pass.placed.accesses.len()));
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        let place = self.stacks.event(at, event);
        // What is told next has its order. Threads that spin have millions.
        if !matches!(event, Event::Order(_)) {
            self.tell(at, Told::Event(event.clone(), place));
        }
        Ok(())
    }

    fn process(&mut self, process: ProcessId, order: Order) {
        self.pass.told.push(ToldOf { process, thread: ThreadId(0), order, told: Told::Process });
    }
}

/// Tells a tool what is passed. Returns the resolvers as they are at the end.
fn tell<T: Tool>(
    passes: &Receiver<Pass>,
    emptied: &Sender<Pass>,
    mut processes: Processes,
    tool: &mut T,
) -> Result<Vec<Resolver>, Error> {
    let mut result = Ok(());
    while let Ok(mut pass) = passes.recv() {
        // Whoever reads goes on to the end, also where the tool has failed.
        if result.is_ok() {
            result = tell_pass(&pass, &mut processes, tool);
        }
        pass.clear();
        // At the end nobody takes it.
        let _ = emptied.send(pass);
    }
    result.map(|()| processes.finish(tool))
}

fn tell_pass<T: Tool>(pass: &Pass, processes: &mut Processes, tool: &mut T) -> Result<(), Error> {
    for &ToldOf { process, thread, order, ref told } in &pass.told {
        if let Told::Process = told {
            processes.enter(process, order, tool);
            continue;
        }
        let resolver = processes.at(process, order, tool);
        let mut at = Moment { resolver, process, thread, order, places: &[], cfas: &[] };
        match told {
            Told::Process => {}
            Told::Accesses(part) => pass.placed.tell(part.clone(), &mut at, tool)?,
            Told::Event(event, place) => tool.event(&mut at.with(place.as_slice(), &[]), event)?,
        }
    }
    Ok(())
}
