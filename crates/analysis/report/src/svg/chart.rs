//! A chart of lines or points with two axes, a legend and marks.

use std::fmt::Write;

use super::axis::{Axis, short};
use super::{COLOURS, Drawing};

pub(super) const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
pub(super) const TOP: f64 = 76.0;
const BOTTOM: f64 = 62.0;

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChartPoint {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
}

/// One line or one set of points.
#[derive(Clone, Debug)]
pub struct ChartSeries {
    /// What the legend says.
    pub name: String,
    /// In their order.
    pub points: Vec<ChartPoint>,
}

/// A vertical line.
#[derive(Clone, Debug)]
pub struct ChartMark {
    /// Where.
    pub x: f64,
    /// What it says.
    pub words: String,
}

/// A chart with points joined by lines.
#[derive(Debug)]
pub struct Chart<'a> {
    /// The title.
    pub title: &'a str,
    /// What is said below it, in lines.
    pub subtitle: &'a str,
    /// What the horizontal axis says.
    pub x: &'a str,
    /// What the vertical axis says.
    pub y: &'a str,
    /// Whether the horizontal axis is logarithmic.
    pub x_log: bool,
    /// Whether the vertical axis is logarithmic.
    pub y_log: bool,
    /// Whether lines go up in steps, without points.
    pub steps: bool,
    /// The lines.
    pub series: Vec<ChartSeries>,
    /// Vertical lines.
    pub marks: Vec<ChartMark>,
}

/// Title and what is said below it.
pub(super) fn headings(drawing: &mut Drawing, title: &str, subtitle: &str) {
    drawing.text(16.0, 24.0, "font-size=\"15\" font-weight=\"bold\"", title);
    for (row, line) in subtitle.lines().enumerate() {
        drawing.text(16.0, 42.0 + 15.0 * row as f64, "fill=\"#555555\" font-size=\"11.5\"", line);
    }
}

impl Chart<'_> {
    /// Draws it.
    pub fn svg(&self) -> String {
        let mut drawing = Drawing::default();
        headings(&mut drawing, self.title, self.subtitle);
        let all = || self.series.iter().flat_map(|series| series.points.iter());
        let axis = |log: bool, values: &mut dyn Iterator<Item = f64>| {
            if log { Axis::decades(values) } else { Axis::around(values) }
        };
        let marks = self.marks.iter().map(|mark| mark.x);
        let x_axis = axis(self.x_log, &mut all().map(|point| point.x).chain(marks));
        let y_axis = axis(self.y_log, &mut all().map(|point| point.y));
        let x = |value: f64| LEFT + x_axis.place(value) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - y_axis.place(value) * (HEIGHT - TOP - BOTTOM);
        let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y_axis.ticks() {
            let at = y(tick);
            drawing.shape(format_args!(r##"<path d="M{LEFT} {at:.1}H{right}" stroke="#e4e4e4"/>"##));
            drawing.text(LEFT - 6.0, (at + 4.0).round(), "text-anchor=\"end\"", &short(tick));
        }
        for tick in x_axis.ticks() {
            let at = x(tick);
            drawing.shape(format_args!(r##"<path d="M{at:.1} {TOP}V{floor}" stroke="#f0f0f0"/>"##));
            drawing.text(at.round(), floor + 17.0, "text-anchor=\"middle\"", &short(tick));
        }
        for mark in &self.marks {
            let at = x(mark.x);
            drawing.shape(format_args!(
                r##"<path d="M{at:.1} {TOP}V{floor}" stroke="#888888" stroke-dasharray="4 3"/>"##
            ));
            let (left, top) = ((at - 4.0).round(), TOP + 4.0);
            let turned = format!(
                r##"fill="#666666" font-size="11" transform="rotate(-90 {left} {top})" text-anchor="end""##
            );
            drawing.text(left, top, &turned, &mark.words);
        }
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let mut path = String::new();
            let mut before: Option<f64> = None;
            for point in &series.points {
                let (px, py) = (x(point.x), y(point.y));
                // Writing to a string can't fail.
                let _ = match before {
                    None => write!(path, "M{px:.1} {py:.1}"),
                    Some(level) if self.steps => write!(path, "L{px:.1} {level:.1}L{px:.1} {py:.1}"),
                    Some(_) => write!(path, "L{px:.1} {py:.1}"),
                };
                before = Some(py);
                if !self.steps {
                    drawing.shape(format_args!(
                        r##"<circle cx="{px:.1}" cy="{py:.1}" r="3" fill="{colour}"/>"##
                    ));
                }
            }
            drawing.shape(format_args!(
                r##"<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>"##
            ));
            let (lx, ly) = (LEFT + (number % 2) as f64 * 310.0, HEIGHT + 4.0 + (number / 2) as f64 * 18.0);
            let top = ly - 6.0;
            drawing
                .shape(format_args!(r##"<rect x="{lx}" y="{top}" width="12" height="4" fill="{colour}"/>"##));
            drawing.text(lx + 17.0, ly, "", &series.name);
        }
        drawing.shape(format_args!(
            r##"<path d="M{LEFT} {TOP}V{floor}H{right}" fill="none" stroke="#333333"/>"##
        ));
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        drawing.text(middle, floor + 38.0, "text-anchor=\"middle\"", self.x);
        let half = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 18 {half})\"");
        drawing.text(18.0, half, &turned, self.y);
        let legend_rows = self.series.len().div_ceil(2) as f64;
        drawing.finish(WIDTH, HEIGHT + 18.0 * legend_rows, self.title, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_chart_is_a_chart() {
        for log in [false, true] {
            let chart = Chart {
                title: "a <b>",
                subtitle: "",
                x: "x",
                y: "y",
                x_log: log,
                y_log: log,
                steps: false,
                series: vec![],
                marks: vec![],
            };
            let svg = chart.svg();
            assert!(svg.contains("a &lt;b&gt;") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
