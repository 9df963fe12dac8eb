//! What is mapped where in one process, and which file it comes from (MadT, section III-E).
//!
//! [`RegionMap`] applies region events and finds regions; [`ProcessImage`] adds which mapped files are modules and what is
//! added to their addresses.

mod process;
mod region;

pub use process::{Instance, InstanceId, ProcessImage};
pub use region::{Region, RegionId, RegionMap};
