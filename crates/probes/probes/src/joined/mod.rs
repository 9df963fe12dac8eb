//! The profiles written by the processes of a run, joined by function and with names: the figures shown by every view.
//!
//! Drawing them is left to the crate `report`. Nothing here runs in the probed process. Start with [`Profile::read`].

pub mod profile;
pub mod source;

pub use profile::{FunctionFigures, Profile};
