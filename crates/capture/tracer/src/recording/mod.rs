//! Switching recording on and off: by the program itself, and at functions of unmodified programs.

pub(crate) mod breakpoint;
pub(crate) mod control;
