//! Line charts, histograms and bars as SVG: as much as the figures need.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 62.0;
const COLOURS: [&str; 8] =
    ["#1b6ca8", "#d1495b", "#2a9d5c", "#b8860b", "#6a4c93", "#444444", "#00a6a6", "#e07a1f"];

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// 0.002, 1.5, 20, 3,000, 40 k, 5 M.
pub(crate) fn short(value: f64) -> String {
    let magnitude = value.abs();
    match () {
        () if magnitude > 0.0 && magnitude < 1e-3 => format!("{value:.0e}"),
        () if magnitude >= 1e6 => format!("{} M", trim(value / 1e6)),
        () if magnitude >= 1e4 => format!("{} k", trim(value / 1e3)),
        () => trim(value),
    }
}

fn trim(value: f64) -> String {
    let digits =
        if value.abs() >= 100.0 || value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
    let text = format!("{value:.*}", digits.clamp(0, 4) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// One line or one set of points.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart with points joined by lines.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) paper: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) x_log: bool,
    pub(crate) y_log: bool,
    pub(crate) steps: bool,
    pub(crate) series: Vec<Series>,
    /// Vertical lines: where, and what.
    pub(crate) marks: Vec<(f64, String)>,
}

struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, log: bool) -> Self {
        let usable = values.filter(|v| !log || *v > 0.0);
        let low = usable.clone().fold(f64::MAX, f64::min);
        let high = usable.fold(f64::MIN, f64::max);
        if log {
            let low = 10f64.powf(low.log10().floor());
            return Self { low, high: (10f64.powf(high.log10().ceil())).max(low * 10.0), log };
        }
        let low = low.min(0.0);
        let step = 10f64.powf((high - low).max(1e-9).log10().floor()) / 2.0;
        Self { low, high: low + ((high - low) / step).ceil().max(1.0) * step, log }
    }

    fn share(&self, value: f64) -> f64 {
        if self.log {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|n| self.low * 10f64.powi(n)).collect();
        }
        let parts = if self.low == 0.0 && self.high <= 5.0 { self.high.round().max(1.0) as i32 } else { 5 };
        (0..=parts).map(|n| self.low + (self.high - self.low) * f64::from(n) / f64::from(parts)).collect()
    }
}

fn open(title: &str, paper: &str, height: f64) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="24" font-size="15" font-weight="bold">{}</text>
"##,
        escape(title),
    );
    for (row, line) in paper.split('|').enumerate() {
        let _ = writeln!(
            out,
            r##"<text x="16" y="{}" fill="#555555" font-size="11.5">{}</text>"##,
            42 + 15 * row,
            escape(line)
        );
    }
    out
}

impl Chart<'_> {
    pub(crate) fn svg(&self) -> String {
        let legend_rows = self.series.len().div_ceil(2) as f64;
        let height = HEIGHT + 18.0 * legend_rows;
        let mut out = open(self.title, self.paper, height);
        let all = || self.series.iter().flat_map(|s| s.points.iter().copied());
        let x_axis = Axis::over(all().map(|p| p.0).chain(self.marks.iter().map(|m| m.0)), self.x_log);
        let y_axis = Axis::over(all().map(|p| p.1), self.y_log);
        let x = |v: f64| LEFT + x_axis.share(v) * (WIDTH - LEFT - RIGHT);
        let y = |v: f64| HEIGHT - BOTTOM - y_axis.share(v) * (HEIGHT - TOP - BOTTOM);
        for tick in y_axis.ticks() {
            let at = y(tick);
            let _ = writeln!(
                out,
                r##"<line x1="{LEFT}" x2="{}" y1="{at:.1}" y2="{at:.1}" stroke="#e4e4e4"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"##,
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            );
        }
        for tick in x_axis.ticks() {
            let at = x(tick);
            let _ = writeln!(
                out,
                r##"<line x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{}" stroke="#f0f0f0"/><text x="{at:.1}" y="{}" text-anchor="middle">{}</text>"##,
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 17.0,
                short(tick)
            );
        }
        for (at, what) in &self.marks {
            let at = x(*at);
            let _ = writeln!(
                out,
                r##"<line x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{}" stroke="#888888" stroke-dasharray="4 3"/><text x="{:.1}" y="{:.1}" fill="#666666" font-size="11" transform="rotate(-90 {:.1} {:.1})" text-anchor="end">{}</text>"##,
                HEIGHT - BOTTOM,
                at - 4.0,
                TOP + 4.0,
                at - 4.0,
                TOP + 4.0,
                escape(what)
            );
        }
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let mut path = String::new();
            let mut before: Option<f64> = None;
            for (px, py) in &series.points {
                let (px, py) = (x(*px), y(*py));
                let _ = match before {
                    None => write!(path, "M{px:.1} {py:.1}"),
                    Some(level) if self.steps => write!(path, "L{px:.1} {level:.1}L{px:.1} {py:.1}"),
                    Some(_) => write!(path, "L{px:.1} {py:.1}"),
                };
                before = Some(py);
                if !self.steps {
                    let _ = writeln!(out, r##"<circle cx="{px:.1}" cy="{py:.1}" r="3" fill="{colour}"/>"##);
                }
            }
            let _ = writeln!(out, r##"<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>"##);
            let (lx, ly) = (LEFT + (number % 2) as f64 * 310.0, HEIGHT + 4.0 + (number / 2) as f64 * 18.0);
            let _ = writeln!(
                out,
                r##"<rect x="{lx}" y="{}" width="12" height="4" fill="{colour}"/><text x="{}" y="{ly}">{}</text>"##,
                ly - 6.0,
                lx + 17.0,
                escape(&series.name)
            );
        }
        let _ = writeln!(
            out,
            r##"<line x1="{LEFT}" x2="{}" y1="{b}" y2="{b}" stroke="#333333"/><line x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{b}" stroke="#333333"/>
<text x="{}" y="{}" text-anchor="middle">{}</text>
<text x="18" y="{m}" text-anchor="middle" transform="rotate(-90 18 {m})">{}</text>
</svg>"##,
            WIDTH - RIGHT,
            LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
            HEIGHT - BOTTOM + 38.0,
            escape(self.x),
            escape(self.y),
            b = HEIGHT - BOTTOM,
            m = TOP + (HEIGHT - TOP - BOTTOM) / 2.0,
        );
        out
    }
}

/// Horizontal bars: label, value, whether it is the paper's.
pub(crate) struct Bars<'a> {
    pub(crate) title: &'a str,
    pub(crate) paper: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) log: bool,
    pub(crate) rows: Vec<(String, f64, bool)>,
}

impl Bars<'_> {
    pub(crate) fn svg(&self) -> String {
        const NAMES: f64 = 300.0;
        let height = TOP + 20.0 * self.rows.len() as f64 + 44.0;
        let mut out = open(self.title, self.paper, height);
        let low_is_negative = self.rows.iter().any(|r| r.1 < 0.0);
        let axis = Axis::over(self.rows.iter().map(|r| r.1), self.log && !low_is_negative);
        let x = |v: f64| NAMES + axis.share(v) * (WIDTH - NAMES - 80.0);
        let zero = if axis.log { NAMES } else { x(0.0) };
        for (row, (name, value, is_paper)) in self.rows.iter().enumerate() {
            let at = TOP + 20.0 * row as f64;
            let colour = if *is_paper { "#b8b8b8" } else { COLOURS[0] };
            let (from, to) = (zero.min(x(*value)), zero.max(x(*value)));
            let _ = writeln!(
                out,
                r##"<text x="{}" y="{}" text-anchor="end">{}</text><rect x="{from:.1}" y="{at}" width="{:.1}" height="14" fill="{colour}"/><text x="{:.1}" y="{}">{}</text>"##,
                NAMES - 8.0,
                at + 11.0,
                escape(name),
                (to - from).max(1.0),
                to + 5.0,
                at + 11.0,
                short(*value)
            );
        }
        let scale = if axis.log { ", logarithmic" } else { "" };
        let _ = writeln!(
            out,
            r##"<text x="16" y="{}" fill="#555555">{}{scale}; blue: this machine, grey: the paper</text>
</svg>"##,
            height - 16.0,
            escape(self.unit)
        );
        out
    }
}
