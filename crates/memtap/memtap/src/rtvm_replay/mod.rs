//! `memtap rtvm`: what it replays, and the forms its result takes.

mod blocks;
mod figure;
mod options;
mod page;
mod result;
mod synthetic;
mod trace;

pub(crate) use options::{parse_bytes, parse_sizes};
pub(crate) use page::write as write_page;
pub(crate) use result::{Findings, Run, spreads};
pub(crate) use synthetic::run as run_synthetic;
pub(crate) use trace::run as run_trace;
