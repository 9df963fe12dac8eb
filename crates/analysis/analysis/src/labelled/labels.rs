//! Labels and where they came from. Bytes of memory and registers have
//! labels; a label knows the step that moved it, and the label before that.

use memref::VirtAddr;
use rustc_hash::{FxHashMap, FxHashSet};

/// A label; zero is none.
pub(crate) type Label = u32;

/// Where a label came from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LabelOrigin {
    /// A byte of an input.
    Input {
        /// Its number.
        source: u32,
        /// The byte's offset in it.
        offset: u64,
    },
    /// Moved or computed by an instruction.
    Moved {
        /// From this one.
        from: Label,
        /// The instruction.
        ip: VirtAddr,
    },
}

/// Labels with their history.
#[derive(Debug)]
pub(crate) struct Labels {
    nodes: Vec<(LabelOrigin, u8)>,
    moved: FxHashMap<(Label, VirtAddr), Label>,
    /// What moved a label is not kept.
    is_plain: bool,
}

/// Steps that a history keeps; what happens to a byte after that many is not told.
const MAX_STEPS: u8 = 48;
/// Steps that are searched for the same instruction.
const LOOP_STEPS: usize = 8;

impl Default for Labels {
    fn default() -> Self {
        Self {
            nodes: vec![(LabelOrigin::Input { source: u32::MAX, offset: 0 }, 0)],
            moved: FxHashMap::default(),
            is_plain: false,
        }
    }
}

impl Labels {
    /// Labels that know where they came from, and not how.
    pub(crate) fn plain() -> Self {
        Self { is_plain: true, ..Self::default() }
    }

    pub(crate) fn input(&mut self, source: u32, offset: u64) -> Label {
        self.nodes.push((LabelOrigin::Input { source, offset }, 0));
        self.nodes.len() as u32 - 1
    }

    /// The label of what an instruction moved. A loop is told once.
    pub(crate) fn moved(&mut self, from: Label, ip: VirtAddr) -> Label {
        if from == 0 || self.is_plain {
            return from;
        }
        if let Some(&label) = self.moved.get(&(from, ip)) {
            return label;
        }
        let mut at = from;
        let mut label = 0;
        for _ in 0..LOOP_STEPS {
            let Some(&(LabelOrigin::Moved { from: before, ip: step }, _)) = self.nodes.get(at as usize)
            else {
                break;
            };
            if step == ip {
                label = from;
                break;
            }
            at = before;
        }
        if label == 0 {
            let steps = self.nodes.get(from as usize).map_or(0, |node| node.1);
            label = if steps >= MAX_STEPS || self.nodes.len() >= u32::MAX as usize {
                from
            } else {
                self.nodes.push((LabelOrigin::Moved { from, ip }, steps + 1));
                self.nodes.len() as u32 - 1
            };
        }
        self.moved.insert((from, ip), label);
        label
    }

    /// The input of a plain label: its number, and the offset in it.
    pub(crate) fn origin(&self, label: Label) -> (u32, u64) {
        let (source, offset, _) = self.path(label);
        (source, offset)
    }

    /// The input of a label and the instructions that moved it, in their order.
    pub(crate) fn path(&self, label: Label) -> (u32, u64, Vec<VirtAddr>) {
        let mut steps = Vec::new();
        let mut at = label;
        loop {
            match self.nodes.get(at as usize) {
                Some(&(LabelOrigin::Moved { from, ip }, _)) => {
                    steps.push(ip);
                    at = from;
                }
                Some(&(LabelOrigin::Input { source, offset }, _)) => {
                    steps.reverse();
                    return (source, offset, steps);
                }
                None => return (u32::MAX, 0, steps),
            }
        }
    }
}

const PAGE: u64 = VirtAddr::PAGE_BYTES;

struct Page {
    labels: [Label; PAGE as usize],
    tainted: u32,
}

/// Places for what is known of pages by their numbers.
const PLACES: usize = 256;

/// The labels of a process's memory.
pub(crate) struct LabelledBytes {
    pages: FxHashMap<u64, Box<Page>>,
    /// How many of these have numbers with the same remainder, so that most accesses need one look.
    with_remainder: [u32; PLACES],
    /// Pages that were looked at for input that is mapped there.
    looked: FxHashSet<u64>,
    /// Some of these, so that most accesses need one look. No page has the number of an empty place.
    recent: [u64; PLACES],
}

impl Default for LabelledBytes {
    fn default() -> Self {
        Self {
            pages: FxHashMap::default(),
            with_remainder: [0; PLACES],
            looked: FxHashSet::default(),
            recent: [u64::MAX; PLACES],
        }
    }
}

impl std::fmt::Debug for LabelledBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabelledBytes").field("pages", &self.pages.len()).finish_non_exhaustive()
    }
}

/// Where a byte is in its page.
const fn place_in_page(addr: VirtAddr) -> usize {
    (addr.0 % PAGE) as usize
}

impl LabelledBytes {
    /// A page of a range that nobody has asked about.
    #[inline]
    pub(crate) fn unseen(&mut self, addr: VirtAddr, len: u64) -> Option<VirtAddr> {
        let (first, last) = (addr.page_number(), addr.0.saturating_add(len.max(1) - 1) / PAGE);
        let recent = &mut self.recent[first as usize % PLACES];
        if first == last && *recent == first {
            return None;
        }
        *recent = first;
        (first..=last).find(|&page| self.looked.insert(page)).map(|page| VirtAddr(page * PAGE))
    }

    /// The memory there is another now.
    pub(crate) fn forget(&mut self, addr: VirtAddr, len: u64) {
        let (first, end) = (addr.page_number(), addr.0.saturating_add(len).div_ceil(PAGE));
        if end - first > self.looked.len() as u64 {
            self.looked.retain(|page| !(first..end).contains(page));
        } else {
            (first..end).for_each(|page| _ = self.looked.remove(&page));
        }
        self.recent = [u64::MAX; PLACES];
        self.clear(addr, len);
    }

    #[inline]
    fn page(&self, number: u64) -> Option<&Page> {
        match self.with_remainder[number as usize % PLACES] {
            0 => None,
            _ => self.pages.get(&number).map(Box::as_ref),
        }
    }

    #[inline]
    pub(crate) fn get(&self, addr: VirtAddr) -> Label {
        self.page(addr.page_number()).map_or(0, |page| page.labels[place_in_page(addr)])
    }

    /// Whether any byte of the range has a label.
    #[inline]
    pub(crate) fn any(&self, addr: VirtAddr, len: u64) -> bool {
        let end = addr.0.saturating_add(len);
        let mut at = addr.0;
        while at < end && !self.pages.is_empty() {
            let stop = end.min((at | (PAGE - 1)).saturating_add(1));
            if let Some(page) = self.page(at / PAGE) {
                let from = (at % PAGE) as usize;
                if page.labels[from..from + (stop - at) as usize].iter().any(|&label| label != 0) {
                    return true;
                }
            }
            at = stop;
        }
        false
    }

    pub(crate) fn set(&mut self, addr: VirtAddr, label: Label) {
        let number = addr.page_number();
        if label == 0 && self.page(number).is_none() {
            return;
        }
        let page = self.pages.entry(number).or_insert_with(|| {
            self.with_remainder[number as usize % PLACES] += 1;
            Box::new(Page { labels: [0; PAGE as usize], tainted: 0 })
        });
        let place = &mut page.labels[place_in_page(addr)];
        page.tainted = page.tainted + u32::from(label != 0) - u32::from(*place != 0);
        *place = label;
        if page.tainted == 0 {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u64) {
        if self.pages.remove(&number).is_some() {
            self.with_remainder[number as usize % PLACES] -= 1;
        }
    }

    pub(crate) fn clear(&mut self, addr: VirtAddr, len: u64) {
        let end = addr.0.saturating_add(len);
        let mut at = addr.0;
        while at < end && !self.pages.is_empty() {
            let stop = end.min((at | (PAGE - 1)).saturating_add(1));
            if stop - at == PAGE {
                self.remove(at / PAGE);
            } else if self.page(at / PAGE).is_some() {
                (at..stop).for_each(|byte| self.set(VirtAddr(byte), 0));
            }
            at = stop;
        }
    }

    /// Bytes with a label.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.pages.values().map(|page| u64::from(page.tainted)).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn histories_end_and_loops_are_told_once() {
        let mut labels = Labels::default();
        let input = labels.input(3, 16);
        let a = labels.moved(input, VirtAddr(0x10));
        let b = labels.moved(a, VirtAddr(0x20));
        assert_eq!(labels.moved(b, VirtAddr(0x10)), b);
        assert_eq!(labels.moved(a, VirtAddr(0x20)), b);
        assert_eq!(labels.path(b), (3, 16, vec![VirtAddr(0x10), VirtAddr(0x20)]));
        let mut label = input;
        for ip in 0..1000 {
            label = labels.moved(label, VirtAddr(ip));
        }
        assert_eq!(labels.path(label).2.len(), usize::from(MAX_STEPS));
        assert_eq!(labels.moved(0, VirtAddr(5)), 0);
    }

    #[test]
    fn memory_keeps_what_is_tainted_alone() {
        let mut shadow = LabelledBytes::default();
        for addr in 4090..4110 {
            shadow.set(VirtAddr(addr), 7);
        }
        assert!(
            shadow.any(VirtAddr(4080), 11)
                && !shadow.any(VirtAddr(4080), 10)
                && shadow.any(VirtAddr(4109), 100)
        );
        assert_eq!((shadow.get(VirtAddr(4096)), shadow.count()), (7, 20));
        shadow.clear(VirtAddr(4092), 10_000);
        assert_eq!((shadow.get(VirtAddr(4091)), shadow.count()), (7, 2));
        shadow.clear(VirtAddr(0), 1 << 40);
        assert_eq!((shadow.count(), shadow.any(VirtAddr(0), 1 << 20)), (0, false));
        assert_eq!(shadow.unseen(VirtAddr(4096), 1), Some(VirtAddr(4096)));
        assert_eq!(shadow.unseen(VirtAddr(4096), 4096), None);
        assert_eq!(shadow.unseen(VirtAddr(8000), 500), Some(VirtAddr(8192)));
        shadow.forget(VirtAddr(4096), 4096);
        assert_eq!(shadow.unseen(VirtAddr(4096), 4096), Some(VirtAddr(4096)));
    }

    /// What is done to a byte and those after it.
    #[derive(Clone, Debug)]
    enum Change {
        Set(u64, Label),
        Clear(u64, u64),
        Forget(u64, u64),
    }

    /// Addresses around the beginnings of pages, some of whose numbers have the same remainder.
    fn addr() -> impl Strategy<Value = u64> {
        (1..4u64, 0..3u64, 0..16u64)
            .prop_map(|(page, times, byte)| (page + times * PLACES as u64) * PAGE + byte - 8)
    }

    proptest! {
        #[test]
        fn bytes_have_the_labels_of_a_map(
            changes in prop::collection::vec(
                prop_oneof![
                    4 => (addr(), 0..4u32).prop_map(|(addr, label)| Change::Set(addr, label)),
                    1 => (addr(), 0..2 * PAGE).prop_map(|(addr, len)| Change::Clear(addr, len)),
                    1 => (addr(), 0..2 * PAGE).prop_map(|(addr, len)| Change::Forget(addr, len)),
                ],
                1..60,
            ),
            asked in prop::collection::vec((addr(), 1..20u64), 20),
        ) {
            let (mut shadow, mut model) = (LabelledBytes::default(), std::collections::BTreeMap::new());
            for change in changes {
                match change {
                    Change::Set(addr, label) => {
                        shadow.set(VirtAddr(addr), label);
                        model.insert(addr, label);
                    }
                    Change::Clear(addr, len) => {
                        shadow.clear(VirtAddr(addr), len);
                        model.retain(|at, _| !(addr..addr + len).contains(at));
                    }
                    Change::Forget(addr, len) => {
                        shadow.forget(VirtAddr(addr), len);
                        model.retain(|at, _| !(addr..addr + len).contains(at));
                    }
                }
                model.retain(|_, label| *label != 0);
                prop_assert_eq!(shadow.count(), model.len() as u64);
                for &(addr, len) in &asked {
                    let label = model.get(&addr).copied().unwrap_or(0);
                    prop_assert_eq!(shadow.get(VirtAddr(addr)), label);
                    prop_assert_eq!(shadow.any(VirtAddr(addr), len), model.range(addr..addr + len).next().is_some());
                }
            }
        }
    }
}
