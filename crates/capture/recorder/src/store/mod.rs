//! Where a trace goes: to a server in this process, which is the default, or to another one.

pub(crate) mod destination;
pub(crate) mod memory_plan;
pub(crate) mod remote_store;
pub(crate) mod trace_options;
pub(crate) mod trace_plan;
