//! Axes: the position of a value, the ticks, and the human-readable numbers at the ticks.

/// A range of values on an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    log: bool,
}

/// The most ticks of a logarithmic axis that are decades alone.
const MOST_DECADES: i32 = 6;

impl Axis {
    /// Whole decades around the values.
    pub(crate) fn decades(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|v| *v > 0.0)
            .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let low = 10_f64.powf(low.log10().floor());
        Self { low, high: (10_f64.powf(high.log10().ceil())).max(low * 10.0), log: true }
    }

    /// From zero to a value.
    pub(crate) fn from_zero(high: f64) -> Self {
        Self { low: 0.0, high: high.max(1.0), log: false }
    }

    /// Around zero and the values, to the next round number.
    pub(crate) fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((0.0_f64, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        let high = high.max(low + 1e-9);
        let step = 10_f64.powf((high - low).log10().floor()) / 2.0;
        Self { low, high: low + ((high - low) / step).ceil().max(1.0) * step, log: false }
    }

    /// Whether it is logarithmic.
    pub(crate) fn is_log(self) -> bool {
        self.log
    }

    /// Where a value lies, 0 to 1.
    pub(crate) fn place(self, value: f64) -> f64 {
        if self.log {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Where lines and numbers stand.
    pub(crate) fn ticks(self) -> Vec<f64> {
        if self.log {
            let decades = (self.high / self.low).log10().round() as i32;
            if decades <= 2 {
                let steps = (0..decades).flat_map(|d| [1.0, 2.0, 5.0].map(|n| n * self.low * 10_f64.powi(d)));
                return steps.chain([self.high]).collect();
            }
            let step = (decades / MOST_DECADES + 1) as usize;
            return (0..=decades).step_by(step).map(|d| self.low * 10_f64.powi(d)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * unit).find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil();
        (0..).map(|n| (first + f64::from(n)) * step).take_while(|t| *t <= self.high + step * 1e-6).collect()
    }
}

/// A number in a few characters: 0.002, 1.5, 20, 3000, 40 k, 5 M.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    match () {
        () if magnitude > 0.0 && magnitude < 1e-3 => format!("{value:.0e}"),
        () if magnitude >= 1e9 => format!("{} G", trimmed(value / 1e9)),
        () if magnitude >= 1e6 => format!("{} M", trimmed(value / 1e6)),
        () if magnitude >= 1e4 => format!("{} k", trimmed(value / 1e3)),
        () => trimmed(value),
    }
}

/// Three digits, without zeros at the end.
fn trimmed(value: f64) -> String {
    let digits =
        if value.abs() >= 100.0 || value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
    let text = format!("{value:.*}", digits.clamp(0, 4) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Nanoseconds with a unit: 800 ns, 4 ms, 1.5 s.
pub(crate) fn short_time(ns: f64) -> String {
    let (scale, unit) = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]
        .into_iter()
        .find(|(scale, _)| ns >= *scale * 0.999)
        .unwrap_or((1.0, "ns"));
    format!("{} {unit}", trimmed(ns / scale))
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
        assert_eq!(Axis::around([-1.0, 3.0].into_iter()).ticks(), [-1.0, 0.0, 1.0, 2.0, 3.0]);
        let none = Axis::decades(std::iter::empty());
        assert!(none.ticks().iter().all(|tick| tick.is_finite()));
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.002, "0.002"), (1.5, "1.5"), (3000.0, "3000"), (50_000.0, "50 k"), (5e6, "5 M")]
        {
            assert_eq!(short(value), text);
        }
        for (ns, text) in [(4e6, "4 ms"), (1.0, "1 ns"), (1500.0, "1.5 µs")] {
            assert_eq!(short_time(ns), text);
        }
    }
}
