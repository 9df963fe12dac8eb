//! Which modules and functions get probes, and what each new probe gets.

use super::{attached::children, handlers, masks, settings, unwinder, window};
use crate::{
    ProbeId,
    module::{self, Module},
    provider::{
        self, Unprobed,
        entry::{self, Traps},
    },
    registry::{self, Handler},
};
use patch::CodeAddr;
use std::{
    collections::HashSet,
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Functions without a probe. Written by discovery, which is not on any hit's path.
static UNPROBED: Mutex<Vec<Unprobed>> = Mutex::new(Vec::new());

/// Has [`on_discovery`] told of each new probe.
pub(super) fn listen() {
    registry::set_discovery_callback(Some(on_discovery));
}

/// Probes the modules that are new since the last time. Called by [`super::start`] and by the epoch thread. Returns what
/// [`module::Look::generation`] says.
pub fn discover() -> Option<module::Generation> {
    let look = module::refresh();
    probe_modules(&look.fresh, &HashSet::new());
    look.generation
}

/// Probes functions of these modules, but for those `known` by name.
pub(super) fn probe_modules(modules: &[u32], known: &HashSet<String>) {
    let Some(settings) = settings::current() else { return };
    for index in modules {
        let Some(module) = module::module(*index) else { continue };
        if provider::needs_symbols(module) {
            // Reading a file takes its time: better without the loader's lock.
            let _ = module.symbols();
        }
        let found = module::while_loaded(*index, |_| {
            unwinder::watch(*index);
            masks::watch(*index);
            children::watch(*index);
            let is_watched = |name: &str| {
                unwinder::watches(name) || masks::watches(name) || children::watches(name)
            };
            let wants = |name: &str| settings.wants(name) && !known.contains(name) && !is_watched(name);
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

/// Notes that a function has no probe.
pub(super) fn refuse(unprobed: Unprobed) {
    UNPROBED.lock().unwrap_or_else(PoisonError::into_inner).push(unprobed);
}

/// Whether a probe is the profiler's own: it measures nothing, and is there as long as the process is attached to.
pub(super) fn is_watch(id: ProbeId) -> bool {
    unwinder::is_watch(id) || masks::is_watch(id) || children::is_watch(id)
}

/// Gives the function at `symbol` of a module's symbols a probe of the profiler's own; whether it has it now.
pub(super) fn watch(
    module: &Module,
    symbol: usize,
    executable: &[Range<usize>],
    traps: Traps,
    handler: Handler,
) -> bool {
    let addr = CodeAddr(module.bias + module.symbols()[symbol].offset);
    let known = registry::probe_at(addr).filter(|id| is_watch(*id));
    let id = known.or_else(|| entry::probe_one(module, symbol, executable, traps).ok());
    id.is_some_and(|id| entry::keep(id) && registry::activate(id, handler).is_ok())
}

pub(super) fn unprobed() -> Vec<Unprobed> {
    UNPROBED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Gives each new probe its handler.
pub(super) fn on_discovery(id: ProbeId) {
    let Some((function, kind)) = registry::function_of(id.0) else { return };
    window::arm_first(function);
    let _ = registry::set_handler(id, handlers::of(kind));
    if let Some(gate) = window::gate(function) {
        registry::set_gate(id, gate);
    }
}
