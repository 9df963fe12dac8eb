//! Functions of the C library that are one event each, and what orders threads. Start with `entry_points`.

pub(crate) mod allocations;
pub(crate) mod allocators;
pub(crate) mod block_operations;
pub(crate) mod entry_points;
pub(crate) mod real;
pub(crate) mod synchronisation;
