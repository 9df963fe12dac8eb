//! Extrapolates from measured calls to all calls: stratified estimates of a function's time in one thread.
//!
//! Between two openings of a function's window lies a *stratum*: a number of calls, counted exactly, of which some were measured.
//! A measured call that is not inside another measured one of the same function is a *cluster*: it stands for itself and the
//! recursive calls inside, which were counted, and whose time is part of its own. The calls of each stratum are taken to have the
//! time per call of its clusters (a ratio estimate; without recursion the mean). An epoch with many calls therefore weighs more
//! than one with few, and the time of a recursive function's outermost call is not counted once for each recursive call.
//!
//! The variance is that of a ratio of cluster totals: (N/c)^2 k/(k-1) sum (D - r m)^2
//! (1 - c/N), with N calls, k clusters of m calls and time D, c = sum m, r = sum D / c.

/// Standard deviations on either side of an estimate that hold the truth 95 times of 100.
pub const TWO_SIDED_95: f64 = 1.96;

/// Calls from here on are long: much longer than a measurement, so that windows are opened for all of them
/// ([`super::window`]).
pub const LONG_TICKS: u64 = 20_000;

/// What a thread counted and measured of a function, since the start. Times in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Measured {
    /// Calls, exactly, while the probe was on.
    pub calls: u64,
    /// Those that were measured.
    pub sampled: u64,
    /// Their time, with that of recursive ones counted again.
    pub total_ticks: u64,
    /// Those of them that were long, and their time.
    pub long: u64,
    /// See `long`.
    pub long_ticks: u64,
    /// The clusters of measured calls.
    pub clusters: Clusters,
}

/// How many calls a measured one stands for.
///
/// Long ones inside others of their function stand for themselves: the outermost lasts for as long as thousands of
/// recursive ones inside, and is there once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// One that is not long.
    pub short: f64,
    /// A long one.
    pub long: f64,
}

impl Factors {
    /// Each stands for itself.
    pub const ONE: Self = Self { short: 1.0, long: 1.0 };

    /// The latencies of all calls, where those measured took `total_ticks`, the long ones `long_ticks` of that.
    #[must_use]
    pub fn scale(self, total_ticks: u64, long_ticks: u64) -> f64 {
        long_ticks as f64 * self.long + total_ticks.saturating_sub(long_ticks) as f64 * self.short
    }
}

impl Measured {
    /// Adds what another thread measured.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.sampled += other.sampled;
        self.total_ticks += other.total_ticks;
        self.long += other.long;
        self.long_ticks += other.long_ticks;
        self.clusters.join(&other.clusters);
    }
}

/// Sums over clusters of calls (see above): of their number, calls m and times D.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Clusters {
    /// How many.
    pub count: u64,
    /// Their calls.
    pub calls: u64,
    /// Their time.
    pub ticks: u64,
    /// D^2.
    pub square_ticks: f64,
    /// D m.
    pub calls_by_ticks: f64,
    /// m^2.
    pub square_calls: f64,
}

impl Clusters {
    /// Adds one.
    #[inline]
    pub fn add(&mut self, calls: u64, ticks: u64) {
        self.count += 1;
        self.calls += calls;
        self.ticks += ticks;
        self.square_ticks += ticks as f64 * ticks as f64;
        self.calls_by_ticks += calls as f64 * ticks as f64;
        self.square_calls += calls as f64 * calls as f64;
    }

    /// Adds those of another thread.
    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.calls += other.calls;
        self.ticks += other.ticks;
        self.square_ticks += other.square_ticks;
        self.calls_by_ticks += other.calls_by_ticks;
        self.square_calls += other.square_calls;
    }

    /// Those since `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            calls: self.calls.saturating_sub(before.calls),
            ticks: self.ticks.saturating_sub(before.ticks),
            square_ticks: self.square_ticks - before.square_ticks,
            calls_by_ticks: self.calls_by_ticks - before.calls_by_ticks,
            square_calls: self.square_calls - before.square_calls,
        }
    }

    /// The sum of (D - r m)^2, corrected for r being of the same clusters.
    fn spread(&self) -> f64 {
        if self.count < 2 {
            // Of a single one nothing is known of the spread: as if it were exponential.
            return (self.ticks as f64).powi(2);
        }
        let rate = self.ticks as f64 / self.calls as f64;
        let sum = self.square_ticks - 2.0 * rate * self.calls_by_ticks + rate * rate * self.square_calls;
        let count = self.count as f64;
        sum.max(0.0) * count / (count - 1.0)
    }
}

/// A function's figures for all calls of a thread. Times in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scaled {
    /// The time of all calls, of recursive ones once.
    pub total_ticks: f64,
    /// The sum of all calls' latencies: of recursive ones again.
    pub latency_ticks: f64,
    /// The variance of `total_ticks`.
    pub variance: f64,
}

/// The strata so far of a function in a thread. All zeros: none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Strata {
    /// When the last one ended.
    until: Measured,
    /// Calls that no measured one stands for yet; below zero: measured ones began in an earlier stratum.
    unmeasured: f64,
    /// Calls that measured ones stand for.
    measured: f64,
    sum: Scaled,
    /// The latencies of long calls.
    long_ticks: f64,
}

impl Strata {
    /// Adds the stratum that ends with `now`, and says how many calls those stand for that were measured since the last one; `None`:
    /// none was measured to its end.
    pub fn end(&mut self, now: Measured) -> Option<Factors> {
        let calls = now.calls.saturating_sub(self.until.calls) as f64 + self.unmeasured;
        let clusters = now.clusters.since(&self.until.clusters);
        if clusters.count == 0 {
            (self.until.calls, self.unmeasured) = (now.calls, calls);
            return None;
        }
        // Calls that are still under way have been counted, and will be measured in a later stratum.
        let covered = clusters.calls as f64;
        let weight = calls.max(covered);
        let factor = weight / covered;
        let sampled = now.sampled.saturating_sub(self.until.sampled).max(1);
        let long = now.long.saturating_sub(self.until.long);
        let is_recursive = now.clusters.calls > now.clusters.count;
        let factors = if is_recursive {
            let short = sampled.saturating_sub(long).max(1) as f64;
            Factors { short: (weight - long as f64).max(short) / short, long: 1.0 }
        } else {
            let each = weight / sampled as f64;
            Factors { short: each, long: each }
        };
        self.sum.total_ticks += clusters.ticks as f64 * factor;
        let long_ticks = now.long_ticks.saturating_sub(self.until.long_ticks);
        self.sum.latency_ticks +=
            factors.scale(now.total_ticks.saturating_sub(self.until.total_ticks), long_ticks);
        self.long_ticks += long_ticks as f64 * factors.long;
        self.sum.variance += factor * factor * clusters.spread() * (1.0 - covered / weight).max(0.0);
        self.measured += weight;
        self.unmeasured = calls - weight;
        self.until = now;
        Some(factors)
    }

    /// The latencies of the long calls so far.
    #[must_use]
    pub fn long_ticks(&self) -> f64 {
        self.long_ticks
    }

    /// By what figures are multiplied so that they are those of all calls of the thread: those that no measured one stands for are
    /// as the others. `None`: none was measured.
    #[must_use]
    pub fn factor(&self, calls: f64) -> Option<f64> {
        (self.measured > 0.0).then(|| calls / self.measured)
    }

    /// The figures of all calls of the thread.
    #[must_use]
    pub fn scaled(&self, calls: f64) -> Option<Scaled> {
        Some(self.sum.times(self.factor(calls)?))
    }
}

impl Scaled {
    /// The same for `factor` times as many calls.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            total_ticks: self.total_ticks * factor,
            latency_ticks: self.latency_ticks * factor,
            variance: self.variance * factor * factor,
        }
    }

    /// No more time than `most_ticks`: a thread is in a function once.
    #[must_use]
    pub fn within(self, most_ticks: f64) -> Self {
        Self { total_ticks: self.total_ticks.min(most_ticks), ..self }
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: Self) {
        self.total_ticks += other.total_ticks;
        self.latency_ticks += other.latency_ticks;
        self.variance += other.variance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls so far, and the ticks of those measured so far, all alike within a stratum.
    fn add(now: &mut Measured, calls: u64, sampled: u64, ticks: u64) {
        now.calls += calls;
        now.sampled += sampled;
        now.total_ticks += sampled * ticks;
        (0..sampled).for_each(|_| now.clusters.add(1, ticks));
    }

    fn check(steps: &[(u64, u64, u64)], total: f64) {
        let (mut strata, mut now) = (Strata::default(), Measured::default());
        for (calls, sampled, ticks) in steps {
            add(&mut now, *calls, *sampled, *ticks);
            strata.end(now);
        }
        let scaled = strata.scaled(now.calls as f64).unwrap_or_default();
        assert!((scaled.total_ticks - total).abs() < 1e-6 * total.max(1.0), "{steps:?}: {scaled:?}");
        assert!((scaled.latency_ticks - total).abs() < 1e-6 * total.max(1.0), "{steps:?}: {scaled:?}");
        assert!(scaled.variance.abs() < 1e-6 * total.max(1.0), "{steps:?}: nothing varies: {scaled:?}");
    }

    #[test]
    fn each_stratum_weighs_as_many_calls_as_it_has() {
        check(&[], 0.0);
        // Rare and slow, then frequent and fast: not the mean of all samples times all calls.
        check(&[(10, 10, 1000), (1_000_000, 10, 5)], 10_000.0 + 5e6);
        // A long call is counted in one stratum and measured in a later one.
        check(&[(2, 0, 0), (0, 0, 0), (0, 2, 700)], 1400.0);
        // Some of a stratum measured only in the next one.
        check(&[(10, 8, 100), (10, 12, 100)], 2000.0);
        // Calls that are never measured are as the others.
        check(&[(10, 10, 50), (90, 0, 0)], 5000.0);
    }

    /// One call that lasts for the whole run and calls itself a million times: its time, once.
    #[test]
    fn a_recursive_call_stands_for_the_calls_inside() {
        let (mut strata, mut now) = (Strata::default(), Measured::default());
        now.calls = 1000;
        // Recursive calls that are measured inside are no clusters.
        (now.sampled, now.total_ticks) = (9, 9 * 70);
        strata.end(now);
        now.calls = 1_000_001;
        now.sampled += 1;
        now.total_ticks += 5_000_000;
        now.clusters.add(1_000_001, 5_000_000);
        strata.end(now);
        let scaled = strata.scaled(now.calls as f64).unwrap();
        assert!((scaled.total_ticks - 5e6).abs() < 1.0, "{scaled:?}");
        assert!(scaled.variance < 1.0, "{scaled:?}");
    }

    /// Draws that vary, of clusters of one call and of many: the truth lies inside the error about 95 times of 100.
    #[test]
    fn the_error_holds_the_truth() {
        for most_recursive in [1, 5] {
            let mut random = 1u64;
            let mut draw = |from: u64, count: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                from + (random >> 33) % count
            };
            let mut held = 0;
            for _ in 0..400 {
                let (mut strata, mut now, mut truth) = (Strata::default(), Measured::default(), 0u64);
                for _ in 0..30 {
                    for cluster in 0..200 {
                        let calls = draw(1, most_recursive);
                        let ticks = (0..calls).map(|_| draw(1000, 1000)).sum();
                        truth += ticks;
                        now.calls += calls;
                        if cluster < 10 {
                            now.sampled += 1;
                            now.total_ticks += ticks;
                            now.clusters.add(calls, ticks);
                        }
                    }
                    strata.end(now);
                }
                let scaled = strata.scaled(now.calls as f64).unwrap();
                let error = TWO_SIDED_95 * scaled.variance.sqrt();
                held += u32::from((scaled.total_ticks - truth as f64).abs() <= error);
            }
            assert!((356..=398).contains(&held), "{held} of 400 with up to {most_recursive}");
        }
    }
}
