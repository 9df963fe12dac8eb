//! Numbers in human-readable form.

/// A number with its thousands apart, for a terminal.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// So many of something, for a terminal: `1 access`, `12 345 accesses`, `2 entries`.
pub fn amount(number: u64, what: &str) -> String {
    let stem = what.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match (number, stem) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{} {stem}ies", grouped(number)),
        _ if what.ends_with(['s', 'h']) => format!("{} {what}es", grouped(number)),
        _ => format!("{} {what}s", grouped(number)),
    }
}

/// That so many events are missing.
pub fn missing(events: u64) -> String {
    format!("{} {} missing", amount(events, "event"), if events == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1_234_567].map(grouped), ["0", "999", "1 234 567"]);
    }

    #[test]
    fn one_is_no_plural() {
        let all = [
            (0, "frame"),
            (1, "access"),
            (12_345, "access"),
            (2, "mismatch"),
            (1, "entry"),
            (3, "entry"),
            (2, "array"),
        ]
        .map(|(n, what)| amount(n, what));
        let expect =
            ["0 frames", "1 access", "12 345 accesses", "2 mismatches", "1 entry", "3 entries", "2 arrays"];
        assert_eq!(all, expect);
        assert_eq!([1, 2].map(missing), ["1 event is missing", "2 events are missing"]);
    }
}
