//! Figures 5, 6 and 7 of the paper as SVG: two panels with the same axes, the RTMMU on the left.

use std::fmt::Write;

use analysis::realtime::MunmapCurve;
use rtvm::replay::{Scatter, Series};

use crate::pages::skeleton::escape;

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 360.0;
const PANEL: f64 = 370.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 306.0;
const LEFTS: [f64; 2] = [70.0, 525.0];
/// Steps between one call at a place of a scatter and the most.
const SHADES: usize = 8;
const COLORS: [&str; 2] = ["#1b6ca8", "#a3282d"];

/// A range of values on an axis.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// Whole decades around the values.
    fn decades(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|v| *v > 0.0)
            .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let low = 10_f64.powf(low.log10().floor());
        Self { low, high: (10_f64.powf(high.log10().ceil())).max(low * 10.0), log: true }
    }

    fn from_zero(high: f64) -> Self {
        Self { low: 0.0, high: high.max(1.0), log: false }
    }

    /// Where a value lies, 0 to 1.
    fn place(self, value: f64) -> f64 {
        if self.log {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    fn ticks(self) -> Vec<f64> {
        if self.log {
            let decades = (self.high / self.low).log10().round() as i32;
            if decades <= 2 {
                let steps = (0..decades).flat_map(|d| [1.0, 2.0, 5.0].map(|n| n * self.low * 10_f64.powi(d)));
                return steps.chain([self.high]).collect();
            }
            let step = (decades / 6 + 1) as usize;
            return (0..=decades).step_by(step).map(|d| self.low * 10_f64.powi(d)).collect();
        }
        let rough = self.high / 5.0;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * unit).find(|s| *s >= rough).unwrap_or(rough);
        (0..).map(|n| f64::from(n) * step).take_while(|t| *t <= self.high).collect()
    }
}

/// A number as people write it on an axis.
fn short(value: f64, unit: &str) -> String {
    let units: &[(f64, &str)] = match unit {
        "ns" => &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")],
        _ => &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
    };
    let (scale, suffix) = units.iter().copied().find(|(s, _)| value >= *s * 0.999).unwrap_or((1.0, ""));
    let number = value / scale;
    if number.fract().abs() < 1e-6 { format!("{number:.0}{suffix}") } else { format!("{number:.1}{suffix}") }
}

struct Canvas {
    svg: String,
    x: Axis,
    y: Axis,
}

impl Canvas {
    fn new(title: &str, names: [&str; 2], x: (Axis, &str), y: (Axis, &str)) -> Self {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fafafa\"/>\n<text x=\"12\" y=\"22\" font-size=\"15\">{0}</text>\n",
            escape(title)
        );
        let (x, x_label) = x;
        let (y, y_unit) = y;
        for (panel, name) in names.iter().enumerate() {
            let left = LEFTS[panel];
            let right = left + PANEL;
            let _ = writeln!(
                svg,
                "<text x=\"{left}\" y=\"44\" fill=\"{}\">{}</text>",
                COLORS[panel],
                escape(name)
            );
            for tick in y.ticks() {
                let at = BOTTOM - y.place(tick) * (BOTTOM - TOP);
                let text = short(tick, y_unit);
                let _ = writeln!(
                    svg,
                    "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                    left - 6.0,
                    at + 4.0
                );
            }
            for tick in x.ticks() {
                let at = left + x.place(tick) * PANEL;
                let text = short(tick, "");
                let _ = writeln!(
                    svg,
                    "<path d=\"M{at:.1} {TOP}V{BOTTOM}\" stroke=\"#eee\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                    BOTTOM + 16.0
                );
            }
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
                left + PANEL / 2.0,
                BOTTOM + 36.0,
                escape(x_label)
            );
        }
        let middle = (TOP + BOTTOM) / 2.0;
        let y_name = if y_unit == "ns" { "modelled time of a call" } else { "pages that have a frame" };
        let _ = writeln!(
            svg,
            "<text transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\" fill=\"#555\">{y_name}</text>"
        );
        Self { svg, x, y }
    }

    fn at(&self, panel: usize, x: f64, y: f64) -> (f64, f64) {
        (LEFTS[panel] + self.x.place(x) * PANEL, BOTTOM - self.y.place(y) * (BOTTOM - TOP))
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

/// Figures 5 and 6: modelled time against size, for each call; and what Linux's munmap cost where that was measured.
pub fn scatters(title: &str, names: [&str; 2], points: [&Scatter; 2], munmap: Option<&MunmapCurve>) -> String {
    let measured = munmap.map_or(&[][..], |curve| &curve.points);
    let cells = points.map(Scatter::cells);
    let all = || cells.iter().flatten();
    let x = Axis::decades(all().map(|c| c.0));
    let y = Axis::decades(all().map(|c| c.1).chain(measured.iter().map(|point| point.time_ns)));
    let mut canvas = Canvas::new(title, names, (x, "bytes of the block"), (y, "ns"));
    for (panel, cells) in cells.iter().enumerate() {
        let most = cells.iter().map(|c| c.2).max().unwrap_or(1) as f64;
        // One path for all points of a shade: a tenth of what as many circles would take.
        let mut shades: [String; SHADES] = Default::default();
        for &(size, ns, count) in cells {
            let (x, y) = canvas.at(panel, size, ns);
            let shade = (count as f64).ln_1p() / most.ln_1p() * (SHADES - 1) as f64;
            let _ = write!(shades[shade as usize], "M{x:.1} {y:.1}h0");
        }
        for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let opacity = 0.35 + 0.65 * shade as f64 / (SHADES - 1) as f64;
            let _ = writeln!(
                canvas.svg,
                "<path d=\"{path}\" stroke=\"{}\" stroke-opacity=\"{opacity:.2}\" stroke-width=\"4\" stroke-linecap=\"round\"/>",
                COLORS[panel]
            );
        }
        let line: Vec<String> = measured
            .iter()
            .filter(|point| (x.low..=x.high).contains(&(point.bytes as f64)))
            .map(|point| {
                let (x, y) = canvas.at(panel, point.bytes as f64, point.time_ns);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        if let Some(last) = line.last().filter(|_| line.len() > 1) {
            let (x, y) = last.split_once(',').unwrap_or(("0", "0"));
            let _ = writeln!(
                canvas.svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"#333\" stroke-dasharray=\"5 3\"/><text x=\"{x}\" y=\"{y}\" dy=\"-6\" text-anchor=\"end\" fill=\"#333\" stroke=\"#fafafa\" stroke-width=\"3\" paint-order=\"stroke\">Linux munmap, where this was drawn</text>",
                line.join(" ")
            );
        }
    }
    canvas.finish()
}

/// Figure 7: pages over time, the time being calls.
pub fn footprints(title: &str, names: [&str; 2], series: [&Series; 2]) -> String {
    let most = series.iter().flat_map(|s| s.intervals()).map(|i| i.1).max().unwrap_or(1);
    let calls = series.map(|s| s.intervals().len() as u64 * s.stride() / 2);
    let x = Axis::from_zero(calls[0].max(calls[1]) as f64);
    let mut canvas = Canvas::new(
        title,
        names,
        (x, "calls of malloc and free"),
        (Axis::from_zero(f64::from(most)), "pages"),
    );
    for (panel, series) in series.iter().enumerate() {
        let place = |index: usize| (index as u64 * series.stride()) as f64 / 2.0;
        // Along the largest values, and back along the smallest.
        let highs = series.intervals().iter().enumerate().map(|(i, v)| (place(i), v.1));
        let lows = series.intervals().iter().enumerate().rev().map(|(i, v)| (place(i), v.0));
        let points: Vec<String> = highs
            .chain(lows)
            .map(|(at, pages)| {
                let (x, y) = canvas.at(panel, at, f64::from(pages));
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let _ = writeln!(
            canvas.svg,
            "<polygon points=\"{}\" fill=\"{c}\" stroke=\"{c}\" stroke-width=\"1\"/>",
            points.join(" "),
            c = COLORS[panel]
        );
    }
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_few_round_ticks() {
        let axis = Axis::decades([3.0, 40_000.0].into_iter());
        assert_eq!((axis.low, axis.high.round()), (1.0, 100_000.0));
        assert_eq!(axis.place(1.0), 0.0);
        assert!((axis.place(100_000.0) - 1.0).abs() < 1e-9);
        assert!(axis.ticks().len() <= 8);
        assert_eq!(Axis::decades([120.0, 340.0].into_iter()).ticks(), [100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(Axis::from_zero(180_132.0).ticks(), [0.0, 50_000.0, 100_000.0, 150_000.0]);
        assert_eq!((short(4e6, "ns"), short(50_000.0, "pages")), ("4 ms".into(), "50k".into()));
    }

    #[test]
    fn empty_figures_are_figures() {
        let svg = scatters("a <b>", ["x", "y"], [&Scatter::default(), &Scatter::default()], None);
        assert!(svg.contains("a &lt;b&gt;") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let svg = footprints("t", ["x", "y"], [&Series::default(), &Series::default()]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
