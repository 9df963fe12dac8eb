//! The heat map of a machine's physical memory.

use std::ops::Range;

use analysis::machine::{Machine, walk};
use analysis::{Pages, Session};
use memref::{Access, ProcessId, RamLayout, RegionKind, VirtAddr};

use super::{HeatMapLayout, MapRegion, Only};
use crate::Error;

/// Lays the physical memory of a machine out.
///
/// # Errors
/// Where the trace can't be read.
pub fn physical_memory(session: &Session, machine: &Machine, only: Only) -> Result<HeatMapLayout, Error> {
    let mut pages = Pages::default();
    let mut end = machine.ram.end();
    for record in session.trace().threads() {
        walk(session.trace(), record.thread, |access, physical| {
            // One that crosses pages belongs to the page of its first byte; devices are not memory.
            if let Some([first, _]) = physical.ranges(access) {
                end = end.max(first.end);
                pages.add(ProcessId(0), &[Access { addr: VirtAddr(first.start), ..*access }]);
            }
        })?;
    }
    Ok(HeatMapLayout::new(crate::title(session), &physical_regions(machine, end), &pages, only))
}

/// The pieces of a machine's memory, up to the address behind the last access where it is not known how much there is.
pub fn physical_regions(machine: &Machine, end: u64) -> Vec<MapRegion> {
    let ram = if end > machine.ram.end() { RamLayout::new(end, end) } else { machine.ram };
    let region = |piece: Range<u64>| MapRegion {
        process: ProcessId(0),
        start: VirtAddr(piece.start),
        len: (piece.end - piece.start).next_multiple_of(VirtAddr::PAGE_BYTES),
        kind: RegionKind::Anonymous,
        traced: true,
        name: "physical memory".into(),
    };
    ram.addrs(0..ram.bytes()).map(region).collect()
}
