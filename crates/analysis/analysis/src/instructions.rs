//! Tables of functions and threads from counts by instruction. No accesses are expanded, and the
//! order of events does not matter as long as each instruction had one name in the whole run.

use std::collections::{BTreeMap, BTreeSet};

use memref::{ProcessId, RegionChange, VirtAddr};
use symbols::Resolver;
use trace_format::InstructionCount;

use crate::{By, Count, Error, Session, Tally, indexed::threads};

/// Tables that were counted by instruction.
#[derive(Debug)]
pub struct CountedByInstruction {
    /// The tables.
    pub tally: Tally,
    /// The names of each process, as they were at its end.
    pub resolvers: Vec<Resolver>,
}

impl Session {
    /// Counts the whole trace for these tables without making accesses. `None` where other tables are asked for, or where code was
    /// mapped in place of other code: then names depend on the order of events, which a replay knows.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn counted_by_instruction(&self, wanted: &[By]) -> Result<Option<CountedByInstruction>, Error> {
        if wanted.is_empty() || !wanted.iter().all(|by| matches!(by, By::Function | By::Thread)) {
            return Ok(None);
        }
        let mut tally = Tally::new(self, wanted)?;
        let mut processes: BTreeMap<ProcessId, Vec<InstructionCount>> = BTreeMap::new();
        for record in self.trace().threads() {
            let counted = self.trace().count_instructions(record.thread, threads())?;
            tally.add_thread(record.thread, record.process, counted.iter().map(sum).sum());
            processes.entry(record.process).or_default().extend(counted);
        }
        let mut resolvers = Vec::new();
        if wanted.contains(&By::Function) {
            for (process, counted) in &processes {
                if !self.named_once(*process, counted) {
                    return Ok(None);
                }
            }
            resolvers = self.regions_at_end()?;
            for resolver in &mut resolvers {
                for counted in processes.get(&resolver.process()).into_iter().flatten() {
                    tally.add_code(resolver.resolve_code(counted.ip), sum(counted));
                }
            }
        }
        Ok(Some(CountedByInstruction { tally, resolvers }))
    }

    /// Whether no other instruction was mapped in an instruction's place, and none was unmapped, in a process or in one that it was
    /// forked from. The loader maps a library whole, and parts of it once more over that: an instruction of the same file and the same
    /// place in it has the same name.
    fn named_once(&self, process: ProcessId, counted: &[InstructionCount]) -> bool {
        let mut lineage = vec![process];
        while let Some(record) = lineage.last().and_then(|last| self.trace().process(*last))
            && let Some(parent) = record.parent.filter(|parent| *parent < record.process)
        {
            lineage.push(parent);
        }
        let ips: BTreeSet<VirtAddr> = counted.iter().map(|counted| counted.ip).collect();
        let mut seen: BTreeMap<VirtAddr, (&str, u64)> = BTreeMap::new();
        let events = self.region_events().iter().filter(|event| lineage.contains(&event.process));
        for event in events.filter(|event| event.change != RegionChange::Change) {
            let end = VirtAddr(event.start.0.saturating_add(event.len));
            if event.start >= end {
                continue;
            }
            for &ip in ips.range(event.start..end) {
                let place = (event.name.as_str(), event.file_offset + (ip.0 - event.start.0));
                let before = seen.insert(ip, place);
                let is_same = |before: (&str, u64)| before == place && event.name.starts_with('/');
                if !before.is_none_or(is_same) || event.change == RegionChange::Unmap {
                    return false;
                }
            }
        }
        true
    }
}

fn sum(counted: &InstructionCount) -> Count {
    let [loads, stores, modifies] = counted.counts;
    Count { loads, stores, modifies, bytes: counted.bytes }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memref::{Access, AccessKind, Event, OrderMark, RegionEvent, RegionKind};
    use trace_format::{CreateOptions, Encoders, Filter, ProcessRecord, ThreadRecord, TraceWriter};

    use super::*;

    /// Two files of code, of which the second is mapped elsewhere or in place of the first one; where it is mapped elsewhere, as the loader
    /// does: first as a whole, then what can be executed over that.
    fn write(path: &Path, second: u64, encoder: &str) {
        let encoder = Encoders::default().by_name(encoder).map(|encoder| encoder.id());
        let options = CreateOptions { segment_entries: 50, encoder, ..CreateOptions::default() };
        let writer = TraceWriter::create(path, options).unwrap();
        let process = writer.add_process(&ProcessRecord { pid: 1, ..ProcessRecord::default() }).unwrap();
        let whole = second.saturating_sub(0x1000);
        let maps = [(1, 0x40_0000, 0, "/a"), (19, whole, 0, "/b"), (20, second, 0x1000, "/b")];
        let maps = maps.into_iter().filter(|map| map.0 != 19 || second > 0x44_0000);
        for (order, start, file_offset, name) in maps {
            let (change, kind) = (RegionChange::Map, RegionKind::Text);
            let (rights, traced, len) = (5, true, 0x4000);
            let start = VirtAddr(start);
            let event =
                RegionEvent { order, process, change, kind, rights, traced, start, len, file_offset, name };
            writer.add_region(&event).unwrap();
        }
        for _ in 0..2 {
            let thread = writer.add_thread(&ThreadRecord { process, ..ThreadRecord::default() }).unwrap();
            let mut shard = writer.shard(thread).unwrap();
            for cycle in 0..300 {
                if cycle % 150 == 0 {
                    let order = [2, 21][cycle as usize / 150];
                    shard.push(&Event::Order(OrderMark { cycle, order })).unwrap();
                }
                let kind = AccessKind::ALL[cycle as usize % 4];
                let ip = VirtAddr([0x40_0000, second][cycle as usize / 150] + cycle % 7);
                shard.push(&Event::Access(Access { cycle, ip, addr: VirtAddr(9), size: 8, kind })).unwrap();
            }
        }
        writer.finish().unwrap();
    }

    #[test]
    fn counts_by_instruction_give_the_rows_of_a_replay_or_none() {
        let dir = tempfile::tempdir().unwrap();
        for (number, encoder) in ["live", "blocks"].into_iter().enumerate() {
            for (second, apart) in [(0x50_0000, true), (0x40_2000, false), (0x40_0000, false)] {
                let path = dir.path().join(format!("{number} {second}"));
                write(&path, second, encoder);
                let session = Session::open(&path).unwrap();
                let both = [By::Function, By::Thread];
                let mut tally = Tally::new(&session, &both).unwrap();
                let resolvers = session.replay(&Filter::default(), None, &mut tally).unwrap();
                let counted = session.counted_by_instruction(&both).unwrap();
                // Code that came in the place of code that made accesses is another one.
                if second == 0x40_0000 {
                    assert!(counted.is_none());
                }
                if apart {
                    assert!(counted.is_some());
                }
                for by in both {
                    let Some(CountedByInstruction { tally: counted, resolvers: named }) = &counted else {
                        continue;
                    };
                    let rows = counted.rows(by, &session, named);
                    assert_eq!(rows, tally.rows(by, &session, &resolvers), "{encoder} {second:#x}");
                    assert_eq!(rows.iter().map(|row| row.count.accesses()).sum::<u64>(), 450);
                }
            }
        }
        let session = Session::open(&dir.path().join("0 5242880")).unwrap();
        assert!(session.counted_by_instruction(&[By::Function, By::Page]).unwrap().is_none());
    }
}
