//! The frames and segments that are being filled, summed over all threads. Where this sum
//! is bounded and exceeded, the largest of them go to the store before they are full.
//!
//! A frame that a worker continues stays counted with its thread at the size that it had; its growth is counted with the piece.

use trace_format::Error;

use super::Sink;
use super::thread::TracedThread;

/// Limits are not computed anew for less memory than that.
const WORTH_A_LOOK: usize = 1 << 20;

/// The sum over all threads, as far as it was looked at.
pub(super) struct OpenShards {
    most_bytes: usize,
    bytes: usize,
}

impl OpenShards {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, bytes: 0 }
    }

    fn is_bounded(&self) -> bool {
        self.most_bytes < usize::MAX
    }

    /// A thread's part is another one than before.
    fn replace(&mut self, before: &mut usize, now: usize) {
        self.bytes = self.bytes - *before + now;
        *before = now;
    }
}

impl Sink<'_> {
    /// What is buffered of a thread has changed.
    pub(super) fn count_open(&mut self, thread: &mut TracedThread) -> Result<(), Error> {
        if !self.open.is_bounded() {
            return Ok(());
        }
        let result = if thread.shard.is_frame_full() { thread.shard.relieve() } else { Ok(()) };
        let now = thread.shard.memory_bytes();
        let now = if thread.coding.is_empty() { now } else { now.max(thread.open_bytes) };
        self.open.replace(&mut thread.open_bytes, now);
        result
    }

    /// A thread has come to its end, and has nothing buffered any more.
    pub(super) fn forget_open(&mut self, thread: &mut TracedThread) {
        self.open.replace(&mut thread.open_bytes, 0);
    }

    /// What is known of the program's code takes memory of its own: there is less for the rest.
    pub(super) fn limit_beside_code(&mut self) {
        let code_bytes = self.blocks.memory_bytes();
        if self.open.is_bounded() && code_bytes.abs_diff(self.pieces.limits.code_bytes) >= WORTH_A_LOOK {
            self.pieces.limits = self.pieces.limits.beside(code_bytes);
            self.open.most_bytes = self.pieces.limits.open_bytes;
            trace_format::keep_of_frames(self.pieces.limits.spare_bytes);
        }
    }

    /// Sends what is buffered to the store, the largest first, until as little is left as may be.
    pub(super) fn relieve_open(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while self.open.bytes > self.open.most_bytes {
            let idle = self.threads.values_mut().filter(|thread| thread.coding.is_empty());
            let Some(thread) =
                idle.max_by_key(|thread| thread.open_bytes).filter(|thread| thread.open_bytes > 0)
            else {
                // The rest is being coded, and how much that is has its own bound.
                break;
            };
            result = result.and(thread.shard.relieve());
            let before = thread.open_bytes;
            self.open.replace(&mut thread.open_bytes, thread.shard.memory_bytes());
            if thread.open_bytes >= before {
                // What could not be written is kept.
                break;
            }
        }
        result
    }
}
