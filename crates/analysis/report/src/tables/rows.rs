//! Who accesses what: the first rows with their shares for people, all rows for programs.

use std::io::{self, Write};

use analysis::layout::TypeConflict;
use analysis::{AccessRow, By, Count, Owner, SortKey, joined_in_words};
use serde_json::{Value, json};

use super::appearance::{Look, Tone};
use super::grid::{ALWAYS, Column, Figure, Grid, GridRow};
use super::json as write_json;
use super::source::Sources;

/// What of a table people see.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// What the rows are.
    pub by: By,
    /// Their order.
    pub sort: SortKey,
    /// How many of them at most.
    pub top: usize,
    /// Each block and element, instead of one row for all blocks of a call and all elements of an array.
    pub all: bool,
    /// One row for all that belongs to each of those who are not the program.
    pub folded: bool,
}

/// Writes rows as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn rows_json(rows: &[AccessRow], out: &mut dyn Write) -> io::Result<()> {
    write_json(&rows.iter().map(row_json).collect(), out)
}

/// A row as an element of it.
pub fn row_json(row: &AccessRow) -> Value {
    let mut object = json!({
        "name": row.name,
        "region": row.region,
        "loads": row.count.loads,
        "stores": row.count.stores,
        "modifies": row.count.modifies,
        "bytes": row.count.bytes,
        "size": row.size,
        "things": row.things,
        "line": row.line,
        "module": row.module,
        "owner": row.owner.name(),
    });
    if !row.threads.is_empty() {
        object["threads"] = json!(row.threads);
    }
    if let Some(objects) = row.made.as_ref().and_then(|made| made.objects.as_ref()) {
        object["type"] = json!(objects.name());
    }
    if !row.conflicts.is_empty() {
        object["conflicts"] = conflicts_json(&row.conflicts);
    }
    object
}

/// What else was voted for, each with its share.
pub(super) fn conflicts_json(conflicts: &[TypeConflict]) -> Value {
    conflicts.iter().map(|other| json!({ "type": other.name, "share": other.share() })).collect()
}

/// Conflicts that people see.
const CONFLICTS: usize = 3;

/// What fewer say is no doubt: it would be shown as 0 %.
const LEAST_DOUBT: f64 = 0.005;

/// How many agree on a type, and what the others say: `agreed by 61 %, others say node 39 %`. Empty where nearly all agree.
pub(super) fn doubt_of_type(conflicts: &[TypeConflict]) -> String {
    let others: Vec<String> = conflicts
        .iter()
        .filter(|other| other.share() >= LEAST_DOUBT)
        .take(CONFLICTS)
        .map(|other| format!("{} {:.0} %", other.name, other.share() * 100.0))
        .collect();
    let agreed = 1.0 - conflicts.iter().map(TypeConflict::share).sum::<f64>();
    match others.as_slice() {
        [] => String::new(),
        _ => format!("agreed by {:.0} %, others say {}", agreed * 100.0, others.join(", ")),
    }
}

fn column(head: &'static str, worth: u8) -> Column {
    Column { head, worth, left: false }
}

/// The columns of counts.
pub(super) fn count_columns() -> Vec<Column> {
    vec![
        column("share", ALWAYS),
        column("loads", 90),
        column("stores", 90),
        column("modifies", 30),
        column("bytes accessed", 10),
    ]
}

/// What stands in them, with the share that it is of `all` accesses.
pub(super) fn count_figures(count: &Count, all: u64) -> Vec<Figure> {
    vec![
        Figure::Share(count.accesses(), all),
        Figure::Number(count.loads),
        Figure::Number(count.stores),
        Figure::Number(count.modifies),
        Figure::Number(count.bytes),
    ]
}

/// The counts' columns and those of what the rows are.
pub(super) fn columns(by: By) -> Vec<Column> {
    let mut columns = count_columns();
    if !matches!(by, By::Function | By::Line | By::Thread) {
        let size = if by == By::Allocation { "allocated" } else { "size" };
        columns.extend([column(size, 60), column("count", 50)]);
        columns.push(Column { head: "memory", worth: 20, left: true });
    }
    columns
}

pub(super) fn figures(by: By, count: &Count, all: u64, row: Option<&AccessRow>) -> Vec<Figure> {
    let mut figures = count_figures(count, all);
    if !matches!(by, By::Function | By::Line | By::Thread) {
        let known = |number: u64, least| if number >= least { Figure::Number(number) } else { Figure::Empty };
        figures.push(row.map_or(Figure::Empty, |row| known(row.size, 1)));
        figures.push(row.map_or(Figure::Empty, |row| known(row.things, 2)));
        figures.push(row.map_or(Figure::Empty, |row| Figure::Text(row.region.clone())));
    }
    figures
}

pub(super) fn sum<'a>(rows: impl IntoIterator<Item = &'a AccessRow>) -> Count {
    let mut sum = Count::default();
    rows.into_iter().for_each(|row| sum += row.count);
    sum
}

/// What the name of a row is called.
pub(super) fn head(by: By) -> &'static str {
    match by {
        By::Variable | By::Local => "variable or block",
        By::Field => "field",
        By::Type => "type",
        By::Function => "function",
        By::Line => "line",
        By::Allocation => "allocation site",
        By::Page => "page",
        By::Region => "region",
        By::Thread => "thread",
    }
}

/// The owners that have one row for everything, in a table of these.
pub(super) fn folds(by: By) -> bool {
    matches!(by, By::Variable | By::Local | By::Field | By::Type | By::Function | By::Line | By::Allocation)
}

/// What a table for people shows of its rows.
pub(super) struct Split {
    pub(super) shown: Vec<AccessRow>,
    pub(super) summed: SummedRows,
}

/// Rows that a table has only the sums of.
pub(super) struct SummedRows {
    /// Beyond the first ones.
    more: Vec<AccessRow>,
    /// What is not the program's own.
    others: Vec<(Owner, Vec<AccessRow>)>,
}

impl SummedRows {
    /// All of them.
    pub(super) fn rows(&self) -> impl Iterator<Item = &AccessRow> {
        self.more.iter().chain(self.others.iter().flat_map(|(_, rows)| rows))
    }

    /// The lines that a table ends with: these sums, and the total of all its rows.
    pub(super) fn lines(&self, total: &Count, figures: impl Fn(&Count) -> Vec<Figure>) -> Vec<GridRow> {
        let line =
            |name, count: &Count, tone| GridRow { figures: figures(count), name, tone, ..GridRow::default() };
        let number = |rows: &[AccessRow]| crate::grouped(rows.len() as u64);
        let mut lines = Vec::new();
        if !self.more.is_empty() {
            let name = format!("{} more (--top N, --all)", number(&self.more));
            lines.push(line(name, &sum(&self.more), Tone::Faint));
        }
        for (owner, rows) in &self.others {
            lines.push(line(format!("[{}: {}]", owner.words(), number(rows)), &sum(rows), Tone::Faint));
        }
        lines.push(line("total".to_owned(), total, Tone::Strong));
        lines
    }
}

/// Divides rows into what is shown and what is summed up.
pub(super) fn split(mut rows: Vec<AccessRow>, shown: &Shown) -> Split {
    if !shown.all {
        rows = joined_in_words(rows);
    }
    shown.sort.sort(&mut rows);
    let mut others: Vec<(Owner, Vec<AccessRow>)> = Vec::new();
    if shown.folded && folds(shown.by) {
        let is_own = |row: &AccessRow| row.owner == Owner::Program;
        // A table of nothing else shows it.
        if rows.iter().any(is_own) {
            for owner in Owner::ALL.into_iter().filter(|owner| *owner != Owner::Program) {
                let (of_owner, rest): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.owner == owner);
                rows = rest;
                if !of_owner.is_empty() {
                    others.push((owner, of_owner));
                }
            }
        }
    }
    let more = rows.split_off(shown.top.min(rows.len()));
    Split { shown: rows, summed: SummedRows { more, others } }
}

/// Writes a table for people. The shares are of `total`, which is all that was counted.
///
/// # Errors
/// Where the output can't be written.
pub fn rows_text(
    rows: Vec<AccessRow>,
    total: Count,
    shown: &Shown,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "nothing was accessed here");
    }
    let (by, all) = (shown.by, total.accesses());
    let of_rows = sum(&rows).at_most(total);
    let Split { shown: rows, summed } = split(rows, shown);
    let mut sources = Sources::default();
    let mut lines: Vec<GridRow> = rows
        .iter()
        .map(|row| GridRow {
            figures: figures(by, &row.count, all, Some(row)),
            name: row.name.clone(),
            note: note(shown, row, &mut sources),
            ..GridRow::default()
        })
        .collect();
    lines.extend(summed.lines(&of_rows, |count| figures(by, count, all, None)));
    Grid { columns: columns(by), name: head(by), rows: lines }.write(look, out)
}

/// What is said after a row's name.
fn note(shown: &Shown, row: &AccessRow, sources: &mut Sources) -> String {
    let by = shown.by;
    match (by, row.line.as_deref()) {
        (_, Some(line)) if let Some(made) = &row.made => match &made.objects {
            // Its name says so.
            _ if !shown.all => String::new(),
            Some(_) => format!("({})", row.clone().in_words().name),
            None => format!("({line})"),
        },
        (By::Line, Some(line)) => sources.text(line).unwrap_or_default(),
        (_, Some(line)) => format!("({line})"),
        (By::Function, None) if row.module == row.name => "(has no symbols)".to_owned(),
        (By::Function, None) => format!("({})", row.module),
        _ if !row.threads.is_empty() => of_threads(&row.threads),
        _ if !row.conflicts.is_empty() => format!("({})", doubt_of_type(&row.conflicts)),
        _ => String::new(),
    }
}

/// Threads that people see of a stack.
const THREADS: usize = 4;

/// Whose stack it is: `(of thread 1)`, `(of threads 1, 4)`.
fn of_threads(threads: &[u32]) -> String {
    let shown: Vec<String> = threads.iter().take(THREADS).map(u32::to_string).collect();
    let more = if threads.len() > THREADS { ", ..." } else { "" };
    let many = if threads.len() > 1 { "s" } else { "" };
    format!("(of thread{many} {}{more})", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, loads: u64, owner: Owner) -> AccessRow {
        AccessRow {
            name: name.into(),
            region: "bss".into(),
            count: Count { loads, bytes: loads * 4, ..Count::default() },
            size: 4,
            things: 1,
            owner,
            ..AccessRow::default()
        }
    }

    fn block(number: u32, loads: u64) -> AccessRow {
        AccessRow {
            family: Some("<malloc@make+3>".into()),
            ..row(&format!("<malloc{number:04}@make+3>"), loads, Owner::Program)
        }
    }

    fn check(top: usize, all: bool, expect: &str) {
        let rows = vec![
            row("a", 50, Owner::Program),
            block(1, 20),
            row("stdout", 12, Owner::CLibrary),
            block(2, 10),
            row("b", 5, Owner::Program),
            row("c", 3, Owner::Program),
        ];
        let total = sum(&rows);
        let shown = Shown { by: By::Variable, sort: SortKey::Accesses, top, all, folded: !all };
        let mut out = Vec::new();
        rows_text(rows, total, &shown, Look::default(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    #[test]
    fn the_programs_own_come_first_and_sums_follow() {
        check(
            2,
            false,
            "  share  loads  bytes accessed  size  count  memory  variable or block
 50.0 %     50             200     4         bss     a
 30.0 %     30             120     8      2  bss     <malloc@make+3>
  8.0 %      8              32                       2 more (--top N, --all)
 12.0 %     12              48                       [the C library's: 1]
100.0 %    100             400                       total
",
        );
        check(
            usize::MAX,
            true,
            "  share  loads  bytes accessed  size  memory  variable or block
 50.0 %     50             200     4  bss     a
 20.0 %     20              80     4  bss     <malloc0001@make+3>
 12.0 %     12              48     4  bss     stdout
 10.0 %     10              40     4  bss     <malloc0002@make+3>
  5.0 %      5              20     4  bss     b
  3.0 %      3              12     4  bss     c
100.0 %    100             400                total
",
        );
    }
}
