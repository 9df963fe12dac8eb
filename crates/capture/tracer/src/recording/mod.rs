//! Recording on and off: by the program, and at functions of unmodified ones.

pub(crate) mod breakpoint;
pub(crate) mod control;
