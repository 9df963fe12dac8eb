//! The tables that `memtap record` prints after the program has ended: those of `memtap report` and `memtap errors`.
//!
//! They go to standard error, like those of `perf stat`, `valgrind` and `strace -c`. Standard
//! output belongs to the program, and its reader (`gzip -c x > x.gz`) must find nothing else there.

use std::path::Path;

use anyhow::Result;

use super::report::Grouping;
use super::{errors, report};
use crate::inputs;
use crate::output::{Out, error_line, is_reader_gone, note_problems};
use crate::recording::let_signals_end;

const PRINTED: &str = "What is printed when the program has ended";

/// Which tables are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct TableArgs {
    /// Print these tables to standard error, as memtap report --by KIND prints each; without -o no trace is kept
    #[arg(
        long,
        value_name = "KIND[,KIND...]",
        value_delimiter = ',',
        value_parser = Grouping::of_programs(),
        conflicts_with_all = ["server", "never"],
        help_heading = PRINTED
    )]
    pub(super) report: Vec<Grouping>,
    /// Print memory errors to standard error, as memtap errors does; without -o no trace is kept
    #[arg(long, conflicts_with_all = ["server", "never"], help_heading = PRINTED)]
    pub(super) errors: bool,
}

impl TableArgs {
    /// Whether any is wanted.
    pub(crate) fn are_wanted(&self) -> bool {
        self.errors || !self.report.is_empty()
    }

    /// A table that is made of accesses to stacks, if one is wanted.
    pub(crate) fn of_stacks(&self) -> Option<&'static str> {
        self.report.iter().find_map(|kind| match kind {
            Grouping::Stack => Some("--report stack"),
            Grouping::Local => Some("--report local"),
            _ => None,
        })
    }

    /// Prints them, one after the other. One that can't be made is said, and the next one comes. Whether all were made.
    pub(crate) fn print(&self, trace: &Path) -> Result<bool> {
        // The program is over: Ctrl-C means memtap now.
        let_signals_end()?;
        let session = inputs::session(trace)?;
        let reports = self.report.iter().map(|kind| Some(*kind));
        let mut are_made = true;
        for (number, kind) in reports.chain(self.errors.then_some(None)).enumerate() {
            let mut out = Out::stderr();
            if number > 0 {
                out.line("")?;
            }
            let printed = match kind {
                Some(kind) => report::print_by(&session, kind, out),
                None => errors::print_all(&session, out),
            };
            match printed {
                Err(error) if is_reader_gone(&error) => return Ok(true),
                Err(error) => {
                    say!("memtap: {}", error_line(&error));
                    are_made = false;
                }
                Ok(()) => {}
            }
        }
        note_problems(&session);
        Ok(are_made)
    }
}
