//! Watchpoints, and the stacks that are reported with their hits. Start with `watchpoints`.

pub(crate) mod hits;
pub(crate) mod list;
pub(crate) mod locals;
pub(crate) mod stack;
pub(crate) mod watchpoints;
