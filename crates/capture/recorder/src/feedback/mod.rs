//! What a recording gives back to its caller: notices while it goes on, how it went, and why it could not. Nothing is printed here.

pub(crate) mod error;
pub(crate) mod notice;
pub(crate) mod program_end;
pub(crate) mod recorded_run;
pub(crate) mod totals;
