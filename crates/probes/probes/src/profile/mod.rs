//! The latency profiler of section 9, inside the probed process: it measures intervals,
//! switches itself off after a few samples of a function, and on again in the next epoch.
//!
//! [`discovery`] creates the probes, [`handlers`] is what a hit does, [`window`] is the sampling, [`strata`] extrapolates from it
//! to all calls, [`epoch`] is the thread that opens windows again ([`helper`]: its place among the program's threads), [`dump`]
//! is what is written for [`crate::joined`]. Nothing here formats or names; that is done by the report, in another process.

pub mod area;
pub mod attached;
pub mod calls;
pub mod costs;
pub mod discovery;
pub mod dump;
pub mod epoch;
pub mod governor;
pub mod handlers;
pub mod helper;
pub mod histogram;
mod masks;
pub mod own_time;
pub mod pass;
pub mod paths;
pub mod processor_time;
pub mod raw;
pub mod record;
pub mod settings;
pub mod strata;
pub mod timeline;
mod unprobed;
mod unwinder;
pub mod window;

use crate::{thread_end, thread_words};
use settings::Settings;

/// Starts the profiler: finds the sites of all loaded modules, switches them on, and starts the epoch thread. To be
/// called once, before the program's `main`.
pub fn start(settings: Settings) {
    thread_words::muted(|| {
        settings::set(settings);
        thread_end::prepare();
        helper::note_start();
        dump::note_start();
        discovery::listen();
        epoch::start(discovery::discover());
    });
}
