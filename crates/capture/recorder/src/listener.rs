//! Listeners: informed at once of what happens while the program runs.

use buffers::Pool;
use memref::{AccessKind, Allocation, RegionEvent, VirtAddr};

use crate::Error;

/// An access to watched bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its thread, as the session numbers them.
    pub thread: u32,
    /// The thread's events so far.
    pub cycle: u64,
    /// The instruction.
    pub ip: VirtAddr,
    /// What is done to the bytes.
    pub kind: AccessKind,
    /// The first of them that is watched.
    pub addr: VirtAddr,
    /// The number of what was asked for.
    pub watch: u32,
    /// Whether the process stops until it is continued.
    pub stops: bool,
    /// What the first eight bytes held before, where that is known.
    pub old: Option<u64>,
    /// What they hold now.
    pub new: u64,
    /// The stack, the innermost frame first.
    pub stack: Vec<VirtAddr>,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The process begins: with what its parent has now, or with nothing.
    Begins,
    /// A region changed.
    Region(RegionEvent<String>),
    /// A block was allocated or released.
    Allocation(Allocation),
    /// Watched bytes were accessed.
    Hit(Hit),
}

/// It is told of events in the order in which they are read, which need not be that of the session; the events that an
/// event refers to are read before the second next call of [`Listener::looked`].
pub(crate) trait Listener {
    /// A process of the session appeared.
    fn process(&mut self, number: u32, pid: u32, parent: Option<u32>);

    /// Something happened in one of them, at that point of the session's order.
    fn hear(&mut self, process: u32, order: u64, heard: Heard);

    /// All was read that was there. Whether this wants to be called once more without a pause.
    fn looked(&mut self, pool: &Pool) -> Result<bool, Error>;
}
