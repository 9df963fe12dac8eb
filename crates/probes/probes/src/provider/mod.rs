//! Sources of probe sites. Each provider turns what it finds in a module into probes, and lists what it cannot probe.
//!
//! Sites left by a compiler take precedence. The entries of unmodified functions are used only in modules that have none, and
//! never in this library, in the loader or (unless [`Settings::libraries`](settings::Settings) says so) in the system's libraries.

pub mod entry;
pub mod instrument;
pub mod patchable;
pub mod pun;
pub mod rust_macro;
mod several;
pub mod xray;

use crate::{
    ProbeError, ProbeId,
    error::Reason,
    module::{self, Module},
    profile::settings,
};
use patch::CodeAddr;

/// A function without a probe.
#[derive(Clone, Debug)]
pub struct Unprobed {
    /// Its symbol.
    pub symbol: String,
    /// Its file.
    pub module: String,
    /// Why.
    pub reason: Reason,
}

/// What a provider made of a module.
#[derive(Default)]
pub struct Found {
    /// The probes, all switched off.
    pub probes: Vec<ProbeId>,
    /// The functions without one.
    pub unprobed: Vec<Unprobed>,
}

impl Found {
    /// Takes the result for one function.
    pub(crate) fn take(&mut self, module: &Module, symbol: &str, result: Result<ProbeId, ProbeError>) {
        match result {
            Ok(id) => self.probes.push(id),
            Err(ProbeError::Unprobeable { reason, .. }) => self.refuse(module, symbol, reason),
            Err(_) => self.refuse(module, symbol, Reason::Patch(patch::Refusal::TableFull)),
        }
    }

    pub(crate) fn refuse(&mut self, module: &Module, symbol: &str, reason: Reason) {
        self.unprobed.push(Unprobed { symbol: symbol.to_owned(), module: module.path.clone(), reason });
    }
}

/// Makes the probes of module `index` for the functions that `wants` accepts by symbol name.
#[must_use]
pub fn probe_module(index: u32, wants: &dyn Fn(&str) -> bool) -> Found {
    let mut found = Found::default();
    let Some(module) = module::module(index) else { return found };
    let own = (module.start..module.end).contains(&(probe_module as *const () as usize));
    for section in &module.sections {
        let (start, len_bytes) = (section.start, section.len_bytes);
        match section.name.as_str() {
            "__patchable_function_entries" => patchable::probe(module, start, len_bytes, wants, &mut found),
            "xray_instr_map" => xray::probe(module, start, len_bytes, wants, &mut found),
            "memtap_probes" => rust_macro::probe(module, start, len_bytes, wants, &mut found),
            _ => {}
        }
    }
    // In a process that was attached to, the compiler's calls are bound to the C library's empty functions already.
    if module.imports_instrumentation && !settings::is_attached() {
        instrument::note_wanted(module, wants);
    } else if !own
        && module.sections.iter().all(|section| section.name == "memtap_probes")
        && may_probe_entries(module)
    {
        entry::probe(module, wants, &mut found);
    }
    found
}

/// Whether [`probe_module`] looks at the module's symbols.
#[must_use]
pub fn needs_symbols(module: &Module) -> bool {
    !module.sections.is_empty() || module.imports_instrumentation || may_probe_entries(module)
}

fn may_probe_entries(module: &Module) -> bool {
    let wants_system = || settings::current().is_some_and(|s| s.libraries) && !is_runtime(module);
    module.is_program() || module.path.starts_with('/') && (!module.is_of_system() || wants_system())
}

/// The loader, which calls with registers of its own and before anything is relocated, and the unwinder, which must not meet
/// replaced return addresses of its own calls: never probed.
fn is_runtime(module: &Module) -> bool {
    ["/ld-linux", "/libgcc_s.so", "/libmemtap_"].iter().any(|name| module.path.contains(name))
}

/// Whether the process has one thread only, so that nobody can stand in the middle of a site.
#[must_use]
pub fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// The function that a site belongs to: the symbol that covers it, or the one that begins just after it.
fn function_of(module: &Module, site: CodeAddr) -> Option<&module::Symbol> {
    let offset = site.0.wrapping_sub(module.bias);
    let after = module.symbols().partition_point(|s| s.offset <= offset);
    let covering = after.checked_sub(1).map(|at| &module.symbols()[at]);
    covering
        .filter(|s| offset < s.offset + s.len_bytes.max(1))
        .or_else(|| module.symbols().get(after).filter(|s| s.offset - offset <= 64))
}

fn unprobeable(symbol: &str, addr: CodeAddr, reason: Reason) -> ProbeError {
    ProbeError::Unprobeable { function: symbol.to_owned(), addr, reason }
}
