//! Watchpoints, and the stacks that are told of their hits.

pub(crate) mod locals;
pub(crate) mod stack;
pub(crate) mod watchpoints;
