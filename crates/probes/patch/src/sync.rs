//! The atomics that the protocol uses: the machine's, or loom's where the protocol is model-checked.
//!
//! Only [`crate::protocol`] uses them; all other code touches real memory and cannot run under loom.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
