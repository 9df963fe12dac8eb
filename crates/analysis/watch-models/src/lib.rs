//! Unlimited watchpoints: models of the hardware and software that can watch any number of bytes (Unlimited Watchpoints,
//! section 2 and 4.1.1).
//!
//! A [`WatchpointUnit`] is told which bytes each thread watches and is asked about each access. All units give the same
//! answer, that of a map with two bits a byte; they differ in what they had to do for it, which their [`Counters`] say and
//! a [`CostModel`] turns into cycles. The instructions of Table 2 are the vocabulary of the trait.
//!
//! Nothing here knows traces or programs; the analyses that drive units are in crate `analysis`. Start with
//! [`WatchpointUnit`], then [`UnitKind::build`].
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
