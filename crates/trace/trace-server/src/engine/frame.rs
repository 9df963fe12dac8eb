//! A frame made by a client, while it arrives in parts.

use std::sync::Arc;

use super::resources::Resources;
use crate::wire::FramePiece;
use crate::{Error, RefusalReason};

/// Bytes of a frame at most. A client's segments are far shorter, and readers give a frame no less.
const MOST_BYTES: u64 = 128 << 20;

/// What came of a frame so far. What it takes is the budget's for segments.
#[derive(Debug)]
pub(super) struct PartialFrame {
    resources: Arc<Resources>,
    total_bytes: u64,
    bytes: Vec<u8>,
}

impl Drop for PartialFrame {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.resources.segments.release(self.total_bytes as usize);
        }
    }
}

impl PartialFrame {
    pub(super) fn new(resources: Arc<Resources>) -> Self {
        Self { resources, total_bytes: 0, bytes: Vec::new() }
    }

    /// Adds the next piece; the whole frame where it was the last one. A frame in one piece takes no more than its message.
    pub(super) fn add(&mut self, piece: FramePiece) -> Result<Option<Vec<u8>>, Error> {
        let FramePiece { total_bytes, offset, bytes } = piece;
        let refuse = |text: String| Err(Error::refused(RefusalReason::Malformed, text));
        if total_bytes > MOST_BYTES {
            return refuse(format!("a frame of {total_bytes} bytes; {MOST_BYTES} are the most"));
        }
        let is_next = if offset == 0 {
            self.bytes.is_empty()
        } else {
            offset == self.bytes.len() as u64 && total_bytes == self.total_bytes
        };
        let end = offset.saturating_add(bytes.len() as u64);
        if !is_next || bytes.is_empty() || end > total_bytes {
            return refuse(format!("a piece of a frame that is not the next one, at byte {offset}"));
        }
        if offset == 0 && end == total_bytes {
            return Ok(Some(bytes));
        }
        if offset == 0 {
            self.resources.reserve_for_frame(total_bytes as usize, || Ok(()))?;
            (self.total_bytes, self.bytes) = (total_bytes, bytes);
        } else {
            self.bytes.extend_from_slice(&bytes);
        }
        if end < total_bytes {
            return Ok(None);
        }
        self.resources.segments.release(total_bytes as usize);
        Ok(Some(std::mem::take(&mut self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineOptions;

    fn piece(total_bytes: u64, offset: u64, bytes: &[u8]) -> FramePiece {
        FramePiece { total_bytes, offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn pieces_make_a_frame_in_their_order_alone() {
        let resources = Arc::new(Resources::start(EngineOptions::default()).expect("workers"));
        let mut frame = PartialFrame::new(resources);
        assert_eq!(frame.add(piece(3, 0, &[1, 2, 3])).unwrap(), Some(vec![1, 2, 3]));
        assert_eq!(frame.add(piece(3, 0, &[1])).unwrap(), None);
        for wrong in [
            piece(3, 0, &[1]),
            piece(3, 2, &[3]),
            piece(4, 1, &[2]),
            piece(3, 1, &[2, 3, 4]),
            piece(3, 1, &[]),
        ] {
            assert!(frame.add(wrong.clone()).is_err(), "{wrong:?}");
        }
        assert_eq!(frame.add(piece(3, 1, &[2, 3])).unwrap(), Some(vec![1, 2, 3]));
        assert!(frame.add(piece(MOST_BYTES + 1, 0, &[1])).is_err());
        assert!(frame.add(piece(3, u64::MAX, &[1])).is_err());
    }
}
