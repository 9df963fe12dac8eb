//! How a recording went.

use std::path::PathBuf;

use memref::GapReason;

use crate::sink::causes::GapCause;
use crate::{ProgramEnd, Totals, Verified, Warning};

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

/// Events that are missing for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingEvents {
    /// Why.
    pub reason: GapReason,
    /// How many.
    pub count: u64,
}

/// Counts missing events by their reason.
pub(crate) fn add_missing(list: &mut Vec<MissingEvents>, reason: GapReason, count: u64) {
    match list.iter_mut().find(|missing| missing.reason == reason) {
        Some(missing) => missing.count += count,
        None => list.push(MissingEvents { reason, count }),
    }
}
