//! Two runs side by side: what grew, what shrank, what is only in one. The rows are
//! those of `memtap diff`, matched by the same rules, but for a part of each run.

use std::sync::Arc;

use analysis::stack::CountedStacks;
use analysis::{
    By, ComparedRow, Comparison, Count, Error, ReadProgress, compared, compared_stacks, has_stacks,
};
use report::tables::compared::compared_json;
use serde_json::json;

use crate::error::Refusal;
use crate::map::TraceMap;
use crate::part::MapPart;
use crate::pending_requests::PendingRequests;
use crate::table::{count_json, superseded};

/// Rows that are sent; the others are one sum.
const MOST_ROWS: usize = 2_000;

/// What the rows of a comparison are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedBy {
    Table(By),
    Stack,
}

impl ComparedBy {
    pub(crate) const ALL: [Self; 5] = [
        Self::Table(By::Variable),
        Self::Table(By::Function),
        Self::Table(By::Field),
        Self::Table(By::Type),
        Self::Stack,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Table(by) => by.name(),
            Self::Stack => "stack",
        }
    }
}

/// What is compared: a part of each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompareRequest {
    pub(crate) before: MapPart,
    pub(crate) after: MapPart,
    pub(crate) by: ComparedBy,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

/// A run and which part of it.
struct PartOfRun<'a> {
    map: &'a TraceMap,
    part: &'a MapPart,
}

/// Compares parts of two runs.
pub(crate) fn compare(
    before: &TraceMap,
    after: &TraceMap,
    request: &CompareRequest,
    pending: &PendingRequests,
) -> Result<String, Refusal> {
    let waiting = pending.begin(request.asker);
    let runs =
        [PartOfRun { map: before, part: &request.before }, PartOfRun { map: after, part: &request.after }];
    let comparison = match request.by {
        ComparedBy::Table(by) => aligned(&runs, by, &waiting),
        ComparedBy::Stack => aligned_stacks(&runs, &waiting),
    };
    pending.end(request.asker, &waiting);
    let Comparison { rows, total } = superseded(comparison, &waiting)?;
    let (mut rows, same): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.before != row.after);
    let more = rows.split_off(rows.len().min(MOST_ROWS));
    let mut text = Vec::new();
    compared_json(&rows, &mut text).map_err(Error::from)?;
    let sums = |rows: &[ComparedRow]| {
        let ComparedRow { before, after, .. } = ComparedRow::total(rows);
        both(rows.len(), &before, &after)
    };
    // The rows are written by those who write them for `diff`.
    Ok(format!(
        "{{\"by\":{},\"total\":{},\"same\":{},\"more\":{},\"rows\":{}}}",
        json!(request.by.name()),
        both(rows.len() + more.len() + same.len(), &total.before, &total.after),
        sums(&same),
        sums(&more),
        String::from_utf8_lossy(&text),
    ))
}

fn both(rows: usize, before: &Count, after: &Count) -> serde_json::Value {
    json!({"rows": rows, "before": count_json(before), "after": count_json(after)})
}

fn aligned(
    [before, after]: &[PartOfRun<'_>; 2],
    by: By,
    waiting: &Arc<ReadProgress>,
) -> Result<Comparison, Refusal> {
    Ok(compared(before.map.counted(before.part, by, waiting)?, after.map.counted(after.part, by, waiting)?))
}

fn aligned_stacks(runs: &[PartOfRun<'_>; 2], waiting: &Arc<ReadProgress>) -> Result<Comparison, Refusal> {
    let mut stacks = Vec::new();
    for PartOfRun { map, part } in runs {
        if !has_stacks(&map.session) {
            return Err(Refusal::new(404, "a trace has no accesses to stacks, and so no calls"));
        }
        let tally = map.stacks(part, waiting)?;
        stacks.push(CountedStacks::of_tally(&tally, map.session.names()).all_rows().named());
    }
    match stacks.as_slice() {
        [before, after] => Ok(compared_stacks(before, after)),
        _ => Ok(Comparison::default()),
    }
}
