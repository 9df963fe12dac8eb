//! Hits as they come, with the names of their time.
//!
//! What addresses mean changes while the program runs: modules are loaded, blocks are allocated and released. Threads write
//! that down before they go on, so whatever a hit refers to can be read once the hit could be; and it has a lower order. So a
//! look at all buffers after the one that found a hit has all that it needs ([`Listener`]).

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use anyhow::Result;
use buffers::Pool;
use memref::{ProcessId, RegionChange, RegionKind};
use symbols::{ModuleStore, Names, Resolver};

use crate::{Heard, Hit, Listener};

/// What is done with hits.
pub trait Report {
    /// One, in the session's order.
    fn hit(&mut self, at: &mut Place<'_>, hit: &Hit) -> Result<()>;

    /// Code has another meaning from here on.
    fn forget(&mut self);

    /// There are no more for now.
    fn pause(&mut self) -> Result<()>;
}

/// Where a hit was.
pub struct Place<'a> {
    /// Names of this moment.
    pub resolver: &'a mut Resolver,
    /// The process.
    pub pid: u32,
    /// Whether it is the first one.
    pub is_first: bool,
    /// Where the process says whether it was continued after its last stop.
    pub is_continued: &'a dyn Fn() -> bool,
}

struct Process {
    pid: u32,
    parent: Option<u32>,
    resolver: Option<Resolver>,
    /// How often it has stopped.
    stops: u32,
}

/// Puts what was heard into its order.
pub struct Live<R> {
    store: Arc<ModuleStore>,
    names: Arc<Names>,
    processes: HashMap<u32, Process>,
    /// Order, process, event; and of those how many were heard before the present look.
    queue: Vec<(u64, u32, Heard)>,
    ripe: usize,
    /// Regions that were there at some time: start, end, and what they are for.
    regions: Vec<(u64, u64, RegionKind, bool)>,
    report: R,
}

impl<R: Report> Live<R> {
    /// Nothing heard yet.
    pub fn new(report: R) -> Self {
        Self {
            store: Arc::default(),
            names: Arc::default(),
            processes: HashMap::new(),
            queue: Vec::new(),
            ripe: 0,
            regions: Vec::new(),
            report,
        }
    }

    /// The first of these ranges at which nothing could be watched, why, and how many there are: nothing was ever mapped
    /// there, or memory that is not watched.
    pub fn unwatched<'b>(
        &self,
        ranges: impl Iterator<Item = (&'b str, u64, u64)>,
    ) -> Option<(&'b str, String, usize)> {
        let mut traced: Vec<(u64, u64)> =
            self.regions.iter().filter(|region| region.3).map(|&(start, end, ..)| (start, end)).collect();
        traced.sort_unstable();
        traced.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            last.1 = if joins { last.1.max(next.1) } else { last.1 };
            joins
        });
        let is_watched = |start: u64, end: u64| {
            let at = traced.partition_point(|range| range.1 <= start);
            traced.get(at).is_some_and(|range| range.0 < end)
        };
        let mut left = ranges.filter(|&(_, start, len)| !is_watched(start, start.saturating_add(len)));
        let (expression, start, len) = left.next()?;
        let end = start.saturating_add(len);
        let kind =
            self.regions.iter().find(|(from, to, ..)| *from < end && start < *to).map(|region| region.2);
        let why = match kind {
            None => "the program never had memory there, so nothing was watched; where a program lies changes from run to run unless it is linked to fixed addresses".to_owned(),
            Some(kind) => format!("is {} memory, which is not watched; data, bss, heap and anonymous memory are; --tracer translate watches it, too", kind.name()),
        };
        Some((expression, why, left.count()))
    }

    /// Files whose debug information is damaged, one line each.
    pub fn damage(&self) -> Vec<String> {
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
            let process = Process { pid: 0, parent, resolver: None, stops: 0 };
            self.processes.entry(number).or_insert(process).resolver = Some(new);
        }
        let process = self.processes.get_mut(&number).expect("just entered");
        process.resolver.as_mut().expect("just made")
    }

    fn apply(&mut self, pool: &Pool, number: u32, heard: &Heard) -> Result<()> {
        match heard {
            Heard::Begins => {
                self.resolver(number);
            }
            Heard::Region(event) => {
                if event.change != RegionChange::Unmap {
                    let end = event.start.0.saturating_add(event.len);
                    self.regions.push((event.start.0, end, event.kind, event.traced));
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
                let mut place =
                    Place { resolver, pid: process.pid, is_first: number == 0, is_continued: &is_continued };
                self.report.hit(&mut place, hit)?;
            }
        }
        Ok(())
    }
}

impl<R: Report> Listener for Live<R> {
    fn process(&mut self, number: u32, pid: u32, parent: Option<u32>) {
        self.processes.insert(number, Process { pid, parent, resolver: None, stops: 0 });
    }

    fn hear(&mut self, process: u32, order: u64, heard: Heard) {
        self.queue.push((order, process, heard));
    }

    fn looked(&mut self, pool: &Pool) -> Result<bool> {
        // All that was heard until the last look, and what this one found of the same time.
        let last = self.queue.iter().take(self.ripe).map(|(order, ..)| *order).max();
        let mut queue = mem::take(&mut self.queue);
        // A process begins behind what its parent did until then.
        queue.sort_by_key(|(order, process, heard)| (*order, matches!(heard, Heard::Begins), *process));
        let now = last.map_or(0, |last| queue.partition_point(|(order, ..)| *order <= last));
        let rest = queue.split_off(now);
        for (_, process, heard) in &queue {
            self.apply(pool, *process, heard)?;
        }
        if !queue.is_empty() {
            self.report.pause()?;
        }
        self.ripe = rest.len();
        self.queue = rest;
        Ok(self.ripe > 0)
    }
}
