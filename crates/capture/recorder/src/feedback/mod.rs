//! What a recording reports to its caller: notices while it runs, its outcome, and why it failed. Nothing is printed here.

pub(crate) mod error;
pub(crate) mod notice;
pub(crate) mod program_end;
pub(crate) mod recorded_run;
pub(crate) mod totals;
