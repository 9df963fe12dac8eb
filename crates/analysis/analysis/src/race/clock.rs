//! Vector clocks.

use memref::ThreadId;

/// A point in one thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) thread: ThreadId,
    pub(crate) time: u32,
}

impl Epoch {
    /// Before everything.
    pub(crate) const NEVER: Self = Self { thread: ThreadId(0), time: 0 };
}

/// How far each thread is known to have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    times: Vec<u32>,
}

impl Clock {
    #[inline]
    pub(crate) fn get(&self, thread: ThreadId) -> u32 {
        self.times.get(thread.0 as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, thread: ThreadId, time: u32) {
        let index = thread.0 as usize;
        if index >= self.times.len() {
            self.times.resize(index + 1, 0);
        }
        self.times[index] = time;
    }

    /// The thread gave something up: what it does next is not known to whoever takes that up.
    pub(crate) fn tick(&mut self, thread: ThreadId) {
        self.set(thread, self.get(thread).saturating_add(1));
    }

    /// Knows what the other one knows.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.times.len() < other.times.len() {
            self.times.resize(other.times.len(), 0);
        }
        for (own, &time) in self.times.iter_mut().zip(&other.times) {
            *own = (*own).max(time);
        }
    }

    /// Whether it knows all that the other one knows.
    pub(crate) fn knows_all(&self, other: &Self) -> bool {
        let own = self.times.iter().copied().chain(std::iter::repeat(0));
        other.times.iter().zip(own).all(|(&time, own)| time <= own)
    }

    /// Whether it knows that point.
    #[inline]
    pub(crate) fn knows(&self, epoch: Epoch) -> bool {
        epoch.time <= self.get(epoch.thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_knows_what_it_joined() {
        let (a, b) = (ThreadId(0), ThreadId(3));
        let mut first = Clock::default();
        first.set(a, 5);
        let mut second = Clock::default();
        second.set(b, 2);
        assert!(!second.knows(Epoch { thread: a, time: 1 }));
        second.join(&first);
        assert!(second.knows(Epoch { thread: a, time: 5 }));
        assert!(second.knows_all(&first) && !first.knows_all(&second));
        assert!(first.knows_all(&Clock::default()) && !Clock::default().knows_all(&first));
        first.tick(a);
        assert!(!second.knows(Epoch { thread: a, time: first.get(a) }));
        assert!(second.knows(Epoch::NEVER));
    }
}
