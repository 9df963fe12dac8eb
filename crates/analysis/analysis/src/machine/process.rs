//! Which of the guest's processes executed, by cycle.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;

use memref::{Access, ThreadId, VirtAddr};
use trace_format::machine::TaskEntry;
use trace_format::{AccessCursor, Filter, StreamKind, Trace};

use crate::{Count, Error};

const CHANGE_SWITCH: u8 = 0;
const CHANGE_CREATE: u8 = 1;
const CHANGE_EXEC: u8 = 2;
const CHANGE_EXIT: u8 = 3;

/// In which mode the processor was, as the address of the instruction tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuestMode {
    /// Firmware and boot loader: before a vCPU came to the kernel.
    Boot,
    /// A program.
    User,
    /// The kernel.
    Kernel,
}

impl GuestMode {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }

    fn of(ip: VirtAddr, seen_kernel: &mut bool) -> Self {
        let kernel = ip.is_of_kernel();
        *seen_kernel |= kernel;
        match (kernel, *seen_kernel) {
            (true, _) => Self::Kernel,
            (false, true) => Self::User,
            (false, false) => Self::Boot,
        }
    }
}

/// Whose accesses: a process of the guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its process id; `None` before the kernel was found.
    pub process: Option<u32>,
    /// Its name, as the kernel has it.
    pub name: String,
}

/// For people: `sort (86)`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.process.map_or(Ok(()), |process| write!(f, " ({process})"))
    }
}

/// What the guest's tasks did on a vCPU.
///
/// # Errors
/// Where the trace can't be read.
pub fn tasks(trace: &Trace, thread: ThreadId) -> Result<Vec<TaskEntry>, Error> {
    let mut all = Vec::new();
    if let Some(mut cursor) = trace.typed(StreamKind::Tasks, Some(thread)) {
        while let Some(frame) = cursor.next_frame()? {
            all.extend(frame.bytes.chunks_exact(48).map(TaskEntry::from_bytes));
        }
    }
    Ok(all)
}

/// The cycle at which a vCPU made its first access from the kernel, or had its first task: low addresses before it are boot code.
///
/// # Errors
/// Where the trace can't be read.
pub fn kernel_since(trace: &Trace, thread: ThreadId) -> Result<u64, Error> {
    let mut tasks = trace.typed(StreamKind::Tasks, Some(thread));
    let first_frame = tasks.as_mut().map_or(Ok(None), |cursor| cursor.next_frame())?;
    let first_task = first_frame
        .and_then(|frame| Some(TaskEntry::from_bytes(frame.bytes.first_chunk::<48>()?).cycle))
        .unwrap_or(u64::MAX);
    let mut cursor = trace.shard(thread).accesses(&Filter::default());
    while let Some(accesses) = cursor.next_block()? {
        if let Some(access) = accesses.iter().find(|access| access.ip.is_of_kernel()) {
            return Ok(access.cycle.min(first_task));
        }
    }
    Ok(first_task)
}

/// What a process executes, from one call of exec to the next. One that forks shares its own with the new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ImageId(pub(super) u32);

impl ImageId {
    /// Before the first process.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// Images are numbered.
#[derive(Default)]
struct Images {
    of_process: HashMap<u32, ImageId>,
    count: u32,
}

impl Images {
    fn new_one(&mut self) -> ImageId {
        self.count += 1;
        ImageId(self.count - 1)
    }

    /// The image of a task's process after a change; `execs` says that it has just got another program.
    fn after(&mut self, task: &TaskEntry, execs: bool) -> ImageId {
        let is_new = task.change == CHANGE_CREATE && task.process == task.thread;
        let known = self.of_process.get(if is_new { &task.parent } else { &task.process });
        let image = match known {
            Some(image) if !execs => *image,
            _ => self.new_one(),
        };
        self.of_process.insert(task.process, image);
        image
    }
}

/// A change of what a vCPU executes.
#[derive(Clone, Copy)]
struct Turn {
    task: TaskEntry,
    image: ImageId,
}

/// The turns of each vCPU.
fn turns(trace: &Trace) -> Result<Vec<Vec<Turn>>, Error> {
    let mut all = Vec::new();
    for (cpu, record) in trace.threads().iter().enumerate() {
        let tasks = tasks(trace, record.thread)?;
        for (place, task) in tasks.iter().enumerate() {
            // A task that has another name when it goes on has given itself that.
            let is_renamed = |next: &&TaskEntry| {
                next.change == CHANGE_SWITCH && next.cycle == task.cycle && next.thread == task.thread
            };
            let execs = task.change == CHANGE_EXEC && tasks.get(place + 1).filter(is_renamed).is_none();
            all.push((cpu, *task, execs));
        }
    }
    all.sort_by_key(|(_, task, _)| task.cycle);
    let mut images = Images::default();
    let mut turns = vec![Vec::new(); trace.threads().len()];
    for (cpu, task, execs) in all {
        let image = images.after(&task, execs);
        // Of creations and ends nobody else executes.
        if task.change != CHANGE_CREATE && task.change != CHANGE_EXIT {
            turns[cpu].push(Turn { task, image });
        }
    }
    Ok(turns)
}

/// The accesses of a vCPU, in order, with whose they are.
pub(super) struct OwnedAccesses {
    /// The vCPU's number: its place among the trace's threads.
    cpu: usize,
    turns: std::vec::IntoIter<Turn>,
    next: Option<Turn>,
    /// Who executes, and its number.
    owner: Owner,
    number: usize,
    image: ImageId,
    cpu_count: usize,
    seen_kernel: bool,
    cursor: AccessCursor,
    /// What was read, and the number of its first access.
    block: Vec<Access>,
    first_index: u64,
    /// Where the next one stands in it.
    at: usize,
}

/// Whose an access is.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnedBy<'a> {
    /// The vCPU's number.
    pub(super) cpu: usize,
    /// The access's number among the vCPU's.
    pub(super) index: u64,
    pub(super) owner: &'a Owner,
    /// Another one with each change of the owner.
    pub(super) number: usize,
    pub(super) image: ImageId,
    pub(super) mode: GuestMode,
}

impl OwnedAccesses {
    fn new(
        trace: &Trace,
        cpu: usize,
        thread: ThreadId,
        turns: Vec<Turn>,
        cycles: Option<&Range<u64>>,
    ) -> Result<Self, Error> {
        let seen_kernel = match cycles {
            Some(cycles) if turns.first().is_none_or(|turn| turn.task.cycle > cycles.start) => {
                kernel_since(trace, thread)? < cycles.start
            }
            _ => false,
        };
        let filter = Filter { cycles: cycles.cloned(), ..Filter::default() };
        let mut turns = turns.into_iter();
        let mut accesses = Self {
            cpu,
            next: turns.next(),
            turns,
            owner: Owner { process: None, name: "before the first process".into() },
            number: cpu,
            image: ImageId::NONE,
            cpu_count: trace.threads().len(),
            seen_kernel,
            cursor: trace.shard(thread).accesses(&filter),
            block: Vec::new(),
            first_index: 0,
            at: 0,
        };
        accesses.fill()?;
        Ok(accesses)
    }

    /// Reads on where nothing is left of what was read.
    fn fill(&mut self) -> Result<(), Error> {
        while self.at >= self.block.len() {
            let Some(block) = self.cursor.next_block()? else { return Ok(()) };
            self.block.clear();
            self.block.extend_from_slice(block);
            self.first_index = self.cursor.first_index();
            self.at = 0;
        }
        Ok(())
    }

    fn peek(&self) -> Option<Access> {
        self.block.get(self.at).copied()
    }

    /// Gives the accesses up to that cycle to `each`.
    fn walk(
        &mut self,
        last: u64,
        each: &mut impl FnMut(OwnedBy<'_>, &Access) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while let Some(access) = self.peek().filter(|access| access.cycle <= last) {
            while let Some(Turn { task, image }) = self.next.filter(|turn| turn.task.cycle <= access.cycle) {
                self.owner = Owner { process: Some(task.process), name: task.name() };
                self.number += self.cpu_count;
                self.image = image;
                // Recording may have begun later than the kernel.
                self.seen_kernel = true;
                self.next = self.turns.next();
            }
            let mode = GuestMode::of(access.ip, &mut self.seen_kernel);
            let by = OwnedBy {
                cpu: self.cpu,
                index: self.first_index + self.at as u64,
                owner: &self.owner,
                number: self.number,
                image: self.image,
                mode,
            };
            each(by, &access)?;
            self.at += 1;
            self.fill()?;
        }
        Ok(())
    }
}

/// Gives all accesses of all vCPUs, in the order of their cycles, to `each`.
///
/// # Errors
/// Where the trace can't be read.
pub(super) fn walk_owned(trace: &Trace, mut each: impl FnMut(OwnedBy<'_>, &Access)) -> Result<(), Error> {
    walk_owned_in(trace, None, |by, access| {
        each(by, access);
        Ok(())
    })
}

/// The same with the accesses in some cycles, until `each` fails.
///
/// # Errors
/// Where the trace can't be read, or `each` fails.
pub(super) fn walk_owned_in(
    trace: &Trace,
    cycles: Option<&Range<u64>>,
    mut each: impl FnMut(OwnedBy<'_>, &Access) -> Result<(), Error>,
) -> Result<(), Error> {
    let threads = trace.threads().iter().zip(turns(trace)?).enumerate();
    let cpus =
        threads.map(|(cpu, (record, turns))| OwnedAccesses::new(trace, cpu, record.thread, turns, cycles));
    let mut cpus = cpus.collect::<Result<Vec<_>, _>>()?;
    loop {
        let mut turns: Vec<_> = cpus.iter().filter_map(|cpu| Some((cpu.peek()?.cycle, cpu.cpu))).collect();
        turns.sort_unstable();
        let Some(&(_, cpu)) = turns.first() else { return Ok(()) };
        // Up to the next one's; of the same cycle the lower vCPU is first.
        let last = turns.get(1).map_or(u64::MAX, |&(cycle, next)| cycle - u64::from(next < cpu));
        cpus[cpu].walk(last, &mut each)?;
    }
}

/// Counts accesses by process and mode.
///
/// # Errors
/// Where the trace can't be read.
pub fn by_process(trace: &Trace) -> Result<BTreeMap<(Owner, GuestMode), Count>, Error> {
    let counts = by_owner(trace, |by, _| by.mode as usize)?;
    let modes = [GuestMode::Boot, GuestMode::User, GuestMode::Kernel];
    let of_owner = |(owner, counts): (Owner, HashMap<usize, Count>)| {
        counts.into_iter().filter_map(move |(mode, count)| Some(((owner.clone(), *modes.get(mode)?), count)))
    };
    Ok(counts.into_iter().flat_map(of_owner).collect())
}

/// Counts accesses by owner and, of each, by a number that `number` gives.
///
/// # Errors
/// Where the trace can't be read.
pub(super) fn by_owner(
    trace: &Trace,
    mut number: impl FnMut(OwnedBy<'_>, &Access) -> usize,
) -> Result<HashMap<Owner, HashMap<usize, Count>>, Error> {
    let mut counts = HashMap::new();
    let mut cpus: Vec<_> = trace.threads().iter().map(|_| PresentCounts::default()).collect();
    walk_owned(trace, |by, access| {
        let number = number(by, access);
        let present = &mut cpus[by.cpu];
        if present.owner.as_ref().is_none_or(|(turn, _)| *turn != by.number) {
            present.settle(&mut counts);
            present.owner = Some((by.number, by.owner.clone()));
        }
        present.add(number, access);
    })?;
    cpus.iter_mut().for_each(|present| present.settle(&mut counts));
    Ok(counts)
}

/// What a vCPU did for one owner until it came to the next, by number.
#[derive(Default)]
struct PresentCounts {
    owner: Option<(usize, Owner)>,
    counts: Vec<Count>,
    /// Those that are not zero.
    touched: Vec<usize>,
}

impl PresentCounts {
    #[inline]
    fn add(&mut self, number: usize, access: &Access) {
        if self.counts.len() <= number {
            self.counts.resize(number + 1, Count::default());
        }
        if self.counts[number] == Count::default() {
            self.touched.push(number);
        }
        self.counts[number].add(access);
    }

    fn settle(&mut self, counts: &mut HashMap<Owner, HashMap<usize, Count>>) {
        let Some((_, owner)) = self.owner.take() else { return };
        let of_owner = counts.entry(owner).or_default();
        for number in self.touched.drain(..) {
            *of_owner.entry(number).or_default() += std::mem::take(&mut self.counts[number]);
        }
    }
}
