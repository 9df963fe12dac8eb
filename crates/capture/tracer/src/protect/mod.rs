//! The tracer by page protection: memory with two views, and what happens at a fault.

pub(crate) mod fault;
pub(crate) mod sharing;
pub(crate) mod views;
