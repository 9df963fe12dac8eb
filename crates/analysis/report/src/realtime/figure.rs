//! Figures 5, 6 and 7 of the paper as SVG: two panels with the same axes, the RTMMU on the left.

use std::fmt::Write;

use analysis::realtime::MunmapCurve;
use rtvm::replay::{Scatter, ScatterCell, Series};

use crate::svg::axis::{Axis, short, short_time};
use crate::svg::{COLOURS, Drawing};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 360.0;
const PANEL: f64 = 370.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 306.0;
const LEFTS: [f64; 2] = [70.0, 525.0];
/// Steps between one call at a place of a scatter and the most.
const SHADES: usize = 8;

/// What the vertical axis is.
#[derive(Clone, Copy)]
enum VerticalAxis {
    /// Nanoseconds.
    Time,
    /// Pages.
    Pages,
}

struct Canvas {
    drawing: Drawing,
    title: String,
    x: Axis,
    y: Axis,
}

impl Canvas {
    fn new(title: &str, names: [&str; 2], x: (Axis, &str), y: (Axis, VerticalAxis)) -> Self {
        let mut drawing = Drawing::default();
        drawing.text(12.0, 22.0, "font-size=\"15\"", title);
        let (x, x_label) = x;
        let (y, vertical) = y;
        for (panel, name) in names.iter().enumerate() {
            let left = LEFTS[panel];
            let right = left + PANEL;
            drawing.text(left, 44.0, &format!("fill=\"{}\"", COLOURS[panel]), name);
            for tick in y.ticks() {
                let at = BOTTOM - y.place(tick) * (BOTTOM - TOP);
                drawing.shape(format_args!("<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
                let text = match vertical {
                    VerticalAxis::Time => short_time(tick),
                    VerticalAxis::Pages => short(tick),
                };
                drawing.text(left - 6.0, (at + 4.0).round(), "text-anchor=\"end\"", &text);
            }
            for tick in x.ticks() {
                let at = left + x.place(tick) * PANEL;
                drawing.shape(format_args!("<path d=\"M{at:.1} {TOP}V{BOTTOM}\" stroke=\"#eee\"/>"));
                drawing.text(at.round(), BOTTOM + 16.0, "text-anchor=\"middle\"", &short(tick));
            }
            drawing.text(left + PANEL / 2.0, BOTTOM + 36.0, "text-anchor=\"middle\" fill=\"#555\"", x_label);
        }
        let middle = (TOP + BOTTOM) / 2.0;
        let y_name = match vertical {
            VerticalAxis::Time => "modelled time of a call",
            VerticalAxis::Pages => "pages that have a frame",
        };
        let turned = format!("transform=\"rotate(-90 14 {middle})\" text-anchor=\"middle\" fill=\"#555\"");
        drawing.text(14.0, middle, &turned, y_name);
        Self { drawing, title: title.to_owned(), x, y }
    }

    fn at(&self, panel: usize, x: f64, y: f64) -> (f64, f64) {
        (LEFTS[panel] + self.x.place(x) * PANEL, BOTTOM - self.y.place(y) * (BOTTOM - TOP))
    }

    fn finish(self) -> String {
        self.drawing.finish(WIDTH, HEIGHT, &self.title, "")
    }
}

/// Figures 5 and 6: modelled time against size, for each call; and what Linux's munmap cost where that was measured.
pub fn scatters(
    title: &str,
    names: [&str; 2],
    points: [&Scatter; 2],
    munmap: Option<&MunmapCurve>,
) -> String {
    let measured = munmap.map_or(&[][..], |curve| &curve.points);
    let cells = points.map(Scatter::cells);
    let all = || cells.iter().flatten();
    let x = Axis::decades(all().map(|cell| cell.x));
    let y = Axis::decades(all().map(|cell| cell.y).chain(measured.iter().map(|point| point.time_ns)));
    let mut canvas = Canvas::new(title, names, (x, "bytes of the block"), (y, VerticalAxis::Time));
    for (panel, cells) in cells.iter().enumerate() {
        let most = cells.iter().map(|cell| cell.count).max().unwrap_or(1) as f64;
        // One path for all points of a shade: a tenth of what as many circles would take.
        let mut shades: [String; SHADES] = Default::default();
        for &ScatterCell { x: size, y: ns, count } in cells {
            let (x, y) = canvas.at(panel, size, ns);
            let shade = (count as f64).ln_1p() / most.ln_1p() * (SHADES - 1) as f64;
            let _ = write!(shades[shade as usize], "M{x:.1} {y:.1}h0");
        }
        for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let opacity = 0.35 + 0.65 * shade as f64 / (SHADES - 1) as f64;
            let colour = COLOURS[panel];
            canvas.drawing.shape(format_args!(
                "<path d=\"{path}\" stroke=\"{colour}\" stroke-opacity=\"{opacity:.2}\" stroke-width=\"4\" stroke-linecap=\"round\"/>"
            ));
        }
        let line: Vec<(f64, f64)> = measured
            .iter()
            .filter(|point| (x.low..=x.high).contains(&(point.bytes as f64)))
            .map(|point| canvas.at(panel, point.bytes as f64, point.time_ns))
            .collect();
        if let Some(last) = line.last().filter(|_| line.len() > 1) {
            let (x, y) = last;
            let line: Vec<String> = line.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            canvas.drawing.shape(format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"#333\" stroke-dasharray=\"5 3\"/>",
                line.join(" ")
            ));
            let halo = "dy=\"-6\" text-anchor=\"end\" fill=\"#333\" stroke=\"#fafafa\" stroke-width=\"3\" paint-order=\"stroke\"";
            canvas.drawing.text(x.round(), y.round(), halo, "Linux munmap, where this was drawn");
        }
    }
    canvas.finish()
}

/// Figure 7: pages over time, the time being calls.
pub fn footprints(title: &str, names: [&str; 2], series: [&Series; 2]) -> String {
    let most = series.iter().flat_map(|s| s.intervals()).map(|i| i.high).max().unwrap_or(1);
    let calls = series.map(|s| s.intervals().len() as u64 * s.stride() / 2);
    let x = Axis::from_zero(calls[0].max(calls[1]) as f64);
    let mut canvas = Canvas::new(
        title,
        names,
        (x, "calls of malloc and free"),
        (Axis::from_zero(f64::from(most)), VerticalAxis::Pages),
    );
    for (panel, series) in series.iter().enumerate() {
        let place = |index: usize| (index as u64 * series.stride()) as f64 / 2.0;
        // Along the largest values, and back along the smallest.
        let highs = series.intervals().iter().enumerate().map(|(i, v)| (place(i), v.high));
        let lows = series.intervals().iter().enumerate().rev().map(|(i, v)| (place(i), v.low));
        let points: Vec<String> = highs
            .chain(lows)
            .map(|(at, pages)| {
                let (x, y) = canvas.at(panel, at, f64::from(pages));
                format!("{x:.1},{y:.1}")
            })
            .collect();
        canvas.drawing.shape(format_args!(
            "<polygon points=\"{}\" fill=\"{c}\" stroke=\"{c}\" stroke-width=\"1\"/>",
            points.join(" "),
            c = COLOURS[panel]
        ));
    }
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_figures_are_figures() {
        let svg = scatters("a <b>", ["x", "y"], [&Scatter::default(), &Scatter::default()], None);
        assert!(svg.contains("a &lt;b&gt;") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let svg = footprints("t", ["x", "y"], [&Series::default(), &Series::default()]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
