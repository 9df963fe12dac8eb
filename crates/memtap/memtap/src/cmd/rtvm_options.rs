//! Parsers for option values that are more than a number: sizes and distributions.

use rtvm::replay::Sizes;

/// A number of bytes: `4096`, `64k`, `8m`, `16g`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a number of bytes; write 4096, 64k, 8m or 16g");
    let lower = text.to_ascii_lowercase();
    let (digits, shift) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(digits) => (
            digits,
            if lower.ends_with('k') {
                10
            } else if lower.ends_with('m') {
                20
            } else {
                30
            },
        ),
        None => (lower.as_str(), 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(wrong)
}

/// A distribution: `uniform:8m` or `loguniform:8m`.
pub(crate) fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let wrong = || format!("{text:?} is not a distribution; write uniform:8m or loguniform:8m");
    let (name, most) = text.split_once(':').ok_or_else(wrong)?;
    let most = parse_bytes(most)?;
    match name {
        "uniform" => Ok(Sizes::Uniform(most)),
        "loguniform" => Ok(Sizes::LogUniform(most)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("8M"), Ok(8 << 20));
        assert_eq!(parse_sizes("loguniform:64k"), Ok(Sizes::LogUniform(64 << 10)));
        for wrong in ["", "k", "-1", "0", "1t", "99999999999999g"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        for wrong in ["uniform", "uniform:", "normal:8m", "8m"] {
            assert!(parse_sizes(wrong).is_err(), "{wrong}");
        }
    }
}
