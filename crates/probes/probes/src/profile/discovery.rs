//! Which modules and functions get probes, and what is set up for each new probe.

use super::{attached::children, handlers, masks, settings, unprobed, unwinder, window};
use crate::{ProbeId, callers, module, provider, registry};
use std::collections::HashSet;

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
            let is_watched =
                |name: &str| unwinder::watches(name) || masks::watches(name) || children::watches(name);
            let wants = |name: &str| settings.wants(name) && !known.contains(name) && !is_watched(name);
            let found = provider::probe_module(*index, &wants);
            registry::switch_all(&found.probes, true);
            found
        });
        if let Some(found) = found {
            unprobed::replace(&module.path, found.unprobed);
        }
    }
    if !modules.is_empty() {
        callers::refresh();
    }
}

/// Gives each new probe its handler.
pub(super) fn on_discovery(id: ProbeId) {
    let Some((function, kind)) = registry::function_of(id.0) else { return };
    window::arm_first(function);
    let _ = registry::set_gated_handler(id, handlers::of(kind));
}
