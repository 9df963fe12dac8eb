//! `memtap view`: a trace as a picture in a browser, of any size, because the server sends windows of it.
//!
//! [`MapServer`] serves one page of a run, or of two to compare, and answers its questions: a *tile* is a grid of counts over a range of cycles and addresses. It is
//! drawn from the page index; where that is too coarse, the frames under the tile are decoded, down to single accesses. What an
//! address is called is known by the crate `analysis`, what a table looks like by `report`. Nothing is written but the index. Start
//! with `map.rs`, which is what there is to see; `server.rs` is how it is asked.
#![forbid(unsafe_code)]

mod accesses;
mod axis;
mod blocks;
mod compare;
mod connections;
mod error;
mod flame;
mod frames;
mod grid;
mod lanes;
mod lifetimes;
mod machine;
mod map;
mod missing;
mod page;
mod part;
mod pending_requests;
mod physical;
mod places;
mod query;
mod server;
mod shown;
mod source;
mod table;
mod tile;

pub use error::Error;
pub use map::TraceMap;
pub use server::MapServer;
