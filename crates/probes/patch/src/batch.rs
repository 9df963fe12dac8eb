//! Patches many sites with at most three barriers in all.
//!
//! All guards are written, followed by one barrier; then all tails and one barrier; then all heads and a last barrier, so
//! that on return every core executes the new instructions. A site that another thread holds is reported and left alone.

use crate::{
    barrier,
    error::PatchError,
    protocol::Code,
    site::{Guard, Site},
    sys,
    tier::Tier,
    trap,
};

/// Patches each site to the low bytes of its value. The results are in the order of the patches.
///
/// # Safety
/// As for [`Site::patch`], for each site.
pub unsafe fn patch_all(patches: &[(Site, u64)]) -> Vec<Result<Tier, PatchError>> {
    let mut results = Vec::with_capacity(patches.len());
    // The allocator may run before sites are guarded, never while they are: it could be among them.
    let mut held: Vec<Site> = Vec::with_capacity(patches.len());
    if patches.iter().any(|(site, _)| site.split().is_some()) {
        trap::ensure_installed();
    }
    for (site, value) in patches {
        let result = site.claim_with_trap_handler(*value, Guard::Int3);
        if result == Ok(Tier::Straddler) {
            held.push(*site);
        }
        results.push(result);
    }
    if !held.is_empty() {
        let _quiet = sys::SignalsBlocked::new();
        held.iter().for_each(|site| site.0.write_guard());
        barrier::pass();
        held.iter().for_each(|site| site.0.write_tail());
        barrier::pass();
        for site in &held {
            site.0.write_head();
            site.0.protocol().release();
        }
        barrier::pass();
    }
    results
}
