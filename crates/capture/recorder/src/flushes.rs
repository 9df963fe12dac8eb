//! When recorded data is flushed: soon at first, so that a recording that is killed early
//! leaves something, then about once a second, and earlier when many accesses are waiting.

use std::time::{Duration, Instant};

/// The first times, from the beginning of the recording on.
const FIRST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];
/// How long after the time before the others are. With the pause between two looks and what writing takes, nothing waits much
/// longer than a second.
const EVERY: Duration = Duration::from_millis(900);
/// How many accesses may wait: at first few, so that a run that ends badly early leaves something, then twice as many each
/// time, because long frames compress better.
const FIRST_ACCESSES: u64 = 8192;

/// The times at which a recording is written.
#[derive(Debug)]
pub(crate) struct Flushes {
    begun: Instant,
    /// The next one is due then.
    due: Instant,
    /// Accesses that were recorded at the last one.
    written: u64,
    may_wait: u64,
}

impl Flushes {
    /// Of a recording that begins now.
    pub(crate) fn from(now: Instant) -> Self {
        Self { begun: now, due: now + FIRST[0], written: 0, may_wait: FIRST_ACCESSES }
    }

    /// Whether what was recorded is to be written now; then it counts as written.
    pub(crate) fn is_due(&mut self, now: Instant, accesses: u64) -> bool {
        let by_count = accesses.saturating_sub(self.written) >= self.may_wait;
        if now < self.due && !by_count {
            return false;
        }
        if by_count {
            self.may_wait = self.may_wait.saturating_mul(2);
        }
        // One that comes late stands for those that it missed.
        let first = FIRST.iter().map(|&after| self.begun + after).find(|&due| due > now);
        (self.due, self.written) = (first.unwrap_or(now + EVERY), accesses);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// The times, in ms, at which a recording is written that is looked at every so many.
    fn times(every: u64, until: u64, accesses: impl Fn(u64) -> u64) -> Vec<u64> {
        let begun = Instant::now();
        let mut flushes = Flushes::from(begun);
        (0..until)
            .step_by(every as usize)
            .filter(|&now| flushes.is_due(begun + after(now), accesses(now)))
            .collect()
    }

    #[test]
    fn a_young_recording_is_written_soon_and_an_old_one_each_second() {
        assert_eq!(times(1, 3000, |_| 0), [50, 200, 1100, 2000, 2900]);
        assert_eq!(times(50, 3000, |_| 0), [50, 200, 1100, 2000, 2900]);
    }

    #[test]
    fn one_that_comes_late_stands_for_those_that_it_missed() {
        assert_eq!(times(180, 2400, |_| 0), [180, 360, 1260, 2160]);
        assert_eq!(times(700, 3000, |_| 0), [700, 2100]);
    }

    #[test]
    fn many_accesses_do_not_wait_and_do_not_put_off_the_first_times() {
        let many = |now| if now >= 10 { 10_000 } else { 0 };
        assert_eq!(times(5, 300, many), [10, 50, 200]);
        // The second time twice as many may wait.
        let more = |now: u64| now * 1000;
        assert_eq!(times(1, 50, more), [9, 26]);
    }
}
