//! Numbers in human-readable form.

pub use analysis::{amount, grouped, missing};

/// A number with three digits and a unit, where it has five digits or more.
pub(crate) fn short(number: u64) -> String {
    if number < 10_000 {
        return number.to_string();
    }
    let mut value = number as f64;
    for unit in ['k', 'M', 'G', 'T', 'P', 'E'] {
        value /= 1000.0;
        // What rounds to 1000 has the next unit.
        if value < 999.5 || unit == 'E' {
            let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            return format!("{value:.digits$} {unit}");
        }
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_units() {
        assert_eq!(
            ["9999", "12345", "123456", "999999"].map(|n| short(n.parse().unwrap())),
            ["9999", "12.3 k", "123 k", "1.00 M"]
        );
        assert_eq!(short(u64::MAX), "18.4 E");
    }
}
