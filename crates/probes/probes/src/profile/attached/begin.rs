//! Starts probing a process whose threads keep running meanwhile.

use super::{FAILED, IDLE, RUNNING, STARTING, STATE, UNSAFE, children};
use crate::{
    ProbeId,
    error::Reason,
    module,
    profile::{
        discovery, dump, epoch, helper, masks, pass,
        settings::{self, Settings},
        unprobed, unwinder, window,
    },
    provider::{Unprobed, entry, pun},
    registry, thread, thread_end, thread_words,
};
use patch::{near, pages, trap};
use std::{collections::HashSet, sync::atomic::Ordering};

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
        thread_words::set_guard(thread_words::MUTED);
        begin(settings);
    });
    drop(quiet);
    if spawned.is_err() {
        STATE.store(FAILED, Ordering::Release);
    }
}

fn begin(settings: Settings) {
    settings::set(settings);
    thread_end::prepare();
    thread::clear_counts();
    window::restart();
    children::begin();
    helper::note_start();
    dump::note_start();
    let mut fresh = module::refresh().fresh;
    // Reading files takes its time: better without the loader's lock, and while the process may fork.
    for module in modules().filter_map(module::module) {
        let _ = module.symbols();
    }
    // From here on a child would have half of the probes, and locks that nobody gives back.
    let _pass = pass::hold();
    discovery::listen();
    let (earlier, seen) = module::with_loader_locked(|_| {
        let look = module::refresh();
        fresh.extend(look.fresh);
        pages::seal(false);
        near::seal(false);
        pun::reclaim();
        entry::allow_traps();
        // First: until then the program can set, and is told, what SIGTRAP really does.
        for index in modules() {
            module::while_loaded(index, |_| masks::watch(index));
        }
        trap::ensure_installed();
        for index in modules() {
            module::while_loaded(index, |_| {
                unwinder::watch(index);
                children::watch(index);
            });
        }
        masks::wait_until_open();
        (unwinder::is_watched().then(switch_on_again), look.generation)
    });
    let Some(Earlier { known, lost }) = earlier else {
        STATE.store(UNSAFE, Ordering::Release);
        return;
    };
    let old: Vec<u32> = modules().filter(|i| !fresh.contains(i)).collect();
    discovery::probe_modules(&fresh, &HashSet::new());
    discovery::probe_modules(&old, &known);
    lost.into_iter().for_each(unprobed::add);
    STATE.store(RUNNING, Ordering::Release);
    epoch::start(seen);
}

fn modules() -> impl Iterator<Item = u32> {
    (0..).take_while(|index| module::module(*index).is_some())
}

/// What an earlier attachment left.
#[derive(Default)]
struct Earlier {
    /// The names of all functions that have probes.
    known: HashSet<String>,
    /// Those whose probe leads nowhere any more, or needs a trap that may not be.
    lost: Vec<Unprobed>,
}

/// Switches the wanted probes of an earlier attachment on.
fn switch_on_again() -> Earlier {
    let Some(settings) = settings::current() else { return Earlier::default() };
    let mut lost = Vec::new();
    let mut wanted: Vec<ProbeId> = Vec::new();
    let mut known = HashSet::new();
    for function in 0..registry::function_count() {
        let probes: Vec<ProbeId> = registry::probes_of(function).filter(|id| !entry::is_watch(*id)).collect();
        if probes.is_empty() {
            continue;
        }
        let (name, place) = registry::function_name(function);
        if settings.wants(&name) {
            for id in probes {
                let bytes = registry::site_bytes(id, true).filter(|_| !registry::is_gone(id));
                let reason = match bytes {
                    Some((site, on)) if entry::is_forbidden(site, on) => Some(Reason::NeedsTrap),
                    Some((site, on)) if !entry::leads_somewhere(site, on) => Some(Reason::NoRoom),
                    _ => None,
                };
                if let Some(reason) = reason {
                    lost.push(Unprobed { symbol: name.clone(), module: place.path.to_owned(), reason });
                } else {
                    discovery::on_discovery(id);
                    wanted.push(id);
                }
            }
        }
        known.insert(name);
    }
    registry::switch_all(&wanted, true);
    Earlier { known, lost }
}
