//! Synchronisation: calls that order the actions of threads.

use crate::{Cycle, Order, VirtAddr, coded::coded};

coded! {
    /// What a synchronisation event orders. What a thread did before it gives something up happens before what another
    /// does after it takes the same up.
    SyncKind: u8 {
        /// The thread makes another one, or forks a process; `object` is the number under which that one says `Start`.
        Create = 0 "create",
        /// The thread begins; `value` is the handle by which others join it, 0 of a forked process.
        Start = 1 "start",
        /// The thread ends; `object` is its handle.
        Exit = 2 "exit",
        /// The thread has waited for the end of the one with the handle `object`.
        Join = 3 "join",
        /// Holds `object` alone from here on.
        Lock = 4 "lock",
        /// Holds `object` with other readers from here on.
        LockShared = 5 "lock shared",
        /// No longer holds `object`, alone or shared.
        Unlock = 6 "unlock",
        /// Gives something up to whoever acquires `object` afterwards.
        Release = 7 "release",
        /// Takes up what was released to `object`.
        Acquire = 8 "acquire",
        /// Comes to the barrier `object`.
        Arrive = 9 "arrive",
        /// Goes on after the barrier `object`: what came before it in all threads that arrived has happened.
        Depart = 10 "depart",
    }
}

impl SyncKind {
    /// Whether the event's order was drawn before its call did its work: what gives up. All others drew theirs afterwards.
    pub const fn gives_up(self) -> bool {
        matches!(self, Self::Create | Self::Exit | Self::Unlock | Self::Release | Self::Arrive)
    }
}

coded! {
    /// By what kind of call.
    SyncFunction: u8 {
        /// Threads: clone, pthread_create, pthread_join and their like.
        Thread = 0 "thread",
        /// Mutexes.
        Mutex = 1 "mutex",
        /// Readers-writer locks.
        RwLock = 2 "rwlock",
        /// Spin locks.
        Spin = 3 "spin",
        /// Condition variables.
        Condition = 4 "condition",
        /// Barriers.
        Barrier = 5 "barrier",
        /// Semaphores.
        Semaphore = 6 "semaphore",
        /// pthread_once.
        Once = 7 "once",
        /// Guards of static variables.
        Guard = 8 "guard",
        /// Futex system calls.
        Futex = 9 "futex",
        /// OpenMP's parallel regions, barriers, critical sections, locks and tasks.
        OpenMp = 10 "openmp",
        /// Reading and writing pipes, sockets, eventfds and message queues, and System V's semaphores; `object` is a number with bit 63.
        Descriptor = 11 "descriptor",
        /// Sending signals, and being sent them; `object` is a number with bit 63.
        Signal = 12 "signal",
    }
}

/// One synchronisation event of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sync {
    /// When, on the thread's own clock.
    pub cycle: Cycle,
    /// When, in the session; see [`SyncKind::gives_up`].
    pub order: Order,
    /// The address of the call.
    pub ip: VirtAddr,
    /// What it orders.
    pub kind: SyncKind,
    /// By what kind of call.
    pub function: SyncFunction,
    /// What about: the address of a lock, or a number where there is none.
    pub object: VirtAddr,
    /// Depends on the kind; zero where nothing is said.
    pub value: u64,
}
