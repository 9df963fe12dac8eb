//! Counts by page from the page index, without reading all accesses. The
//! index gives the same counts: it was made by counting every access once.

use std::num::NonZero;

use memref::VirtAddr;
use symbols::Resolver;
use trace_format::{NoIndex, PageIndex};

use crate::{Count, Error, Pages, Session};

/// A trace with more accesses gets an index when one would have helped: reading them takes longer than a person notices.
const MANY: u64 = 1 << 24;

/// Threads to work with: one for each core that this process may use.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// What is known of pages without reading accesses.
#[derive(Debug)]
pub struct IndexedPages {
    /// The counts.
    pub pages: Pages,
    /// The regions of each process, as they were at its end.
    pub resolvers: Vec<Resolver>,
}

impl Session {
    /// Counts by page of the whole trace, from its index. A long trace without one gets it, if it can be written beside the trace.
    /// `None` where all accesses have to be read after all.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn indexed_pages(&self) -> Result<Option<IndexedPages>, Error> {
        let trace = self.trace();
        let accesses: u64 =
            trace.threads().iter().map(|record| trace.shard(record.thread).access_count()).sum();
        let index = match PageIndex::open(trace) {
            Ok(index) => index,
            Err(NoIndex::Absent) if accesses < MANY => return Ok(None),
            Err(_) => match PageIndex::build(trace, threads(), &mut |_| ()) {
                Ok(index) => index,
                // In a directory that can't be written, reading is what remains; it also says what is wrong with the trace.
                Err(_) => return Ok(None),
            },
        };
        let Ok(Some(totals)) = index.totals() else { return Ok(None) };
        let mut pages = Pages::default();
        for total in totals {
            let [loads, stores, modifies] = total.counts;
            let count = Count { loads, stores, modifies, bytes: total.bytes };
            pages.add_count(total.process, VirtAddr(total.page.saturating_mul(VirtAddr::PAGE_BYTES)), count);
        }
        Ok(Some(IndexedPages { pages, resolvers: self.regions_at_end()? }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memref::{Access, AccessKind, Event, OrderMark, ProcessId, RegionChange, RegionEvent, RegionKind};
    use trace_format::{CreateOptions, Filter, ProcessRecord, ThreadRecord, TraceWriter};

    use super::*;
    use crate::{By, Tally};

    /// A parent that maps a region before and one after it forks; the child unmaps the first.
    fn write(path: &Path) {
        let options = CreateOptions { segment_entries: 50, ..CreateOptions::default() };
        let writer = TraceWriter::create(path, options).unwrap();
        let parent = writer.add_process(&ProcessRecord { pid: 1, ..ProcessRecord::default() }).unwrap();
        let child = ProcessRecord { pid: 2, parent: Some(parent), ..ProcessRecord::default() };
        let child = writer.add_process(&child).unwrap();
        let region = |order, process: ProcessId, start: u64, change, kind| RegionEvent {
            order,
            process,
            change,
            kind,
            rights: 3,
            traced: true,
            start: VirtAddr(start),
            len: 0x4000,
            file_offset: 0,
            name: "",
        };
        let map = RegionChange::Map;
        writer.add_region(&region(1, parent, 0x10000, map, RegionKind::Heap)).unwrap();
        writer.add_region(&region(20, parent, 0x20000, map, RegionKind::Anonymous)).unwrap();
        writer.add_region(&region(30, child, 0x10000, RegionChange::Unmap, RegionKind::Heap)).unwrap();
        for (process, order) in [(parent, 2), (child, 10)] {
            let thread = writer.add_thread(&ThreadRecord { process, ..ThreadRecord::default() }).unwrap();
            let mut shard = writer.shard(thread).unwrap();
            shard.push(&Event::Order(OrderMark { cycle: 0, order })).unwrap();
            for cycle in 0..400 {
                let kind = AccessKind::ALL[cycle as usize % 4];
                let addr = VirtAddr([0x10000, 0x20000][cycle as usize / 200] + cycle * 37);
                shard.push(&Event::Access(Access { cycle, ip: VirtAddr(1), addr, size: 4, kind })).unwrap();
            }
        }
        writer.finish().unwrap();
    }

    #[test]
    fn an_index_gives_the_rows_that_reading_gives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        write(&path);
        let session = Session::open(&path).unwrap();
        assert!(session.indexed_pages().unwrap().is_none(), "a short trace gets no index by itself");
        let mut tally = Tally::new(&session, &[By::Page]).unwrap();
        let resolvers = session.replay(&Filter::default(), None, &mut tally).unwrap();
        let read = tally.rows(By::Page, &session, &resolvers);
        PageIndex::build(session.trace(), 2, &mut |_| ()).unwrap();
        let indexed = session.indexed_pages().unwrap().unwrap();
        let rows = Tally::of_pages(indexed.pages).rows(By::Page, &session, &indexed.resolvers);
        assert_eq!(rows, read);
        assert!(rows.len() == 10 && rows.iter().any(|row| row.region == "heap"), "{rows:?}");
    }
}
