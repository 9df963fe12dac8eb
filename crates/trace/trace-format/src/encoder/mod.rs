//! Encoders: turn the entries of one segment into attributes of a frame, and back.
//!
//! Start with [`Encoder`] in `codec.rs`. A new encoder consists of a file here, a number and a name
//! in `number.rs`, a line in `registry.rs`, and a section of docs/format.md. The default for accesses
//! is in `predict`, the one for recorders in `live.rs` and `blocks`. This file only re-exports names.

mod attribute;
pub(crate) mod blocks;
mod codec;
mod columns;
mod generic;
mod index;
mod level;
mod live;
pub(crate) mod lzma;
pub(crate) mod number;
mod predict;
mod raw;
mod registry;
mod uncovered;
pub(crate) mod vpc;
mod words;

pub use attribute::{Attribute, Coding};
pub use blocks::{BlockFrame, CodedFrame, ExpectedBlock, keep_of_frames};
pub(crate) use blocks::{BlockNames, EPOCH_ENTRIES};
pub use codec::{Corrupt, Encoded, Encoder};
pub use level::Level;
pub(crate) use raw::raw;
pub use registry::Encoders;
