//! Accesses and allocations by stack of functions.

use std::io::{self, Write};

use analysis::stack::StackCount;
use serde_json::{Value, json};

use super::grid::{ALWAYS, Column, Figure, Grid, GridRow};
use super::json as write_json;
use super::look::{Look, Tone};

/// Writes stacks as a JSON array, outermost function first.
///
/// # Errors
/// Where the output can't be written.
pub fn stacks_json(rows: &[StackCount], out: &mut dyn Write) -> io::Result<()> {
    write_json(&rows.iter().map(to_json).collect(), out)
}

/// Writes stacks for people: a line each, innermost function first, the first `top` of them.
///
/// # Errors
/// Where the output can't be written.
pub fn stacks_text(rows: &[StackCount], top: usize, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let column = |head, worth| Column { head, worth, left: false };
    let columns = vec![
        column("share", ALWAYS),
        column("loads", 90),
        column("stores", 90),
        column("modifies", 30),
        column("allocations", 60),
        column("bytes allocated", 20),
    ];
    let sum = |rows: &[StackCount]| {
        let mut sum = StackCount::default();
        for row in rows {
            sum.count += row.count;
            sum.allocations += row.allocations;
            sum.allocated_bytes += row.allocated_bytes;
        }
        sum
    };
    let total = sum(rows);
    let line = |row: &StackCount, name: String, tone: Tone| GridRow {
        figures: vec![
            Figure::Share(row.count.accesses(), total.count.accesses()),
            Figure::Number(row.count.loads),
            Figure::Number(row.count.stores),
            Figure::Number(row.count.modifies),
            Figure::Number(row.allocations),
            Figure::Number(row.allocated_bytes),
        ],
        name,
        tone,
        ..GridRow::default()
    };
    let name =
        |row: &StackCount| row.stack.iter().rev().map(|name| &**name).collect::<Vec<&str>>().join(" < ");
    let (shown, more) = rows.split_at(top.min(rows.len()));
    let mut lines: Vec<GridRow> = shown.iter().map(|row| line(row, name(row), Tone::Plain)).collect();
    if !more.is_empty() {
        let words = format!("{} more (--top N, --all)", crate::grouped(more.len() as u64));
        lines.push(line(&sum(more), words, Tone::Faint));
    }
    lines.push(line(&total, "total".to_owned(), Tone::Strong));
    Grid { columns, name: "stack, innermost function first", rows: lines }.write(look, out)
}

fn to_json(row: &StackCount) -> Value {
    json!({
        "stack": row.stack.iter().map(|name| &**name).collect::<Vec<&str>>(),
        "loads": row.count.loads,
        "stores": row.count.stores,
        "modifies": row.count.modifies,
        "bytes": row.count.bytes,
        "allocations": row.allocations,
        "allocated_bytes": row.allocated_bytes,
    })
}
