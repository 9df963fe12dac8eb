//! The outcome of a recording.

use std::path::PathBuf;

use crate::feedback::notice::Warning;
use crate::feedback::program_end::ProgramEnd;
use crate::feedback::totals::{GapCause, MissingEvents, Totals, Verified};

/// How a recording went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRun {
    /// Where the trace is.
    pub output: PathBuf,
    /// How the program ended.
    pub end: ProgramEnd,
    /// What was recorded.
    pub totals: Totals,
    /// Events that are known to be missing, by their reason: together [`Totals::gaps`].
    pub missing: Vec<MissingEvents>,
    /// The causes of them, as far as they are known.
    pub causes: Vec<GapCause>,
    /// Programs that ran untraced, each once.
    pub untraced: Vec<String>,
    /// What was compared with stepping, where that was asked for.
    pub verified: Option<Verified>,
    /// What should be known of it; each was a [`Notice::Warning`](crate::Notice::Warning), too.
    pub warnings: Vec<Warning>,
}
