//! Sites left by [`crate::probe_site!`] and [`crate::probe_scope!`] in stable Rust.
//!
//! Each record of the section names the site, the text of the name, the kind,
//! and the static that represents the function, which entry and exit share.

use super::Found;
use crate::{ProbeKind, Provider, module::Module, registry};
use patch::CodeAddr;

const RECORD_BYTES: usize = 40;

/// Makes probes of the records in the section `[start, start + len_bytes)`.
pub fn probe(
    module: &Module,
    start: usize,
    len_bytes: usize,
    wants: &dyn Fn(&str) -> bool,
    found: &mut Found,
) {
    for index in 0..len_bytes / RECORD_BYTES {
        // SAFETY: a whole record of the section of a loaded module, relocated by now.
        let [site, text, text_bytes, kind, key] =
            unsafe { ((start + index * RECORD_BYTES) as *const [usize; 5]).read_unaligned() };
        // SAFETY: the macro stores a static array of bytes and its length.
        let name = unsafe { std::slice::from_raw_parts(text as *const u8, text_bytes) };
        let text = String::from_utf8_lossy(name);
        if !wants(&text) {
            continue;
        }
        let kind = match kind {
            0 => ProbeKind::Entry,
            1 => ProbeKind::Exit,
            _ => ProbeKind::Point,
        };
        if let Some(function) = registry::function_at(CodeAddr(key)) {
            registry::name_function(function, name);
        }
        // SAFETY: the macro leaves a five-byte nop and declares flags and all that a call changes on the stack.
        let added = unsafe { registry::add_call_site(CodeAddr(site), CodeAddr(key), kind, Provider::Macro) };
        found.take(module, &text, added);
    }
}
