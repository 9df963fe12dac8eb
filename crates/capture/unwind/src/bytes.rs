//! Bounds-checked reading of numbers.

/// Bytes of the process at their address, and how far they were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableBytes<'a> {
    bytes: &'a [u8],
    /// The address of the first of all bytes.
    start: u64,
    at: usize,
}

/// How a pointer is written (`DW_EH_PE_`): its form in the low four bits, what it is relative to in the next three.
pub(crate) const ABSOLUTE: u8 = 0;
const PC_RELATIVE: u8 = 0x10;
pub(crate) const OMITTED: u8 = 0xff;

impl<'a> TableBytes<'a> {
    /// The bytes that lie at `start`.
    pub(crate) fn new(bytes: &'a [u8], start: u64) -> Self {
        Self { bytes, start, at: 0 }
    }

    /// From another address of the same bytes on.
    pub(crate) fn seek(mut self, addr: u64) -> Option<Self> {
        let at = usize::try_from(addr.checked_sub(self.start)?).ok()?;
        (at <= self.bytes.len()).then(|| {
            self.at = at;
            self
        })
    }

    /// The address of the next byte.
    pub(crate) fn addr(&self) -> u64 {
        self.start.wrapping_add(self.at as u64)
    }

    /// The next `len` bytes alone; these are read then.
    pub(crate) fn split(&mut self, len: u64) -> Option<Self> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let part = Self { bytes: self.bytes.get(..end)?, ..*self };
        self.at = end;
        Some(part)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(N)?)?.try_into().ok()?;
        self.at += N;
        Some(bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// LEB128 without a sign. Bits beyond the 64th are dropped.
    pub(crate) fn uleb(&mut self) -> Option<u64> {
        self.leb().map(|(value, ..)| value)
    }

    /// LEB128 with a sign.
    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let (value, bits, negative) = self.leb()?;
        let sign = if negative { u64::MAX.checked_shl(bits).unwrap_or(0) } else { 0 };
        Some((value | sign) as i64)
    }

    /// LEB128: the value, how many bits were there, and the highest of them.
    fn leb(&mut self) -> Option<(u64, u32, bool)> {
        let (mut value, mut bits) = (0u64, 0u32);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(bits).unwrap_or(0);
            bits = bits.saturating_add(7);
            if byte & 0x80 == 0 {
                return Some((value, bits, byte & 0x40 != 0));
            }
        }
    }

    /// A number in the form of a pointer, relative to nothing.
    pub(crate) fn plain(&mut self, encoding: u8) -> Option<u64> {
        Some(match encoding & 0xf {
            0 | 4 | 0xc => self.u64()?,
            1 => self.uleb()?,
            2 => self.u16()?.into(),
            3 => self.u32()?.into(),
            9 => self.sleb()? as u64,
            0xa => i64::from(self.u16()? as i16) as u64,
            0xb => i64::from(self.u32()? as i32) as u64,
            _ => return None,
        })
    }

    /// A pointer. `None` also for one relative to something that is not known here.
    pub(crate) fn pointer(&mut self, encoding: u8) -> Option<u64> {
        let base = match encoding & 0x70 {
            ABSOLUTE => 0,
            PC_RELATIVE => self.addr(),
            _ => return None,
        };
        self.plain(encoding).map(|value| base.wrapping_add(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_dwarf_has_them() {
        let bytes = [0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0xfc, 0xff, 0xff, 0xff];
        let mut read = TableBytes::new(&bytes, 0x1000);
        assert_eq!((read.uleb(), read.sleb(), read.sleb()), (Some(624_485), Some(-1), Some(-128)));
        // Four bytes before its own place, which comes after six bytes.
        assert_eq!(read.pointer(0x1b), Some(0x1002));
        assert_eq!((read.u8(), read.is_empty()), (None, true));
        assert_eq!(read.seek(0x100b).map(|read| read.addr()), None);
    }
}
