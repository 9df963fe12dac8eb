//! The columns of a frame while they are written.
//!
//! Space for the two columns that grow with every execution and every value is reserved in advance, so appending to them is a store.

use super::codes::COLUMNS;

/// Bytes that a column has at first.
const FIRST_BYTES: usize = 4096;

/// A column that has room after what is written.
#[derive(Debug, Default)]
pub(super) struct RoomyColumn {
    bytes: Vec<u8>,
    /// Bytes written.
    len: usize,
}

impl RoomyColumn {
    /// Makes room for that many bytes, and gives it.
    #[inline]
    pub(super) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() - self.len < bytes {
            self.grow(bytes);
        }
        &mut self.bytes[self.len..][..bytes]
    }

    /// So much of the room was written.
    #[inline]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.len += bytes;
    }

    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        self.room(1)[0] = byte;
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let len = (self.len + bytes).max(2 * self.bytes.len()).max(FIRST_BYTES);
        self.bytes.resize(len, 0);
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// All columns of a frame, by the names that docs/format.md has for them.
#[derive(Debug, Default)]
pub(super) struct FrameWriting {
    pub(super) codes: RoomyColumn,
    pub(super) numbers: Vec<u8>,
    pub(super) steps: Vec<u8>,
    pub(super) value_codes: RoomyColumn,
    pub(super) differences: RoomyColumn,
    pub(super) singles: Vec<u8>,
}

impl FrameWriting {
    /// In the order of their numbers (`codes`).
    pub(super) fn all(&self) -> [&[u8]; COLUMNS] {
        [
            self.codes.written(),
            // Blocks are named, or defined when somebody wants the frame alone.
            &[],
            &self.numbers,
            &self.steps,
            self.value_codes.written(),
            self.differences.written(),
            &self.singles,
        ]
    }

    /// Without what was written, but with its memory.
    pub(super) fn clear(&mut self) {
        for roomy in [&mut self.codes, &mut self.value_codes, &mut self.differences] {
            roomy.len = 0;
        }
        for plain in [&mut self.numbers, &mut self.steps, &mut self.singles] {
            plain.clear();
        }
    }

    /// Bytes written.
    pub(super) fn written(&self) -> usize {
        self.all().iter().map(|column| column.len()).sum()
    }

    /// Bytes of memory that they take.
    pub(super) fn memory(&self) -> usize {
        let roomy = [&self.codes, &self.value_codes, &self.differences];
        let plain = [&self.numbers, &self.steps, &self.singles];
        roomy.iter().map(|column| column.bytes.capacity()).sum::<usize>()
            + plain.iter().map(|column| column.capacity()).sum::<usize>()
    }
}
