//! Where a trace goes: a server in this process, which is the default, or another one.

pub(crate) mod destination;
pub(crate) mod memory_plan;
pub(crate) mod remote_store;
pub(crate) mod trace_options;
pub(crate) mod trace_plan;
