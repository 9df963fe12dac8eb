//! An attribute of a frame before compression, and the second stage that compresses it (docs/format.md, *Attribute*).

use std::{borrow::Cow, cell::RefCell};

use super::lzma;

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// As it is.
    Stored = 0,
    /// As one zstd frame.
    Zstd = 1,
    /// By LZMA: length u64, properties, raw stream.
    Lzma = 2,
}

impl Coding {
    pub(crate) fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            0 => Self::Stored,
            1 => Self::Zstd,
            2 => Self::Lzma,
            _ => return None,
        })
    }

    /// Decodes exactly `len` bytes; `None` where the content is something else.
    pub fn restore(self, stored: &[u8], len: usize) -> Option<Vec<u8>> {
        match self {
            Self::Stored => (stored.len() == len).then(|| stored.to_vec()),
            // A frame that claims more than zstd can produce from its bytes must not make us allocate it.
            Self::Zstd => {
                let claimed = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
                let bytes = claimed.filter(|&claimed| claimed == len as u64);
                let bytes = bytes.and_then(|_| zstd::bulk::decompress(stored, len).ok());
                bytes.filter(|bytes| bytes.len() == len)
            }
            Self::Lzma => lzma::decompress(stored, len),
        }
    }
}

/// An attribute of a frame, not yet or no longer compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its type: 0 entries, 32 and up as the encoder likes.
    pub kind: u16,
    /// How to store it.
    pub coding: Coding,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Attribute {
    /// The payload as it is stored, and how: as it is where compressing gains nothing, or has no memory.
    pub fn store(&self, zstd_level: i32) -> (Coding, Cow<'_, [u8]>) {
        let compressed = match self.coding {
            Coding::Stored => None,
            Coding::Zstd => zstd_compress(&self.bytes, zstd_level),
            Coding::Lzma => lzma::compress(&self.bytes),
        };
        match compressed.filter(|bytes| bytes.len() < self.bytes.len()) {
            Some(bytes) => (self.coding, bytes.into()),
            None => (Coding::Stored, self.bytes.as_slice().into()),
        }
    }
}

/// Compresses with a context that the thread keeps: a new one for each frame costs more in fresh pages than a short frame in
/// compression.
fn zstd_compress(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        if context.as_ref().is_none_or(|(of, _)| *of != level) {
            *context = Some((level, zstd::bulk::Compressor::new(level).ok()?));
        }
        context.as_mut()?.1.compress(bytes).ok()
    })
}
