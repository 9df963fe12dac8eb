//! The profiler in a process that ran already: what differs from one that was preloaded.
//!
//! Symbols of this library stand in for nobody's here, so the functions around which real return addresses have to be
//! on the stack get probes of their own ([`watch_unwinder`]). And it ends before the program does, in two steps:
//! [`end`], made by the epoch thread, switches all probes off and writes the profile; [`settle`], called by the process
//! that attached while it has all threads stopped, puts the last return addresses back. What stays is the library
//! itself, mapped and idle; the next attachment uses it again.

use super::{dump, epoch, probe_modules, set_settings, settings::Settings, window};
use crate::{
    ProbeId, module,
    provider::{self, entry, pun},
    registry, shadow, thread, trampoline,
};
use patch::{near, pages, trap};
use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};

/// Never attached, or left clean.
pub const IDLE: u32 = 0;
/// Probes are being made.
pub const STARTING: u32 = 1;
/// Probes are on.
pub const RUNNING: u32 = 2;
/// Written by the process that attached: the epoch thread is to end.
pub const STOPPING: u32 = 3;
/// Probes are off and the profile is written; [`settle`] is still to come.
pub const STOPPED: u32 = 4;
/// The settings could not be read, or no thread could be made.
pub const FAILED: u32 = 5;
/// The unwinder could not be watched: exceptions would meet replaced return addresses.
pub const UNSAFE: u32 = 6;

/// Where the attachment stands; written by this library, and as [`STOPPING`] by the process that attached.
pub static STATE: AtomicU32 = AtomicU32::new(IDLE);
/// Whether some unwinder has no probe. Written by discovery.
static UNWATCHED: AtomicBool = AtomicBool::new(false);

/// Starts the profiler in a thread of its own; the state says how it went. Called on a thread of the program that was
/// borrowed for the call.
pub fn start(text: &str) {
    let starts = [IDLE, FAILED]
        .into_iter()
        .any(|from| STATE.compare_exchange(from, STARTING, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    if !starts {
        return;
    }
    let Some(settings) = Settings::from_text(text) else {
        STATE.store(FAILED, Ordering::Release);
        return;
    };
    let quiet = patch::sys::SignalsBlocked::for_helper();
    let spawned = std::thread::Builder::new().name("memtap-attach".to_owned()).spawn(|| {
        trampoline::set_guard(usize::MAX);
        begin(settings);
    });
    drop(quiet);
    if spawned.is_err() {
        STATE.store(FAILED, Ordering::Release);
    }
}

fn begin(settings: Settings) {
    set_settings(settings);
    thread::prepare();
    thread::clear_counts();
    window::restart();
    dump::note_start();
    registry::set_discovery_callback(Some(super::on_discovery));
    let mut fresh = module::refresh().fresh;
    // Reading files takes its time: better without the loader's lock.
    for module in modules().filter_map(module::module) {
        let _ = module.symbols();
    }
    let (known, seen) = module::with_loader_locked(|_| {
        let look = module::refresh();
        fresh.extend(look.fresh);
        pages::seal(false);
        trap::ensure_installed();
        for index in modules() {
            module::while_loaded(index, |_| watch_unwinder(index));
        }
        ((!UNWATCHED.load(Ordering::Relaxed)).then(switch_on_again), look.generation)
    });
    let Some(known) = known else {
        STATE.store(UNSAFE, Ordering::Release);
        return;
    };
    let old: Vec<u32> = modules().filter(|i| !fresh.contains(i)).collect();
    probe_modules(&fresh, &HashSet::new());
    probe_modules(&old, &known);
    STATE.store(RUNNING, Ordering::Release);
    epoch::start(seen);
}

fn modules() -> impl Iterator<Item = u32> {
    (0..).take_while(|index| module::module(*index).is_some())
}

/// Switches the wanted probes of an earlier attachment on; the names of all that have probes.
fn switch_on_again() -> HashSet<String> {
    let Some(settings) = super::settings() else { return HashSet::new() };
    let mut wanted: Vec<ProbeId> = Vec::new();
    let mut known = HashSet::new();
    for function in 0..registry::function_count() {
        let probes: Vec<ProbeId> = registry::probes_of(function).filter(|id| !is_watch(*id)).collect();
        if probes.is_empty() {
            continue;
        }
        let (name, _) = registry::function_name(function);
        if settings.wants(&name) {
            probes.iter().for_each(|id| super::on_discovery(*id));
            wanted.extend(probes);
        }
        known.insert(name);
    }
    registry::switch_all(&wanted, true);
    known
}

/// Whether the process that attached has gone, or asks for the end.
pub(super) fn is_over(controller: u32) -> bool {
    // SAFETY: signal 0 asks whether the process is there.
    let gone = unsafe { libc::kill(controller as i32, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    gone || STATE.load(Ordering::Acquire) == STOPPING
}

/// Switches everything off and writes the profile. Called by the epoch thread, which then ends.
pub(super) fn end() {
    {
        let _pass = epoch::hold();
        let all: Vec<ProbeId> =
            (0..registry::probe_count()).map(ProbeId).filter(|id| !is_watch(*id)).collect();
        // A probe that another thread is switching off just now is refused: again.
        for _ in 0..100 {
            let on: Vec<ProbeId> = all.iter().copied().filter(|id| registry::is_active(*id)).collect();
            if on.is_empty() {
                break;
            }
            module::with_loader_locked(|_| {
                module::refresh();
                registry::switch_all(&on, false);
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        all.iter().for_each(|id| registry::silence(*id));
    }
    // A controller that died took its directory along, maybe.
    if STATE.load(Ordering::Acquire) == STOPPING {
        dump::write();
    }
    STATE.store(STOPPED, Ordering::Release);
}

/// Puts back the return addresses that are still replaced, the unwinder, the SIGTRAP handler and the rights of code
/// pages. `program_counters` are those of all threads. `false`: some thread is in the middle of a hit; let them run and
/// ask again.
///
/// # Safety
/// All other threads must be stopped, and stay so during the call.
pub unsafe fn settle(program_counters: &[usize]) -> bool {
    if STATE.load(Ordering::Acquire) != STOPPED {
        return false;
    }
    if thread::any_in_handler() || program_counters.iter().any(|pc| is_inside(*pc)) {
        return false;
    }
    // SAFETY: the caller stopped all threads, and none is in a handler.
    unsafe { thread::restore_all() };
    for id in (0..registry::probe_count()).map(ProbeId).filter(|id| is_watch(*id)) {
        let _ = registry::switch(id, false);
    }
    trap::give_back();
    pages::seal(true);
    STATE.store(IDLE, Ordering::Release);
    true
}

/// Whether `addr` belongs to this library, or to code that it made.
fn is_inside(addr: usize) -> bool {
    let own = module::place(patch::CodeAddr(settle as *const () as usize)).module;
    let at = module::place(patch::CodeAddr(addr)).module;
    at == own && own != u32::MAX || near::contains(addr) || pun::contains(addr)
}

/// Functions before which the real return addresses are put back.
const BEFORE: [&str; 5] = [
    "_Unwind_RaiseException",
    "_Unwind_Resume_or_Rethrow",
    "_Unwind_Resume",
    "_Unwind_Backtrace",
    "pthread_exit",
];
/// A function at which they are replaced again, in the frames that live on.
const AFTER: &str = "__cxa_begin_catch";

extern "C" fn before_unwinding(_id: u32, frame: *mut usize) {
    shadow::restore(frame.wrapping_add(1) as usize);
}

extern "C" fn after_unwinding(_id: u32, frame: *mut usize) {
    shadow::replace_again(frame.wrapping_add(1) as usize);
}

fn is_watch(id: ProbeId) -> bool {
    registry::handler(id).is_some_and(|handler| {
        let at = handler as *const () as usize;
        at == before_unwinding as *const () as usize || at == after_unwinding as *const () as usize
    })
}

/// What even a preloaded library cannot stand in for: the C library calls it through a pointer of its own.
const CANCELLATION: &str = "_Unwind_ForcedUnwind";

/// Gives the unwinder's functions of a module probes that look after return addresses. In a process that the library was
/// preloaded into it is one function only: the library's own symbols stand before the others. The module must be loaded.
pub(super) fn watch_unwinder(index: u32) {
    let Some(module) = module::module(index) else { return };
    let was_attached = super::settings().is_some_and(|s| s.controller != 0);
    if !was_attached && !module.path.contains("/libgcc_s.so") {
        return;
    }
    let executable = entry::executable();
    for (at, symbol) in module.symbols().iter().enumerate() {
        let handler: registry::Handler = match symbol.name.as_str() {
            CANCELLATION => before_unwinding,
            name if was_attached && BEFORE.contains(&name) => before_unwinding,
            AFTER if was_attached => after_unwinding,
            _ => continue,
        };
        let addr = patch::CodeAddr(module.bias + symbol.offset);
        let known = registry::probe_at(addr).filter(|id| is_watch(*id));
        let id = known.or_else(|| provider::entry::probe_one(module, at, &executable).ok());
        let switched = id.is_some_and(|id| registry::activate(id, handler).is_ok());
        if !switched {
            UNWATCHED.store(true, Ordering::Relaxed);
        }
    }
}
