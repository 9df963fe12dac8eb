//! Creates and switches probes: the interface for all code that is not on the path of a hit.
//!
//! A probe joins a *switch* (what is patched to turn it on and off) and a *handler* (which function it calls). Changing
//! the handler is one store of data; no code changes (section 7). The data of a probe is in [`crate::probe_table`].

use crate::{ProbeError, ProbeId, ProbeKind, Provider, error::Reason};
use patch::{CallSite, CodeAddr, PatchError, Refusal, Site, Tier, pages};

pub use crate::probe_table::*;

/// Switches a probe on with this handler.
pub fn activate(id: ProbeId, new_handler: Handler) -> Result<(), ProbeError> {
    set_handler(id, new_handler)?;
    switch(id, true)
}

/// Switches a probe off; its handler stays for the next time.
pub fn deactivate(id: ProbeId) -> Result<(), ProbeError> {
    switch(id, false)
}

/// Switches a probe on or off without changing its handler.
#[inline]
pub fn switch(id: ProbeId, on: bool) -> Result<(), ProbeError> {
    let probe = probe(id).ok_or(ProbeError::Unknown(id))?;
    if probe.provider() == Provider::Instrument
        && let Some(site) = probe.site()
        && !pages::takes_stores(site.addr().0)
    {
        // The calls of this provider are the program's own: they are hit in code that is loaded again, too.
        return Err(patch_error(id, PatchError::new(site.addr(), Refusal::Gone)));
    }
    let result = match probe.switch() {
        Switch::Call(call) if on => call.activate(),
        Switch::Call(call) => call.deactivate(),
        Switch::Word { site, on: bytes, off } => {
            // SAFETY: whoever made the probe vouched for both instructions.
            unsafe { site.patch(if on { bytes } else { off }) }.map(|_: Tier| ())
        }
        Switch::Fixed => Ok(()),
    };
    match result {
        Ok(()) => {
            probe.set_active(on);
            Ok(())
        }
        Err(source) => Err(patch_error(id, source)),
    }
}

/// The bytes to write at a probe's site to switch it, for [`patch::patch_all`]; `None` for one that has no site.
#[must_use]
pub fn site_bytes(id: ProbeId, on: bool) -> Option<(Site, u64)> {
    match probe(id)?.switch() {
        Switch::Call(call) => {
            Some((call.site(), if on { call.active_bytes() } else { call.inactive_bytes() }))
        }
        Switch::Word { site, on: active, off } => Some((site, if on { active } else { off })),
        Switch::Fixed => None,
    }
}

/// Switches many probes with at most three barriers; the error of each that failed, in order.
pub fn switch_all(ids: &[ProbeId], on: bool) -> Vec<(ProbeId, PatchError)> {
    let known: Vec<(ProbeId, (Site, u64))> =
        ids.iter().filter_map(|id| site_bytes(*id, on).map(|patch| (*id, patch))).collect();
    let patches: Vec<(Site, u64)> = known.iter().map(|(_, patch)| *patch).collect();
    // SAFETY: whoever made the probes vouched for both instructions of each.
    let results = unsafe { patch::patch_all(&patches) };
    known
        .iter()
        .zip(results)
        .filter_map(|((id, _), result)| match result {
            Ok(_) => {
                if let Some(probe) = probe(*id) {
                    probe.set_active(on);
                }
                None
            }
            Err(error) => Some((*id, error)),
        })
        .collect()
}

fn patch_error(id: ProbeId, source: PatchError) -> ProbeError {
    let function = metadata(id).map_or_else(|_| "?".to_owned(), |m| m.function_name);
    ProbeError::Patch { id, function, source }
}

/// Makes a probe of a five-byte instruction (a nop, a call that may go, or `test eax, imm32`), switched by one byte.
///
/// # Safety
/// At `site` stands one such instruction, flags are dead there, and a call may be made there.
pub unsafe fn add_call_site(
    site: CodeAddr,
    function_addr: CodeAddr,
    kind: ProbeKind,
    provider: Provider,
) -> Result<ProbeId, ProbeError> {
    let id = reserve()?;
    let unprobeable =
        |reason| ProbeError::Unprobeable { function: function_addr.symbol(), addr: site, reason };
    let counted = counted(function_addr, kind);
    let thunk =
        crate::trampoline::make_thunk(site, id.0, counted).ok_or_else(|| unprobeable(Reason::NoRoom))?;
    // SAFETY: passed on to the caller; the thunk is complete.
    let call = unsafe { CallSite::prepare(site, thunk, patch::Encoding::OneByte) }
        .map_err(|e| unprobeable(Reason::Patch(e.refusal)))?;
    complete(id, site, function_addr, kind, provider, Switch::Call(call), false)?;
    Ok(id)
}
