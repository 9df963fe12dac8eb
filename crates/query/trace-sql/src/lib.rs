//! The tables of traces in DataFusion, and answers to queries about them.
//!
//! `provider` gives the tables to DataFusion and pushes down what it can (`filters`); `plan` is the scan in its plans, and
//! `wire` writes it for other processes;
//! `functions` are the functions that memtap adds, `wildcard` says what `*` stands for, and `grouped` is how names are grouped. `session` answers a query,
//! and `output` writes the rows. Start with [`SqlSession`]. The commands are in `memtap-sql` and `memtap-cluster`.
#![forbid(unsafe_code)]

mod filters;
mod functions;
mod grouped;
mod output;
mod part_rows;
mod plan;
mod provider;
mod session;
mod wildcard;
mod wire;

pub use functions::without_traces;
pub use output::{OutputArgs, OutputFormat, Writer};
pub use plan::TraceScanPlan;
pub use provider::{ReadBy, TraceTableProvider};
pub use session::{SqlSession, answer, error_line};
pub use wire::TracePlans;
