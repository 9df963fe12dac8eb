//! What people and programs read of memtap's results: tables, JSON, pages, pictures and exported events.
//!
//! One file an output format. What is shown is computed elsewhere ([`analysis`], `probes`, `rtvm`), so the same figure is the
//! same in every output; nothing here reads the command line or decides an exit status.
#![forbid(unsafe_code)]

pub mod error;
pub mod heatmap;
pub mod latency;
pub mod pages;
pub mod png;
pub mod realtime;

pub use error::Error;
