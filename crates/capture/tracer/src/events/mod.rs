//! Events other than accesses that any room may have to report: allocation and release of blocks, and synchronisation through the kernel.

pub(crate) mod allocation_event;
pub(crate) mod call_site;
mod descriptors;
mod sent_signals;
pub(crate) mod unfinished;
