//! The latency profiler of section 9, inside the probed process: it measures intervals, switches itself off after a
//! few samples of a function, and on again with the next epoch.
//!
//! [`record`] holds the handlers, [`window`] the sampling, [`epoch`] the thread that switches on again ([`helper`]: its
//! place among the program's threads), [`dump`] what is written for [`crate::joined`]. Nothing here formats or names; that is
//! the report's work, in another process.

pub mod area;
pub mod attached;
pub mod dump;
pub mod epoch;
pub mod governor;
pub mod helper;
pub mod histogram;
pub mod paths;
pub mod raw;
pub mod record;
pub mod settings;
pub mod timeline;
pub mod window;

use crate::{
    ProbeId, ProbeKind, module,
    provider::{self, Unprobed},
    registry, thread, trampoline,
};
use settings::Settings;
use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Null, or leaked settings. Written when the profiler starts, which it may do again after an attachment ended.
static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(std::ptr::null_mut());
/// Functions without a probe. Written by discovery, which is not on any hit's path.
static UNPROBED: Mutex<Vec<Unprobed>> = Mutex::new(Vec::new());

/// The settings, once the profiler runs.
#[must_use]
pub fn settings() -> Option<&'static Settings> {
    // SAFETY: null or leaked settings, never changed.
    unsafe { SETTINGS.load(Ordering::Acquire).as_ref() }
}

fn set_settings(settings: Settings) {
    SETTINGS.store(Box::into_raw(Box::new(settings)), Ordering::Release);
}

/// Starts the profiler: finds the sites of all loaded modules, switches them on, and starts the epoch thread. To be
/// called once, before the program's `main`.
pub fn start(settings: Settings) {
    trampoline::muted(|| {
        set_settings(settings);
        thread::prepare();
        dump::note_start();
        registry::set_discovery_callback(Some(on_discovery));
        epoch::start(discover());
    });
}

/// Probes the modules that are new since the last time. Called by [`start`] and by the epoch thread. What
/// [`module::Look::generation`] says.
pub fn discover() -> Option<module::Generation> {
    let look = module::refresh();
    probe_modules(&look.fresh, &HashSet::new());
    look.generation
}

/// Probes functions of these modules, but for those `known` by name.
fn probe_modules(modules: &[u32], known: &HashSet<String>) {
    let Some(settings) = settings() else { return };
    for index in modules {
        let Some(module) = module::module(*index) else { continue };
        if provider::needs_symbols(module, *index) {
            // Reading a file takes its time: better without the loader's lock.
            let _ = module.symbols();
        }
        let found = module::while_loaded(*index, |_| {
            attached::watch_unwinder(*index);
            let wants = |name: &str| settings.wants(name) && !known.contains(name);
            let found = provider::probe_module(*index, &wants);
            registry::switch_all(&found.probes, true);
            found
        });
        if let Some(found) = found {
            let mut unprobed = UNPROBED.lock().unwrap_or_else(PoisonError::into_inner);
            unprobed.retain(|u| u.module != module.path);
            unprobed.extend(found.unprobed);
        }
    }
}

pub(crate) fn unprobed() -> Vec<Unprobed> {
    UNPROBED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Gives each new probe its handler.
fn on_discovery(id: ProbeId) {
    let Some((function, kind)) = registry::function_of(id.0) else { return };
    let handler: registry::Handler = match kind {
        ProbeKind::Entry => record::on_entry,
        ProbeKind::Exit => record::on_exit,
        ProbeKind::EntryWithReturn => record::on_entry_with_return,
        ProbeKind::Point => record::on_point,
    };
    window::arm_first(function);
    let _ = registry::set_handler(id, handler);
    if let Some(gate) = window::gate(function) {
        registry::set_gate(id, gate);
    }
}
