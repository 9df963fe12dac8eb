//! The paper's wordpatch interface (Figure 3): `patch`, `start_patch`, `finish_patch` by address.
//!
//! Callers that toggle often keep a [`Site`] instead and avoid the look-up.

use crate::{
    error::{CodeAddr, PatchError},
    protocol::Progress,
    site::{Guard, Site},
    sys, table,
    tier::Tier,
};

/// Replaces the `len_bytes` bytes at `addr` by the low bytes of `value`, at once.
///
/// # Safety
/// As for [`Site::patch`].
pub unsafe fn patch(addr: CodeAddr, len_bytes: usize, value: u64) -> Result<Tier, PatchError> {
    let site = Site::open(addr, len_bytes)?;
    // SAFETY: passed on to the caller.
    unsafe { site.patch(value) }
}

/// Begins to replace the bytes at `addr` (Figure 6): a patch that fits one store is complete on return, a straddler
/// is guarded and goes on with each [`finish_patch`].
///
/// # Safety
/// As for [`Site::patch`].
pub unsafe fn start_patch(addr: CodeAddr, len_bytes: usize, value: u64) -> Result<Progress, PatchError> {
    let site = Site::open(addr, len_bytes)?;
    // SAFETY: passed on to the caller.
    unsafe { site.start(value) }
}

/// Moves a patch on by one step (Figure 7). Any thread may call it; an address where nothing is under way is
/// [`Progress::Finished`].
pub fn finish_patch(addr: CodeAddr) -> Progress {
    table::find(addr.0).map_or(Progress::Finished, |cell| Site(cell).finish())
}

impl Site {
    /// As [`start_patch`], for an open site.
    ///
    /// # Safety
    /// As for [`Site::patch`].
    pub unsafe fn start(self, value: u64) -> Result<Progress, PatchError> {
        if self.claim_for(value, Guard::Int3)? != Tier::Straddler {
            return Ok(Progress::Finished);
        }
        let _quiet = sys::SignalsBlocked::new();
        self.0.protocol().start(self.0);
        Ok(Progress::FirstWait)
    }
}
