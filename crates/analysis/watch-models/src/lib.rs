//! Unlimited watchpoints: models of the hardware and software that can
//! watch any number of bytes (Unlimited Watchpoints, sections 2 and 4.1.1).
//!
//! A [`WatchpointUnit`] is told which bytes each thread watches, and checks each access. All units give the same
//! answer, that of a map with two bits per byte. They differ in the work that this takes, which their [`Counters`]
//! record and a [`CostModel`] converts to cycles. The operations of the trait are the instructions of Table 2.
//!
//! This crate does not depend on traces or programs; the analyses that drive units
//! are in crate `analysis`. Start with [`WatchpointUnit`], then [`UnitKind::build`].
#![forbid(unsafe_code)]

mod bits;
mod change;
mod cost;
mod counters;
mod kind;
mod measure;
mod recency;
mod runs;
mod sets;
mod slots;
mod tree;
mod unit;
mod units;
mod watched;

pub use change::{Change, Origin};
pub use cost::{CostModel, Cycles, Fixed, Handlers, Software};
pub use counters::Counters;
pub use kind::UnitKind;
pub use unit::WatchpointUnit;
pub use units::{
    MemTracker, MemTrackerOptions, Mondriaan, MondriaanOptions, RangeCache, RangeCacheOptions, SoftwareMap,
    VirtualMemory,
};
pub use watched::Watched;
