//! XRay sleds (`-fxray-instrument`, nightly `-Z instrument-xray`) without the XRay runtime.
//!
//! An entry sled is a two-byte jump over nine bytes that are never executed. The call is written there once, and the
//! probe is switched by the aligned two bytes before them (a jump, or a two-byte nop). An exit sled is a `ret` with
//! ten unused bytes after it, and is switched by its one byte. No toggle ever straddles, and none needs a barrier.

use super::{Found, function_of, unprobeable};
use crate::{
    ProbeError, ProbeId, ProbeKind, Provider,
    error::Reason,
    module::Module,
    registry::{self, Switch},
    trampoline::{self, DetourSwitch},
};
use patch::{CodeAddr, PatchError, Site, callpatch, store};

const ENTRY_BYTES: usize = 32;
const KIND_ENTRY: u8 = 0;
const KIND_EXIT: u8 = 1;
const KIND_TAIL: u8 = 2;
const KIND_ENTRY_WITH_ARGUMENTS: u8 = 3;

const JUMP_OVER: u64 = 0x09eb;
const NOP2: u64 = 0x9066;
const NOP4: u64 = 0x0040_1f0f;

/// Makes probes of the sleds in the section `[start, start + len_bytes)`.
pub fn probe(
    module: &Module,
    start: usize,
    len_bytes: usize,
    wants: &dyn Fn(&str) -> bool,
    found: &mut Found,
) {
    for index in 0..len_bytes / ENTRY_BYTES {
        let at = start + index * ENTRY_BYTES;
        // SAFETY: a whole entry of the section of a loaded module.
        let (sled, function, kind, version) = unsafe {
            let word = |offset: usize| ((at + offset) as *const usize).read_unaligned();
            (word(0), word(8), *((at + 16) as *const u8), *((at + 18) as *const u8))
        };
        let relative = version >= 2;
        let site = CodeAddr(if relative { at.wrapping_add(sled) } else { sled });
        let function = CodeAddr(if relative { (at + 8).wrapping_add(function) } else { function });
        if !(module.start..module.end).contains(&site.0) {
            continue;
        }
        let name = function_of(module, function).map_or("?", |s| &s.name);
        if !wants(name) {
            continue;
        }
        let added = match kind {
            KIND_ENTRY | KIND_ENTRY_WITH_ARGUMENTS => add_jump_sled(site, function, name, ProbeKind::Entry),
            KIND_TAIL => add_jump_sled(site, function, name, ProbeKind::Exit),
            KIND_EXIT => add_return_sled(site, function, name),
            _ => continue, // custom and typed events are no calls of the function
        };
        found.take(module, name, added);
    }
}

fn refused(name: &str) -> impl Fn(PatchError) -> ProbeError {
    move |e| unprobeable(name, e.addr, Reason::Patch(e.refusal))
}

/// Writes bytes that nothing executes yet.
fn write_unused(addr: CodeAddr, len_bytes: usize, value: u64, name: &str) -> Result<(), ProbeError> {
    // SAFETY: the bytes lie after the sled's jump or `ret`; whole instructions are written.
    unsafe { patch::patch(addr, len_bytes, value) }.map(|_| ()).map_err(refused(name))
}

fn add_jump_sled(
    site: CodeAddr,
    function: CodeAddr,
    name: &str,
    kind: ProbeKind,
) -> Result<ProbeId, ProbeError> {
    // SAFETY: two bytes of the module's text, listed as a sled.
    if unsafe { store::read(site.0, 2) } != JUMP_OVER {
        return Err(unprobeable(name, site, Reason::Patch(patch::Refusal::UnexpectedCode)));
    }
    let head = Site::open(site, 2).map_err(refused(name))?;
    let id = registry::reserve()?;
    let far = || unprobeable(name, site, Reason::NoRoom);
    let thunk = trampoline::make_thunk(site, id.0, registry::counted(function, kind)).ok_or_else(far)?;
    let displacement = callpatch::displacement(site.plus(2), thunk).map_err(refused(name))?;
    write_unused(site.plus(2), 5, u64::from(patch::CALL_REL32) | u64::from(displacement) << 8, name)?;
    write_unused(site.plus(7), 4, NOP4, name)?;
    let switch = Switch::Word { site: head, on: NOP2, off: JUMP_OVER };
    registry::complete(id, site, function, kind, Provider::Xray, switch, false)?;
    Ok(id)
}

fn add_return_sled(site: CodeAddr, function: CodeAddr, name: &str) -> Result<ProbeId, ProbeError> {
    const RET: u64 = 0xc3;
    // SAFETY: one byte of the module's text, listed as a sled.
    if unsafe { store::read(site.0, 1) } != RET {
        return Err(unprobeable(name, site, Reason::Patch(patch::Refusal::UnexpectedCode)));
    }
    let head = Site::open(site, 1).map_err(refused(name))?;
    let id = registry::reserve()?;
    let far = || unprobeable(name, site, Reason::NoRoom);
    let body = |_| Some(vec![RET as u8]);
    let detour = trampoline::make_detour(site, id.0, None, DetourSwitch::AtSite, 1, body).ok_or_else(far)?;
    let displacement = callpatch::displacement(site.plus(1), detour).map_err(refused(name))?;
    write_unused(site.plus(1), 5, u64::from(patch::JMP_REL32) | u64::from(displacement) << 8, name)?;
    let switch = Switch::Word { site: head, on: 0x90, off: RET };
    registry::complete(id, site, function, ProbeKind::Exit, Provider::Xray, switch, false)?;
    Ok(id)
}
