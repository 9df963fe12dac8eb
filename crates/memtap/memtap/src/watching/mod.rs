//! `memtap watch`, while the program runs: what is watched ([`list`]), hits in an order in which names are right
//! ([`live`]), how they are written ([`log`]), and the wait at a stopped program ([`stop`]).

mod libraries;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod log;
pub(crate) mod stop;
