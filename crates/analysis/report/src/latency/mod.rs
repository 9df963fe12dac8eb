//! The results of the latency profiler ([`probes::joined::Profile`]): a table,
//! JSON, folded stacks, a timeline. Its page is [`crate::pages::latency`].

pub mod calibration;
pub mod folded;
mod form;
pub mod json;
pub mod text;
pub mod timeline;

pub use form::LatencyForm;
