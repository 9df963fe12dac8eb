//! The watched bytes that an instruction or a block operation touches. Types only: `watch::hits` fills them.

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

impl Touched {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self { list: [MaybeUninit::uninit(); MOST_HITS], count: 0 }
    }

    /// What it holds; nothing is left here.
    pub(crate) fn take(&mut self) -> Self {
        let mut taken = Self::new();
        for (to, from) in taken.list.iter_mut().zip(&self.list).take(self.count) {
            *to = *from;
        }
        taken.count = core::mem::take(&mut self.count);
        taken
    }

    /// Whether nothing is touched.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there is no room for more.
    pub(crate) fn is_full(&self) -> bool {
        self.count == MOST_HITS
    }

    /// Forgets it: the access was not made.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}
