//! Horizontal bars of two kinds: measurements, and what they are compared with.

use super::axis::{Axis, short};
use super::chart::{TOP, WIDTH, headings};
use super::{COLOURS, Drawing};

/// Room for the labels.
const LABELS: f64 = 300.0;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is.
    pub label: String,
    /// How long it is.
    pub value: f64,
    /// Whether it is what the others are compared with.
    pub is_reference: bool,
}

/// Bars below each other.
#[derive(Debug)]
pub struct Bars<'a> {
    /// The title.
    pub title: &'a str,
    /// What is said below it, in lines.
    pub subtitle: &'a str,
    /// What the values are, and what the two kinds of bars are.
    pub note: &'a str,
    /// Whether the axis is logarithmic; not where a value is negative.
    pub log: bool,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

impl Bars<'_> {
    /// Draws them.
    pub fn svg(&self) -> String {
        let height = TOP + 20.0 * self.bars.len() as f64 + 44.0;
        let mut drawing = Drawing::default();
        headings(&mut drawing, self.title, self.subtitle);
        let log = self.log && self.bars.iter().all(|bar| bar.value >= 0.0);
        let values = self.bars.iter().map(|bar| bar.value);
        let axis = if log { Axis::decades(values) } else { Axis::around(values) };
        let x = |value: f64| LABELS + axis.place(value) * (WIDTH - LABELS - 80.0);
        let zero = if axis.is_log() { LABELS } else { x(0.0) };
        for (row, bar) in self.bars.iter().enumerate() {
            let at = TOP + 20.0 * row as f64;
            let colour = if bar.is_reference { "#b8b8b8" } else { COLOURS[0] };
            let (from, to) = (zero.min(x(bar.value)), zero.max(x(bar.value)));
            let wide = (to - from).max(1.0);
            drawing.text(LABELS - 8.0, at + 11.0, "text-anchor=\"end\"", &bar.label);
            drawing.shape(format_args!(
                r##"<rect x="{from:.1}" y="{at}" width="{wide:.1}" height="14" fill="{colour}"/>"##
            ));
            drawing.text((to + 5.0).round(), at + 11.0, "", &short(bar.value));
        }
        drawing.text(16.0, height - 16.0, "fill=\"#555555\"", self.note);
        drawing.finish(WIDTH, height, self.title, "")
    }
}
