//! A filter for links that lead to any of a few addresses: a bit rules out nearly all other links.

/// Some addresses, at a glance.
#[derive(Debug)]
pub(crate) struct AddressFilter([u64; 16]);

impl AddressFilter {
    /// Of these addresses.
    pub(crate) fn of(addrs: impl Iterator<Item = u64>) -> Self {
        let mut filter = Self([0; 16]);
        for addr in addrs {
            let (word, bit) = Self::place(addr);
            if let Some(word) = filter.0.get_mut(word) {
                *word |= bit;
            }
        }
        filter
    }

    /// `false`: the address is none of them.
    pub(crate) fn may_have(&self, addr: u64) -> bool {
        let (word, bit) = Self::place(addr);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn place(addr: u64) -> (usize, u64) {
        let hash = addr ^ addr >> 10;
        ((hash >> 6) as usize % 16, 1 << (hash % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_and_most_others_are_not() {
        let own = |number: u64| 0x7f00_0000_0000 + number * 0x1237;
        let filter = AddressFilter::of((0..32).map(own));
        assert!((0..32).all(|number| filter.may_have(own(number))));
        let others = (0..10_000).filter(|number| filter.may_have(0x55_5555_0000 + number * 5)).count();
        assert!(others < 1000, "{others}");
        assert!(!AddressFilter::of(core::iter::empty()).may_have(0));
    }
}
