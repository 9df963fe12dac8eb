//! Events besides accesses that every room may have to tell of: blocks that come and go, and what orders threads by way of the kernel.

pub(crate) mod allocation_event;
pub(crate) mod call_site;
mod descriptors;
mod sent_signals;
pub(crate) mod unfinished;
