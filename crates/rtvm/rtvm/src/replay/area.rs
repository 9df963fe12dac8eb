//! Places regions outside the heap: first fit. This is not part of what is measured.

use std::collections::BTreeMap;

/// Free pages, by first page.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    free: BTreeMap<u32, u32>,
}

impl Area {
    /// The pages `first..end`.
    pub(crate) fn new(first: u32, end: u32) -> Self {
        Self { free: (first < end).then(|| (first, end - first)).into_iter().collect() }
    }

    /// Takes `pages` pages, at least one.
    pub(crate) fn take(&mut self, pages: u32) -> Option<u32> {
        let (first, len) = self.free.iter().map(|(&f, &l)| (f, l)).find(|&(_, len)| len >= pages)?;
        self.free.remove(&first);
        if len > pages {
            self.free.insert(first + pages, len - pages);
        }
        Some(first)
    }

    /// Gives them back.
    pub(crate) fn give(&mut self, mut first: u32, mut pages: u32) {
        if let Some(len) = self.free.remove(&(first + pages)) {
            pages += len;
        }
        if let Some((&before, &len)) = self.free.range(..first).next_back()
            && before + len == first
        {
            (first, pages) = (before, len + pages);
        }
        self.free.insert(first, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_whole() {
        let mut area = Area::new(10, 100);
        let taken: Vec<u32> = (0..9).map(|_| area.take(10).unwrap()).collect();
        assert_eq!(area.take(1), None);
        for first in
            [taken[3], taken[5], taken[4], taken[0], taken[8], taken[1], taken[2], taken[7], taken[6]]
        {
            area.give(first, 10);
        }
        assert_eq!(area.take(90), Some(10));
        assert_eq!(Area::new(5, 5).take(1), None);
    }
}
