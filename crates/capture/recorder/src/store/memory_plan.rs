//! How much memory a recording may use, and how it is divided.
//!
//! With a bound, everything that grows with the program's activity has a share of
//! it. Apart from the process itself (`OUTSIDE_BYTES`) the shares are, in 32nds:
//!
//! ```text
//! 12  the store in this process: frames on their way to the file, their encoding, buffers and segments of entries
//! 11  buffers copied out of the pool, and what workers make of them (`sink::pieces`)
//!  7  what is buffered of all threads: the frames and segments that grow (`sink::open_shards`)
//!  2  frames that were written, whose memory is kept for the next ones
//! ```
//!
//! What is known of the program's code is taken out of the last three ([`MemoryPlan::beside`]), down to a minimum
//! that they need. Programs whose code takes more than that exceed the bound, which is reported at the end.

use buffers::BUFFER_BYTES;

/// What the process takes beside the shares: its code and stacks, and the traced threads' buffers as far as they are mapped here.
const OUTSIDE_BYTES: usize = 24 << 20;
/// Buffers of the pool that stay mapped.
const MAPPED_BUFFERS: usize = 96;
/// Parts of the rest.
const PARTS: usize = 32;
const STORE_PARTS: usize = 12;
const PIECE_PARTS: usize = 11;
const OPEN_PARTS: usize = 7;
const SPARE_PARTS: usize = 2;
const SINK_PARTS: usize = PIECE_PARTS + OPEN_PARTS + SPARE_PARTS;
const _: () = assert!(STORE_PARTS + SINK_PARTS == PARTS);
/// Bytes that are left for the parts but the store's, however large the program's code is.
const LEAST_SINK_BYTES: usize = 12 << 20;

/// Buffers of a piece. More make longer frames where workers are late, fewer let them help each other sooner.
const PIECE_BUFFERS: usize = 128;
/// Buffers of a piece at least: what is less is a frame of its own too often.
const LEAST_PIECE_BUFFERS: usize = 4;
/// Buffers of all threads that may wait to become pieces.
const MOST_GATHERED: usize = 512;
/// Pieces on their way, for each worker: one that it codes and one that waits for it.
const PIECES_A_WORKER: usize = 2;
/// Buffers of pieces on their way, however many workers there are.
const MOST_CODING: usize = 1024;
/// What a worker makes of a buffer takes so many times its memory where nothing is predicted; mostly it is a small part of that.
const CODED_TIMES: usize = 1;
/// Entries that the recorder itself gathers; the store gathers more.
const SEGMENT_ENTRIES: usize = 8192;
const BOUNDED_SEGMENT_ENTRIES: usize = 2048;

/// Who may have how much. All of it at the same time is within the bound, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// What the store in this process may use; `None`: there is no bound, and limits are those that are good for speed.
    pub(crate) store_bytes: Option<usize>,
    /// What the rest may use, with what is known of the program's code.
    sink_bytes: usize,
    /// What is known of the program's code takes so much, as far as that was looked at.
    pub(crate) code_bytes: usize,
    workers: usize,
    /// Buffers of a piece.
    pub(crate) piece_buffers: usize,
    /// Buffers of all threads that wait to become pieces.
    pub(crate) gathered_buffers: usize,
    /// Buffers of pieces on their way; what workers make of them is not counted here, and has its room.
    pub(crate) coding_buffers: usize,
    /// What is buffered of all threads.
    pub(crate) open_bytes: usize,
    /// A frame is ended from so many bytes on.
    pub(crate) frame_bytes: usize,
    /// Memory of frames that is kept for the next ones.
    pub(crate) spare_bytes: usize,
    /// Entries of a thread that are handed over together, where they are not coded by blocks.
    pub(crate) segment_entries: usize,
    /// Buffers of the pool that stay mapped after they were read; `None`: all.
    pub(crate) mapped_buffers: Option<usize>,
}

impl MemoryPlan {
    /// The bytes that a recording can do with.
    pub(crate) const LEAST_BYTES: usize = 64 << 20;

    /// Of a recording with so many workers, within a bound if there is one: at least [`Self::LEAST_BYTES`].
    pub(crate) fn new(bound_bytes: Option<usize>, workers: usize) -> Self {
        let workers = workers.max(1);
        let free = Self {
            store_bytes: None,
            sink_bytes: usize::MAX,
            code_bytes: 0,
            workers,
            piece_buffers: PIECE_BUFFERS,
            gathered_buffers: MOST_GATHERED,
            coding_buffers: (workers * PIECES_A_WORKER * PIECE_BUFFERS).min(MOST_CODING),
            open_bytes: usize::MAX,
            frame_bytes: usize::MAX,
            spare_bytes: usize::MAX,
            segment_entries: SEGMENT_ENTRIES,
            mapped_buffers: None,
        };
        let Some(bound) = bound_bytes else { return free };
        let part = (bound.max(Self::LEAST_BYTES) - OUTSIDE_BYTES) / PARTS;
        let bounded = Self {
            store_bytes: Some(part * STORE_PARTS),
            sink_bytes: part * SINK_PARTS,
            segment_entries: BOUNDED_SEGMENT_ENTRIES,
            mapped_buffers: Some(MAPPED_BUFFERS),
            ..free
        };
        bounded.beside(0)
    }

    /// Whether there is a bound.
    pub(crate) fn is_bounded(&self) -> bool {
        self.store_bytes.is_some()
    }

    /// The same, where what is known of the program's code takes so much.
    pub(crate) fn beside(self, code_bytes: usize) -> Self {
        if !self.is_bounded() {
            return self;
        }
        let part = self.sink_bytes.saturating_sub(code_bytes).max(LEAST_SINK_BYTES) / SINK_PARTS;
        // One piece is gathered. Those on their way are one more than there are workers, or as many as there is room for; of each there is
        // what was copied, and what comes of it.
        let held = part * PIECE_PARTS / BUFFER_BYTES;
        let on_their_way = self.workers + 1;
        let piece_buffers = held / (1 + on_their_way * (1 + CODED_TIMES));
        let piece_buffers = piece_buffers.clamp(LEAST_PIECE_BUFFERS, PIECE_BUFFERS);
        let coding = (held - piece_buffers) / (1 + CODED_TIMES);
        Self {
            code_bytes,
            piece_buffers,
            gathered_buffers: piece_buffers,
            coding_buffers: coding.min(self.workers * PIECES_A_WORKER * piece_buffers),
            open_bytes: part * OPEN_PARTS,
            // A frame takes up to twice the bytes that it has; a store has room for several, and so has what is buffered.
            frame_bytes: part,
            spare_bytes: part * SPARE_PARTS,
            ..self
        }
    }

    /// All that may be taken at the same time.
    #[cfg(test)]
    fn most_bytes(&self) -> usize {
        let held = self.gathered_buffers + self.coding_buffers * (1 + CODED_TIMES);
        let store_bytes = self.store_bytes.expect("there is a bound");
        OUTSIDE_BYTES
            + store_bytes
            + held * BUFFER_BYTES
            + self.open_bytes
            + self.spare_bytes
            + self.code_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_a_bound_the_limits_are_those_of_speed() {
        let plan = MemoryPlan::new(None, 2);
        assert_eq!((plan.piece_buffers, plan.gathered_buffers, plan.coding_buffers), (128, 512, 512));
        assert!(!plan.is_bounded());
        assert_eq!(plan.beside(1 << 30), plan);
        assert_eq!(MemoryPlan::new(None, 64).coding_buffers, 1024);
        assert_eq!(MemoryPlan::new(None, 0), MemoryPlan::new(None, 1));
    }

    #[test]
    fn a_large_bound_has_whole_pieces() {
        let (plan, free) = (MemoryPlan::new(Some(1 << 30), 2), MemoryPlan::new(None, 2));
        assert_eq!((plan.piece_buffers, plan.coding_buffers), (free.piece_buffers, free.coding_buffers));
    }

    proptest! {
        #[test]
        fn shares_are_never_above_the_bound(
            bytes in MemoryPlan::LEAST_BYTES..1 << 40, code in 0usize..1 << 30, workers in 0usize..4096,
        ) {
            let plan = MemoryPlan::new(Some(bytes), workers).beside(code);
            // What code takes beyond what can be spared comes on top.
            let more = (code + LEAST_SINK_BYTES).saturating_sub(plan.sink_bytes);
            prop_assert!(plan.most_bytes() <= bytes + more, "{plan:?}");
            // Whoever waits for room gets it some time.
            let pieces = LEAST_PIECE_BUFFERS..=plan.coding_buffers;
            prop_assert!(pieces.contains(&plan.piece_buffers), "{plan:?}");
            // Several frames fit what is buffered, and what the store has for those on their way.
            let several = 2 * 2 * plan.frame_bytes;
            prop_assert!(several <= plan.open_bytes, "{plan:?}");
            prop_assert!(several <= plan.store_bytes.unwrap_or(0) / 8 * 3, "{plan:?}");
        }

        #[test]
        fn who_gives_more_gets_no_less(
            bytes in MemoryPlan::LEAST_BYTES..1 << 40, more in 0usize..1 << 30, code in 0usize..1 << 28, workers in 1usize..256,
        ) {
            let less = MemoryPlan::new(Some(bytes), workers).beside(code);
            let plan = MemoryPlan::new(Some(bytes + more), workers).beside(code);
            prop_assert!(plan.store_bytes >= less.store_bytes);
            prop_assert!(plan.piece_buffers >= less.piece_buffers && plan.open_bytes >= less.open_bytes);
            prop_assert!(plan.frame_bytes >= less.frame_bytes && plan.spare_bytes >= less.spare_bytes);
        }
    }
}
