//! Rows of `accesses` with the number of the stack in which each was made. The stacks of a thread follow from all that it did
//! before, and a forked process's from what its parent did: everything is replayed from the beginning, up to the last row.

use std::collections::BTreeMap;
use std::ops::Range;

use analysis::stack::{NumberedStacks, StackNumber};
use analysis::{Moment, Session, Tool, has_stacks};
use memref::{Access, Event, ThreadId};

use crate::access_rows::{AccessRows, PlacedAccesses, has_context};
use crate::{Error, Scan};

/// What a scan wants of one thread.
#[derive(Debug, Default)]
struct WantedOfThread {
    /// Its accesses that were told so far.
    told: u64,
    /// Those in frames that a scan without contexts reads, by their numbers.
    frames: Vec<Range<u64>>,
    /// Whether the scan asks for times, which frames have and accesses have not.
    is_by_time: bool,
}

impl WantedOfThread {
    fn end(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.end)
    }

    fn has(&self, index: u64) -> bool {
        let place = self.frames.partition_point(|frame| frame.end <= index);
        !self.is_by_time || self.frames.get(place).is_some_and(|frame| frame.contains(&index))
    }
}

/// Whether a scan asks for contexts, and the trace has them.
pub(crate) fn is_in_context(session: &Session, scan: &Scan) -> bool {
    has_context(scan) && has_stacks(session)
}

/// Follows the stacks, and passes on the accesses that are wanted.
pub(crate) struct RowsInContext<'a, 'b> {
    scan: &'a Scan,
    rows: &'a mut AccessRows<'b>,
    stacks: NumberedStacks,
    wanted: BTreeMap<ThreadId, WantedOfThread>,
    /// Threads of which more is wanted.
    open: usize,
    numbers: Vec<StackNumber>,
    chosen: Vec<Access>,
    contexts: Vec<u64>,
    /// What went wrong, or that nobody wants more; it ends the replay.
    ended: Option<Result<(), Error>>,
}

impl<'a, 'b> RowsInContext<'a, 'b> {
    pub(crate) fn new(session: &Session, scan: &'a Scan, rows: &'a mut AccessRows<'b>) -> Self {
        let of_thread = |thread: ThreadId| {
            let frames = session.trace().shard(thread).access_frames(&scan.filter);
            let frames = frames.into_iter().filter(|frame| frame.is_read).map(|frame| frame.accesses);
            let is_by_time = scan.filter.wall_ns.is_some();
            (thread, WantedOfThread { told: 0, frames: frames.collect(), is_by_time })
        };
        let mut wanted: BTreeMap<_, _> = scan.threads_of(session).into_iter().map(of_thread).collect();
        wanted.retain(|_, wanted| !wanted.frames.is_empty());
        Self {
            scan,
            rows,
            stacks: NumberedStacks::new(session),
            open: wanted.len(),
            wanted,
            numbers: Vec::new(),
            chosen: Vec::new(),
            contexts: Vec::new(),
            ended: None,
        }
    }

    /// Reads all rows.
    pub(crate) fn read(mut self, session: &Session) -> Result<(), Error> {
        if self.open == 0 {
            return Ok(());
        }
        let replayed = session.replay(&trace_format::Filter::default(), None, &mut self);
        match self.ended {
            Some(ended) => ended,
            None => Ok(replayed.map(drop)?),
        }
    }

    /// The accesses of these that are wanted, with their contexts. Whether more are.
    fn push(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<bool, Error> {
        let Some(wanted) = self.wanted.get_mut(&at.thread) else { return Ok(true) };
        let (begin, end) = (wanted.told, wanted.end());
        wanted.told += accesses.len() as u64;
        let is_over = begin < end && end <= wanted.told;
        self.chosen.clear();
        self.contexts.clear();
        for ((index, access), number) in (begin..).zip(accesses).zip(&self.numbers) {
            if self.scan.filter.admits_access(index, access) && wanted.has(index) {
                self.chosen.push(*access);
                self.contexts.push(number.0);
            }
        }
        let placed = PlacedAccesses {
            process: at.process,
            thread: at.thread,
            accesses: &self.chosen,
            contexts: &self.contexts,
        };
        if !self.rows.push(placed, Some(at))? {
            return Ok(false);
        }
        self.open -= usize::from(is_over);
        Ok(self.open > 0)
    }
}

impl Tool for RowsInContext<'_, '_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), analysis::Error> {
        self.numbers.clear();
        self.stacks.accesses(at, accesses, &mut self.numbers);
        let ended = match self.push(at, accesses) {
            Ok(true) => return Ok(()),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        self.ended = Some(ended);
        Err(analysis::Error::Output(std::io::ErrorKind::Interrupted.into()))
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), analysis::Error> {
        self.stacks.event(at, event);
        Ok(())
    }
}
