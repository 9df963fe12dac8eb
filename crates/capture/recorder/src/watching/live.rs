//! Hits as they occur, with the names that addresses have at that moment.
//!
//! The meaning of addresses changes while the program runs: modules are loaded, blocks are allocated and released. A
//! thread records such a change before it continues. So when a hit can be read, every change that it depends on can
//! be read too, and has a lower order. A hit is therefore named after one more look at all buffers ([`Listener`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::{io, mem};

use buffers::Pool;
use memref::{Order, ProcessId, RegionChange, RegionKind, VirtAddr};
use symbols::{ModuleStore, Names, Resolver};

use super::expression::{AddressRange, WatchExpression};
use crate::Error;
use crate::listener::{Heard, Hit, Listener};

/// What is done with hits.
pub trait HitReport {
    /// One, in the session's order.
    fn hit(&mut self, at: &mut HitPlace<'_>, hit: &Hit) -> io::Result<()>;

    /// Code has another meaning from here on.
    fn forget(&mut self);

    /// There are no more for now.
    fn pause(&mut self) -> io::Result<()>;
}

/// Where a hit was.
pub struct HitPlace<'a> {
    /// The expression that names what was accessed.
    pub expression: &'a str,
    /// Names of this moment.
    pub resolver: &'a mut Resolver,
    /// The process.
    pub pid: u32,
    /// Whether it is the first one.
    pub is_first: bool,
    /// Where the process says whether it was continued after its last stop.
    pub is_continued: &'a dyn Fn() -> bool,
}

struct WatchedProcess {
    pid: u32,
    parent: Option<u32>,
    resolver: Option<Resolver>,
    /// How often it has stopped.
    stops: u32,
}

/// An event that waits for those of a lower order.
struct QueuedEvent {
    order: Order,
    /// The process's number in the session.
    process: u32,
    heard: Heard,
}

/// A region that a process had.
#[derive(Clone, Copy)]
struct SeenRegion {
    start: VirtAddr,
    end: VirtAddr,
    kind: RegionKind,
    /// Whether it is watched.
    traced: bool,
}

/// Addresses at which nothing could be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwatched {
    /// As they were asked for.
    pub expression: String,
    /// The memory there, which is not watched; `None`: there never was any.
    pub kind: Option<RegionKind>,
    /// How many other expressions are without effect, too.
    pub more: usize,
}

/// Puts what was heard into its order.
pub(super) struct HitQueue<'a, R> {
    /// The expressions by their number.
    wanted: &'a [WatchExpression],
    store: Arc<ModuleStore>,
    names: Arc<Names>,
    processes: HashMap<u32, WatchedProcess>,
    queue: Vec<QueuedEvent>,
    /// How many of those were heard before the present look.
    ripe: usize,
    /// Regions that were there at some time.
    regions: Vec<SeenRegion>,
    report: R,
}

impl<'a, R: HitReport> HitQueue<'a, R> {
    /// Nothing heard yet.
    pub(super) fn new(wanted: &'a [WatchExpression], report: R) -> Self {
        Self {
            wanted,
            store: Arc::default(),
            names: Arc::default(),
            processes: HashMap::new(),
            queue: Vec::new(),
            ripe: 0,
            regions: Vec::new(),
            report,
        }
    }

    /// The first of these ranges at which nothing could be watched, and how many there are.
    pub(super) fn unwatched<'b>(&self, ranges: impl Iterator<Item = AddressRange<'b>>) -> Option<Unwatched> {
        let mut traced: Vec<SeenRegion> =
            self.regions.iter().filter(|region| region.traced).copied().collect();
        traced.sort_unstable_by_key(|region| (region.start, region.end));
        traced.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            last.end = if joins { last.end.max(next.end) } else { last.end };
            joins
        });
        let is_watched = |range: &AddressRange<'_>| {
            let at = traced.partition_point(|region| region.end <= range.start);
            traced.get(at).is_some_and(|region| region.start < range.end())
        };
        let mut left = ranges.filter(|range| !is_watched(range));
        let first = left.next()?;
        let is_there = |region: &&SeenRegion| region.start < first.end() && first.start < region.end;
        let kind = self.regions.iter().find(is_there).map(|region| region.kind);
        Some(Unwatched { expression: first.expression.to_owned(), kind, more: left.count() })
    }

    /// Files whose debug information is damaged, one line each.
    pub(super) fn damage(&self) -> Vec<String> {
        let problems = self.store.take_problems();
        let damage = problems.iter().filter(|problem| matches!(***problem, symbols::Error::Dwarf { .. }));
        damage.map(|problem| problem.to_string()).collect()
    }

    /// The names of a process; a forked one begins with its parent's.
    fn resolver(&mut self, number: u32) -> &mut Resolver {
        let known = self.processes.get(&number).is_some_and(|process| process.resolver.is_some());
        if !known {
            let parent = self.processes.get(&number).and_then(|process| process.parent);
            let id = ProcessId(number);
            // A parent has a lower number, so this ends.
            let new = match parent.filter(|&parent| parent < number) {
                Some(parent) => self.resolver(parent).fork(id),
                None => Resolver::new(id, Arc::clone(&self.store), Arc::clone(&self.names)),
            };
            let process = WatchedProcess { pid: 0, parent, resolver: None, stops: 0 };
            self.processes.entry(number).or_insert(process).resolver = Some(new);
        }
        let process = self.processes.get_mut(&number).expect("just entered");
        process.resolver.as_mut().expect("just made")
    }

    fn apply(&mut self, pool: &Pool, number: u32, heard: &Heard) -> Result<(), Error> {
        match heard {
            Heard::Begins => {
                self.resolver(number);
            }
            Heard::Region(event) => {
                if event.change != RegionChange::Unmap {
                    let end = VirtAddr(event.start.0.saturating_add(event.len));
                    let (start, kind, traced) = (event.start, event.kind, event.traced);
                    self.regions.push(SeenRegion { start, end, kind, traced });
                }
                self.resolver(number).apply_region(event);
                self.report.forget();
            }
            Heard::Allocation(event) => {
                self.resolver(number).apply_allocation(event);
            }
            Heard::Hit(hit) => {
                self.resolver(number);
                let process = self.processes.get_mut(&number).expect("just entered");
                let resolver = process.resolver.as_mut().expect("just made");
                process.stops += u32::from(hit.stops);
                let stops = process.stops;
                let is_continued = || pool.process(number).is_none_or(|slot| slot.resumes() >= stops);
                let expression =
                    self.wanted.get(hit.watch as usize).map_or("", |wanted| wanted.text.as_str());
                let mut place = HitPlace {
                    expression,
                    resolver,
                    pid: process.pid,
                    is_first: number == 0,
                    is_continued: &is_continued,
                };
                self.report.hit(&mut place, hit).map_err(Error::Hits)?;
            }
        }
        Ok(())
    }
}

impl<R: HitReport> Listener for HitQueue<'_, R> {
    fn process(&mut self, number: u32, pid: u32, parent: Option<u32>) {
        self.processes.insert(number, WatchedProcess { pid, parent, resolver: None, stops: 0 });
    }

    fn hear(&mut self, process: u32, order: u64, heard: Heard) {
        self.queue.push(QueuedEvent { order, process, heard });
    }

    fn looked(&mut self, pool: &Pool) -> Result<bool, Error> {
        // All that was heard until the last look, and what this one found of the same time.
        let last = self.queue.iter().take(self.ripe).map(|event| event.order).max();
        let mut queue = mem::take(&mut self.queue);
        // A process begins after what its parent did until then.
        queue.sort_by_key(|event| (event.order, matches!(event.heard, Heard::Begins), event.process));
        let now = last.map_or(0, |last| queue.partition_point(|event| event.order <= last));
        let rest = queue.split_off(now);
        for event in &queue {
            self.apply(pool, event.process, &event.heard)?;
        }
        if !queue.is_empty() {
            self.report.pause().map_err(Error::Hits)?;
        }
        self.ripe = rest.len();
        self.queue = rest;
        Ok(self.ripe > 0)
    }
}
