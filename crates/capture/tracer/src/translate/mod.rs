//! The tracer by translation: what stands between the code cache and the process.

pub(crate) mod code_views;
pub(crate) mod context;
pub(crate) mod sync;
pub(crate) mod verify;

pub(crate) use context::*;
