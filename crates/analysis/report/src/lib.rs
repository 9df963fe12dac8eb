//! What people and programs read of memtap's results: tables, JSON, pages, pictures and exported events.
//!
//! One file an output format. What is shown is computed elsewhere ([`analysis`], `probes`, `rtvm`), so the same figure is the
//! same in every output; nothing here reads the command line or decides an exit status. Where a new output goes:
//!
//! - a format that a trace is exported in: a file in [`export`], an [`export::Exporter`];
//! - a view of figures: [`tables`] for a terminal and JSON, [`pages`] for HTML, [`heatmap`] and [`svg`] for pictures;
//! - a stream of the file that is no event of the program: [`streams`];
//! - findings for editors and code review: [`sarif`];
//! - what the latency profiler found: [`latency`]; real-time virtual memory: [`realtime`].
//!
//! Start with [`export::export`], which feeds an exporter.
#![forbid(unsafe_code)]

pub mod error;
pub mod export;
pub mod flame;
pub mod heatmap;
pub mod latency;
mod number;
pub mod pages;
pub mod png;
pub mod realtime;
pub mod sarif;
mod shortfall;
pub mod streams;
pub mod svg;
pub mod tables;

pub use error::Error;
pub use number::{amount, grouped, missing};
pub use shortfall::shortfall;

/// The program of a trace with its arguments, as far as the trace tells.
pub fn title(session: &analysis::Session) -> &str {
    let properties = session.trace().properties();
    properties.get("args").or(properties.get("program")).map_or("trace", |args| args)
}
