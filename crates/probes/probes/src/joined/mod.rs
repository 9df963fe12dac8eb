//! The profiles that a run's processes wrote, joined by function and named: the figures that every view shows.
//!
//! Drawing them is left to the crate `report`. Nothing here runs in the probed process. Start with [`Profile::read`].

pub mod profile;
pub mod source;

pub use profile::{FunctionFigures, Profile};
