//! What the latency profiler found ([`probes::joined::Profile`]): a table, JSON, folded stacks, a timeline. Its page is
//! [`crate::pages::latency`].

pub mod folded;
pub mod json;
pub mod text;
pub mod timeline;
