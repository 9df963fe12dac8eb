//! Parsers for files of /proc/PID: a line of maps, stat, status.
//!
//! Text in, numbers out: reading the file, and choosing the process, is left to the users of this crate,
//! which run inside a traced process as well as outside. Nothing is allocated, and nothing panics.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod maps;
mod stat;
mod status;

pub use maps::Mapping;
pub use stat::{TaskActivity, TaskStat};
pub use status::TaskStatus;

/// The number that `digits` starts with in base `radix`, and the rest.
#[must_use]
pub fn number(digits: &[u8], radix: u32) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut used = 0;
    for &byte in digits {
        let Some(digit) = (byte as char).to_digit(radix) else { break };
        value = value.checked_mul(radix.into())?.checked_add(digit.into())?;
        used += 1;
    }
    Some((value, digits.get(used..)?)).filter(|_| used > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_their_digits_do() {
        assert_eq!(number(b"7f-x", 16), Some((0x7f, b"-x".as_slice())));
        assert_eq!(number(b"99999999999999999999", 10), None);
        assert_eq!(number(b"", 10), None);
    }
}
