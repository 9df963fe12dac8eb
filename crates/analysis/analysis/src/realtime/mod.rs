//! A workload under real-time virtual memory management and under a page table (Böhnert and Scholl, section V). The
//! workload is a trace or the synthetic one of the paper, as actions that the crate `rtvm` replays on both systems.
//!
//! Start with [`run_trace`]; [`ComparedRun`] is the result, from which every output is made.

mod blocks;
mod munmap;
mod result;
mod synthetic;
mod trace;

pub use munmap::{MunmapCurve, MunmapPoint};
pub use result::{ComparedRun, Findings, Spread, System, spreads};
pub use synthetic::run as run_synthetic;
pub use trace::run as run_trace;
