//! What is mapped where in one process, and from which file (MadT, section III-E).
//!
//! [`RegionMap`] applies region events and finds regions. [`ProcessImage`]
//! adds which mapped files are modules and their load bias.

mod process;
mod region;

pub use process::{Instance, InstanceId, ProcessImage};
pub use region::{Region, RegionId, RegionMap};
