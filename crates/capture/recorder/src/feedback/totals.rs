//! Figures of a recording: what was recorded, what is missing and why, what was compared.

use memref::GapReason;

/// What has been recorded so far, for the progress line and the closing words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Single accesses.
    pub accesses: u64,
    /// Accesses whose instruction took the slow path.
    pub slow: u64,
    /// Events that are known to be missing.
    pub gaps: u64,
    /// Processes that are known to have ended by a signal.
    pub deaths: u64,
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

/// Why events are missing, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapCause {
    /// The kind of the cause.
    pub reason: GapReason,
    /// The cause itself.
    pub cause: String,
    /// Events that are missing for it.
    pub count: u64,
}

/// What was compared, of all threads.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Windows that were begun.
    pub windows: u64,
    /// Instructions that were compared.
    pub instructions: u64,
    /// Accesses that stepping saw.
    pub accesses: u64,
    /// Those of them whose bytes were compared, too; `None` where bytes are not recorded.
    pub with_bytes: Option<u64>,
    /// Instructions whose accesses differ, and stretches whose number of instructions does.
    pub mismatches: u64,
    /// The first of them, in words.
    pub shown: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_events_of_one_reason_are_one_count() {
        let mut list = Vec::new();
        let (lost, killed) = (GapReason::LostControl, GapReason::Killed);
        for (reason, count) in [(lost, 2), (killed, 5), (lost, 3)] {
            add_missing(&mut list, reason, count);
        }
        let expected = [MissingEvents { reason: lost, count: 5 }, MissingEvents { reason: killed, count: 5 }];
        assert_eq!(list, expected);
    }
}
