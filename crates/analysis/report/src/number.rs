//! Numbers as people read them.

/// Between thousands: a thin space that does not break a line.
const THIN_SPACE: char = '\u{202f}';

fn grouped_by(number: u64, between: char) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(between);
        }
        text.push(digit);
    }
    text
}

/// A number with its thousands apart, for a terminal.
pub fn grouped(number: u64) -> String {
    grouped_by(number, ' ')
}

/// A number with its thousands apart, for a page.
pub(crate) fn grouped_html(number: u64) -> String {
    grouped_by(number, THIN_SPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped_html(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
