//! Writes the definitions of a process's blocks into buffers that the recorder reads while they are being filled.

use crate::layout::BUFFER_BYTES;
use crate::pool::{Buffer, Content, Pool};
use crate::writer::Full;

/// Writes a process's definitions of blocks.
#[derive(Debug)]
pub struct DefinitionWriter {
    buffer: Option<Buffer>,
    len: usize,
    sequence: u32,
}

impl Default for DefinitionWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl DefinitionWriter {
    /// Without a buffer.
    pub const fn new() -> Self {
        Self { buffer: None, len: 0, sequence: 0 }
    }

    /// Writes one, visible at once. [`Full`]: no buffer is free just now.
    pub fn write(&mut self, pool: &Pool, process: u32, bytes: &[u8]) -> Result<(), Full> {
        if self.buffer.is_none() || self.len + bytes.len() > BUFFER_BYTES {
            if let Some(full) = self.buffer.take() {
                pool.submit(full);
            }
            let buffer = pool.take(process, u32::MAX, 0, self.sequence, Content::Definitions).ok_or(Full)?;
            self.buffer = Some(buffer);
            self.len = 0;
            self.sequence = self.sequence.wrapping_add(1);
        }
        let Some(buffer) = self.buffer else { return Err(Full) };
        // SAFETY: inside the buffer by the check above, after what is published; the caller is the only writer.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.start().add(self.len), bytes.len()) };
        self.len += bytes.len();
        buffer.header().publish(self.len);
        Ok(())
    }

    /// Forgets the buffer: after a fork it is the parent's.
    pub fn forget(&mut self) {
        *self = Self::new();
    }
}
