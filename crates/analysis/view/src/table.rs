//! The table of a part of a trace: who accesses what there. It is the table of `memtap report`, counted by the same tool.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use analysis::{
    AccessRow, By, Count, CountedRows, Error, ReadProgress, SortKey, Tally, TracePart, has_stacks,
    joined_in_words,
};
use memref::VirtAddr;
use report::tables::rows::row_json;
use report::tables::shorten::shorten;
use serde_json::{Value, json};
use trace_format::{Filter, ThreadRecord};

use crate::error::Refusal;
use crate::map::TraceMap;
use crate::part::{MapPart, TimeAxis};
use crate::pending_requests::PendingRequests;
use crate::source::file_of;

/// Rows that are sent; the others are one sum.
const MOST_ROWS: usize = 2_000;

/// Longer names are shown shortened: what the page would cut off is their end, where they differ.
const NAME_COLUMNS: usize = 64;

/// Why a window has no variables of stacks.
const WHOLE_STACKS: &str = "A stack is one row here; the table of the whole run has its variables.";

/// What a table is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRequest {
    pub(crate) part: MapPart,
    pub(crate) by: By,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

/// Of a trace with more accesses, a window has no variables of stacks: what they are is known from the beginning of the trace on only.
const MOST_FOLLOWED: u64 = 100_000_000;

fn sum<'a>(rows: impl IntoIterator<Item = &'a AccessRow>) -> Count {
    rows.into_iter().map(|row| row.count).sum()
}

pub(crate) fn count_json(count: &Count) -> Value {
    json!({"loads": count.loads, "stores": count.stores, "modifies": count.modifies, "bytes": count.bytes})
}

/// The rows as the page has them, the most accessed first.
pub(crate) fn table_json(
    by: &str,
    CountedRows { mut rows, total }: CountedRows,
    note: Option<&str>,
) -> String {
    SortKey::Accesses.sort(&mut rows);
    let more = rows.split_off(rows.len().min(MOST_ROWS));
    let rows: Vec<Value> = rows.iter().map(shown_row).collect();
    let (total, more_total) = (count_json(&total), count_json(&sum(&more)));
    json!({
        "by": by, "total": total, "more": more.len(), "more_total": more_total, "note": note, "rows": rows,
    })
    .to_string()
}

/// A row as `report` writes it, with what the page shows of a long name.
fn shown_row(row: &AccessRow) -> Value {
    let mut shown = row_json(row);
    let short = shorten(&row.name, NAME_COLUMNS);
    if short != row.name {
        shown["short"] = json!(short);
    }
    shown
}

/// What was counted, unless it was cancelled, or something else was asked for meanwhile.
pub(crate) fn superseded<T>(counted: Result<T, Refusal>, request: &ReadProgress) -> Result<T, Refusal> {
    match request.is_cancelled() {
        true => Err(Refusal::new(409, "cancelled")),
        false => counted,
    }
}

impl TraceMap {
    /// The addresses of a part, as filters have them: none where all are in it.
    pub(crate) fn addresses_of(&self, part: &MapPart) -> Vec<Range<VirtAddr>> {
        let Some(process) = self.processes.get(&part.process) else { return Vec::new() };
        let ends = process.axis.runs.first().zip(process.axis.runs.last());
        let is_all = |(first, last): (&crate::axis::AxisRun, &crate::axis::AxisRun)| {
            part.addresses.start <= first.start && part.addresses.end >= last.start + last.len
        };
        match ends.is_some_and(is_all) {
            true => Vec::new(),
            false => vec![VirtAddr(part.addresses.start)..VirtAddr(part.addresses.end)],
        }
    }

    /// Whether all of the process' time is in a part.
    fn has_all_time(&self, part: &MapPart) -> bool {
        let Some(process) = self.processes.get(&part.process) else { return true };
        let all = match part.axis {
            TimeAxis::Cycles => Some(&process.cycles),
            TimeAxis::Time => process.times.as_ref(),
        };
        all.is_none_or(|all| part.span.start <= all.start && part.span.end >= all.end)
    }

    /// A part as it is replayed.
    pub(crate) fn trace_part(&self, part: &MapPart) -> TracePart {
        let filter = Filter { addresses: self.addresses_of(part), ..Filter::default() };
        let records = self.session.trace().threads();
        let is_meant = |record: &&ThreadRecord| {
            record.process == part.process && part.thread.is_none_or(|thread| thread == record.thread)
        };
        let threads = || records.iter().filter(is_meant).map(|record| record.thread);
        let is_every = threads().count() == records.len();
        match (self.has_all_time(part), part.axis) {
            (false, TimeAxis::Time) => {
                TracePart::in_cycles(filter, threads().map(|thread| (thread, self.cycles_of(part, thread))))
            }
            (has_all, _) => {
                let filter = Filter { cycles: (!has_all).then(|| part.span.clone()), ..filter };
                if is_every { TracePart::new(filter, None) } else { TracePart::of_threads(filter, threads()) }
            }
        }
    }

    /// Counts a table.
    pub(crate) fn table(&self, request: &TableRequest, pending: &PendingRequests) -> Result<String, Refusal> {
        let TableRequest { part, by, asker } = request;
        let waiting = pending.begin(*asker);
        let counted_by = self.counted_by(*by, part);
        let counted = self.counted(part, counted_by, &waiting);
        pending.end(*asker, &waiting);
        let CountedRows { rows, total } = superseded(counted.map_err(Refusal::from), &waiting)?;
        if *by == By::Line {
            let mut listed = self.listed_files.lock().unwrap_or_else(PoisonError::into_inner);
            listed.extend(rows.iter().filter_map(|row| file_of(&row.name)).map(str::to_owned));
        }
        let is_whole_stack = counted_by == By::Variable && has_stacks(&self.session);
        let counted = CountedRows { rows: joined_in_words(rows), total };
        Ok(table_json(by.name(), counted, is_whole_stack.then_some(WHOLE_STACKS)))
    }

    /// What a table has rows of, where variables are asked for: those of stacks, too, as `report` has them.
    fn counted_by(&self, by: By, part: &MapPart) -> By {
        let is_whole = self.has_all_time(part) && self.addresses_of(part).is_empty();
        let is_followed = is_whole || self.session.accesses() <= MOST_FOLLOWED;
        match by {
            By::Variable if is_followed && has_stacks(&self.session) => By::Local,
            by => by,
        }
    }

    /// The rows of a table, as long as somebody waits for them.
    pub(crate) fn counted(
        &self,
        part: &MapPart,
        by: By,
        waiting: &Arc<ReadProgress>,
    ) -> Result<CountedRows, Error> {
        let session = self.session.read_for(waiting.clone());
        let mut tally = Tally::new(&session, &[by])?;
        let resolvers = tally.replay(&session, &self.trace_part(part))?;
        Ok(tally.table(by, &session, &resolvers))
    }
}
