//! The interface of all watchpoint units.

use std::ops::Range;

use memref::{AccessKind, ThreadId};

use crate::change::{Change, Origin};
use crate::kind::UnitKind;
use crate::{CostModel, Counters, Cycles, Watched};

/// Something that watches bytes for each thread separately. Nothing is watched at first. Ranges are of bytes, end excluded;
/// an empty one changes nothing.
pub trait WatchpointUnit: Send {
    /// Which design it is.
    fn kind(&self) -> UnitKind;

    /// Whether an access of `thread` hits a watchpoint: it touches a byte that is watched for it.
    fn check(&mut self, thread: ThreadId, addr: u64, len: u64, kind: AccessKind) -> bool;

    /// Changes the watchpoints of `thread`. The methods below are the instructions of Table 2 by name.
    fn change(&mut self, thread: ThreadId, range: Range<u64>, change: Change, origin: Origin);

    /// What it had to do so far.
    fn counters(&self) -> &Counters;

    /// What that costs, in cycles (section 4.1.1).
    fn cost(&self, model: &CostModel) -> Cycles {
        model.cycles(self.kind(), self.counters())
    }

    /// `set local wp`.
    fn set(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Set(watched), Origin::Local);
    }

    /// `add local wp`.
    fn add(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Add(watched), Origin::Local);
    }

    /// `rm local wp`.
    fn remove(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Remove(watched), Origin::Local);
    }

    /// `set remote wp`.
    fn set_remote(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Set(watched), Origin::Remote);
    }

    /// `add remote wp`.
    fn add_remote(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Add(watched), Origin::Remote);
    }

    /// `rm remote wp`.
    fn remove_remote(&mut self, thread: ThreadId, range: Range<u64>, watched: Watched) {
        self.change(thread, range, Change::Remove(watched), Origin::Remote);
    }
}
