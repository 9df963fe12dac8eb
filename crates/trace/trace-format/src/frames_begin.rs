//! From when on the accesses of a frame could have been made: a property says whether the frames of a trace tell it.
//!
//! Other traces have in its place when the recorder saw the first access, which is after a whole buffer of them was made.

use crate::Trace;

/// The property.
pub const FRAMES_BEGIN: &str = "frames_begin";
/// Its value where frames tell it.
pub const WITH_ACCESSES: &str = "accesses";

impl Trace {
    /// Whether the wall clock of a frame of accesses begins when they could first have been made.
    pub fn frames_begin_with_accesses(&self) -> bool {
        self.properties().get(FRAMES_BEGIN).is_some_and(|value| value == WITH_ACCESSES)
    }
}
