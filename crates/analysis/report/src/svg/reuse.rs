//! Charts of a sweep of cache sizes: misses by size, accesses by distance, and the working set over the run.

use analysis::cache::{CacheSetup, MissCurve};

use super::{Chart, ChartMark, ChartPoint, ChartSeries};

/// What a chart shows of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReuseCurve {
    /// The part of the accesses that misses a cache of each size.
    #[default]
    Misses,
    /// How many accesses use a line again after so many others.
    Distances,
    /// The bytes that each part of the run uses.
    WorkingSet,
}

/// Draws one of them. The sizes of the levels are marked.
pub fn reuse_chart(curve: &MissCurve, which: ReuseCurve, setup: &CacheSetup, program: &str) -> String {
    let line = curve.line_bytes as f64;
    let all = (curve.accesses as f64).max(1.0);
    let (x, y, points): (_, _, Vec<ChartPoint>) = match which {
        ReuseCurve::Misses => {
            let points = curve
                .points
                .iter()
                .map(|point| ChartPoint { x: point.bytes as f64, y: point.misses / all * 100.0 });
            ("bytes of the cache", "accesses that miss, per cent", points.collect())
        }
        ReuseCurve::Distances => {
            let points = curve.distances.iter().filter(|one| one.from_lines > 0);
            let points = points.map(|one| ChartPoint { x: one.from_lines as f64 * line, y: one.accesses });
            ("bytes of other lines since the last use", "accesses", points.collect())
        }
        ReuseCurve::WorkingSet => {
            let points =
                curve.working_set.iter().map(|one| ChartPoint { x: one.access as f64, y: one.bytes });
            ("accesses so far", "bytes used", points.collect())
        }
    };
    let levels = [("l1", Some(setup.l1)), ("l2", setup.l2), ("ll", setup.ll)];
    let marks = levels.into_iter().filter_map(|(name, shape)| {
        Some(ChartMark { x: shape?.bytes as f64, words: format!("{name} {}", shape?) })
    });
    let by_size = which != ReuseCurve::WorkingSet;
    let sampled = if curve.sampled < 1.0 {
        format!("; {} % of the lines looked at", curve.sampled * 100.0)
    } else {
        String::new()
    };
    let subtitle = format!(
        "{} accesses, lines of {} bytes, least recently used goes{sampled}",
        crate::grouped(curve.accesses),
        curve.line_bytes
    );
    Chart {
        title: program,
        subtitle: &subtitle,
        x,
        y,
        x_log: by_size,
        y_log: which == ReuseCurve::Distances,
        steps: true,
        series: vec![ChartSeries { name: y.to_owned(), points }],
        marks: if by_size { marks.collect() } else { Vec::new() },
    }
    .svg()
}
