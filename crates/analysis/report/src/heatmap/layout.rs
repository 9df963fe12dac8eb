//! The positions of the heat map's cells.

use analysis::{Count, Pages};
use memref::{ProcessId, RegionKind, VirtAddr};
use symbols::Resolver;

/// Which accesses are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// All.
    #[default]
    All,
    /// Those that read.
    Loads,
    /// Those that write.
    Stores,
}

impl Only {
    fn of(self, count: Count) -> u64 {
        match self {
            Self::All => count.accesses(),
            Self::Loads => count.loads + count.modifies,
            Self::Stores => count.stores + count.modifies,
        }
    }
}

/// A region that is to be drawn, at its largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRegion {
    /// Whose.
    pub process: ProcessId,
    /// First byte.
    pub start: VirtAddr,
    /// Bytes.
    pub len: u64,
    /// What it is for.
    pub kind: RegionKind,
    /// Whether its accesses were recorded.
    pub traced: bool,
    /// A path, a name in brackets, or nothing.
    pub name: String,
}

impl MapRegion {
    /// Every region that a process ever had, at its largest.
    pub fn all(resolvers: &[Resolver]) -> Vec<Self> {
        let mut all = Vec::new();
        for resolver in resolvers {
            for region in resolver.image().regions().regions() {
                all.push(Self {
                    process: resolver.process(),
                    start: region.start,
                    len: region.len,
                    kind: region.kind,
                    traced: region.traced,
                    name: region.name.to_string(),
                });
            }
        }
        all
    }

    /// As people see it.
    fn shown(&self) -> String {
        if self.name.is_empty() { format!("[{}]", self.kind) } else { self.name.clone() }
    }
}

/// A part of the picture, from top to bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayoutPart {
    /// Regions that were not traced, or without accesses: one band for all.
    Band { label: String, traced: bool },
    /// A region's pages, row by row. Where it was not traced, a page without an access is one of which nothing is known.
    Pages { label: String, process: ProcessId, start: VirtAddr, cells: Vec<u64>, traced: bool },
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatMapLayout {
    pub(crate) parts: Vec<LayoutPart>,
    pub(crate) columns: usize,
    /// Edge of a cell in pixels.
    pub(crate) cell: usize,
    pub(crate) most: u64,
    pub(crate) title: String,
    /// What the trace covers, below the title.
    pub(crate) coverage: Option<String>,
    pub(crate) only: Only,
}

/// Width of the drawn pages in pixels.
const WIDTH: usize = 960;
/// Runs of untouched pages longer than this are cut out of a region.
const LONGEST_REST: usize = 512;

impl HeatMapLayout {
    /// Lays regions out. Regions that share addresses (one after the other) are merged into the larger one.
    pub fn new(title: &str, regions: &[MapRegion], pages: &Pages, only: Only) -> Self {
        let mut sorted: Vec<&MapRegion> = regions.iter().filter(|region| region.len > 0).collect();
        sorted.sort_by_key(|region| (region.process, region.start, std::cmp::Reverse(region.len)));
        let processes =
            sorted.iter().map(|region| region.process).collect::<std::collections::BTreeSet<_>>().len();
        let touched = pages.touched();
        let is_touched = |process: ProcessId, start: u64, stop: u64| {
            let first = touched.partition_point(|&(other, page, _)| (other, page.0) < (process, start));
            touched.get(first).is_some_and(|&(other, page, _)| other == process && page.0 < stop)
        };
        let mut parts: Vec<LayoutPart> = Vec::new();
        let mut quiet: Vec<&MapRegion> = Vec::new();
        let mut end = (ProcessId(0), 0u64);
        let mut most = 0;
        let mut total = 0;
        for region in sorted {
            let mut start = region.start.0;
            if end.0 == region.process && start < end.1 {
                start = end.1;
            }
            let stop = region.start.0.saturating_add(region.len);
            if start >= stop {
                continue;
            }
            end = (region.process, stop);
            // Also where it is not traced as a whole: what was recorded is shown.
            let counts: Vec<u64> = if is_touched(region.process, start, stop) {
                (start..stop)
                    .step_by(VirtAddr::PAGE_BYTES as usize)
                    .map(|page| only.of(pages.get(region.process, VirtAddr(page))))
                    .collect()
            } else {
                Vec::new()
            };
            if counts.iter().all(|&count| count == 0) {
                quiet.push(region);
                continue;
            }
            flush(&mut quiet, &mut parts);
            most = most.max(counts.iter().copied().max().unwrap_or(0));
            let who = if processes > 1 { format!("process {} ", region.process.0) } else { String::new() };
            let name = region.shown();
            for (offset, cells) in pieces(&counts) {
                total += cells.len();
                let at = start + offset as u64 * VirtAddr::PAGE_BYTES;
                let label =
                    format!("{who}{name}  {at:#x}  {}", size(cells.len() as u64 * VirtAddr::PAGE_BYTES));
                let (process, start) = (region.process, VirtAddr(at));
                parts.push(LayoutPart::Pages { label, process, start, cells, traced: region.traced });
            }
        }
        flush(&mut quiet, &mut parts);
        let cell = match total {
            0..=4_000 => 12,
            4_001..=20_000 => 8,
            20_001..=60_000 => 5,
            _ => 3,
        };
        Self { parts, columns: WIDTH / cell, cell, most, title: title.to_owned(), coverage: None, only }
    }

    /// With a line below the title that says what the trace covers.
    pub fn with_coverage(self, coverage: Option<String>) -> Self {
        Self { coverage, ..self }
    }
}

/// Cuts long untouched stretches out of a region: offset in pages, and the cells.
fn pieces(counts: &[u64]) -> Vec<(usize, Vec<u64>)> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut last = 0;
    for (index, &count) in counts.iter().enumerate() {
        if count == 0 {
            continue;
        }
        if index > last + LONGEST_REST {
            if counts[start..=last].iter().any(|&count| count > 0) {
                pieces.push((start, counts[start..=last].to_vec()));
            }
            start = index;
        }
        last = index;
    }
    let stop = if counts.len() - last > LONGEST_REST { last + 1 } else { counts.len() };
    pieces.push((start, counts[start..stop].to_vec()));
    pieces
}

/// One band a run of regions that are alike.
fn flush(quiet: &mut Vec<&MapRegion>, parts: &mut Vec<LayoutPart>) {
    for traced in [true, false] {
        let some: Vec<&&MapRegion> = quiet.iter().filter(|region| region.traced == traced).collect();
        let Some(first) = some.first() else { continue };
        let bytes: u64 = some.iter().map(|region| region.len).sum();
        let what = if traced { "without an access" } else { "not traced" };
        let name = first.shown();
        let name = name.rsplit('/').next().unwrap_or(&name);
        // A region without a name is called by its kind.
        let kind = if first.name.is_empty() { String::new() } else { format!(" ({})", first.kind) };
        let label = match some.len() {
            1 => format!("{name}{kind}: {}, {what}", size(bytes)),
            n => format!("{n} regions from {name}{kind}: {}, {what}", size(bytes)),
        };
        parts.push(LayoutPart::Band { label, traced });
    }
    quiet.clear();
}

/// Bytes as people write them.
fn size(bytes: u64) -> String {
    match bytes {
        0..=10_239 => format!("{bytes} B"),
        10_240..=10_485_759 => format!("{} KiB", bytes >> 10),
        10_485_760..=10_737_418_239 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memref::{Access, AccessKind};

    fn region(start: u64, pages: u64, kind: RegionKind, traced: bool, name: &str) -> MapRegion {
        let name = name.to_owned();
        MapRegion { process: ProcessId(0), start: VirtAddr(start), len: pages * 4096, kind, traced, name }
    }

    #[test]
    fn quiet_regions_become_bands_and_busy_ones_pages() {
        let mut pages = Pages::default();
        let access =
            Access { cycle: 0, ip: VirtAddr(1), addr: VirtAddr(0x5000), size: 4, kind: AccessKind::Store };
        pages.add(ProcessId(0), &[access, access]);
        let regions = [
            region(0x8000, 2, RegionKind::Stack, false, "[stack]"),
            region(0x1000, 1, RegionKind::Text, false, "/bin/a"),
            region(0x2000, 1, RegionKind::Rodata, false, "/bin/a"),
            region(0x4000, 3, RegionKind::Heap, true, "[heap]"),
            region(0xa000, 1, RegionKind::Tracer, false, ""),
        ];
        let layout = HeatMapLayout::new("a", &regions, &pages, Only::All);
        assert_eq!(
            layout.parts,
            [
                LayoutPart::Band {
                    label: "2 regions from a (text): 8192 B, not traced".into(),
                    traced: false
                },
                LayoutPart::Pages {
                    label: "[heap]  0x4000  12 KiB".into(),
                    process: ProcessId(0),
                    start: VirtAddr(0x4000),
                    cells: vec![0, 2, 0],
                    traced: true
                },
                LayoutPart::Band {
                    label: "2 regions from [stack] (stack): 12 KiB, not traced".into(),
                    traced: false
                },
            ]
        );
        assert_eq!(layout.most, 2);
        let loads = HeatMapLayout::new("a", &regions, &pages, Only::Loads);
        assert!(loads.parts.iter().all(|part| matches!(part, LayoutPart::Band { .. })));
    }

    /// The report counts them, too: the loader's own data in a translated trace.
    #[test]
    fn accesses_to_untraced_regions_are_shown() {
        let mut pages = Pages::default();
        let access =
            Access { cycle: 0, ip: VirtAddr(1), addr: VirtAddr(0x5000), size: 4, kind: AccessKind::Load };
        pages.add(ProcessId(0), &[access]);
        let regions = [
            region(0x4000, 2, RegionKind::Tracer, false, ""),
            region(0x9000, 1, RegionKind::Tracer, false, ""),
        ];
        let layout = HeatMapLayout::new("a", &regions, &pages, Only::All);
        assert_eq!(
            layout.parts,
            [
                LayoutPart::Pages {
                    label: "[tracer]  0x4000  8192 B".into(),
                    process: ProcessId(0),
                    start: VirtAddr(0x4000),
                    cells: vec![0, 1],
                    traced: false
                },
                LayoutPart::Band { label: "[tracer]: 4096 B, not traced".into(), traced: false },
            ]
        );
        let stores = HeatMapLayout::new("a", &regions, &pages, Only::Stores);
        assert!(stores.parts.iter().all(|part| matches!(part, LayoutPart::Band { .. })));
    }

    #[test]
    fn long_untouched_stretches_are_cut_out() {
        let mut counts = vec![0; 5000];
        counts[10] = 1;
        counts[4000] = 2;
        let pieces = pieces(&counts);
        assert_eq!(pieces.len(), 2);
        assert_eq!((pieces[0].0, pieces[0].1.len()), (0, 11));
        assert_eq!((pieces[1].0, pieces[1].1[0]), (4000, 2));
    }
}
