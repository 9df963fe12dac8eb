//! Functions of the C library that are recorded as one event each, and those that order threads. Start with `entry_points`.

pub(crate) mod allocations;
pub(crate) mod allocators;
pub(crate) mod block_operations;
pub(crate) mod entry_points;
pub(crate) mod real;
pub(crate) mod synchronisation;
