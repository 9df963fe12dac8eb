//! Tools that replay a trace.
//!
//! A replay ([`Session::replay`]) delivers the events of all threads in an order in which every address means
//! what it meant when it was accessed. A [`Tool`] receives the events with a resolver that knows this meaning.
//! Among other things, the tools in this crate count accesses ([`Tally`]), compute totals ([`Summary`]), and find
//! accesses to released memory ([`Stale`]) and data races ([`race`]). Drawing and writing the results is left to
//! the crate `report`. A figure is the same in every output, because all outputs take it from the same tool.
//!
//! Nothing here writes to a terminal or parses a command line. Start with
//! [`Session`]; examples/shared_variables.rs is an example of a custom tool.
#![forbid(unsafe_code)]

mod access_graph;
mod block_lines;
mod block_total;
mod block_use;
pub mod cache;
mod callees;
mod code_files;
mod compared;
mod count;
mod coverage;
mod data_tally;
mod deaths;
pub mod determinism;
mod error;
pub mod errors;
mod executed_blocks;
mod first_place;
pub mod flow;
mod indexed;
mod inlined_functions;
mod instructions;
mod labelled;
pub mod layout;
pub mod lines;
pub mod machine;
mod near_accesses;
mod need;
mod number;
mod owner;
mod pages;
pub mod race;
mod read_progress;
pub mod realtime;
mod replay;
mod selection;
mod session;
pub mod stack;
mod stale;
mod summary;
pub mod taint;
mod tally;
mod thread_clock;
mod thread_events;
mod timeline;
mod trace_part;
mod typing;
mod unused;
mod variable_name;
pub mod watch_units;

pub use access_graph::{AccessedThing, CodeLink, Links, PageLink, ThingId};
pub use block_total::BlockTotal;
pub use block_use::{BlockSum, BlockUse, BlockUses};
pub use compared::{ComparedRow, Comparison, compared, compared_stacks};
pub use count::Count;
pub use coverage::coverage;
pub use data_tally::DataTally;
pub use deaths::{Death, DeathFault};
pub use error::Error;
pub use first_place::FirstPlace;
pub use indexed::{IndexedPages, threads};
pub use inlined_functions::{InnermostFunction, InnermostFunctions};
pub use instructions::CountedByInstruction;
pub use need::{has_stacks, needs_synchronisation, orders_atomics};
pub use number::{amount, grouped, missing};
pub use owner::Owner;
pub use pages::Pages;
pub use read_progress::ReadProgress;
pub use replay::{AskedMoment, Moment, Moments, ThreadPart, Tool};
pub use session::{ArchivedSymbols, Session};
pub use stale::{DoubleFree, Stale, StaleAccess};
pub use summary::{BlockOpCount, Summary};
pub use tally::{
    AccessRow, By, CountedRows, MadeBlock, MadeObjects, PairRow, PairTally, SortKey, Tally, join_families,
    joined_in_words, page_row,
};
pub use thread_clock::{ClockCursor, FrameTime, ThreadClock};
pub use timeline::{HeapSample, TimeSample, Timeline};
pub use trace_part::TracePart;
pub use unused::{Unused, UnusedRow};
