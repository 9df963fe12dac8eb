//! Watching bytes while the program runs: what is watched ([`list`]), and hits in an order in which names are right ([`live`]).

mod libraries;
pub mod list;
pub mod live;
