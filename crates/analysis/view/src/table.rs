//! The table of a part of a trace: who accesses what there. It is the table of `memtap report`, counted by the same tool.

use std::sync::{Arc, PoisonError};

use analysis::{AccessRow, By, Count, Error, Moment, SortKey, Tally, Tool, joined_in_words};
use memref::{Access, Event, ProcessId, VirtAddr};
use report::tables::rows::row_json;
use report::tables::shorten::shorten;
use serde_json::{Value, json};
use trace_format::Filter;

use crate::error::Refusal;
use crate::map::TraceMap;
use crate::part::MapPart;
use crate::pending_requests::{PendingRequest, PendingRequests};
use crate::source::file_of;

/// Rows that are sent; the others are one sum.
const MOST_ROWS: usize = 2_000;

/// Longer names are shown shortened: what the page would cut off is their end, where they differ.
const NAME_COLUMNS: usize = 64;

/// What a table is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRequest {
    pub(crate) part: MapPart,
    pub(crate) by: By,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

/// Counts one process, as long as somebody waits for it.
struct OneProcess {
    tally: Tally,
    process: ProcessId,
    request: Arc<PendingRequest>,
}

impl OneProcess {
    fn check(&self) -> Result<(), Error> {
        match self.request.is_over() {
            true => Err(Error::Output(std::io::ErrorKind::Interrupted.into())),
            false => Ok(()),
        }
    }
}

impl Tool for OneProcess {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.check()?;
        self.request.add(accesses.len());
        if at.process == self.process { self.tally.accesses(at, accesses) } else { Ok(()) }
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        if at.process == self.process { self.tally.event(at, event) } else { Ok(()) }
    }
}

fn sum<'a>(rows: impl IntoIterator<Item = &'a AccessRow>) -> Count {
    rows.into_iter().map(|row| row.count).sum()
}

pub(crate) fn count_json(count: &Count) -> Value {
    json!({"loads": count.loads, "stores": count.stores, "modifies": count.modifies, "bytes": count.bytes})
}

/// The rows as the page has them, the most accessed first.
pub(crate) fn table_json(by: &str, mut rows: Vec<AccessRow>) -> String {
    let all = sum(&rows);
    SortKey::Accesses.sort(&mut rows);
    let more = rows.split_off(rows.len().min(MOST_ROWS));
    let rows: Vec<Value> = rows.iter().map(shown_row).collect();
    let (total, more_total) = (count_json(&all), count_json(&sum(&more)));
    json!({"by": by, "total": total, "more": more.len(), "more_total": more_total, "rows": rows}).to_string()
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
pub(crate) fn superseded<T>(counted: Result<T, Refusal>, request: &PendingRequest) -> Result<T, Refusal> {
    match request.is_over() {
        true => Err(Refusal::new(409, "cancelled")),
        false => counted,
    }
}

impl TraceMap {
    /// The filter that lets a part through.
    pub(crate) fn filter(&self, part: &MapPart) -> Filter {
        let mut filter = Filter::default();
        let Some(process) = self.processes.get(&part.process) else { return filter };
        if part.cycles.start > process.cycles.start || part.cycles.end < process.cycles.end {
            filter.cycles = Some(part.cycles.clone());
        }
        let ends = process.axis.runs.first().zip(process.axis.runs.last());
        let is_all = |(first, last): (&crate::axis::AxisRun, &crate::axis::AxisRun)| {
            part.addresses.start <= first.start && part.addresses.end >= last.start + last.len
        };
        if !ends.is_some_and(is_all) {
            filter.addresses = vec![VirtAddr(part.addresses.start)..VirtAddr(part.addresses.end)];
        }
        filter
    }

    /// Counts a table.
    pub(crate) fn table(&self, request: &TableRequest, pending: &PendingRequests) -> Result<String, Refusal> {
        let TableRequest { part, by, asker } = request;
        let waiting = pending.begin(*asker);
        let counted = self.rows(part, *by, &waiting);
        pending.end(*asker, &waiting);
        let rows = superseded(counted.map_err(Refusal::from), &waiting)?;
        if *by == By::Line {
            let mut listed = self.listed_files.lock().unwrap_or_else(PoisonError::into_inner);
            listed.extend(rows.iter().filter_map(|row| file_of(&row.name)).map(str::to_owned));
        }
        Ok(table_json(by.name(), joined_in_words(rows)))
    }

    /// The rows of a table, as long as somebody waits for them.
    pub(crate) fn rows(
        &self,
        part: &MapPart,
        by: By,
        waiting: &Arc<PendingRequest>,
    ) -> Result<Vec<AccessRow>, Error> {
        let filter = self.filter(part);
        let mut tally = Tally::new(&self.session, &[by])?;
        if filter == Filter::default() && part.thread.is_none() && self.processes.len() == 1 {
            // For the whole there are faster ways than a replay.
            if matches!(by, By::Page | By::Function | By::Line) {
                let resolvers = tally.replay(&self.session, &filter, None)?;
                return Ok(tally.rows(by, &self.session, &resolvers));
            }
        }
        let mut one = OneProcess { tally, process: part.process, request: waiting.clone() };
        let resolvers = self.session.replay(&filter, part.thread, &mut one)?;
        Ok(one.tally.rows(by, &self.session, &resolvers))
    }
}
