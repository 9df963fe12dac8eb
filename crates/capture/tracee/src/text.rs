//! Text without an allocator.

/// A string of bounded length on the stack; what does not fit is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Text<N> {
    /// Empty.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }
}

impl<const N: usize> core::fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// The number that `digits` starts with in base `radix`, and the rest.
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
    fn numbers_end_where_digits_end() {
        assert_eq!(number(b"7f-x", 16), Some((0x7f, b"-x".as_slice())));
        assert_eq!(number(b"x", 16), None);
        assert_eq!(number(b"99999999999999999999", 10), None);
    }

    #[test]
    fn text_is_cut_at_its_end() {
        let mut text = Text::<4>::new();
        text.push(b"abcdef");
        assert_eq!(text.as_bytes(), b"abcd");
    }
}
