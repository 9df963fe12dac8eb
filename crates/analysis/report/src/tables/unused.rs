//! Unused allocations.

use std::io::{self, Write};

use analysis::{BlockTotal, Owner, UnusedRow};
use serde_json::{Value, json};

use super::appearance::{Look, Tone};
use super::grid::{ALWAYS, Column, Figure, Grid, GridRow};
use super::json as write_json;

/// Writes the calls whose blocks were not used as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn unused_json(rows: &[UnusedRow], out: &mut dyn Write) -> io::Result<()> {
    let total = |total: BlockTotal| json!({ "blocks": total.blocks, "bytes": total.bytes });
    let to_json = |row: &UnusedRow| -> Value {
        json!({
            "name": row.name,
            "line": row.line,
            "module": row.module,
            "owner": row.owner.name(),
            "blocks": row.all.blocks,
            "bytes": row.all.bytes,
            "never_read": total(row.never_read),
            "never_written": total(row.never_written),
            "never_accessed": total(row.never_accessed),
            "never_freed": total(row.never_freed),
        })
    };
    write_json(&rows.iter().map(to_json).collect(), out)
}

/// Writes them for people: the first `top` of the program's own, unless all are asked for.
///
/// # Errors
/// Where the output can't be written.
pub fn unused_text(
    rows: &[UnusedRow],
    top: usize,
    all: bool,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "every block that was allocated during the recording was written and read");
    }
    writeln!(
        out,
        "of blocks allocated during the recording; older ones, static variables and stacks are left out"
    )?;
    let column = |head, worth| Column { head, worth, left: false };
    let columns = vec![
        column("blocks", ALWAYS),
        column("bytes", 90),
        column("never read", ALWAYS),
        column("bytes", 90),
        column("never written", 80),
        column("never freed", 70),
    ];
    let figures = |row: &UnusedRow| {
        let totals = [row.all.blocks, row.all.bytes, row.never_read.blocks, row.never_read.bytes];
        let more = [row.never_written.blocks, row.never_freed.blocks];
        totals.into_iter().chain(more).map(Figure::Number).collect::<Vec<_>>()
    };
    let (own, others): (Vec<&UnusedRow>, Vec<&UnusedRow>) =
        rows.iter().partition(|row| all || row.owner == Owner::Program);
    let line = |row: &UnusedRow, name: String, tone: Tone| GridRow {
        figures: figures(row),
        name,
        note: row.line.as_deref().map_or_else(String::new, |line| format!("({line})")),
        tone,
        ..GridRow::default()
    };
    let mut lines: Vec<GridRow> =
        own.iter().take(top).map(|row| line(row, row.name.clone(), Tone::Plain)).collect();
    let mut folded = |name: String, rows: &[&UnusedRow], tone| {
        if !rows.is_empty() {
            lines.push(line(&total_of(rows), name, tone));
        }
    };
    let more = own.get(top..).unwrap_or_default();
    folded(format!("{} more (--top N, --all)", crate::grouped(more.len() as u64)), more, Tone::Faint);
    let words = format!("[of the C library and others: {}]", crate::grouped(others.len() as u64));
    folded(words, &others, Tone::Faint);
    folded("total".to_owned(), &rows.iter().collect::<Vec<_>>(), Tone::Strong);
    Grid { columns, name: "allocation site", rows: lines }.write(look, out)
}

fn total_of(rows: &[&UnusedRow]) -> UnusedRow {
    let mut sum = UnusedRow::default();
    let add = |total: &mut BlockTotal, more: BlockTotal| {
        total.blocks += more.blocks;
        total.bytes += more.bytes;
    };
    for row in rows {
        add(&mut sum.all, row.all);
        add(&mut sum.never_read, row.never_read);
        add(&mut sum.never_written, row.never_written);
        add(&mut sum.never_accessed, row.never_accessed);
        add(&mut sum.never_freed, row.never_freed);
    }
    sum
}
