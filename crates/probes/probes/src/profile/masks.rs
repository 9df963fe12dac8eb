//! Keeps SIGTRAP deliverable in an attached process: a thread that blocks it is killed by an `int3`, which may be
//! a probe or the guard of a straddler. The functions by which a program blocks signals get probes that remove
//! SIGTRAP from their argument. A preloaded library interposes these functions instead (`probes-preload`).

use super::settings;
use crate::{
    mask_copies::TRAP,
    module,
    provider::entry::{self, Traps},
    registry::Handler,
    thread,
};
use patch::{
    sys::{self, Action, action},
    trap,
};
use std::{
    collections::{HashMap, HashSet},
    fs, io,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Words of what `sigaction` is told, and which of them the set begins with.
const ACTION_WORDS: usize = size_of::<libc::sigaction>() / size_of::<u64>();
const ACTION_SET: usize = std::mem::offset_of!(libc::sigaction, sa_mask) / size_of::<u64>();

/// How many words below a hit's frame the trampoline keeps the registers of arguments ([`crate::saved_registers`]).
const RCX: usize = 3;
const RDX: usize = 4;
const RSI: usize = 5;
const RDI: usize = 6;
const R8: usize = 7;
const R9: usize = 8;

/// The argument in the register that is kept `register` words below `frame` becomes a copy of its `words` words without SIGTRAP.
fn take_trap_out(frame: *mut usize, register: usize, words: usize, set: usize) {
    // SAFETY: the trampoline keeps the registers there until it goes back, and restores them from there.
    let argument = unsafe { &mut *frame.sub(register) };
    if *argument == 0 {
        return;
    }
    let Some(thread) = thread::current() else { return };
    // SAFETY: what the program passes to this function of the C library, which reads as many words.
    let given = unsafe { std::slice::from_raw_parts(*argument as *const u64, words) };
    if given[set] & TRAP != 0
        && let Some(copy) = thread.mask_copies.without_trap(given, set)
    {
        *argument = copy;
    }
}

extern "C" fn before_set<const REGISTER: usize>(_id: u32, frame: *mut usize) {
    // The kernel takes one word, however long the C library's set is.
    take_trap_out(frame, REGISTER, 1, 0);
}

extern "C" fn before_action(_id: u32, frame: *mut usize) {
    // SAFETY: the trampoline keeps the registers there until it goes back, and restores them from there; the program passes actions
    // or nothing, as they are.
    unsafe {
        if *frame.sub(RDI) as i32 == libc::SIGTRAP {
            let (new, old) = (frame.sub(RSI), frame.sub(RDX));
            if trap::exchange(*new as *const libc::sigaction, *old as *mut libc::sigaction) {
                // Nothing is left to do.
                (*new, *old) = (0, 0);
            }
            return;
        }
    }
    take_trap_out(frame, RSI, ACTION_WORDS, ACTION_SET);
}

/// A function that takes a set of signals, and where it takes it from.
struct Taker {
    name: &'static str,
    handler: Handler,
}

/// Without these a trap is not safe. `sigaction` goes on to the one with the longer name, so that either of the two is enough.
const LASTING: [Taker; 4] = [
    Taker { name: "pthread_sigmask", handler: before_set::<RSI> },
    Taker { name: "sigprocmask", handler: before_set::<RSI> },
    Taker { name: ACTION, handler: before_action },
    Taker { name: "libc_sigaction", handler: before_action },
];
const ACTION: &str = "sigaction";
/// The sets of these hold for the time of a call: they matter to handlers of signals alone.
const PASSING: [Taker; 6] = [
    Taker { name: "sigsuspend", handler: before_set::<RDI> },
    Taker { name: "ppoll", handler: before_set::<RCX> },
    Taker { name: "ppoll_chk", handler: before_set::<RCX> },
    Taker { name: "pselect", handler: before_set::<R9> },
    Taker { name: "epoll_pwait", handler: before_set::<R8> },
    Taker { name: "epoll_pwait2", handler: before_set::<R8> },
];

/// The C library's names for itself have underscores before them.
fn find<'t>(takers: &'t [Taker], name: &str) -> Option<&'t Taker> {
    let name = name.trim_start_matches('_');
    takers.iter().find(|taker| taker.name == name)
}

/// Whether the function of this name gets, or would get, a probe of this file's.
pub(super) fn watches(name: &str) -> bool {
    settings::is_attached() && (find(&LASTING, name).is_some() || find(&PASSING, name).is_some())
}

/// Gives the C library's functions their probes, if this module is it, in a process that was attached to. Where that is not
/// possible, no function gets a trap. The module must be loaded.
pub(super) fn watch(index: u32) {
    let Some(module) = module::module(index).filter(|m| settings::is_attached() && m.is_c_library()) else {
        return;
    };
    let executable = entry::executable();
    let mut is_action_watched = false;
    let is_action = |taker: &Taker| taker.name.ends_with(ACTION);
    let mut found: Vec<_> = module
        .symbols()
        .iter()
        .enumerate()
        .filter_map(|(at, symbol)| {
            let lasting = find(&LASTING, &symbol.name);
            Some((at, lasting, lasting.or_else(|| find(&PASSING, &symbol.name))?))
        })
        .collect();
    // First: each of the others has guards for a moment.
    found.sort_by_key(|(.., taker)| !is_action(taker));
    for (at, lasting, taker) in found {
        let is_watched = entry::watch(module, at, &executable, Traps::Forbidden, taker.handler);
        match lasting {
            Some(lasting) if is_action(lasting) => is_action_watched |= is_watched,
            Some(_) if !is_watched => entry::forbid_traps(),
            _ => {}
        }
    }
    if !is_action_watched {
        entry::forbid_traps();
    }
    open_actions();
}

/// How long the threads of a process that was attached to may take until SIGTRAP is open in all of them.
const OPENING: Duration = Duration::from_millis(500);
/// A thread that has executed for so many nanoseconds has left the few instructions between the entry of a function that is watched
/// and its system call, which nothing but the entry changes.
const PASSED_NS: u64 = 50_000;

/// Waits until every thread has left the code that it executed with SIGTRAP blocked since before [`watch`]. Where one goes on to
/// execute so, no function gets a trap; one that only waits in the kernel all the time, as jemalloc's thread in the background, is
/// let be (docs/probes.md, *Limits*).
pub(super) fn wait_until_open() {
    let deadline = Instant::now() + OPENING;
    let mut threads = Opening::default();
    while !threads.look().unwrap_or(false) {
        if Instant::now() > deadline {
            if threads.rest_waits {
                return;
            }
            entry::forbid_traps();
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The threads of the process, on their way to have SIGTRAP open.
#[derive(Default)]
struct Opening {
    /// For how many nanoseconds each had executed when it was seen first; `None`: the kernel does not tell.
    first: HashMap<String, Option<u64>>,
    /// Those whose every later change of the mask is seen, and which have it open.
    open: HashSet<String>,
    /// Whether all others have waited since they were seen first.
    rest_waits: bool,
}

impl Opening {
    /// Looks at each thread; whether all are there.
    fn look(&mut self) -> io::Result<bool> {
        // SAFETY: gettid has no arguments.
        let own = unsafe { sys::syscall(libc::SYS_gettid, [0; 6]) }.to_string();
        let mut all = true;
        self.rest_waits = true;
        for task in fs::read_dir("/proc/self/task")? {
            let task = task?;
            let name = task.file_name().to_string_lossy().into_owned();
            if name == own || self.open.contains(&name) {
                continue;
            }
            // Before the mask is looked at, which then is one that was set later.
            let schedstat = fs::read_to_string(task.path().join("schedstat")).ok();
            let executed = schedstat.and_then(|text| text.split(' ').next()?.parse().ok());
            // One that has ended meanwhile has nothing.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let first = *self.first.entry(name.clone()).or_insert(executed);
            let has_passed = match (first, executed) {
                (Some(first), Some(now)) => now >= first + PASSED_NS,
                _ => true,
            };
            if is_open(&status) && (has_passed || waits(&status)) {
                self.open.insert(name);
            } else {
                all = false;
                self.rest_waits &= waits(&status) && first.is_some() && first == executed;
            }
        }
        Ok(all)
    }
}

fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start)
}

/// Whether a thread has SIGTRAP open, as its `status` tells.
fn is_open(status: &str) -> bool {
    let blocked = field(status, "SigBlk:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    blocked.is_some_and(|mask| mask & TRAP == 0)
}

/// Whether a thread waits in the kernel.
fn waits(status: &str) -> bool {
    field(status, "State:").is_some_and(|state| state.starts_with('S'))
}

/// Signals whose handlers ran with SIGTRAP blocked before, a bit each. Written at the beginning and at the end of an attachment.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Has the handlers that the program installed before run with SIGTRAP open.
fn open_actions() {
    for signal in 1..=64 {
        if let Some(installed) = action(signal, None).filter(|installed| installed.mask & TRAP != 0)
            && action(signal, Some(&Action { mask: installed.mask & !TRAP, ..installed })).is_some()
        {
            OPENED.fetch_or(1 << (signal - 1), Ordering::Relaxed);
        }
    }
}

/// Has these handlers run as before; neither waits nor allocates.
pub(super) fn put_actions_back() {
    let opened = OPENED.swap(0, Ordering::Relaxed);
    for signal in (1..=64).filter(|signal| opened >> (signal - 1) & 1 != 0) {
        if let Some(installed) = action(signal, None) {
            action(signal, Some(&Action { mask: installed.mask | TRAP, ..installed }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_blocks_is_in_its_status() {
        let status = |state: &str, blocked: &str| format!("Name:\tx\nState:\t{state}\nSigBlk:\t{blocked}\n");
        let runs = status("R (running)", "0000000000000010");
        assert!(!is_open(&runs) && !waits(&runs));
        let waiting = status("S (sleeping)", "fffffffffffbffef");
        assert!(is_open(&waiting) && waits(&waiting));
        assert!(!is_open("Name:\tx\n"));
    }

    #[test]
    fn threads_that_block_sigtrap_are_waited_for() {
        let (block, blocks) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: the set is a local; an empty one is zeros.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGTRAP);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            }
            block.send(()).unwrap();
            let _ = ended.recv();
        });
        blocks.recv().unwrap();
        let mut threads = Opening::default();
        for _ in 0..10 {
            assert!(!threads.look().unwrap());
        }
        drop(end);
        thread.join().unwrap();
    }
}
