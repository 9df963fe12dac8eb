//! The coordinates of an event: its thread and process, the thread's own clock, and the order of the session.

/// A point on one thread's own clock: instructions executed where the tracer counts them, the number of the thread's
/// event otherwise. Never decreases within a thread.
pub type Cycle = u64;

/// A point in the session's one order of events that change what addresses mean. Starts at 1; 0 is "before all".
pub type Order = u64;

/// A process of the session, numbered from 0 in the order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ProcessId(pub u32);

/// A thread of the session, numbered from 0 in the order of appearance, unique across its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ThreadId(pub u32);
