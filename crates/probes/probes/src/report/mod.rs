//! Reading profiles and showing them: a table, JSON, folded stacks, a page with a flame graph, a timeline.
//!
//! All views are made from one [`profile::Profile`], so the same figure is the same in each. Nothing here runs in the
//! probed process.

pub mod flame;
pub mod folded;
pub mod json;
pub mod profile;
pub mod source;
pub mod text;
pub mod timeline;

pub use profile::{Profile, Row};
