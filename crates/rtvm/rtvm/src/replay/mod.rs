//! Replays allocations and accesses through both systems, and collects what Table I and Figures 5 to 7 show.
//!
//! [`with_replay`] creates the systems; [`Synthetic`] is the paper's workload. Traces are turned
//! into [`Action`]s elsewhere (`memtap rtvm`), because this crate knows nothing of files.

mod action;
mod area;
mod costs;
mod outcome;
mod runner;
mod scatter;
mod series;
mod synthetic;

pub use action::{Action, BlockId};
pub use costs::Costs;
pub use outcome::{Failures, ReplayOutcome};
pub use runner::{Replay, ReplayOptions, with_replay};
pub use scatter::{Scatter, ScatterCell};
pub use series::{Extremes, Series};
pub use synthetic::{Sizes, Synthetic};
