//! Separates the steps of a straddling patch: a barrier after which no core executes the old bytes.
//!
//! The paper waits `T_max` (sections 3 and 5). That wait is available, but must be requested: on current machines with cold lines
//! and page-crossing sites, failures were seen beyond any short wait. The default is `membarrier(PRIVATE_EXPEDITED_SYNC_CORE)`:
//! the kernel makes every core that runs a thread of this process execute a serialising instruction. Where the kernel lacks it,
//! straddling patches are refused unless a wait was set; patches within one instruction fetch still work.

use crate::sys;
use std::sync::atomic::{AtomicU64, Ordering};

const QUERY: i32 = 0;
const PRIVATE_EXPEDITED_SYNC_CORE: i32 = 1 << 5;
const REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: i32 = 1 << 6;

/// How the steps of a straddling patch are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separation {
    /// `membarrier` with core serialisation: safe on every machine.
    Membarrier,
    /// The paper's wait of `T_max`, in TSC ticks, after the store buffer was drained. Safe only as far as
    /// [`crate::calibrate`] says.
    Wait {
        /// The wait in TSC ticks.
        ticks: u64,
    },
    /// The kernel has no such barrier and no wait was set: straddling patches are refused.
    Unavailable,
}

/// 0: not decided yet; 1: membarrier; 2: unavailable; other: a wait of (value - 2) ticks.
/// Written by [`separation`] once and by [`set_separation`]; relaxed, the value is all there is to see.
static CHOSEN: AtomicU64 = AtomicU64::new(0);

/// The separation in use; the first call registers the process with `membarrier`.
pub fn separation() -> Separation {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => {
            let chosen = if register() { Separation::Membarrier } else { Separation::Unavailable };
            set_separation(chosen);
            chosen
        }
        1 => Separation::Membarrier,
        2 => Separation::Unavailable,
        wait => Separation::Wait { ticks: wait - 2 },
    }
}

/// Chooses the separation for all later patches.
pub fn set_separation(choice: Separation) {
    let value = match choice {
        Separation::Membarrier => {
            register();
            1
        }
        Separation::Unavailable => 2,
        Separation::Wait { ticks } => 2 + ticks.max(1),
    };
    CHOSEN.store(value, Ordering::Relaxed);
}

/// Whether the kernel has `membarrier` SYNC_CORE for this process.
pub fn register() -> bool {
    let commands = sys::membarrier(QUERY);
    commands > 0
        && commands & PRIVATE_EXPEDITED_SYNC_CORE as isize != 0
        && sys::membarrier(REGISTER_PRIVATE_EXPEDITED_SYNC_CORE) == 0
}

/// Separates two steps, blocking until it is done. `false`: the barrier failed, nothing may be assumed.
pub fn pass() -> bool {
    match separation() {
        Separation::Membarrier => {
            if sys::membarrier(PRIVATE_EXPEDITED_SYNC_CORE) == 0 {
                return true;
            }
            // A child of fork is not registered; registering is idempotent.
            register() && sys::membarrier(PRIVATE_EXPEDITED_SYNC_CORE) == 0
        }
        Separation::Wait { ticks } => {
            sys::drain_stores();
            let start = sys::ticks();
            while sys::ticks().wrapping_sub(start) < ticks {
                core::hint::spin_loop();
            }
            true
        }
        Separation::Unavailable => false,
    }
}
