//! Function probes that are switched on and off while all threads run, and the latency profiler built from them.
//!
//! The layers are those of "Living on the Edge" (its sections 7 and 9): [`patch`] changes code, [`registry`]
//! turns sites into probes with dense identifiers ([`activate`], [`deactivate`], [`set_handler`]), [`provider`]s
//! find the sites, [`profile`] measures latencies in the probed process, [`joined`] joins what its processes
//! wrote. Start reading at [`registry`], then [`trampoline`] for what a hit costs, then [`profile`].
//!
//! The crate deliberately never stops threads, never traces system calls, and records no accesses. The interposed symbols
//! of the `LD_PRELOAD` library are in the crate `probes-preload`, so that linking this crate changes nothing in a program.

mod address_index;
pub mod attach;
mod callers;
pub mod capi;
pub mod error;
pub mod joined;
pub mod mask_copies;
pub mod metadata;
pub mod module;
pub mod name;
pub mod probe_table;
pub mod profile;
pub mod provider;
pub mod registry;
pub mod return_path;
mod saved_registers;
pub mod shadow;
pub mod site_macro;
pub mod thread;
pub mod thread_counts;
pub mod thread_end;
pub mod thread_words;
pub mod trampoline;

pub use error::ProbeError;
pub use metadata::{ProbeId, ProbeKind, ProbeMetadata, Provider};
pub use registry::{Handler, activate, deactivate, set_discovery_callback, set_handler};

/// What the site macro needs; not for use by hand.
#[doc(hidden)]
pub mod macro_support {
    pub use core::arch::asm;
}
