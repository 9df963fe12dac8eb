//! The HTML pages, one a file. Each is whole in itself: nothing is loaded, and it works without a network.

pub mod latency;
pub mod realtime;
pub(crate) mod skeleton;
pub mod trace;
