//! All SVG output. A drawing consists of shapes and texts; axes for charts are in `axis`, charts with lines
//! in `chart`, bars in `bars`. The heat map and the figures of real-time virtual memory do their own drawing.

pub(crate) mod axis;
mod bars;
mod chart;
mod reuse;

use std::fmt::{Arguments, Write};

use crate::pages::skeleton::escape;

pub use axis::short;
pub use bars::{Bar, Bars};
pub use chart::{Chart, ChartMark, ChartPoint, ChartSeries};
pub use reuse::{ReuseCurve, reuse_chart};

/// Colours of lines and points, in their order.
pub(crate) const COLOURS: [&str; 8] =
    ["#1b6ca8", "#d1495b", "#2a9d5c", "#b8860b", "#6a4c93", "#444444", "#00a6a6", "#e07a1f"];

/// A picture that is being drawn. Lengths are pixels; y grows downwards.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    body: String,
}

impl Drawing {
    /// Adds shapes, which hold no text of a program.
    pub(crate) fn shape(&mut self, element: Arguments<'_>) {
        // Writing to a string can't fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, x: f64, y: f64, attributes: &str, words: &str) {
        let space = if attributes.is_empty() { "" } else { " " };
        let words = escape(words);
        // Writing to a string can't fail.
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\"{space}{attributes}>{words}</text>");
    }

    /// The picture on white paper, with what it is called for those who can't see it.
    pub(crate) fn finish(self, width: f64, height: f64, label: &str, attributes: &str) -> String {
        let label = escape(label);
        let space = if attributes.is_empty() { "" } else { " " };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{label}\"{space}{attributes}>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fafafa\"/>\n{}</svg>\n",
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_labels_are_harmless() {
        let mut drawing = Drawing::default();
        drawing.text(1.0, 2.5, "", "a <b>");
        let svg = drawing.finish(10.0, 20.0, "\"x\"", "");
        assert!(svg.contains("a &lt;b&gt;</text>") && svg.contains("aria-label=\"&quot;x&quot;\""));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
