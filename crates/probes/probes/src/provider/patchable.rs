//! `-fpatchable-function-entry=N` (C, C++, nightly Rust): nops at each function's entry, listed in a section.
//!
//! The first five bytes become a call that is switched by its first byte; flags are dead there. Five one-byte nops are
//! five instructions: they are joined only while the process has one thread. In modules that are loaded later the function
//! is probed like an unmodified one. So is a function whose first nop is longer than five bytes, as clang emits them.

use super::{Found, entry, function_of, is_single_threaded};
use crate::{ProbeKind, Provider, error::Reason, module::Module, registry};
use patch::{CodeAddr, store};
use x86::Disassembler;

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
        let bytes = unsafe { store::read(site.0, 8) }.to_le_bytes();
        let space = space(&bytes);
        if space == Space::Short {
            found.refuse(module, &symbol.name, Reason::SpaceTooShort);
        } else if space == Space::Longer || space == Space::Bytes && !quiet {
            let at = module.symbols().partition_point(|s| s.offset < symbol.offset);
            found.take(
                module,
                &symbol.name,
                entry::probe_one(module, at, &executable, entry::Traps::of(module)),
            );
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

/// What the compiler left at the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// One nop of five bytes.
    Five,
    /// Five nops of one byte.
    Bytes,
    /// One nop of more than five bytes.
    Longer,
    /// Less than five bytes.
    Short,
}

fn space(bytes: &[u8; 8]) -> Space {
    // Five bytes are `nop [rax + rax + displacement]`: gcc's displacement is 0, clang's 8.
    let instruction = Disassembler::new(bytes, 0).next_instruction();
    match instruction.len_bytes() {
        _ if bytes[..5] == [0x90; 5] => Space::Bytes,
        5 if instruction.is_nop() => Space::Five,
        6.. if instruction.is_nop() => Space::Longer,
        // Nine bytes and more are prefixes before the longest nop: cut off here.
        _ if bytes[0] == 0x66 && !instruction.is_valid() => Space::Longer,
        _ => Space::Short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_of_both_compilers_is_recognised() {
        let check = |bytes: [u8; 8], expect| assert_eq!(space(&bytes), expect, "{bytes:x?}");
        check([0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0, 0], Space::Five);
        check([0x0f, 0x1f, 0x44, 0, 8, 0xc3, 0, 0], Space::Five);
        check([0x90, 0x90, 0x90, 0x90, 0x90, 0xc3, 0, 0], Space::Bytes);
        check([0x0f, 0x1f, 0x80, 0, 2, 0, 0, 0xc3], Space::Longer);
        check([0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0], Space::Longer);
        check([0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2], Space::Longer);
        check([0x0f, 0x1f, 0x00, 0xc3, 0x90, 0x90, 0x90, 0x90], Space::Short);
        check([0x90, 0x90, 0x90, 0xc3, 0x90, 0x90, 0x90, 0x90], Space::Short);
        check([0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3, 0, 0], Space::Short);
    }
}
