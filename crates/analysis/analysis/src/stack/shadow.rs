//! The call stacks of all threads, as they are at each point of a replay.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use memref::{
    Access, BlockFunction, BlockOp, Event, Order, ProcessId, SyncFunction, SyncKind, ThreadId, VirtAddr,
};
use symbols::{CodeId, FunctionId, Resolver, VariableId, VariableKind};
use trace_format::ExecutedFrame;

use super::context::{ContextId, Contexts, EnteredBy};
use super::entry::FrameEntries;
use super::place::{BlockPlaces, CallPlace};
use super::steps::{BlockStep, BlockSteps, StepFollower, ToldSteps};
use super::transfer::{CallEdge, Instructed, Instructions, RETURN_BYTES};
use crate::{Moment, Session};

/// Return addresses in memory that is not one variable belong to one stack where they lie closer together.
const FAR_BYTES: u64 = 1 << 20;
/// So many stacks of one thread are kept apart; one more takes the place of that which was left longest ago.
const MAX_STACKS: usize = 4096;
/// So many frames of a stack are looked through for a function that goes on without having been returned to.
const MAX_SEARCH: usize = 4096;

/// So many functions may stand between a call that allocates and the allocator.
const MAX_RELAYS: usize = 8;

/// Which function runs is told by the next access: the one before was a call.
const JUST_CALLED: FunctionId = FunctionId(u32::MAX - 1);
/// Nothing is known of what runs.
const NOWHERE: FunctionId = FunctionId(u32::MAX - 2);

/// What runs between a call and its return.
#[derive(Clone, Copy, Debug)]
struct Activation {
    context: ContextId,
    function: FunctionId,
    /// The function that jumped to that one: a procedure linkage table's entry, the other part of a function that the
    /// compiler split.
    before: FunctionId,
    /// The stack that it runs on.
    stack: usize,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct CallFrame {
    /// The address of the return address.
    slot: u64,
    caller: Activation,
    /// The call, and where it says it goes.
    site: VirtAddr,
    target: Option<VirtAddr>,
}

/// One stack of a thread.
#[derive(Clone, Debug, Default)]
struct ShadowStack {
    frames: Vec<CallFrame>,
    /// The memory that it lies in, and the address of the last return address that was written or read on it.
    memory: Option<VariableId>,
    near: u64,
    /// The function that runs outermost, of which nobody saw the call, and the canonical frame address that one of its accesses told.
    outermost: Option<(FunctionId, VirtAddr)>,
    /// When it was left.
    left: u64,
}

/// The frame of a function on a thread's own stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// The function that runs in it.
    pub function: FunctionId,
    /// The canonical frame address, which is that after its return address, where the call was seen or an access told.
    pub cfa: Option<VirtAddr>,
    /// The call of its own that it waits for; nothing where it runs.
    pub call: Option<VirtAddr>,
}

/// The stack that a thread runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningStack {
    /// Its memory.
    pub(crate) memory: VariableId,
    /// The frame that the thread's last step was made in, where its call was seen and the function is known. A call writes its return
    /// address in the frame of the function that calls.
    pub(crate) frame: Option<InnermostFrame>,
}

/// The frame that a thread runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InnermostFrame {
    /// The address of its return address.
    pub(crate) slot: VirtAddr,
    pub(crate) function: FunctionId,
}

/// Where a step begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct BegunStep {
    /// The context of its accesses, unless it is a call or a return.
    pub(super) context: ContextId,
    /// Whether it is in the frame of a call that was seen.
    pub(super) is_in_frame: bool,
}

/// What one thread does.
#[derive(Clone, Debug)]
struct ThreadStacks {
    stacks: Vec<ShadowStack>,
    now: Activation,
    /// The canonical frame address of the function that made the last access.
    cfa: Option<VirtAddr>,
    /// Changes of the stack so far.
    changes: u64,
}

impl ThreadStacks {
    fn new(context: ContextId) -> Self {
        let now = Activation { context, function: NOWHERE, before: NOWHERE, stack: 0 };
        Self { stacks: vec![ShadowStack::default()], now, cfa: None, changes: 0 }
    }

    fn frames(&mut self) -> &mut Vec<CallFrame> {
        &mut self.stacks[self.now.stack].frames
    }

    /// The contexts that it is in, or returns to.
    fn contexts(&self) -> impl Iterator<Item = ContextId> + '_ {
        let frames = self.stacks.iter().flat_map(|stack| &stack.frames);
        frames.map(|frame| frame.caller.context).chain([self.now.context])
    }

    /// Contexts have other numbers from now on.
    fn renumber(&mut self, numbers: &[Option<ContextId>]) {
        let frames = self.stacks.iter_mut().flat_map(|stack| &mut stack.frames);
        for activation in frames.map(|frame| &mut frame.caller).chain([&mut self.now]) {
            activation.context = numbers[activation.context.0 as usize].expect("what a thread is in is kept");
        }
    }

    /// The canonical frame address of the function that runs.
    #[inline]
    fn frame_address(&self) -> Option<VirtAddr> {
        let stack = &self.stacks[self.now.stack];
        match stack.frames.last() {
            Some(frame) => Some(VirtAddr(frame.slot).offset(RETURN_BYTES.into())),
            None => {
                stack.outermost.filter(|(function, _)| *function == self.now.function).map(|(_, cfa)| cfa)
            }
        }
    }

    /// Goes to the stack on which a return address lies, where that is another one. True where it is a new one.
    fn go_to(&mut self, resolver: &mut Resolver, slot: VirtAddr) -> bool {
        let memory = resolver.resolve_data(slot).variable;
        let is_block = |id| {
            let variable = resolver.names().variable(id);
            variable.is_some_and(|variable| !matches!(variable.kind, VariableKind::Region { .. }))
        };
        let here = &mut self.stacks[self.now.stack];
        let is_here = match here.memory {
            None => true,
            Some(other) if other == memory => true,
            // A stack that grows is another region then, and so are its parts with other rights.
            Some(other) => here.near.abs_diff(slot.0) <= FAR_BYTES && !is_block(other) && !is_block(memory),
        };
        if is_here {
            (here.memory, here.near) = (Some(memory), slot.0);
            return false;
        }
        self.changes += 1;
        here.left = self.changes;
        let found = self.stacks.iter().position(|stack| stack.memory == Some(memory));
        self.now.stack = found.unwrap_or_else(|| self.free_stack());
        let stack = &mut self.stacks[self.now.stack];
        (stack.memory, stack.near) = (Some(memory), slot.0);
        found.is_none()
    }

    fn free_stack(&mut self) -> usize {
        if self.stacks.len() < MAX_STACKS {
            self.stacks.push(ShadowStack::default());
            return self.stacks.len() - 1;
        }
        let others = (0..self.stacks.len()).filter(|&index| index != self.now.stack);
        let index = others.min_by_key(|&index| self.stacks[index].left).unwrap_or(0);
        self.stacks[index] = ShadowStack::default();
        index
    }

    /// Leaves the frames whose return addresses lie below that one, and that one too where it is `included`: the caller
    /// of the outermost of them runs again.
    fn leave(&mut self, slot: u64, included: bool) {
        let mut left = None;
        let frames = self.frames();
        while let Some(frame) = frames.last().filter(|frame| frame.slot < slot + u64::from(included)) {
            left = Some(frame.caller);
            frames.pop();
        }
        self.now = left.unwrap_or(self.now);
    }

    /// A call: `from` is what runs when it returns.
    fn enter(
        &mut self,
        slot: VirtAddr,
        from: Activation,
        context: ContextId,
        site: VirtAddr,
        target: Option<VirtAddr>,
    ) {
        self.frames().push(CallFrame { slot: slot.0, caller: from, site, target });
        self.now = Activation { context, function: JUST_CALLED, before: NOWHERE, stack: self.now.stack };
    }

    /// Another function runs than the one that ran, and no call or return says why. A caller that goes on was returned to
    /// by code that is not recorded, by an exception or by longjmp; any other function was jumped to.
    fn reconcile(&mut self, ip: VirtAddr, known: &Instructed) {
        if known.function == self.now.before {
            (self.now.function, self.now.before) = (known.function, self.now.function);
            return;
        }
        let was_called = self.now.function == JUST_CALLED;
        let most = if was_called || !known.is_named { 1 } else { MAX_SEARCH };
        let goes_on = |frame: &CallFrame| {
            frame.caller.function == known.function
                && match frame.target {
                    // What was just called may be the caller itself, or lie in the same module without symbols.
                    Some(target) if was_called => is_after(ip, frame.site, target),
                    _ => known.is_named && !known.is_prologue,
                }
        };
        let found = self.frames().iter().rev().take(most).position(goes_on);
        match found {
            Some(depth) => self.resume(depth),
            None => {
                self.now.before = self.now.function;
                self.now.function = known.function;
            }
        }
    }

    /// The caller of a frame that so many others have been entered from runs again.
    fn resume(&mut self, depth: usize) {
        let frames = self.frames();
        let index = frames.len() - 1 - depth;
        let caller = frames[index].caller;
        frames.truncate(index);
        self.now = caller;
    }

    /// The frame that an address of `memory` lies in; see [`Stacks::frame`].
    fn frame(&self, memory: VariableId, is_stack: bool, addr: u64) -> Option<StackFrame> {
        let stack = &self.stacks[self.now.stack];
        let is_near = stack.near.abs_diff(addr) <= FAR_BYTES;
        let is_here = match stack.memory {
            Some(here) if here == memory => is_near || is_stack,
            // A stack that grows is another region then.
            Some(_) => is_near && is_stack,
            None => is_stack,
        };
        if !is_here {
            return None;
        }
        // Mostly the innermost one is asked for.
        let above = match stack.frames.last() {
            Some(innermost) if innermost.slot > addr => stack.frames.len(),
            _ => stack.frames.partition_point(|frame| frame.slot > addr),
        };
        let called = stack.frames.get(above);
        let function = called.map_or(self.now.function, |frame| frame.caller.function);
        let call = called.map(|frame| frame.site);
        let own = || stack.outermost.filter(|(outermost, _)| *outermost == function).map(|(_, cfa)| cfa);
        let cfa = match above.checked_sub(1) {
            Some(index) => Some(VirtAddr(stack.frames[index].slot).offset(RETURN_BYTES.into())),
            None => own(),
        };
        (function.0 < NOWHERE.0).then_some(StackFrame { function, cfa, call })
    }

    /// How many frames from the innermost one that is which a call at `ip` in `function` made, to code that is not recorded.
    fn relays(&self, ip: VirtAddr, function: FunctionId) -> Option<usize> {
        let frames = &self.stacks[self.now.stack].frames;
        // One form of operator new calls another, which calls malloc: the program's own call counts.
        let by_site = frames.iter().rev().take(MAX_RELAYS).position(|frame| frame.site == ip);
        let is_top = self.now.function != function
            && frames.last().is_some_and(|frame| frame.caller.function == function);
        by_site.or(is_top.then_some(0))
    }

    /// The context of a call that has such a frame, or of what runs.
    fn context_at(&self, relays: Option<usize>) -> ContextId {
        let frames = &self.stacks[self.now.stack].frames;
        let frame = relays.and_then(|relays| frames.iter().rev().nth(relays));
        frame.map_or(self.now.context, |frame| frame.caller.context)
    }
}

/// Whether an instruction follows a call rather than the beginning of what it called.
fn is_after(ip: VirtAddr, site: VirtAddr, target: VirtAddr) -> bool {
    let from = |start: VirtAddr| ip.0.checked_sub(start.0).unwrap_or(u64::MAX);
    from(site) < from(target)
}

/// What following needs of an instruction that ran lately.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenCode {
    ip: VirtAddr,
    /// The resolver's, when it was looked at; 0 is none's.
    version: u32,
    pub(super) code: CodeId,
    pub(super) function: FunctionId,
    pub(super) edge: CallEdge,
}

impl SeenCode {
    const NONE: Self =
        Self { ip: VirtAddr(0), version: 0, code: CodeId(0), function: FunctionId(0), edge: CallEdge::None };
}

/// So many instructions are remembered by their addresses. They fit into the second cache of a processor.
const SEEN: usize = 1 << 14;

/// The instructions that ran lately, so that most accesses need one look.
#[derive(Debug)]
struct SeenCodes(Box<[SeenCode]>);

impl Default for SeenCodes {
    fn default() -> Self {
        Self(vec![SeenCode::NONE; SEEN].into_boxed_slice())
    }
}

impl SeenCodes {
    #[inline]
    fn slot(ip: VirtAddr) -> usize {
        (ip.0 ^ ip.0 >> 14) as usize % SEEN
    }
}

/// A thread that made another one, as it was then.
#[derive(Clone, Debug)]
struct Creator {
    process: ProcessId,
    stacks: ThreadStacks,
}

/// What a thread stands in, for who goes on from there.
#[derive(Clone, Debug)]
pub(crate) struct StacksOfThread(ThreadStacks);

/// What a thread stood in that made another one, for who goes on from there.
#[derive(Clone, Debug)]
pub(crate) struct CreatedStacks {
    order: Order,
    creator: Creator,
}

/// Follows the stacks of all threads through a replay: tell it every event, each thread's in their order.
#[derive(Debug, Default)]
pub struct Stacks {
    contexts: Contexts,
    instructions: Instructions,
    threads: Vec<Option<ThreadStacks>>,
    begun_inside: HashSet<ProcessId>,
    /// What threads did that made threads or processes which have not begun.
    creators: HashMap<Order, Creator>,
    /// `None`: nobody asks where blocks were allocated.
    blocks: Option<BlockPlaces>,
    seen: SeenCodes,
    steps: BlockSteps,
    entries: FrameEntries,
}

impl Stacks {
    /// Stacks of that session. Nothing has happened yet.
    pub fn new(session: &Session) -> Self {
        Self { blocks: Some(BlockPlaces::of(session)), ..Self::without_blocks(session) }
    }

    /// The same, where nobody asks where blocks were allocated. Then contexts can be forgotten.
    pub(super) fn without_blocks(session: &Session) -> Self {
        Self { begun_inside: session.begun_inside().into_iter().collect(), ..Self::default() }
    }

    /// Where each block so far was allocated.
    pub fn blocks(&self) -> &BlockPlaces {
        self.blocks.as_ref().expect("who asks for blocks did not leave them out")
    }

    /// Forgets the contexts that no thread is in. The new number of each that is kept.
    pub(super) fn keep_live(&mut self) -> Vec<Option<ContextId>> {
        assert!(self.blocks.is_none(), "contexts of blocks are kept for good");
        let Self { contexts, threads, creators, .. } = self;
        let stacks = || threads.iter().flatten().chain(creators.values().map(|creator| &creator.stacks));
        let numbers = contexts.keep(stacks().flat_map(ThreadStacks::contexts));
        let running = threads.iter_mut().flatten();
        for stacks in running.chain(creators.values_mut().map(|creator| &mut creator.stacks)) {
            stacks.renumber(&numbers);
        }
        numbers
    }

    /// The tree of contexts so far.
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The place of an access, which is the thread's next event.
    #[inline]
    pub fn access(&mut self, at: &mut Moment<'_>, access: &Access) -> CallPlace {
        let seen = self.seen.0[SeenCodes::slot(access.ip)];
        let seen = match seen.ip == access.ip && seen.version == at.resolver.code_version() {
            true => seen,
            false => self.look(at, access.ip),
        };
        let Some(Some(running)) = self.threads.get_mut(at.thread.0 as usize) else {
            self.begin(at.process, at.thread);
            return self.access(at, access);
        };
        if running.now.function != seen.function {
            let known = *self.instructions.get(at.resolver, access.ip, seen.code);
            running.reconcile(access.ip, &known);
        }
        running.cfa = running.frame_address();
        if running.cfa.is_none()
            && let Some(cfa) = self.entries.cfa(at.resolver, seen.code, access)
        {
            running.cfa = Some(cfa);
            running.stacks[running.now.stack].outermost = Some((running.now.function, cfa));
        }
        let context = match seen.edge.of_access(access) {
            CallEdge::Call => self.call(at, access.ip, access.addr, seen.code),
            CallEdge::Return => self.ret(at, access.addr),
            CallEdge::None => running.now.context,
        };
        CallPlace { context, code: seen.code }
    }

    /// Whether a thread runs in that function, in the frame of a call that was seen. Then steps of it that are no calls and no returns
    /// change nothing.
    #[inline]
    pub(super) fn runs(&self, thread: ThreadId, function: FunctionId) -> bool {
        let running = self.threads.get(thread.0 as usize).and_then(Option::as_ref);
        running.is_some_and(|running| {
            running.now.function == function && !running.stacks[running.now.stack].frames.is_empty()
        })
    }

    /// The canonical frame address of the function that made the last access of a thread, where it is known.
    #[inline]
    pub fn cfa(&self, thread: ThreadId) -> Option<VirtAddr> {
        self.threads.get(thread.0 as usize)?.as_ref()?.cfa
    }

    /// As [`Self::executions`], as who counts what lies in frames follows them.
    pub(crate) fn executions_in_frames(
        &mut self,
        at: &mut Moment<'_>,
        frame: &ExecutedFrame,
        part: Range<usize>,
    ) {
        self.follow_in_frames(at, frame, part, &mut ());
    }

    /// Follows executions, and tells a follower what they did. Steps are told as such in the frames of calls that were seen.
    pub(crate) fn follow_in_frames<F: StepFollower>(
        &mut self,
        at: &mut Moment<'_>,
        frame: &ExecutedFrame,
        part: Range<usize>,
        follower: &mut F,
    ) {
        let mut steps = std::mem::take(&mut self.steps);
        steps.follow(self, at, (frame, part), ToldSteps::InFrames, follower);
        self.steps = steps;
    }

    /// Stacks of one who is told where threads stand, and is not asked for contexts.
    pub(crate) fn of_worker(session: &Session) -> Self {
        Self { contexts: Contexts::left_out(), ..Self::without_blocks(session) }
    }

    /// What a thread stands in; `None` where it has not begun.
    pub(crate) fn of_thread(&self, thread: ThreadId) -> Option<StacksOfThread> {
        self.threads.get(thread.0 as usize)?.clone().map(StacksOfThread)
    }

    /// A thread stands there now.
    pub(crate) fn set_thread(&mut self, thread: ThreadId, stacks: Option<StacksOfThread>) {
        let index = thread.0 as usize;
        if index >= self.threads.len() {
            self.threads.resize(index + 1, None);
        }
        self.threads[index] = stacks.map(|StacksOfThread(stacks)| stacks);
    }

    /// What a thread stood in that made another one, at that order.
    pub(crate) fn created(&self, order: Order) -> Option<CreatedStacks> {
        let creator = self.creators.get(&order)?.clone();
        Some(CreatedStacks { order, creator })
    }

    /// A thread stood there when it made another one.
    pub(crate) fn set_created(&mut self, CreatedStacks { order, creator }: CreatedStacks) {
        self.creators.insert(order, creator);
    }

    /// Follows executions, which are the thread's next events.
    pub(crate) fn executions(&mut self, at: &mut Moment<'_>, frame: &ExecutedFrame, part: Range<usize>) {
        let mut steps = std::mem::take(&mut self.steps);
        steps.follow(self, at, (frame, part), ToldSteps::All, &mut ());
        self.steps = steps;
    }

    /// A thread goes on in the function of a step, which is what it does next. What it does there is for [`Self::call`] and [`Self::ret`].
    #[inline]
    pub(super) fn begin_step(&mut self, at: &mut Moment<'_>, step: &BlockStep) -> BegunStep {
        let index = at.thread.0 as usize;
        if !matches!(self.threads.get(index), Some(Some(_))) {
            self.begin(at.process, at.thread);
        }
        let running = self.threads[index].as_mut().expect("it has begun");
        if running.now.function != step.function {
            let known = *self.instructions.get(at.resolver, step.ip, step.code);
            running.reconcile(step.ip, &known);
        }
        let is_in_frame = !running.stacks[running.now.stack].frames.is_empty();
        BegunStep { context: running.now.context, is_in_frame }
    }

    /// The canonical frame address of the function that a thread runs in.
    #[inline]
    pub(super) fn frame_address(&self, thread: ThreadId) -> Option<VirtAddr> {
        self.threads.get(thread.0 as usize)?.as_ref()?.frame_address()
    }

    /// The stack that a thread runs on, as its last step left it; `None` where the thread has none.
    #[inline]
    pub(crate) fn running_stack(&self, thread: ThreadId) -> Option<RunningStack> {
        let running = self.threads.get(thread.0 as usize)?.as_ref()?;
        let stack = &running.stacks[running.now.stack];
        let memory = stack.memory?;
        let innermost = match (running.now.function, stack.frames.as_slice()) {
            (JUST_CALLED, [.., frame, called]) => Some((frame, called.caller.function)),
            (function, [.., frame]) => Some((frame, function)),
            (_, []) => None,
        };
        let innermost = innermost.filter(|(_, function)| function.0 < NOWHERE.0);
        let frame =
            innermost.map(|(frame, function)| InnermostFrame { slot: VirtAddr(frame.slot), function });
        Some(RunningStack { memory, frame })
    }

    #[cold]
    pub(super) fn look(&mut self, at: &mut Moment<'_>, ip: VirtAddr) -> SeenCode {
        let code = at.resolver.resolve_code(ip);
        let known = *self.instructions.get(at.resolver, ip, code);
        let version = at.resolver.code_version();
        let seen = SeenCode { ip, version, code, function: known.function, edge: known.edge };
        self.seen.0[SeenCodes::slot(ip)] = seen;
        seen
    }

    /// The instruction `site` at `ip` writes its return address to `slot`.
    pub(super) fn call(
        &mut self,
        at: &mut Moment<'_>,
        ip: VirtAddr,
        slot: VirtAddr,
        site: CodeId,
    ) -> ContextId {
        let target = self.instructions.get(at.resolver, ip, site).target(ip);
        let Some(Some(running)) = self.threads.get_mut(at.thread.0 as usize) else { return ContextId(0) };
        if running.go_to(at.resolver, slot) {
            running.now.context = self.contexts.root(EnteredBy::Stack);
        }
        // What lies where the return address goes has been left, however that was done.
        running.leave(slot.0, true);
        let from = running.now;
        let callee = self.contexts.child(from.context, site);
        running.enter(slot, from, callee, ip, target);
        from.context
    }

    /// A return reads its address from `slot`.
    pub(super) fn ret(&mut self, at: &mut Moment<'_>, slot: VirtAddr) -> ContextId {
        let Some(Some(running)) = self.threads.get_mut(at.thread.0 as usize) else { return ContextId(0) };
        if running.go_to(at.resolver, slot) {
            running.now.context = self.contexts.root(EnteredBy::Stack);
        }
        running.leave(slot.0, false);
        let context = running.now.context;
        let stack = &mut running.stacks[running.now.stack];
        if stack.frames.last().is_none_or(|frame| frame.slot != slot.0) {
            // It returns from a function that nobody saw called.
            stack.outermost = None;
        }
        // Where this was no call's return address, the next access tells where it led.
        running.now.function = NOWHERE;
        running.leave(slot.0, true);
        context
    }

    /// Any other event. Its place, where it has one.
    pub fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Option<CallPlace> {
        match event {
            Event::Access(access) => return Some(self.access(at, access)),
            Event::Block(op) if op.function == BlockFunction::Signal => return Some(self.signal(at, op)),
            Event::Gap(_) => {
                let root = self.contexts.root(EnteredBy::AfterGap);
                *self.thread(at) = ThreadStacks::new(root);
                return None;
            }
            Event::Order(_) => return None,
            Event::Sync(sync) if sync.function == SyncFunction::Thread => match sync.kind {
                SyncKind::Create => {
                    let creator = Creator { process: at.process, stacks: self.thread(at).clone() };
                    self.creators.insert(sync.object.0, creator);
                }
                SyncKind::Start => self.start(at, sync.object.0),
                _ => {}
            },
            Event::Block(_) | Event::Allocation(_) | Event::Marker(_) | Event::Sync(_) => {}
        }
        let ip = event.ip()?;
        let code = at.resolver.resolve_code(ip);
        let function = self.instructions.get(at.resolver, ip, code).function;
        let thread = self.thread(at);
        let relays = thread.relays(ip, function);
        let place = CallPlace { context: thread.context_at(relays), code };
        // An allocator and memcpy have returned when they are told of. What synchronises goes on.
        if relays == Some(0) && matches!(event, Event::Allocation(_) | Event::Block(_)) {
            thread.resume(0);
        }
        if let Event::Allocation(event) = event
            && event.kind.allocates()
            && let Some(blocks) = &mut self.blocks
            && let Some(hit) = at.resolver.heap().get(event.addr)
        {
            blocks.put(at.process, hit.block, place);
        }
        Some(place)
    }

    /// A thread begins that another one made, at that order. A forked child goes on where its creator was.
    fn start(&mut self, at: &Moment<'_>, created: Order) {
        let Some(Creator { process, stacks }) = self.creators.remove(&created) else { return };
        let begin = ThreadStacks::new(self.contexts.root(EnteredBy::Begin));
        *self.thread(at) = if process == at.process { begin } else { stacks };
    }

    /// The kernel calls a handler. The place is that of what it interrupts.
    fn signal(&mut self, at: &mut Moment<'_>, op: &BlockOp) -> CallPlace {
        let code = at.resolver.resolve_code(op.ip);
        let handler = self.contexts.root(EnteredBy::Signal(u8::try_from(op.src.0).unwrap_or_default()));
        let running = self.thread(at);
        let interrupted = running.now;
        running.go_to(at.resolver, op.dst);
        running.enter(op.dst, interrupted, handler, op.ip, None);
        CallPlace { context: interrupted.context, code }
    }

    /// The frame that an address lies in, where it is on the stack that its thread runs on. `memory` is the variable of the
    /// address, and `is_stack` whether that is known to be a stack. To be asked after [`Self::access`].
    #[inline]
    pub fn frame(
        &self,
        thread: ThreadId,
        memory: VariableId,
        is_stack: bool,
        addr: VirtAddr,
    ) -> Option<StackFrame> {
        self.threads.get(thread.0 as usize)?.as_ref()?.frame(memory, is_stack, addr.0)
    }

    fn thread(&mut self, at: &Moment<'_>) -> &mut ThreadStacks {
        if !matches!(self.threads.get(at.thread.0 as usize), Some(Some(_))) {
            self.begin(at.process, at.thread);
        }
        self.threads[at.thread.0 as usize].as_mut().expect("it has begun")
    }

    #[cold]
    fn begin(&mut self, process: ProcessId, thread: ThreadId) {
        let index = thread.0 as usize;
        if index >= self.threads.len() {
            self.threads.resize(index + 1, None);
        }
        let entry = if self.begun_inside.contains(&process) { EnteredBy::Unknown } else { EnteredBy::Begin };
        self.threads[index] = Some(ThreadStacks::new(self.contexts.root(entry)));
    }
}
