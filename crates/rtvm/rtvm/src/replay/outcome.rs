//! The result of a replay for one system.

use super::{Scatter, Series};
use crate::Error;

/// Actions that a system could not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// No frame was free.
    pub out_of_frames: u64,
    /// No free block was large enough.
    pub out_of_address_space: u64,
    /// Anything else. Would be a fault of this program.
    pub other: u64,
    /// Actions on blocks that could not be made.
    pub on_missing_blocks: u64,
}

impl Failures {
    pub(crate) fn count(&mut self, error: &Error) {
        match error {
            Error::OutOfFrames => self.out_of_frames += 1,
            Error::OutOfAddressSpace { .. } => self.out_of_address_space += 1,
            _ => self.other += 1,
        }
    }
}

/// A row of Table I, and its figures.
#[derive(Clone, Debug, Default)]
pub struct ReplayOutcome {
    /// Calls that allocate.
    pub allocations: u64,
    /// Calls that release.
    pub frees: u64,
    /// Accesses to blocks.
    pub accesses: u64,
    /// Words that the worst allocation touched.
    pub max_alloc_touches: u64,
    /// Words that the worst release touched.
    pub max_free_touches: u64,
    /// Modelled time of the longest allocation.
    pub max_alloc_ns: f64,
    /// Modelled time of the longest release.
    pub max_free_ns: f64,
    /// The most frames in use at any time.
    pub peak_pages: u32,
    /// Actions of all kinds.
    pub actions: u64,
    /// Frames in use, summed over the actions.
    pub page_actions: u64,
    /// The most frames that one release gave back.
    pub max_pages_unmapped_by_one_free: u32,
    /// What failed.
    pub failures: Failures,
    /// Allocations: bytes against modelled time (Figure 5).
    pub alloc_points: Scatter,
    /// Releases: bytes against modelled time (Figure 6).
    pub free_points: Scatter,
    /// Frames in use, before and after each allocation and release (Figure 7).
    pub footprint: Series,
}

impl ReplayOutcome {
    /// Frames in use, as the mean over the actions: what others can't have meanwhile.
    pub fn mean_pages(&self) -> f64 {
        if self.actions == 0 { 0.0 } else { self.page_actions as f64 / self.actions as f64 }
    }
}
