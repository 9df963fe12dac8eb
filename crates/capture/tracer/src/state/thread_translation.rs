//! A thread's state in the code cache. Types only: the code that uses them is in room `translate`.

use buffers::flow::Live;
use memref::{AllocationFunction, AllocationKind, BlockKind, SyncFunction, SyncKind};
use tracee::frame::SigInfo;

use crate::state::known_code::KnownCodes;

const HOOKS: usize = 8;

/// A call that reads items from a stream, or writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamCall {
    pub(crate) kind: BlockKind,
    /// Where the items are.
    pub(crate) addr: u64,
    /// Bytes of one.
    pub(crate) item_bytes: u64,
}

/// A function that is one event, and runs.
#[derive(Clone, Copy)]
pub(crate) struct Hook {
    pub(crate) return_to: u64,
    /// The stack pointer after its return.
    pub(crate) rsp: u64,
    /// What it does itself is the program's, and is recorded.
    pub(crate) is_above: bool,
    /// What its return means; `None` where it is no event.
    pub(crate) event: Option<(AllocationKind, AllocationFunction)>,
    pub(crate) len: u64,
    pub(crate) old: u64,
    /// Where posix_memalign leaves the block.
    pub(crate) place: u64,
    /// Where there are watchpoints: what it does to a block.
    pub(crate) stream: Option<StreamCall>,
}

impl Hook {
    pub(crate) const NONE: Self =
        Self { return_to: 0, rsp: 0, is_above: false, event: None, len: 0, old: 0, place: 0, stream: None };
}

/// What tells signals apart that are not queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalKey {
    pub(crate) signal: i32,
    /// The number of the timer that sent it; zero where none did.
    pub(crate) timer: i32,
}

/// Signals that came one after the other, each as soon as the handler of the last one returned.
#[derive(Clone, Copy)]
pub(crate) struct SignalRun {
    /// Where in the cache the program would go on.
    pub(crate) at: u64,
    /// The first one, and how often it came.
    pub(crate) first: SignalKey,
    pub(crate) count: u32,
}

impl SignalRun {
    pub(crate) const NONE: Self = Self { at: 0, first: SignalKey { signal: 0, timer: 0 }, count: 0 };

    /// Whether one more shows that they come faster than handlers return. A signal that is not queued can be pending for the
    /// thread, for its process, and here: one that comes more often was sent meanwhile. Those that are queued come, as
    /// natively, before the program goes on, however many they are.
    pub(crate) fn is_endless(&mut self, signal: i32, info: &SigInfo) -> bool {
        const FIRST_QUEUED: i32 = 32;
        let of_timer = info.code == libc::SI_TIMER;
        if signal >= FIRST_QUEUED && !of_timer {
            return false;
        }
        // A timer's number is in the place of an address.
        let key = SignalKey { signal, timer: if of_timer { info.addr as i32 } else { 0 } };
        if self.count == 0 {
            self.first = key;
        }
        self.count += u32::from(self.first == key);
        self.count > 3
    }
}

/// What a thread is in the code cache.
pub(crate) struct ThreadTranslation {
    /// Its words in shared memory; null where nothing is translated.
    pub(crate) live: *const Live,
    /// It runs in the cache.
    pub(crate) running: bool,
    /// The number of its next buffer.
    pub(crate) sequence: u32,
    /// What the cache said last.
    pub(crate) known: KnownCodes,
    /// Where in the cache the present system call was made.
    pub(crate) call: u64,
    /// It runs under the trap flag to the next instruction of the program, with signals waiting.
    pub(crate) stepping: bool,
    pub(crate) step_mask: u64,
    /// Where the program went on after its last handler, and what came there instead of its next instruction.
    pub(crate) resumed: u64,
    pub(crate) run: SignalRun,
    /// Instructions that it is still to execute with signals waiting.
    pub(crate) progress: u32,
    /// How often that number was doubled since signals last came slowly.
    pub(crate) doublings: u32,
    /// The next one stores the flags.
    pub(crate) stores_flags: bool,
    /// A system call was reached so, and did not begin because of a signal.
    pub(crate) starved: bool,
    pub(crate) interrupted: bool,
    /// It was kicked while it was at work in a handler of ours, at whose end it is to be looked after.
    pub(crate) kicked: bool,
    pub(crate) hooks: [Hook; HOOKS],
    pub(crate) depth: usize,
    /// Where on the stack the return address is of the call that left a note.
    pub(crate) noted_at: u64,
    /// Calls that synchronise and have not returned.
    pub(crate) calls: OpenCalls,
    /// A function of ours that runs in the place of the program's call.
    pub(crate) own_call: Option<OwnCall>,
    /// Whether its thread-local variables are watched, and where its base of fs is then.
    pub(crate) locals: Option<u64>,
}

/// A function of ours that the program called, before it ran.
#[derive(Clone, Copy)]
pub(crate) struct OwnCall {
    /// The program's registers, at the real function.
    pub(crate) gregs: x86::Registers,
    pub(crate) silent: u32,
    pub(crate) allocating: u32,
}

impl ThreadTranslation {
    pub(crate) const NONE: Self = Self {
        live: core::ptr::null(),
        running: false,
        sequence: 0,
        known: KnownCodes::NONE,
        call: 0,
        stepping: false,
        kicked: false,
        step_mask: 0,
        resumed: 0,
        run: SignalRun::NONE,
        progress: 0,
        doublings: 0,
        stores_flags: false,
        starved: false,
        interrupted: false,
        hooks: [Hook::NONE; HOOKS],
        depth: 0,
        noted_at: 0,
        calls: OpenCalls::NONE,
        own_call: None,
        locals: None,
    };

    pub(crate) fn live(&self) -> Option<&'static Live> {
        // SAFETY: null, or a slot of the pool, which stays mapped.
        unsafe { self.live.as_ref() }
    }

    /// Where the words are that its code shares with the recorder: the base of gs; zero: it has none.
    pub(crate) fn words_at(&self) -> u64 {
        self.live().map_or(0, |live| &raw const *live as u64)
    }

    /// A handler of the program returns to that address.
    pub(crate) fn note_return(&mut self, rip: u64) {
        self.resumed = rip;
        if self.run.at != rip {
            self.run = SignalRun { at: rip, ..SignalRun::NONE };
        }
    }

    /// Whether it is on its way to the next instruction of the program.
    pub(crate) fn is_stepping(&self) -> bool {
        self.stepping
    }

    /// Whether a sleep ends before it began, because signals come faster than the program gets anywhere.
    pub(crate) fn interrupts(&mut self, number: u64) -> bool {
        let sleeps = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_pause];
        self.interrupted = self.starved && sleeps.iter().any(|&sleep| sleep as u64 == number);
        self.interrupted
    }

    /// Whether the present system call was a sleep that ended so.
    pub(crate) fn take_interrupted(&mut self) -> bool {
        self.starved = false;
        core::mem::take(&mut self.interrupted)
    }

    /// Whether the thread runs in the cache.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }
}

/// Calls of one thread that have not returned.
pub(crate) const PENDING: usize = 64;

/// When a call has taken something up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Good {
    Zero,
    /// Also EOWNERDEAD.
    Locked,
    NotZero,
    Always,
}

impl Good {
    pub(crate) fn is(self, result: u64) -> bool {
        let result = result as i32;
        match self {
            Self::Zero => result == 0,
            Self::Locked => matches!(result, 0 | libc::EOWNERDEAD),
            Self::NotZero => result != 0,
            Self::Always => true,
        }
    }
}

/// What is told when a call returns, or a body.
#[derive(Clone, Copy)]
pub(crate) enum After {
    Nothing,
    /// This, where the result is good.
    Tell(SyncKind, SyncFunction, Good),
    Waited {
        lock: u64,
    },
    TeamBarrier,
    /// The calling thread's team is that one again.
    RegionDone {
        body: usize,
        outer: u64,
    },
    OnceDone {
        body: usize,
    },
    /// A value other than zero was handed over.
    CopyStart,
    /// A body: its team is told. The thread stays in the team, because tasks run at the barrier after the body.
    Body,
    /// A routine that ran once.
    Routine,
}

#[derive(Clone, Copy)]
pub(crate) struct OpenCall {
    pub(crate) return_to: u64,
    /// The stack pointer after the return.
    pub(crate) rsp: u64,
    pub(crate) object: u64,
    pub(crate) ip: u64,
    pub(crate) after: After,
}

/// The calls of a thread that have not returned.
pub(crate) struct OpenCalls {
    pub(crate) list: [OpenCall; PENDING],
    pub(crate) len: usize,
}

impl OpenCalls {
    pub(crate) const NONE: Self = Self {
        list: [OpenCall { return_to: 0, rsp: 0, object: 0, ip: 0, after: After::Nothing }; PENDING],
        len: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_endless_when_it_came_more_often_than_it_can_be_pending() {
        let mut run = SignalRun::NONE;
        let timer = |number: u64| SigInfo::fault(libc::SIGALRM, libc::SI_TIMER, number);
        let user = SigInfo::fault(libc::SIGUSR1, 0, 0);
        let endless: Vec<bool> = (0..5).map(|_| run.is_endless(libc::SIGUSR1, &user)).collect();
        assert_eq!(endless, [false, false, false, true, true]);
        // Another signal between them does not count, and neither does that of another timer.
        let mut run = SignalRun::NONE;
        for _ in 0..3 {
            assert!(!run.is_endless(libc::SIGALRM, &timer(1)));
            assert!(!run.is_endless(libc::SIGALRM, &timer(2)));
            assert!(!run.is_endless(libc::SIGUSR1, &user));
        }
        assert!(run.is_endless(libc::SIGALRM, &timer(1)));
        // Queued ones all come before the program goes on.
        let mut run = SignalRun::NONE;
        assert!((0..10).all(|_| !run.is_endless(40, &SigInfo::fault(40, -1, 0))));
    }
}
