//! What an instruction or a block operation touches of what is watched. Types alone: `hits` fills them.

use core::mem::MaybeUninit;

use memref::AccessKind;

/// Watches that one access or block operation is told of.
pub(crate) const MOST_HITS: usize = 64;

/// Watched bytes that are about to be accessed.
#[derive(Clone, Copy)]
pub(crate) struct Touch {
    pub(crate) id: u32,
    pub(crate) kind: AccessKind,
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) old: Option<u64>,
}

/// What an instruction or a block operation touches of what is watched.
#[derive(Clone, Copy)]
pub(crate) struct Touched {
    /// The first `count` are written.
    pub(crate) list: [MaybeUninit<Touch>; MOST_HITS],
    pub(crate) count: usize,
}
