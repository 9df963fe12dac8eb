//! The output of memtap for people and programs: tables, JSON, pages, pictures and exported events.
//!
//! There is one file per output format. What is shown is computed elsewhere ([`analysis`], `probes`, `rtvm`), so the same figure
//! is the same in every output. Nothing here reads the command line or decides an exit status. Where to add a new output:
//!
//! - a format to which a trace is exported: a file in [`export`], with an [`export::Exporter`];
//! - a view of figures: [`tables`] for a terminal and JSON, [`pages`] for HTML, [`heatmap`] and [`svg`] for pictures;
//! - a stream of the trace file that does not consist of the program's events: [`streams`];
//! - findings for editors and code review: [`sarif`];
//! - results of the latency profiler: [`latency`]; real-time virtual memory: [`realtime`].
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
