//! A buffer that several threads of one process fill: each thread reserves a slot, writes it, and marks it written;
//! the filled length grows over consecutive written slots (Simutrace, section 2.4: thread-safe writes to one stream).
//!
//! A thread that is about to reserve a slot counts itself as active, so that the thread that turns the buffer over knows when
//! nobody can touch it any more: a thread that was asleep since the previous turn must not take the slots of this turn for its own.

use crate::sync::{AtomicU64, Ordering};

/// What threads agree on about one buffer. Apart from `filled`, which a peer may read, it lies in memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    /// Slots that were asked for; more than there are, once the buffer is full. Any thread adds.
    pub reserved: &'a AtomicU64,
    /// Threads that may touch the buffer. Each adds and subtracts itself.
    pub active: &'a AtomicU64,
    /// A bit for each slot that is written; 64 in a word. Set by the thread that wrote the slot.
    pub written: &'a [AtomicU64],
    /// Bytes without a hole. Any thread moves it over written slots; whoever empties the buffer sets it to zero.
    pub filled: &'a AtomicU64,
    /// Slots of the buffer.
    pub capacity: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
}

impl Slots<'_> {
    /// Reserves a slot, or `None` where the buffer is full. Whoever has one calls [`Slots::commit`].
    pub fn reserve(&self) -> Option<u64> {
        self.active.fetch_add(1, Ordering::SeqCst);
        let slot = self.reserved.fetch_add(1, Ordering::SeqCst);
        if slot < self.capacity {
            return Some(slot);
        }
        self.active.fetch_sub(1, Ordering::SeqCst);
        None
    }

    fn word(&self, slot: u64) -> Option<&AtomicU64> {
        self.written.get((slot / 64) as usize)
    }

    /// The slot's bytes are written.
    pub fn commit(&self, slot: u64) {
        // SeqCst: of two threads that write neighbours, at least one sees both, and moves over both.
        if let Some(word) = self.word(slot) {
            word.fetch_or(1 << (slot % 64), Ordering::SeqCst);
        }
        loop {
            let filled = self.filled.load(Ordering::SeqCst);
            let next = filled / self.slot_bytes;
            let bit = 1 << (next % 64);
            let is_written = self.word(next).is_some_and(|word| word.load(Ordering::SeqCst) & bit != 0);
            if next >= self.capacity || !is_written {
                break;
            }
            // Whoever fails here was overtaken: the other one moves on.
            let _ = self.filled.compare_exchange(
                filled,
                filled + self.slot_bytes,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
        self.active.fetch_sub(1, Ordering::SeqCst);
    }

    /// Keeps others from reserving, and returns how many slots were given out.
    pub fn close(&self) -> u64 {
        self.reserved.fetch_add(self.capacity, Ordering::SeqCst).min(self.capacity)
    }

    /// Whether all slots that were given out are written and nobody touches the buffer. Only after [`Slots::close`] or a
    /// reservation that failed does it stay so.
    pub fn is_settled(&self) -> bool {
        self.active.load(Ordering::SeqCst) == 0
    }

    /// Makes a settled buffer ready for another turn, all but `filled`, and opens it.
    pub fn reset(&self) {
        for word in self.written {
            word.store(0, Ordering::SeqCst);
        }
        self.reserved.store(0, Ordering::SeqCst);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use std::vec::Vec;

    struct Buffer {
        reserved: AtomicU64,
        active: AtomicU64,
        written: [AtomicU64; 1],
        filled: AtomicU64,
        data: [AtomicU64; 2],
    }

    impl Buffer {
        fn new() -> Self {
            let zero = || AtomicU64::new(0);
            Self {
                reserved: zero(),
                active: zero(),
                written: [zero()],
                filled: zero(),
                data: [zero(), zero()],
            }
        }

        fn slots(&self) -> Slots<'_> {
            Slots {
                reserved: &self.reserved,
                active: &self.active,
                written: &self.written,
                filled: &self.filled,
                capacity: 2,
                slot_bytes: 8,
            }
        }
    }

    #[test]
    fn filled_covers_only_written_slots_and_in_the_end_all() {
        loom::model(|| {
            let buffer = Arc::new(Buffer::new());
            let writers: Vec<_> = (1..=2)
                .map(|value| {
                    let buffer = buffer.clone();
                    loom::thread::spawn(move || {
                        if let Some(slot) = buffer.slots().reserve() {
                            buffer.data[slot as usize].store(value, Ordering::Relaxed);
                            buffer.slots().commit(slot);
                        }
                    })
                })
                .collect();
            let seen = buffer.filled.load(Ordering::Acquire) / 8;
            for slot in 0..seen as usize {
                assert_ne!(buffer.data[slot].load(Ordering::Relaxed), 0);
            }
            for writer in writers {
                writer.join().unwrap();
            }
            assert_eq!(buffer.filled.load(Ordering::Acquire), 16);
            assert!(buffer.slots().is_settled());
        });
    }

    #[test]
    fn a_buffer_is_turned_over_only_when_nobody_touches_it() {
        loom::model(|| {
            let buffer = Arc::new(Buffer::new());
            let writer = {
                let buffer = buffer.clone();
                loom::thread::spawn(move || {
                    if let Some(slot) = buffer.slots().reserve() {
                        buffer.data[slot as usize].store(1, Ordering::Relaxed);
                        buffer.slots().commit(slot);
                    }
                })
            };
            let given = buffer.slots().close();
            if buffer.slots().is_settled() {
                assert_eq!(buffer.filled.load(Ordering::Acquire), given * 8);
                // The peer empties it, and another turn begins.
                buffer.data[0].store(0, Ordering::Relaxed);
                buffer.data[1].store(0, Ordering::Relaxed);
                buffer.filled.store(0, Ordering::SeqCst);
                buffer.slots().reset();
                let seen = buffer.filled.load(Ordering::Acquire) / 8;
                for slot in 0..seen as usize {
                    assert_ne!(buffer.data[slot].load(Ordering::Relaxed), 0);
                }
            }
            writer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn filled_stops_at_a_hole() {
        let zero = || AtomicU64::new(0);
        let (reserved, active, filled, written) = (zero(), zero(), zero(), [zero(), zero()]);
        let slots = Slots {
            reserved: &reserved,
            active: &active,
            written: &written,
            filled: &filled,
            capacity: 70,
            slot_bytes: 20,
        };
        let taken: std::vec::Vec<u64> = (0..70).map(|_| slots.reserve().unwrap()).collect();
        assert_eq!(slots.reserve(), None);
        for &slot in taken.iter().rev().filter(|&&slot| slot != 3) {
            slots.commit(slot);
        }
        assert_eq!(filled.load(Ordering::SeqCst), 60);
        assert!(!slots.is_settled());
        slots.commit(3);
        assert_eq!(filled.load(Ordering::SeqCst), 1400);
        assert!(slots.is_settled());
    }
}
