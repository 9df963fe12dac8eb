//! `-fpatchable-function-entry=N` (C, C++, nightly Rust): nops at each function's entry, listed in a section.
//!
//! The first five bytes become a call that is switched by its first byte; flags are dead there. Five one-byte nops are
//! five instructions: they are joined only while the process has one thread; in modules that come later the function is
//! probed like an unmodified one.

use super::{Found, entry, function_of, is_single_threaded};
use crate::{ProbeKind, Provider, error::Reason, module::Module, registry};
use patch::{CodeAddr, store};

/// Makes probes of the entries in the section `[start, start + len_bytes)`, an array of addresses.
pub fn probe(
    module: &Module,
    start: usize,
    len_bytes: usize,
    wants: &dyn Fn(&str) -> bool,
    found: &mut Found,
) {
    let quiet = is_single_threaded();
    let executable = entry::executable();
    for index in 0..len_bytes / 8 {
        // SAFETY: a section of a loaded module, relocated by now.
        let listed = CodeAddr(unsafe { ((start + 8 * index) as *const usize).read() });
        if !(module.start..module.end).contains(&listed.0) {
            continue;
        }
        let Some(symbol) = function_of(module, listed) else { continue };
        if module.has_unwinder() {
            found.refuse(module, &symbol.name, Reason::StaticUnwinder);
            continue;
        }
        // With `=N,M` the list names the first of the M nops before the entry; only those from the entry on are run.
        let site = CodeAddr(listed.0.max(module.bias + symbol.offset));
        if !wants(&symbol.name) {
            continue;
        }
        // SAFETY: inside the module's text; at least the nops and an instruction follow.
        let bytes = unsafe { store::read(site.0, 5) }.to_le_bytes();
        let one_instruction = bytes[..5] == patch::NOP5;
        if !one_instruction && bytes[..5] != [0x90; 5] {
            found.refuse(module, &symbol.name, Reason::SpaceTooShort);
        } else if !one_instruction && !quiet {
            let at = module.symbols().partition_point(|s| s.offset < symbol.offset);
            found.take(module, &symbol.name, entry::probe_one(module, at, &executable));
        } else {
            let function = CodeAddr(module.bias + symbol.offset);
            // SAFETY: five bytes of nops at a function's entry.
            let added = unsafe {
                registry::add_call_site(site, function, ProbeKind::EntryWithReturn, Provider::Patchable)
            };
            found.take(module, &symbol.name, added);
        }
    }
}
