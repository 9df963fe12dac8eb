//! The misses of caches of every size, in one pass, and the number of lines that a part of the run uses.

use memref::{Access, AccessKind, BlockOp, Event};
use trace_format::{Filter, KindSet};

use super::distance::StackDistances;
use crate::{Error, Moment, Session, Tool};

/// Parts of an octave of sizes.
const PARTS: u64 = 4;
/// Windows of the run.
const WINDOWS: u64 = 200;
/// Traces with more accesses are sampled, unless the user says otherwise.
const MANY: u64 = 1 << 29;
/// One line of so many, then.
const SAMPLED: f64 = 0.01;
const HASH_BITS: u32 = 24;

/// Misses of a cache of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Its bytes.
    pub bytes: u64,
    /// Accesses that miss it; a whole number unless lines were sampled.
    pub misses: f64,
}

/// Accesses whose line was used so long ago.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceBucket {
    /// Other lines since then, at least; the next bucket's is one more than there are at most.
    pub from_lines: u64,
    /// How many accesses.
    pub accesses: f64,
}

/// How much one part of the run uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkingSetPoint {
    /// Accesses before it.
    pub access: u64,
    /// Bytes of the lines that it uses.
    pub bytes: f64,
}

/// What a sweep found.
#[derive(Clone, Debug)]
pub struct MissCurve {
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Accesses; one of two lines counts twice.
    pub accesses: u64,
    /// Different lines.
    pub lines: f64,
    /// The part of the lines that was looked at.
    pub sampled: f64,
    /// First accesses to a line, which every cache misses.
    pub first_accesses: f64,
    /// By size.
    pub points: Vec<CurvePoint>,
    /// By distance.
    pub distances: Vec<DistanceBucket>,
    /// By part of the run.
    pub working_set: Vec<WorkingSetPoint>,
    /// Accesses of one part.
    pub window_accesses: u64,
    /// Missing events.
    pub missing: u64,
}

/// Looks at all sizes in one pass.
#[derive(Debug)]
pub struct ReuseSweep {
    line_shift: u32,
    sampled: f64,
    /// Lines with a lower hash are looked at.
    threshold: u64,
    stack: StackDistances,
    buckets: Vec<u64>,
    first: u64,
    accesses: u64,
    looked_at: u64,
    window_accesses: u64,
    window: u32,
    window_lines: u64,
    windows: Vec<u64>,
    missing: u64,
}

/// The bucket of a distance: four an octave.
fn bucket(distance: u64) -> usize {
    if distance < 2 * PARTS {
        return distance as usize;
    }
    let octave = u64::from(distance.ilog2());
    ((octave - 1) * PARTS + (distance >> (octave - 2)) % PARTS) as usize
}

/// The least distance of a bucket.
fn least(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let (octave, part) = (bucket / PARTS + 1, bucket % PARTS);
    (PARTS + part) << (octave - 2)
}

impl ReuseSweep {
    /// With lines of so many bytes. `sampled`: the part of the lines that is looked at; by itself all, of very long traces one
    /// of a hundred.
    pub fn new(session: &Session, line_bytes: u64, sampled: Option<f64>) -> Self {
        let all = session.accesses();
        let sampled = sampled.unwrap_or(if all > MANY { SAMPLED } else { 1.0 });
        Self::of(line_bytes, sampled, (all / WINDOWS).max(1000))
    }

    fn of(line_bytes: u64, sampled: f64, window_accesses: u64) -> Self {
        Self {
            line_shift: line_bytes.trailing_zeros(),
            sampled,
            threshold: (sampled * f64::from(1_u32 << HASH_BITS)).round() as u64,
            stack: StackDistances::new(),
            buckets: Vec::new(),
            first: 0,
            accesses: 0,
            looked_at: 0,
            window_accesses,
            window: 1,
            window_lines: 0,
            windows: Vec::new(),
            missing: 0,
        }
    }

    /// Replays all of a session.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(&mut self, session: &Session) -> Result<(), Error> {
        let kinds = KindSet(KindSet::ACCESSES.0 | KindSet::BLOCKS.0 | KindSet::GAPS.0);
        session.replay(&Filter { kinds, ..Filter::default() }, None, self).map(drop)
    }

    #[inline]
    fn line(&mut self, key: u64) {
        self.accesses += 1;
        if self.sampled >= 1.0 || key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS) < self.threshold
        {
            self.looked_at += 1;
            let used = self.stack.access(key, self.window);
            match used.distance {
                Some(distance) => {
                    let bucket = bucket(distance);
                    if bucket >= self.buckets.len() {
                        self.buckets.resize(bucket + 1, 0);
                    }
                    self.buckets[bucket] += 1;
                }
                None => self.first += 1,
            }
            self.window_lines += u64::from(used.is_first_of_window);
        }
        if self.accesses.is_multiple_of(self.window_accesses) {
            self.end_window();
        }
    }

    fn end_window(&mut self) {
        self.windows.push(std::mem::take(&mut self.window_lines));
        self.window += 1;
    }

    #[inline]
    fn range(&mut self, process: u32, addr: u64, len: u64) {
        let last = addr.saturating_add(len.max(1) - 1) >> self.line_shift;
        for line in addr >> self.line_shift..=last {
            self.line(line ^ u64::from(process) << 42);
        }
    }

    fn block(&mut self, process: u32, block: &BlockOp) {
        for (addr, len) in [block.read(), block.compared(), block.written()].into_iter().flatten() {
            if len > 0 {
                self.range(process, addr.0, len);
            }
        }
    }

    /// What was found.
    pub fn curve(mut self) -> MissCurve {
        if !self.accesses.is_multiple_of(self.window_accesses) {
            self.end_window();
        }
        let line_bytes = 1_u64 << self.line_shift;
        let scale = 1.0 / self.sampled;
        // With one line of N, one access of N is expected; what is too few or many is taken for reuse at no distance (SHARDS-adj).
        let off = self.accesses as f64 * self.sampled - self.looked_at as f64;
        let mut counts: Vec<f64> = self.buckets.iter().map(|count| *count as f64).collect();
        if let (Some(first), true) = (counts.first_mut(), self.sampled < 1.0) {
            *first = (*first + off).max(0.0);
        }
        // Distances were counted in lines that were looked at.
        let scaled = |distance: u64| (distance as f64 * scale).round() as u64;
        let distances: Vec<DistanceBucket> = counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0.0)
            .map(|(index, count)| DistanceBucket {
                from_lines: scaled(least(index)),
                accesses: count * scale,
            })
            .collect();
        let first = self.first as f64 * scale;
        let mut points = Vec::new();
        let mut misses = first + counts.iter().sum::<f64>() * scale;
        for (index, count) in counts.iter().enumerate() {
            // A cache of so many lines hits what is nearer.
            if least(index) > 0 {
                points.push(CurvePoint { bytes: scaled(least(index)) * line_bytes, misses });
            }
            misses -= count * scale;
        }
        points.push(CurvePoint { bytes: scaled(least(counts.len())) * line_bytes, misses: first });
        let working_set = self.windows.iter().enumerate().map(|(index, lines)| WorkingSetPoint {
            access: index as u64 * self.window_accesses,
            bytes: *lines as f64 * scale * line_bytes as f64,
        });
        MissCurve {
            line_bytes,
            accesses: self.accesses,
            lines: self.stack.lines() as f64 * scale,
            sampled: self.sampled,
            first_accesses: first,
            points,
            distances,
            working_set: working_set.collect(),
            window_accesses: self.window_accesses,
            missing: self.missing,
        }
    }
}

impl Tool for ReuseSweep {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Prefetch) {
            self.range(at.process.0, access.addr.0, access.size.into());
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Block(block) => self.block(at.process.0, block),
            Event::Gap(gap) => self.missing += gap.count,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_their_least_distance() {
        for distance in (0..5000).chain([1 << 20, (1 << 40) + 12_345]) {
            let bucket = bucket(distance);
            assert!(least(bucket) <= distance && distance < least(bucket + 1), "{distance}");
        }
    }

    /// A loop over so many lines, so many times.
    fn looped(lines: u64, times: u64, sampled: f64) -> MissCurve {
        let mut sweep = ReuseSweep::of(64, sampled, 1000);
        for _ in 0..times {
            (0..lines).for_each(|line| sweep.range(0, line * 64, 8));
        }
        sweep.curve()
    }

    fn misses(curve: &MissCurve, lines: u64) -> f64 {
        let point = curve.points.iter().rfind(|point| point.bytes <= lines * 64).unwrap();
        point.misses
    }

    #[test]
    fn a_loop_fits_or_it_does_not() {
        let curve = looped(1024, 10, 1.0);
        assert_eq!((curve.accesses, curve.lines, curve.first_accesses), (10_240, 1024.0, 1024.0));
        // LRU misses all of a loop that is one line too long.
        assert_eq!(misses(&curve, 512), 10_240.0);
        assert_eq!(misses(&curve, 1024), 1024.0);
        assert_eq!(curve.working_set.len(), 11);
        assert_eq!(curve.working_set[0], WorkingSetPoint { access: 0, bytes: 64_000.0 });
    }

    #[test]
    fn a_sample_tells_about_the_same() {
        let curve = looped(100_000, 4, 0.1);
        assert!((curve.lines / 100_000.0 - 1.0).abs() < 0.05, "{}", curve.lines);
        assert!((misses(&curve, 50_000) / 400_000.0 - 1.0).abs() < 0.05, "{}", misses(&curve, 50_000));
        assert!((misses(&curve, 200_000) / 100_000.0 - 1.0).abs() < 0.05);
    }
}
