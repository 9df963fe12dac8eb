//! Watch expressions: what a user wants watched.

use std::path::Path;

use memref::VirtAddr;

use crate::Error;

/// A number in decimal, or in hexadecimal with 0x before it.
///
/// # Errors
/// Where it is none: a text that says so.
pub fn parse_number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is not a number"))
}

/// Which accesses to something are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// Those that read.
    Reads,
    /// Those that write.
    Writes,
    /// All.
    Accesses,
}

impl WatchKind {
    /// As the tracer has it: bit 0 reads, bit 1 writes.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Reads => 1,
            Self::Writes => 2,
            Self::Accesses => 3,
        }
    }
}

/// What is watched: a variable (`frame.pixels[3].red`), a part of one (`table+16:8`), an address (`0x404040:8`), or the blocks
/// that a function allocates (`malloc@make#2`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchExpression {
    /// The expression.
    pub text: String,
    /// What of it.
    pub kind: WatchKind,
}

/// A range of addresses that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange<'a> {
    /// As it was asked for.
    pub(super) expression: &'a str,
    pub(super) start: VirtAddr,
    pub(super) len: u64,
}

impl AddressRange<'_> {
    /// The first address after it.
    pub(super) fn end(&self) -> VirtAddr {
        VirtAddr(self.start.0.saturating_add(self.len))
    }
}

impl WatchExpression {
    /// Reads a file of lines, each `read`, `write` or `access` and an expression.
    ///
    /// # Errors
    /// Where it can't be read, or a line is another.
    pub fn read_list(path: &Path) -> Result<Vec<Self>, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path, "can't be read"))?;
        let mut list = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (kind, expression) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            let kind = match kind {
                "read" => WatchKind::Reads,
                "write" => WatchKind::Writes,
                "access" => WatchKind::Accesses,
                _ => return Err(Error::WatchList { path: path.into(), line: index + 1 }),
            };
            list.push(Self { text: expression.trim().to_owned(), kind });
        }
        Ok(list)
    }

    /// The addresses, where these are what is watched.
    pub(super) fn addresses(&self) -> Option<AddressRange<'_>> {
        let (start, len) = self.text.strip_prefix("0x")?.split_once(':')?;
        let (start, len) = (VirtAddr(u64::from_str_radix(start, 16).ok()?), parse_number(len).ok()?);
        Some(AddressRange { expression: &self.text, start, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!((parse_number("0x10"), parse_number("16")), (Ok(16), Ok(16)));
        assert!(parse_number("ten").is_err());
    }

    #[test]
    fn a_list_has_a_kind_and_an_expression_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "write a.b\n\n read 0x10:8 \n").unwrap();
        let list = WatchExpression::read_list(file.path()).unwrap();
        let expected = [("a.b", WatchKind::Writes), ("0x10:8", WatchKind::Reads)];
        assert_eq!(list, expected.map(|(text, kind)| WatchExpression { text: text.to_owned(), kind }));
        let range = list[1].addresses().map(|range| (range.start, range.len));
        assert_eq!((range, list[0].addresses()), (Some((VirtAddr(16), 8)), None));
        std::fs::write(file.path(), "write a\nchange b\n").unwrap();
        let error = WatchExpression::read_list(file.path()).unwrap_err().to_string();
        assert!(error.ends_with(":2: expected read, write or access, and an expression"), "{error}");
    }
}
