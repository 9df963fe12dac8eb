//! `memtap watch`, while the program runs: how hits are written ([`log`]), and waiting for a stopped program ([`stop`]).

pub(crate) mod log;
pub(crate) mod stop;
