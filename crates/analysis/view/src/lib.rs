//! `memtap view`: a trace of any size as a picture in a browser. The server sends only windows of it.
//!
//! [`MapServer`] serves one page for a run, or for two runs to compare, and answers its requests. A *tile* is a grid of counts
//! over a range of cycles and addresses. It is drawn from the page index; where that is too coarse, the frames under the tile
//! are decoded, down to single accesses. The names of addresses are left to the crate `analysis`, and the layout of tables to
//! `report`. Nothing is written but the index. Start with `map.rs`, which has what can be viewed; `server.rs` has the requests.
#![forbid(unsafe_code)]

mod accesses;
mod axis;
mod blocks;
mod by_thread;
mod clock;
mod compare;
mod connections;
mod divided;
mod error;
mod findings;
mod flame;
mod frames;
mod grid;
mod held_locks;
mod lanes;
mod lifetimes;
mod machine;
mod map;
mod missing;
mod opening;
mod page;
mod part;
mod pending_requests;
mod physical;
mod places;
mod query;
mod server;
mod shown;
mod sketch;
mod source;
mod table;
mod tile;

pub use error::Error;
pub use map::TraceMap;
pub use opening::Opening;
pub use server::{MapServer, OpenAgain};
