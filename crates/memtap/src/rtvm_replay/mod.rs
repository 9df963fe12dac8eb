//! `memtap rtvm`: what it replays, and the forms its result takes.

mod options;
mod result;
mod synthetic;

pub(crate) use options::{parse_bytes, parse_sizes};
pub(crate) use result::{Findings, Run, spreads};
pub(crate) use synthetic::run as run_synthetic;
