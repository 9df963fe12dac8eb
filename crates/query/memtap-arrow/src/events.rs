//! Tables whose rows are events: allocations, synchronisation, gaps.

use std::sync::Arc;

use analysis::{Moment, Session, Tool};
use memref::{Access, Allocation, Event, Gap, ProcessId, Sync, ThreadId, VirtAddr};
use trace_format::{Batch, Damage, Filter, KindSet};

use crate::Scan;
use crate::batch::{WholeColumns, numbers, numbers32, some_numbers, some_numbers32, texts};
use crate::name_column::names;

/// An allocation, and what it is called.
struct NamedAllocation {
    process: ProcessId,
    thread: ThreadId,
    event: Allocation,
    variable: Option<Arc<str>>,
    code: String,
}

struct NamedAllocations<'a> {
    rows: Vec<NamedAllocation>,
    scan: &'a Scan,
}

impl Tool for NamedAllocations<'_> {
    fn accesses(&mut self, _: &mut Moment<'_>, _: &[Access]) -> Result<(), analysis::Error> {
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), analysis::Error> {
        if let Event::Allocation(allocation) = event
            && self.scan.has_thread(at.thread)
            && self.scan.filter.admits(event)
        {
            let resolver = &mut *at.resolver;
            let name = resolver.resolve_data(allocation.addr);
            let variable =
                resolver.names().variable(name.variable).map(|variable| Arc::clone(&variable.name));
            let code = resolver.code_name(allocation.ip);
            self.rows.push(NamedAllocation {
                process: at.process,
                thread: at.thread,
                event: *allocation,
                variable,
                code: code.map_or_else(|| allocation.ip.to_string(), |code| code.to_string()),
            });
        }
        Ok(())
    }
}

fn unless_zero(addr: VirtAddr) -> Option<u64> {
    (addr.0 != 0).then_some(addr.0)
}

pub(crate) fn allocations(session: &Session, scan: &Scan) -> WholeColumns {
    let mut tool = NamedAllocations { rows: Vec::new(), scan };
    // What the scan asks for is tested above: names depend on all allocations.
    let filter = Filter { kinds: KindSet::ALLOCATIONS, ..Filter::default() };
    session.replay(&filter, None, &mut tool)?;
    let rows = &tool.rows;
    Ok(vec![
        numbers32(rows.iter().map(|row| row.thread.0)),
        numbers32(rows.iter().map(|row| row.process.0)),
        numbers(rows.iter().map(|row| row.event.cycle)),
        numbers(rows.iter().map(|row| row.event.order)),
        numbers(rows.iter().map(|row| row.event.ip.0)),
        names(rows.iter().map(|row| Some(row.event.kind.name())))?,
        names(rows.iter().map(|row| Some(row.event.function.name())))?,
        numbers(rows.iter().map(|row| row.event.addr.0)),
        numbers(rows.iter().map(|row| row.event.len)),
        some_numbers(rows.iter().map(|row| unless_zero(row.event.old_addr))),
        texts(rows.iter().map(|row| row.variable.as_deref())),
        texts(rows.iter().map(|row| Some(row.code.as_str()))),
    ])
}

/// A synchronisation event, and whose it is.
struct OwnedSync {
    process: ProcessId,
    thread: ThreadId,
    event: Sync,
}

pub(crate) fn syncs(session: &Session, scan: &Scan) -> WholeColumns {
    let mut rows = Vec::new();
    let filter = Filter { kinds: KindSet::SYNCS, ..scan.filter.clone() };
    for thread in scan.threads_of(session) {
        let shard = session.trace().shard(thread);
        let mut cursor = shard.events(&filter);
        while let Some(batch) = cursor.next_batch()? {
            if let Batch::Event(Event::Sync(event)) = batch {
                rows.push(OwnedSync { process: shard.process(), thread, event });
            }
        }
    }
    rows.sort_by_key(|row| row.event.order);
    Ok(vec![
        numbers32(rows.iter().map(|row| row.thread.0)),
        numbers32(rows.iter().map(|row| row.process.0)),
        numbers(rows.iter().map(|row| row.event.cycle)),
        numbers(rows.iter().map(|row| row.event.order)),
        numbers(rows.iter().map(|row| row.event.ip.0)),
        names(rows.iter().map(|row| Some(row.event.kind.name())))?,
        names(rows.iter().map(|row| Some(row.event.function.name())))?,
        numbers(rows.iter().map(|row| row.event.object.0)),
        numbers(rows.iter().map(|row| row.event.value)),
    ])
}

/// Something that is missing.
struct MissingRow {
    gap: Option<Gap>,
    count: u64,
    reason: String,
}

pub(crate) fn gaps(session: &Session) -> WholeColumns {
    let mut rows = Vec::new();
    for record in session.trace().threads() {
        let mut cursor = session.trace().shard(record.thread).events(&Filter::default());
        while let Some(batch) = cursor.next_batch()? {
            if let Batch::Event(Event::Gap(gap)) = batch {
                rows.push(MissingRow {
                    gap: Some(gap),
                    count: gap.count,
                    reason: gap.reason.name().to_owned(),
                });
            }
        }
    }
    // What is of no thread: the tables of the session, and bytes that nobody can place. Damage of threads' streams is among the gaps.
    let of_thread = |damage: &Damage| {
        let stream = damage.stream().and_then(|number| session.trace().stream(number));
        stream.is_some_and(|stream| stream.description().thread.is_some())
    };
    let damage = session.trace().damage_met();
    for damage in damage.iter().filter(|damage| damage.lost_entries() > 0 && !of_thread(damage)) {
        rows.push(MissingRow { gap: None, count: damage.lost_entries(), reason: damage.to_string() });
    }
    let gap = |row: &MissingRow| row.gap;
    Ok(vec![
        some_numbers32(rows.iter().map(|row| Some(gap(row)?.thread.0))),
        some_numbers32(rows.iter().map(|row| Some(gap(row)?.process.0))),
        some_numbers(rows.iter().map(|row| Some(gap(row)?.cycle))),
        numbers(rows.iter().map(|row| row.count)),
        names(rows.iter().map(|row| Some(row.reason.as_str())))?,
        some_numbers(rows.iter().map(|row| unless_zero(gap(row)?.addr))),
    ])
}
