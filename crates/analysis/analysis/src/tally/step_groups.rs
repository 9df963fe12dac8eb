//! Counting of stack and other accesses, step by step: accesses of a step at fixed
//! distances are one addition, if they are counted under the same numbers as the last time.
//!
//! This is known without examining each access in three cases: all of them lie in one variable
//! that is counted as a whole; they lie in the stack frame of the running function, at the same
//! distance from its end as the last time; or they lie at the same addresses as the last time.

use std::ops::Range;

use blocks::BlockAccess;
use memref::{Access, ThreadId, VirtAddr};
use symbols::{CodeId, DataVersion, FunctionId, Resolver, VariableId};
use trace_format::ExecutedFrame;

use super::slot::slot;
use crate::near_accesses::{NearAccess, NearAccesses, count_of, near_accesses};
use crate::stack::{
    BlockSteps, CallPlace, ContextId, InnermostFrame, RETURN_BYTES, RunningStack, Stacks, StepFollower,
    TakenStep, ToldSteps,
};
use crate::{Count, Moment};

/// Numbers for what accesses are counted to.
pub(super) trait StepNumbers {
    /// Whether it matters on which stack the frame of a function lies.
    const BY_STACK: bool;

    /// What each access to a variable is counted to, whichever its place and instruction are; nothing where these decide. It is no
    /// stack's memory.
    fn whole(&mut self, resolver: &mut Resolver, variable: VariableId, addr: VirtAddr) -> Option<u32>;

    /// Appends what an access is counted to, by the frames as it left them: one number at least.
    fn each(
        &mut self,
        stacks: &Stacks,
        at: &mut Moment<'_>,
        code: CodeId,
        access: &Access,
        numbers: &mut Vec<u32>,
    );

    /// Whether a variable is the memory of a stack.
    fn is_stack(&mut self, resolver: &Resolver, variable: VariableId) -> bool;

    /// A thread has frames in the memory of a stack.
    fn note_thread(&mut self, stack: VariableId, thread: ThreadId);
}

/// Counts by number, and what was counted to more than one.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) counts: Vec<Count>,
    pub(super) again: Count,
}

impl Sums {
    /// Counts an access to all of its numbers.
    pub(super) fn add(&mut self, numbers: &[u32], count: Count) {
        for (index, number) in numbers.iter().enumerate() {
            *slot(&mut self.counts, *number) += count;
            if index > 0 {
                self.again += count;
            }
        }
    }
}

/// Where the accesses of a group lay when they were counted as they are now.
#[derive(Clone, Copy, Debug)]
enum KnownPlace {
    /// In one variable, which has one number: addresses of the lowest access with which all are in it.
    Whole { start: u64, end: u64, version: DataVersion, variable: VariableId, number: u32 },
    /// In the frame of a function: from its canonical frame address to the lowest one.
    Frame { stack: Option<VariableId>, function: FunctionId, offset: u64 },
    /// The lowest one here.
    Here { addr: u64, version: DataVersion, variable: VariableId },
}

/// Accesses of a step that are counted together.
#[derive(Clone, Debug)]
struct StepGroup {
    lowest: BlockAccess,
    span: u64,
    place: Option<KnownPlace>,
    /// How often they were there, which no sum has yet.
    times: u64,
}

/// The same, apart from what each execution looks at.
#[derive(Clone, Debug)]
struct CountedGroup {
    members: Vec<GroupMember>,
    /// What they are counted to where they are known to be.
    numbers: Vec<(u32, Count)>,
    again: Count,
    /// Where the lowest one was when nothing was known.
    last: u64,
    /// Whether it is in the list of those that are pending.
    is_pending: bool,
}

#[derive(Clone, Copy, Debug)]
struct GroupMember {
    near: NearAccess,
    ip: VirtAddr,
    code: CodeId,
    count: Count,
}

/// The frame that a thread runs in, where it lies on the thread's stack.
#[derive(Clone, Copy, Debug)]
struct RunningFrame {
    /// Which stack that is, where it matters.
    stack: Option<VariableId>,
    function: FunctionId,
    cfa: u64,
    /// From there on, addresses up to its return address were the stack's.
    start: u64,
    version: DataVersion,
}

/// Where the accesses of a group are made.
#[derive(Clone, Copy, Debug)]
struct StepPlace {
    /// The address of the lowest one.
    lowest: u64,
    /// The memory of the stack that the thread runs on.
    memory: Option<VariableId>,
    running: Option<RunningFrame>,
}

/// By what accesses are counted, and to what.
struct Counting<'a, N> {
    stacks: &'a Stacks,
    by: &'a mut N,
    /// Of one access.
    numbers: &'a mut Vec<u32>,
    sums: &'a mut Sums,
}

impl<N: StepNumbers> Counting<'_, N> {
    /// What an access is counted to.
    fn each(&mut self, at: &mut Moment<'_>, code: CodeId, access: &Access) -> &[u32] {
        self.numbers.clear();
        self.by.each(self.stacks, at, code, access, self.numbers);
        self.numbers
    }

    fn count(&mut self, at: &mut Moment<'_>, code: CodeId, access: &Access, count: Count) {
        self.each(at, code, access);
        self.sums.add(self.numbers, count);
    }
}

/// The part of a stack that was met last.
#[derive(Clone, Copy, Debug)]
struct StackPart {
    thread: ThreadId,
    version: DataVersion,
    memory: VariableId,
    start: u64,
    end: u64,
}

/// Counts executions.
#[derive(Debug, Default)]
pub(super) struct StepGroups {
    /// By the number of the step.
    steps: Vec<Option<Range<u32>>>,
    groups: Vec<StepGroup>,
    counted: Vec<CountedGroup>,
    stack: Option<StackPart>,
    /// Those that were counted as they were known, which no sum has yet.
    pending: Vec<u32>,
    numbers: Vec<u32>,
    blocks: BlockSteps,
}

/// Counts what executions do.
struct GroupFollower<'a, N> {
    groups: &'a mut StepGroups,
    by: &'a mut N,
    fs_base: u64,
    sums: &'a mut Sums,
}

impl<N: StepNumbers> StepFollower for GroupFollower<'_, N> {
    #[inline]
    fn step(&mut self, stacks: &Stacks, at: &mut Moment<'_>, _: ContextId, step: &TakenStep<'_>) {
        self.groups.add_step(stacks, self.by, at, step, self.fs_base, self.sums);
    }

    fn access(&mut self, stacks: &Stacks, at: &mut Moment<'_>, place: CallPlace, access: &Access) {
        let Self { groups, by, sums, .. } = self;
        let mut count = Count::default();
        count.add(access);
        let mut counting = Counting { stacks, by: &mut **by, numbers: &mut groups.numbers, sums };
        counting.count(at, place.code, access, count);
    }
}

impl StepGroups {
    /// Adds a part of a frame's executions, which are their thread's next events.
    pub(super) fn add(
        &mut self,
        stacks: &mut Stacks,
        by: &mut impl StepNumbers,
        at: &mut Moment<'_>,
        executed: (&ExecutedFrame, Range<usize>),
        sums: &mut Sums,
    ) {
        let fs_base = executed.0.fs_base();
        let mut blocks = std::mem::take(&mut self.blocks);
        let mut follower = GroupFollower { groups: self, by, fs_base, sums };
        blocks.follow(stacks, at, executed, ToldSteps::InFrames, &mut follower);
        self.blocks = blocks;
    }

    /// Whether something was counted that is in no sum yet.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds what no sum has yet, for good.
    pub(super) fn take_pending(&mut self, sums: &mut Sums) {
        self.add_pending(sums);
        for number in self.pending.drain(..) {
            self.groups[number as usize].times = 0;
            self.counted[number as usize].is_pending = false;
        }
    }

    /// Adds what no sum has yet.
    pub(super) fn add_pending(&self, sums: &mut Sums) {
        for &number in &self.pending {
            let number = number as usize;
            self.counted[number].add(self.groups[number].times, sums);
        }
    }

    #[inline]
    fn add_step(
        &mut self,
        stacks: &Stacks,
        by: &mut impl StepNumbers,
        at: &mut Moment<'_>,
        step: &TakenStep<'_>,
        fs_base: u64,
        sums: &mut Sums,
    ) {
        let groups = match self.steps.get(step.number as usize) {
            Some(Some(groups)) => groups.clone(),
            _ => self.find(at.resolver, step),
        };
        let stack = stacks.running_stack(at.thread);
        let memory = stack.map(|stack| stack.memory);
        let running = stack.and_then(|stack| self.running(by, at, stack));
        for number in groups {
            let group = &mut self.groups[number as usize];
            let lowest = group.lowest.address(step.values, fs_base).0;
            let all = group.addresses(lowest);
            let is_known = match group.place {
                None => false,
                Some(KnownPlace::Whole { start, end, version, variable, .. }) => {
                    start <= lowest
                        && lowest < end
                        && memory != Some(variable)
                        && at.resolver.holds_since(all, version)
                }
                Some(KnownPlace::Frame { stack, function, offset }) => running.is_some_and(|running| {
                    lowest.wrapping_sub(running.cfa) == offset
                        && (running.stack, running.function) == (stack, function)
                        && running.has(at.resolver, all)
                }),
                Some(KnownPlace::Here { addr, version, variable }) => {
                    lowest == addr && memory != Some(variable) && at.resolver.holds_since(all, version)
                }
            };
            let was_counted = group.times > 0;
            if is_known && group.lowest.masked.is_none() {
                group.times += 1;
            } else {
                let counted = &mut self.counted[number as usize];
                let mut counting =
                    Counting { stacks, by: &mut *by, numbers: &mut self.numbers, sums: &mut *sums };
                let place = StepPlace { lowest, memory, running };
                match group.lowest.masked {
                    Some(masked) => {
                        let elements = masked.elements(group.lowest.size, step.values);
                        counted.count_elements(group, &mut counting, at, place, (is_known, elements));
                    }
                    None => counted.count(group, &mut counting, at, place),
                }
            }
            if group.times > 0 && !was_counted {
                let counted = &mut self.counted[number as usize];
                if !std::mem::replace(&mut counted.is_pending, true) {
                    self.pending.push(number);
                }
            }
        }
    }

    #[cold]
    fn find(&mut self, resolver: &mut Resolver, step: &TakenStep<'_>) -> Range<u32> {
        let begin = self.groups.len() as u32;
        for NearAccesses { lowest, span, members } in near_accesses(step.accesses) {
            let member = |near: &NearAccess| {
                let ip = step.block.ip(&near.access);
                let code = resolver.resolve_code(ip);
                GroupMember { near: *near, ip, code, count: count_of(&near.access) }
            };
            self.groups.push(StepGroup { lowest, span, place: None, times: 0 });
            self.counted.push(CountedGroup {
                members: members.iter().map(member).collect(),
                numbers: Vec::new(),
                again: Count::default(),
                last: 0,
                is_pending: false,
            });
        }
        let groups = begin..self.groups.len() as u32;
        *slot(&mut self.steps, step.number) = Some(groups.clone());
        groups
    }

    /// The frame that a thread runs in, where the addresses of its stack around it are known.
    #[inline]
    fn running<N: StepNumbers>(
        &mut self,
        by: &mut N,
        at: &mut Moment<'_>,
        RunningStack { memory, frame }: RunningStack,
    ) -> Option<RunningFrame> {
        let InnermostFrame { slot, function } = frame?;
        let returns = slot..slot.offset(RETURN_BYTES.into());
        let is_same = |part: &StackPart| {
            (part.thread, part.memory) == (at.thread, memory)
                && part.start <= returns.start.0
                && returns.end.0 <= part.end
                && at.resolver.holds_since(returns.clone(), part.version)
        };
        let part = match self.stack.filter(is_same) {
            Some(part) => part,
            None => {
                let (variable, range) = at.resolver.whole_data_range(slot);
                let version = at.resolver.data_version();
                let (start, end) = (range.start.0, range.end.0);
                let part = StackPart { thread: at.thread, version, memory, start, end };
                if variable != memory || end < returns.end.0 || !by.is_stack(at.resolver, memory) {
                    return None;
                }
                by.note_thread(memory, at.thread);
                *self.stack.insert(part)
            }
        };
        let stack = N::BY_STACK.then_some(memory);
        Some(RunningFrame { stack, function, cfa: returns.end.0, start: part.start, version: part.version })
    }
}

impl RunningFrame {
    /// Whether addresses below its return address are the stack's.
    #[inline]
    fn has(&self, resolver: &Resolver, addresses: Range<VirtAddr>) -> bool {
        self.start <= addresses.start.0 && resolver.holds_since(addresses, self.version)
    }
}

impl CountedGroup {
    /// Adds so many executions.
    fn add(&self, times: u64, sums: &mut Sums) {
        if times > 0 {
            for (number, count) in &self.numbers {
                *slot(&mut sums.counts, *number) += count.times(times);
            }
            sums.again += self.again.times(times);
        }
    }

    /// Counts an execution whose accesses may lie elsewhere than the last time.
    fn count(
        &mut self,
        group: &mut StepGroup,
        counting: &mut Counting<'_, impl StepNumbers>,
        at: &mut Moment<'_>,
        place: StepPlace,
    ) {
        let found = self.find(group, counting.by, at, place);
        if found.is_some() {
            self.add(std::mem::take(&mut group.times), counting.sums);
            self.numbers.clear();
            self.again = Count::default();
        }
        if let Some(KnownPlace::Whole { number, .. }) = found {
            self.numbers.push((number, self.members.iter().map(|member| member.count).sum()));
        } else {
            for member in &self.members {
                let addr = VirtAddr(place.lowest.wrapping_add(member.near.distance));
                let (size, kind) = (member.near.access.size.into(), member.near.access.kind);
                let access = Access { cycle: 0, ip: member.ip, addr, size, kind };
                if found.is_none() {
                    counting.count(at, member.code, &access, member.count);
                    continue;
                }
                for (index, number) in counting.each(at, member.code, &access).iter().enumerate() {
                    match self.numbers.iter_mut().find(|(other, _)| other == number) {
                        Some((_, count)) => *count += member.count,
                        None => self.numbers.push((*number, member.count)),
                    }
                    if index > 0 {
                        self.again += member.count;
                    }
                }
            }
        }
        if found.is_some() {
            (group.place, group.times) = (found, 1);
        }
    }

    /// Counts the elements of an access under a mask, which are counted as `times` where they have one number.
    fn count_elements(
        &mut self,
        group: &mut StepGroup,
        counting: &mut Counting<'_, impl StepNumbers>,
        at: &mut Moment<'_>,
        place: StepPlace,
        (is_known, elements): (bool, u64),
    ) {
        let (Some(member), Some(masked)) = (self.members.first().copied(), group.lowest.masked) else {
            return;
        };
        let found = if is_known { None } else { self.find(group, counting.by, at, place) };
        if let Some(KnownPlace::Whole { number, .. }) = found {
            self.add(std::mem::take(&mut group.times), counting.sums);
            self.numbers = vec![(number, member.count)];
            group.place = found;
        } else if !is_known {
            let mut rest = elements;
            while rest != 0 {
                let distance = u64::from(rest.trailing_zeros()) * u64::from(masked.bytes);
                let addr = VirtAddr(place.lowest.wrapping_add(distance));
                let (size, kind) = (masked.bytes.into(), group.lowest.kind);
                let access = Access { cycle: 0, ip: member.ip, addr, size, kind };
                counting.count(at, member.code, &access, member.count);
                rest &= rest - 1;
            }
            return;
        }
        group.times += u64::from(elements.count_ones());
    }

    /// By what it will be known that the accesses lie where they lie now.
    fn find(
        &mut self,
        group: &StepGroup,
        by: &mut impl StepNumbers,
        at: &mut Moment<'_>,
        StepPlace { lowest, memory, running }: StepPlace,
    ) -> Option<KnownPlace> {
        let all = group.addresses(lowest);
        if let Some(running) = running {
            let offset = lowest.wrapping_sub(running.cfa);
            let highest = (offset as i64).checked_add_unsigned(group.span);
            // Its return address is the caller's.
            if highest.is_some_and(|highest| highest < -i64::from(RETURN_BYTES))
                && running.has(at.resolver, all.clone())
            {
                let RunningFrame { stack, function, .. } = running;
                return Some(KnownPlace::Frame { stack, function, offset });
            }
        }
        let (variable, range) = at.resolver.data_range(all.start);
        if memory == Some(variable) || all.end > range.end || by.is_stack(at.resolver, variable) {
            return None;
        }
        let version = at.resolver.data_version();
        if let Some(number) = by.whole(at.resolver, variable, all.start) {
            let (start, end) = (range.start.0, range.end.0 - group.span);
            return Some(KnownPlace::Whole { start, end, version, variable, number });
        }
        let was_here = std::mem::replace(&mut self.last, lowest) == lowest;
        was_here.then_some(KnownPlace::Here { addr: lowest, version, variable })
    }
}

impl StepGroup {
    /// The first bytes of all accesses, where the lowest one is there.
    #[inline]
    fn addresses(&self, lowest: u64) -> Range<VirtAddr> {
        VirtAddr(lowest)..VirtAddr(lowest.saturating_add(self.span + 1))
    }
}
