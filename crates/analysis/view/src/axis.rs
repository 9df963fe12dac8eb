//! The address axis: only accessed memory has a place on it.
//!
//! An address space is mostly empty, so the axis is a row of *runs*, which are ranges of accessed pages of one region;
//! nothing is drawn between them. Positions on the axis are counted in *units*. A unit is a byte in a large run. Small
//! runs are stretched, so that the page with a program's few variables can be seen beside a heap of gigabytes.

use std::ops::Range;

use analysis::Owner;
use memref::RegionKind;
use report::heatmap::MapRegion;

/// Pages that nobody accessed are drawn, too, where they are this few between others of the same region.
const SHORT_REST: u64 = 16 * PAGE;
const PAGE: u64 = 4096;
/// The smallest run has at least such a part of the axis, as long as there are fewer runs.
const PARTS: u64 = 40;

/// A stretch of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AxisRun {
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// Its first place.
    pub(crate) at: u64,
    /// Its places: a multiple of its bytes.
    pub(crate) units: u64,
    /// The region's name, or its kind in brackets.
    pub(crate) name: String,
    /// The region's kind.
    pub(crate) kind: String,
    /// Whether it is memtap's own.
    pub(crate) is_memtaps: bool,
}

/// The axis of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressAxis {
    /// By address.
    pub(crate) runs: Vec<AxisRun>,
    /// All places.
    pub(crate) units: u64,
}

/// A region's addresses that no earlier one has.
struct Stretch<'a> {
    range: Range<u64>,
    region: &'a MapRegion,
}

fn stretches(regions: &[MapRegion]) -> Vec<Stretch<'_>> {
    let mut sorted: Vec<&MapRegion> = regions.iter().collect();
    sorted.sort_by_key(|region| (region.start, std::cmp::Reverse(region.len)));
    let mut end = 0;
    let mut all = Vec::new();
    for region in sorted {
        let range = region.start.0.max(end)..region.start.0.saturating_add(region.len);
        if !range.is_empty() {
            end = range.end;
            all.push(Stretch { range, region });
        }
    }
    all
}

fn name_of(region: Option<&MapRegion>) -> (String, String) {
    let Some(region) = region else { return ("[unknown]".to_owned(), "unknown".to_owned()) };
    let kind = region.kind.to_string();
    let name = region.name.rsplit('/').next().unwrap_or_default();
    (if name.is_empty() { format!("[{kind}]") } else { name.to_owned() }, kind)
}

/// Whether memory is memtap's own: its library, which the loader reads, and what it maps.
fn is_memtaps(region: &MapRegion) -> bool {
    match Owner::of_module(region.name.rsplit('/').next().unwrap_or_default()) {
        Owner::Memtap => true,
        // Older traces call the loader's data so.
        Owner::Linker => false,
        _ => region.kind == RegionKind::Tracer,
    }
}

impl AddressAxis {
    /// Of a process whose accesses are in these ranges, which are sorted and disjoint and begin and end at pages.
    pub(crate) fn new(touched: &[Range<u64>], regions: &[MapRegion]) -> Self {
        let stretches = stretches(regions);
        let mut runs: Vec<AxisRun> = Vec::new();
        let mut last_stretch = usize::MAX;
        for range in touched {
            let mut start = range.start;
            while start < range.end {
                let place = stretches.partition_point(|stretch| stretch.range.end <= start);
                let stretch = stretches.get(place).filter(|stretch| stretch.range.start < range.end);
                let (end, this) = match stretch {
                    Some(stretch) if stretch.range.start <= start => {
                        (stretch.range.end.min(range.end), place)
                    }
                    Some(stretch) => (stretch.range.start, usize::MAX),
                    None => (range.end, usize::MAX),
                };
                // A page that two regions share is not cut.
                let end = end.next_multiple_of(PAGE).min(range.end);
                let near = runs.last().is_some_and(|run| {
                    let rest = start - (run.start + run.len);
                    this == last_stretch && rest <= SHORT_REST
                });
                match runs.last_mut().filter(|_| near) {
                    Some(run) => run.len = end - run.start,
                    None => {
                        let region = stretches.get(this).map(|stretch| stretch.region);
                        let (name, kind) = name_of(region);
                        let is_memtaps = region.is_some_and(is_memtaps);
                        runs.push(AxisRun {
                            start,
                            len: end - start,
                            at: 0,
                            units: 0,
                            name,
                            kind,
                            is_memtaps,
                        });
                    }
                }
                last_stretch = this;
                start = end;
            }
        }
        Self::placed(runs)
    }

    fn placed(mut runs: Vec<AxisRun>) -> Self {
        let bytes: u64 = runs.iter().map(|run| run.len).fold(0, u64::saturating_add);
        let least = bytes / PARTS.max(2 * runs.len() as u64);
        let mut units: u64 = 0;
        for run in &mut runs {
            run.at = units;
            run.units = run.len.saturating_mul(least.div_ceil(run.len.max(1)).max(1));
            units = units.saturating_add(run.units);
        }
        Self { runs, units }
    }

    /// The same without the memory of memtap itself; `None` where that changes nothing, or nothing would be left.
    pub(crate) fn without_tracer(&self) -> Option<Self> {
        let runs: Vec<AxisRun> = self.runs.iter().filter(|run| !run.is_memtaps).cloned().collect();
        (!runs.is_empty() && runs.len() < self.runs.len()).then(|| Self::placed(runs))
    }

    /// Whether an address is in a run.
    pub(crate) fn has(&self, addr: u64) -> bool {
        let number = self.runs.partition_point(|run| run.start <= addr);
        let run = number.checked_sub(1).and_then(|number| self.runs.get(number));
        run.is_some_and(|run| addr - run.start < run.len)
    }

    /// The place of an address; of one in between that of the next run.
    pub(crate) fn place(&self, addr: u64) -> u64 {
        let number = self.runs.partition_point(|run| run.start <= addr);
        let Some(run) = number.checked_sub(1).and_then(|number| self.runs.get(number)) else { return 0 };
        let offset = (addr - run.start).min(run.len);
        run.at + offset * (run.units / run.len.max(1))
    }
}

#[cfg(test)]
mod tests {
    use memref::{ProcessId, RegionKind, VirtAddr};

    use super::*;

    fn region(start: u64, len: u64, kind: RegionKind, name: &str) -> MapRegion {
        MapRegion {
            process: ProcessId(0),
            start: VirtAddr(start),
            len,
            kind,
            traced: true,
            name: name.into(),
        }
    }

    #[test]
    fn runs_are_what_was_accessed_of_each_region() {
        let regions = [
            region(0x40_0000, 0x2000, RegionKind::Data, "/usr/bin/a"),
            region(0x40_2000, 0x1000, RegionKind::Bss, "/usr/bin/a"),
            region(0x7000_0000, 0x1000_0000, RegionKind::Heap, ""),
        ];
        let page = |start: u64| start..start + PAGE;
        let touched = [
            0x40_1000..0x40_3000,
            page(0x7000_0000),
            page(0x7000_5000),
            page(0x7100_0000),
            page(0x9000_0000),
        ];
        let axis = AddressAxis::new(&touched, &regions);
        let shown: Vec<_> = axis
            .runs
            .iter()
            .map(|run| (run.start, run.len, run.at, run.name.as_str(), run.kind.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                (0x40_1000, 0x1000, 0, "a", "data"),
                (0x40_2000, 0x1000, 0x1000, "a", "bss"),
                (0x7000_0000, 0x6000, 0x2000, "[heap]", "heap"),
                (0x7100_0000, 0x1000, 0x8000, "[heap]", "heap"),
                (0x9000_0000, 0x1000, 0x9000, "[unknown]", "unknown"),
            ]
        );
        assert_eq!(axis.units, 0xa000);
        let places = [0, 0x40_1004, 0x50_0000, 0x7000_0001, u64::MAX].map(|addr| axis.place(addr));
        assert_eq!(places, [0, 4, 0x2000, 0x2001, 0xa000]);
    }

    #[test]
    fn memory_of_the_tracer_has_no_place_where_it_is_left_out() {
        let regions = [
            region(0x1000, 0x1000, RegionKind::Data, "a"),
            region(0x5000, 0x1000, RegionKind::Tracer, "[memtap]"),
            region(0x6000, 0x1000, RegionKind::Rodata, "/usr/lib/memtap/libmemtap_tracer.so"),
            region(0x7000, 0x1000, RegionKind::Tracer, "/lib64/ld-linux-x86-64.so.2"),
            region(0x9000, 0x1000, RegionKind::Stack, ""),
        ];
        let touched = [0x1000..0x2000, 0x5000..0x8000, 0x9000..0xa000];
        let whole = AddressAxis::new(&touched, &regions);
        let axis = whole.without_tracer().expect("there is something else");
        let shown: Vec<_> = axis.runs.iter().map(|run| (run.name.as_str(), run.at)).collect();
        assert_eq!(
            (shown, axis.units),
            (vec![("a", 0), ("ld-linux-x86-64.so.2", 0x1000), ("[stack]", 0x2000)], 0x3000)
        );
        assert_eq!(
            [0xfff, 0x1000, 0x1fff, 0x2000, 0x5000].map(|addr| axis.has(addr)),
            [false, true, true, false, false]
        );
        assert!(whole.has(0x5000) && axis.without_tracer().is_none());
        let alone = AddressAxis::new(std::slice::from_ref(&(0x5000..0x7000)), &regions);
        assert!(alone.without_tracer().is_none(), "a map of nothing shows nothing");
    }

    #[test]
    fn a_small_run_beside_a_large_one_is_stretched() {
        let touched = [0x1000..0x2000, 0x10_0000..0x1010_0000];
        let axis = AddressAxis::new(&touched, &[]);
        let least = (0x1000_0000 + 0x1000) / PARTS;
        assert!(axis.runs[0].units >= least && axis.runs[0].units.is_multiple_of(0x1000), "{axis:?}");
        assert_eq!(axis.runs[1].units, 0x1000_0000);
        assert_eq!(axis.place(0x1001), axis.runs[0].units / 0x1000);
    }
}
