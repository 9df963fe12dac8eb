//! Beginning, threads, forks, other programs, the end; being attached to; recording on and off.

pub(crate) mod attach;
pub(crate) mod breakpoint;
pub(crate) mod control;
pub(crate) mod image;
pub(crate) mod program;
pub(crate) mod start;
pub(crate) mod threads;

pub(crate) use threads::*;
