//! The heat map of a machine: its physical memory.

use analysis::machine::{Machine, walk};
use analysis::{Pages, Session};
use memref::{Access, ProcessId, RegionKind, VirtAddr};

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
    let region = MapRegion {
        process: ProcessId(0),
        start: VirtAddr(0),
        len: end.next_multiple_of(VirtAddr::PAGE_BYTES),
        kind: RegionKind::Anonymous,
        traced: true,
        name: "physical memory".into(),
    };
    Ok(HeatMapLayout::new(crate::title(session), &[region], &pages, only))
}
