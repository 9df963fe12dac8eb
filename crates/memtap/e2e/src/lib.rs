//! End-to-end tests: the real `memtap` binary records small programs, and its output is
//! compared with counts made by hand, with a native run, and with Valgrind's Lackey.
//!
//! The programs are in `tests/programs`; the comment at the head of each says how it is built
//! and what it must do ([`Header`]). This crate does not link any part of memtap and uses only
//! the command line and the output formats. Start with [`TestProgram`], then [`Recording`].
#![forbid(unsafe_code)]

mod browser;
mod document;
mod guest;
mod header;
mod lackey;
mod ordinary;
mod place;
mod program;
mod recording;
mod run;
mod schema;
mod section;
mod serve;
mod small_disk;
mod tally;
mod trace;
mod view_page;
mod viewer;

pub use browser::Browser;
pub use document::{DocumentCommand, document_commands, not_printed};
pub use guest::guest_command;
pub use header::{BlockOps, Expectation, Header};
pub use lackey::{BASELINE_FUNCTIONS, Reference, parse_lackey, run_lackey};
pub use ordinary::record_ordinary;
pub use place::{bin_dir, memtap, memtap_for_others, repository, tool};
pub use program::TestProgram;
pub use recording::{Recording, record};
pub use run::{Finished, Limited, run, spawn};
pub use schema::{fits_sarif, fits_schema};
pub use section::{Section, Variable, data_and_bss, variables};
pub use serve::serve;
pub use small_disk::{FILLING, on_small_disk};
pub use tally::{Counts, Tally};
pub use trace::{EnteredBlock, Trace, VariableRow, is_named, total_of};
pub use view_page::{Selection, ViewPage, hexadecimal};
pub use viewer::{HttpAnswer, TileAnswer, Viewer};
