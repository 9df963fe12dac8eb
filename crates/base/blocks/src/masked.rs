//! Masked vector accesses: each element that the mask selects is a separate access.

/// Which elements of a vector are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked {
    /// The value that holds the mask register.
    pub value: u8,
    /// Bytes of an element.
    pub bytes: u8,
    /// What the mask's bits mean.
    pub chosen: Chosen,
}

/// What the bits of a mask mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// A bit an element.
    Each,
    /// As many elements as bits are set, one after the other.
    Packed,
    /// The only element, if any bit is set.
    Any,
}

impl Masked {
    /// The bits of the elements that are accessed, of a vector of `size` bytes.
    #[inline]
    pub fn elements(&self, size: u16, values: &[u64]) -> u64 {
        let mask = values.get(usize::from(self.value)).copied().unwrap_or(0);
        let count = u32::from(size / u16::from(self.bytes.max(1)));
        let low = |count: u32| if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        match self.chosen {
            Chosen::Each => mask & low(count),
            Chosen::Packed => low((mask & low(count)).count_ones()),
            Chosen::Any => u64::from(mask != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_choose_elements() {
        let masked = |chosen| Masked { value: 0, bytes: 4, chosen };
        // Bits after the last element mean nothing.
        assert_eq!(masked(Chosen::Each).elements(32, &[0x1a5]), 0xa5);
        assert_eq!(masked(Chosen::Packed).elements(32, &[0x1a5]), 0xf);
        assert_eq!(masked(Chosen::Any).elements(4, &[0x100]), 1);
        assert_eq!(masked(Chosen::Any).elements(4, &[0]), 0);
        assert_eq!(Masked { value: 0, bytes: 1, chosen: Chosen::Each }.elements(64, &[u64::MAX]), u64::MAX);
    }
}
