//! The tracer by page protection: memory with two views, and what happens at a fault. Start with `burst`.

pub(crate) mod advance;
pub(crate) mod burst;
pub(crate) mod fault;
pub(crate) mod fork_copy;
pub(crate) mod gs_words;
pub(crate) mod sharing;
pub(crate) mod view_copy;
pub(crate) mod views;
