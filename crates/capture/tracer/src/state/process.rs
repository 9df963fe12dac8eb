//! The tracer's state of the process.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use buffers::Pool;
use tracee::sys;

use crate::state::settings::Settings;

/// The process.
pub(crate) struct TracedProcess {
    /// Everything below is set. Written once, by the constructor.
    pub(crate) ready: AtomicBool,
    /// Accesses are recorded just now. Written by start and stop.
    pub(crate) recording: AtomicBool,
    /// There are watchpoints, and no recording. Written by the constructor, once they are known.
    pub(crate) watched: AtomicBool,
    /// Its number in the session, and its pid. Written by the constructor and in forked children.
    pub(crate) number: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// Pids of processes that share this one's memory like threads (clone with CLONE_VM alone), and zeros. Each written by
    /// its process.
    pub(crate) sharers: [AtomicU32; 64],
    /// There is, or was, something that runs natively with the thread pointer of a traced thread. Written by its creator.
    pub(crate) strangers: AtomicBool,
    /// The pool's address.
    pub(crate) pool: AtomicUsize,
    /// Settings, written by the constructor.
    pub(crate) settings: UnsafeCell<Settings>,
    /// Our own code: addresses of the first byte, and of the first one after it.
    pub(crate) text: [AtomicU64; 2],
    /// Where the static executable that this process is begins, and its stack pointer there; zeros where it is none. Written once, by
    /// the constructor.
    pub(crate) image_entry: [AtomicU64; 2],
    /// Threads of this process that were created and have not ended.
    pub(crate) live_threads: AtomicU32,
    /// All thread states ever made, linked by `TracedThread::next`.
    pub(crate) threads: AtomicUsize,
}

// SAFETY: `settings` is written by the constructor alone, before any other thread exists, and only read afterwards; all
// other fields are atomics or locks.
unsafe impl Sync for TracedProcess {}

pub(crate) static PROCESS: TracedProcess = TracedProcess {
    ready: AtomicBool::new(false),
    recording: AtomicBool::new(false),
    watched: AtomicBool::new(false),
    number: AtomicU32::new(u32::MAX),
    pid: AtomicU32::new(0),
    sharers: [const { AtomicU32::new(0) }; 64],
    strangers: AtomicBool::new(false),
    pool: AtomicUsize::new(0),
    settings: UnsafeCell::new(Settings::NONE),
    text: [AtomicU64::new(0), AtomicU64::new(0)],
    image_entry: [AtomicU64::new(0), AtomicU64::new(0)],
    live_threads: AtomicU32::new(1),
    threads: AtomicUsize::new(0),
};
impl TracedProcess {
    /// The settings.
    pub(crate) fn settings(&self) -> &Settings {
        // SAFETY: written only by the constructor, see `Sync`.
        unsafe { &*self.settings.get() }
    }

    /// The pool, once the process is connected.
    pub(crate) fn pool(&self) -> Option<Pool> {
        let base = self.pool.load(Ordering::Acquire) as *mut u8;
        // SAFETY: the constructor stored the address of a mapped pool, which stays mapped for ever.
        (!base.is_null()).then(|| unsafe { Pool::new(base) })
    }

    /// Whether accesses are recorded just now.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Acquire)
    }

    /// Whether there are watchpoints instead of a recording.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Where the static executable begins, and its stack pointer there; `None` where the process is none.
    pub(crate) fn image_entry(&self) -> Option<(u64, u64)> {
        let [entry, stack] = self.image_entry.each_ref().map(|word| word.load(Ordering::Relaxed));
        (entry != 0).then_some((entry, stack))
    }

    /// Whether an address lies in our own code.
    pub(crate) fn owns_code(&self, ip: u64) -> bool {
        (self.text[0].load(Ordering::Relaxed)..self.text[1].load(Ordering::Relaxed)).contains(&ip)
    }

    /// Whether this is a child that shares the memory of `thread`'s process (vfork) and has not called exec yet.
    pub(crate) fn is_vfork_child(&self) -> bool {
        !self.is_own(sys::getpid())
    }

    /// Whether it has other threads than the calling one.
    pub(crate) fn is_threaded(&self) -> bool {
        self.live_threads.load(Ordering::Relaxed) > 1
    }

    /// Whether nobody but the calling thread needs the handlers of signals: no other thread, and no process with this memory.
    pub(crate) fn has_handlers_alone(&self) -> bool {
        let no_sharer = || self.sharers.iter().all(|sharer| sharer.load(Ordering::Relaxed) == 0);
        !self.is_threaded() && !self.is_vfork_child() && no_sharer()
    }

    /// Whether threads of that process are in the list of this one's.
    pub(crate) fn is_own(&self, pid: u32) -> bool {
        pid == self.pid.load(Ordering::Relaxed)
            || self.sharers.iter().any(|sharer| sharer.load(Ordering::Relaxed) == pid)
    }

    /// The calling process shares this one's memory, and has states of its own. `false`: there are too many.
    pub(crate) fn begin_sharer(&self) -> bool {
        let own = sys::getpid();
        self.sharers.iter().any(|sharer| {
            let former = sharer.load(Ordering::Relaxed);
            !exists(former)
                && sharer.compare_exchange(former, own, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }

    /// Whether a thread's pointer to its state may be another one's.
    #[inline]
    pub(crate) fn has_strangers(&self) -> bool {
        self.strangers.load(Ordering::Relaxed)
    }

    /// Whether there is such a process just now.
    pub(crate) fn has_sharer(&self) -> bool {
        self.sharers.iter().any(|sharer| exists(sharer.load(Ordering::Relaxed)))
    }

    /// That process does not: a vfork child with the pid of one that was killed.
    pub(crate) fn end_sharer(&self, pid: u32) {
        for sharer in &self.sharers {
            let _ = sharer.compare_exchange(pid, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Whether there is a process of that number; zero is none's.
fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    pid != 0 && !sys::failed(unsafe { sys::syscall(libc::SYS_kill as usize, [pid as usize, 0, 0, 0, 0, 0]) })
}
