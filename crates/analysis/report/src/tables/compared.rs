//! Two runs side by side: what grew, what shrank, what is only in one.

use std::io::{self, Write};

use analysis::{ComparedRow, Comparison, Count};
use serde_json::{Value, json};

use super::appearance::{Look, Tone};
use super::grid::{ALWAYS, Column, Figure, Grid, GridRow};
use super::json as write_json;
use crate::{amount, grouped};

/// Writes what differs as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn compared_json(rows: &[ComparedRow], out: &mut dyn Write) -> io::Result<()> {
    let run = |count: &Count| json!({"loads": count.loads, "stores": count.stores, "modifies": count.modifies, "bytes": count.bytes});
    let to_json = |row: &ComparedRow| json!({"name": row.name, "module": row.module, "before": run(&row.before), "after": run(&row.after)});
    let differing = rows.iter().filter(|row| row.before != row.after);
    write_json(&Value::Array(differing.map(to_json).collect()), out)
}

/// Writes what differs for people, the first `top` rows of it.
///
/// # Errors
/// Where the output can't be written.
pub fn compared_text(
    Comparison { rows, total }: &Comparison,
    name: &'static str,
    top: usize,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let column = |head, worth| Column { head, worth, left: false };
    let columns = vec![column("change", ALWAYS), column("", 80), column("before", 90), column("after", 90)];
    let line = |row: &ComparedRow, name: String, tone| GridRow {
        figures: vec![
            Figure::Text(signed(row)),
            Figure::Text(factor(row)),
            Figure::Number(row.before.accesses()),
            Figure::Number(row.after.accesses()),
        ],
        name,
        tone,
        ..GridRow::default()
    };
    let (differing, same): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.before != row.after);
    if differing.is_empty() {
        return writeln!(
            out,
            "both runs access the same things equally often: {}",
            amount(rows.len() as u64, "row")
        );
    }
    let (shown, more) = differing.split_at(top.min(differing.len()));
    let mut lines: Vec<GridRow> = shown.iter().map(|row| line(row, row.name.clone(), Tone::Plain)).collect();
    for (rest, words) in [(more, "more (--top N)"), (same.as_slice(), "that are the same")] {
        if !rest.is_empty() {
            let name = format!("{} {words}", grouped(rest.len() as u64));
            lines.push(line(&ComparedRow::total(rest.iter().copied()), name, Tone::Faint));
        }
    }
    lines.push(line(total, total.name.clone(), Tone::Strong));
    Grid { columns, name, rows: lines }.write(look, out)
}

/// How many accesses more or fewer.
fn signed(row: &ComparedRow) -> String {
    let sign = match row.growth() {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", grouped(row.growth().unsigned_abs() as u64))
}

/// That of what there was before.
fn factor(row: &ComparedRow) -> String {
    match (row.before.accesses(), row.after.accesses()) {
        (0, 0) => String::new(),
        (0, _) => "new".to_owned(),
        (_, 0) => "gone".to_owned(),
        (before, _) => format!("{:+.1} %", row.growth() as f64 * 100.0 / before as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_stands_before_what_did_not() {
        let row = |name: &str, before: u64, after: u64| ComparedRow {
            name: name.into(),
            before: Count { loads: before, ..Count::default() },
            after: Count { loads: after, ..Count::default() },
            ..ComparedRow::default()
        };
        let rows = vec![
            row("table", 1000, 4500),
            row("list", 300, 0),
            row("cache", 0, 20),
            row("head", 40, 41),
            row("tail", 8, 8),
        ];
        let mut out = Vec::new();
        let comparison = Comparison { total: ComparedRow::total(&rows), rows };
        compared_text(&comparison, "variable or block", 3, Look::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "change            before  after  variable or block
+3 500  +350.0 %   1 000  4 500  table
  -300      gone     300      0  list
   +20       new       0     20  cache
    +1    +2.5 %      40     41  1 more (--top N)
     0    +0.0 %       8      8  1 that are the same
+3 221  +238.9 %   1 348  4 569  total
"
        );
    }
}
