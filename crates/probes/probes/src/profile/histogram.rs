//! A log-linear histogram of durations: 16 steps an octave, so any percentile is within 3.2 % of the truth.
//!
//! Fixed size, no allocation; the bucket arithmetic is shared by the probed process and the report.

use serde::{Deserialize, Serialize};

/// Steps an octave.
const STEPS: usize = 16;
/// Buckets: 16 exact ones, then octaves up to 2^47 ticks (15 hours).
pub const BUCKETS: usize = STEPS + (48 - 4) * STEPS;

/// The bucket of a duration.
#[inline]
#[must_use]
pub fn bucket(ticks: u64) -> usize {
    if ticks < STEPS as u64 {
        return ticks as usize;
    }
    let octave = 63 - ticks.leading_zeros() as usize;
    let step = (ticks >> (octave - 4)) as usize & (STEPS - 1);
    (STEPS + (octave - 4) * STEPS + step).min(BUCKETS - 1)
}

/// The middle of a bucket, in ticks.
#[must_use]
pub fn middle(bucket: usize) -> f64 {
    if bucket < STEPS {
        return bucket as f64;
    }
    let octave = (bucket - STEPS) / STEPS;
    let low = ((STEPS + bucket % STEPS) as u64) << octave;
    low as f64 + ((1u64 << octave) - 1) as f64 / 2.0
}

/// How many durations fell into a bucket. In JSON an array of both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u32, u64)", into = "(u32, u64)")]
pub struct BucketCount {
    /// See [`bucket`].
    pub bucket: u32,
    /// How many.
    pub count: u64,
}

impl From<(u32, u64)> for BucketCount {
    fn from((bucket, count): (u32, u64)) -> Self {
        Self { bucket, count }
    }
}

impl From<BucketCount> for (u32, u64) {
    fn from(of: BucketCount) -> Self {
        (of.bucket, of.count)
    }
}

/// The value below which the share `quantile` of the counted durations lies; `None` for an empty histogram.
#[must_use]
pub fn quantile(counts: &[BucketCount], quantile: f64) -> Option<f64> {
    let total: u64 = counts.iter().map(|of| of.count).sum();
    let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    counts.iter().find_map(|of| {
        seen += of.count;
        (seen >= rank).then(|| middle(of.bucket as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_three_per_cent_and_they_are_in_order() {
        let mut last = 0;
        for ticks in (0..2000).chain((11..47).flat_map(|o| [(1 << o) - 1, 1 << o, (1 << o) + 12_345])) {
            let at = bucket(ticks);
            assert!(
                (middle(at) - ticks as f64).abs() <= ticks as f64 * 0.032 + 0.01,
                "{ticks}: {}",
                middle(at)
            );
            if ticks < 2000 {
                assert!(at >= last);
                last = at;
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let counts: Vec<BucketCount> =
            (1..=10).map(|v| BucketCount { bucket: bucket(v) as u32, count: 10 }).collect();
        assert_eq!(quantile(&counts, 0.5), Some(5.0));
        assert_eq!(quantile(&counts, 0.9), Some(9.0));
        assert_eq!(quantile(&counts, 0.999), Some(10.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
