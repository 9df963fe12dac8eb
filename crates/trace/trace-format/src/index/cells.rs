//! What the accesses of one frame did, page by page: counted while the frame is decoded, and coarsened until few cells are left.
//!
//! Counting is done for every access, so a page is found by one look-up in a small table and counted without branches.

use memref::{Access, AccessKind, VirtAddr};

use super::{MOST_CELLS, PageCell, entry::PAGE_SHIFT};
use crate::Interval;

/// An access to more pages than this is not entered page by page.
const MOST_PAGES: u64 = 64;
const LINE_SHIFT: u32 = 6;
const FEW_BITS: u32 = 11;
/// A free place.
const NONE: u32 = u32::MAX;

/// Counts of one frame, by pages of 4,096 bytes.
#[derive(Debug)]
pub(crate) struct CellTable {
    /// Places in `cells`, by the pages' hashes; a power of two, at most half full.
    places: Vec<u32>,
    bits: u32,
    cells: Vec<CountedPage>,
    wide: Interval,
}

/// A page's counts, with a place for prefetches, which count nothing.
#[derive(Clone, Copy, Debug)]
struct CountedPage {
    page: u64,
    counts: [u32; 4],
    bytes: u64,
    lines: [u64; 2],
}

/// A frame's cells, ready to be written.
#[derive(Debug)]
pub(crate) struct FrameCells {
    pub(crate) shift: u8,
    pub(crate) cells: Vec<PageCell>,
    pub(crate) wide: Interval,
}

impl Default for CellTable {
    fn default() -> Self {
        Self { places: vec![NONE; 1 << FEW_BITS], bits: FEW_BITS, cells: Vec::new(), wide: Interval::NONE }
    }
}

/// Kinds as bits of the maps that they belong to: read, written.
const READS: [u64; 4] = [u64::MAX, 0, u64::MAX, u64::MAX];
const WRITES: [u64; 4] = [0, u64::MAX, u64::MAX, 0];

impl CellTable {
    /// Enters accesses.
    pub(crate) fn add(&mut self, accesses: &[Access]) {
        for access in accesses {
            let last = access.addr.0.saturating_add(u64::from(access.size).saturating_sub(1));
            let (line, last_line) = (access.addr.0 >> LINE_SHIFT, last >> LINE_SHIFT);
            let kind = usize::from(access.kind.code()) & 3;
            let lines = 1 << (line & 63);
            let cell = self.cell(access.addr.0 >> PAGE_SHIFT);
            cell.counts[kind] += 1;
            cell.bytes += if access.kind == AccessKind::Prefetch { 0 } else { u64::from(access.size) };
            cell.lines[0] |= lines & READS[kind];
            cell.lines[1] |= lines & WRITES[kind];
            if line != last_line {
                self.add_lines(access.addr, last, kind);
            }
        }
    }

    /// Enters the lines of an access to more than one.
    #[cold]
    fn add_lines(&mut self, addr: VirtAddr, last: u64, kind: usize) {
        let (first_page, last_page) = (addr.0 >> PAGE_SHIFT, last >> PAGE_SHIFT);
        if last_page - first_page >= MOST_PAGES {
            self.wide.add(addr.0);
            self.wide.add(last);
            return;
        }
        for page in first_page..=last_page {
            let start = if page == first_page { addr.0 >> LINE_SHIFT & 63 } else { 0 };
            let end = if page == last_page { last >> LINE_SHIFT & 63 } else { 63 };
            let lines = lines_between(start, end);
            let cell = self.cell(page);
            cell.lines[0] |= lines & READS[kind];
            cell.lines[1] |= lines & WRITES[kind];
        }
    }

    #[inline]
    fn cell(&mut self, page: u64) -> &mut CountedPage {
        let place = self.place(page);
        let number = self.places[place] as usize;
        // Mostly the first look finds it.
        if self.cells.get(number).is_some_and(|cell| cell.page == page) {
            return &mut self.cells[number];
        }
        self.find(page, place)
    }

    #[inline]
    fn place(&self, page: u64) -> usize {
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.bits)) as usize
    }

    #[cold]
    fn find(&mut self, page: u64, mut place: usize) -> &mut CountedPage {
        loop {
            let number = self.places[place];
            if number == NONE {
                break;
            }
            if self.cells[number as usize].page == page {
                return &mut self.cells[number as usize];
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        let number = self.cells.len();
        self.places[place] = number as u32;
        self.cells.push(CountedPage { page, counts: [0; 4], bytes: 0, lines: [0; 2] });
        if self.cells.len() * 2 > self.places.len() {
            self.grow();
        }
        &mut self.cells[number]
    }

    fn grow(&mut self) {
        self.bits += 1;
        self.places = vec![NONE; 1 << self.bits];
        for number in 0..self.cells.len() {
            let mut place = self.place(self.cells[number].page);
            while self.places[place] != NONE {
                place = (place + 1) & (self.places.len() - 1);
            }
            self.places[place] = number as u32;
        }
    }

    /// The pages of 4,096 bytes that were entered, in the order of addresses. The table is empty afterwards.
    pub(crate) fn take(&mut self) -> FrameCells {
        let mut cells: Vec<PageCell> = self.cells.drain(..).map(CountedPage::cell).collect();
        cells.sort_unstable_by_key(|cell| cell.page);
        if self.bits == FEW_BITS {
            self.places.fill(NONE);
        } else {
            (self.places, self.bits) = (vec![NONE; 1 << FEW_BITS], FEW_BITS);
        }
        let wide = std::mem::replace(&mut self.wide, Interval::NONE);
        FrameCells { shift: PAGE_SHIFT, cells, wide }
    }
}

impl CountedPage {
    fn cell(self) -> PageCell {
        let [loads, stores, modifies, _] = self.counts;
        PageCell {
            page: self.page,
            counts: [loads, stores, modifies],
            bytes: self.bytes,
            read_lines: self.lines[0],
            written_lines: self.lines[1],
        }
    }
}

impl FrameCells {
    /// Takes larger pages until there are few.
    pub(crate) fn coarsen(&mut self) {
        while self.cells.len() > MOST_CELLS {
            self.shift += 1;
            let mut kept = 0usize;
            for at in 0..self.cells.len() {
                let cell = self.cells[at];
                // Its lines are half as many, and in one half of the page.
                let half = |lines| halved(lines) << ((cell.page & 1) * 32);
                let wider = PageCell {
                    page: cell.page >> 1,
                    read_lines: half(cell.read_lines),
                    written_lines: half(cell.written_lines),
                    ..cell
                };
                match kept.checked_sub(1).map(|last| &mut self.cells[last]) {
                    Some(last) if last.page == wider.page => last.join(&wider),
                    _ => {
                        self.cells[kept] = wider;
                        kept += 1;
                    }
                }
            }
            self.cells.truncate(kept);
        }
    }
}

impl PageCell {
    fn join(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.read_lines |= other.read_lines;
        self.written_lines |= other.written_lines;
    }
}

/// Lines from one up to another, both included.
pub(crate) fn lines_between(first: u64, last: u64) -> u64 {
    u64::MAX << first & u64::MAX >> (63 - last)
}

/// 32 pairs of bits, each as one.
fn halved(bits: u64) -> u64 {
    let mut bits = (bits | bits >> 1) & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn access(addr: u64, size: u32, kind: AccessKind) -> Access {
        Access { cycle: 0, ip: VirtAddr(1), addr: VirtAddr(addr), size, kind }
    }

    #[test]
    fn bits_are_halved() {
        let check = |bits, expect| assert_eq!(halved(bits), expect, "{bits:#x}");
        check(0, 0);
        check(u64::MAX, 0xffff_ffff);
        check(1 << 63, 1 << 31);
        check(0b1101_0010, 0b1101);
        for bit in 0..64 {
            check(1 << bit, 1 << (bit / 2));
        }
    }

    #[test]
    fn an_access_counts_where_it_begins_and_marks_all_lines() {
        let mut table = CellTable::default();
        table.add(&[
            access(0x1ff8, 16, AccessKind::Store),
            access(0x1040, 8, AccessKind::Modify),
            access(0x1080, 64, AccessKind::Prefetch),
            access(0x5000, 1 << 20, AccessKind::Load),
        ]);
        let FrameCells { cells, wide, shift } = table.take();
        let row = |cell: &PageCell| (cell.page, cell.counts, cell.bytes, cell.read_lines, cell.written_lines);
        let rows: Vec<_> = cells.iter().map(row).collect();
        assert_eq!(
            rows,
            [
                (1, [0, 1, 1], 24, 0b110, 1 << 63 | 0b10),
                (2, [0, 0, 0], 0, 0, 1),
                (5, [1, 0, 0], 1 << 20, 1, 0),
            ]
        );
        assert_eq!((wide.min, wide.max, shift), (0x5000, 0x5000 + (1 << 20) - 1, 12));
        assert!(table.take().cells.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn cells_are_what_a_map_of_lines_says(
            accesses in prop::collection::vec(
                (prop_oneof![0..1u64 << 16, 0..1u64 << 34, any::<u64>()], 0u32..5000, prop::sample::select(AccessKind::ALL)), 1..3000)
        ) {
            let accesses: Vec<Access> =
                accesses.into_iter().map(|(addr, size, kind)| access(addr, size, kind)).collect();
            let mut table = CellTable::default();
            table.add(&accesses);
            let mut found = table.take();
            found.coarsen();
            prop_assert!(found.cells.len() <= MOST_CELLS);
            let line_shift = found.shift - 6;
            let mut model: BTreeMap<u64, PageCell> = BTreeMap::new();
            for access in &accesses {
                let last = access.addr.0.saturating_add(u64::from(access.size).saturating_sub(1));
                for line in access.addr.0 >> line_shift..=last >> line_shift {
                    let cell = model.entry(line >> 6).or_default();
                    cell.page = line >> 6;
                    let kind = usize::from(access.kind.code());
                    cell.read_lines |= (1 << (line & 63)) & READS[kind];
                    cell.written_lines |= (1 << (line & 63)) & WRITES[kind];
                }
                let first = model.get_mut(&(access.addr.0 >> found.shift)).unwrap();
                if let Some(count) = first.counts.get_mut(usize::from(access.kind.code())) {
                    *count += 1;
                    first.bytes += u64::from(access.size);
                }
            }
            let model: Vec<PageCell> = model.into_values().collect();
            prop_assert_eq!(found.cells, model);
        }
    }
}
