//! The HTML pages, one per file. Each is self-contained: it loads nothing and works without a network.

pub mod latency;
pub mod realtime;
pub(crate) mod skeleton;
pub mod trace;
