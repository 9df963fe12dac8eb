//! Accesses and allocations by stack of functions.

use std::io::{self, Write};

use analysis::stack::{LeftOutStacks, StackFigures, StackRow, StackRows, SummedStacks};
use serde::Serializer;
use serde::ser::SerializeSeq;
use serde_json::{Value, json};

use super::appearance::{Look, Tone};
use super::grid::{ALWAYS, Column, Figure, Grid, GridRow};
use crate::grouped;

/// Writes stacks as a JSON array, outermost function first: the first `top` of them, or all and the sum of the rare ones.
///
/// # Errors
/// Where the output can't be written.
pub fn stacks_json(rows: &StackRows, top: usize, out: &mut dyn Write) -> io::Result<()> {
    // Row by row: all of them as values would take more memory than what was counted.
    let mut json = serde_json::Serializer::pretty(&mut *out);
    let mut list = json.serialize_seq(None)?;
    for row in rows.rows.iter().take(top) {
        list.serialize_element(&to_json(rows, row))?;
    }
    if let Some(summed) = rows.summed.filter(|_| rows.rows.len() <= top) {
        list.serialize_element(&summed_json(&summed))?;
    }
    list.end()?;
    writeln!(out)
}

/// What to say of stacks of which nobody knows whether they were wanted.
pub fn unknown_words(unknown: &LeftOutStacks) -> String {
    format!(
        "about {} stacks were too rare to be looked for by name or module; they have {} accesses together",
        grouped(unknown.stacks),
        grouped(unknown.figures.count.accesses())
    )
}

/// Writes stacks for people: a line each, innermost function first, the first `top` of them, and the sum of the rare ones.
///
/// # Errors
/// Where the output can't be written.
pub fn stacks_text(rows: &StackRows, top: usize, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let column = |head, worth| Column { head, worth, left: false };
    let columns = vec![
        column("share", ALWAYS),
        column("loads", 90),
        column("stores", 90),
        column("modifies", 30),
        column("allocations", 60),
        column("bytes allocated", 20),
    ];
    let sum = |rows: &[StackRow]| {
        let mut sum = StackFigures::default();
        rows.iter().for_each(|row| sum += row.figures);
        sum
    };
    let mut total = sum(&rows.rows);
    rows.summed.iter().for_each(|summed| total += summed.figures);
    let line = |figures: &StackFigures, name: String, tone: Tone| GridRow {
        figures: vec![
            Figure::Share(figures.count.accesses(), total.count.accesses()),
            Figure::Number(figures.count.loads),
            Figure::Number(figures.count.stores),
            Figure::Number(figures.count.modifies),
            Figure::Number(figures.allocations),
            Figure::Number(figures.allocated_bytes),
        ],
        name,
        tone,
        ..GridRow::default()
    };
    let name = |row: &StackRow| {
        let functions = rows.functions(row).map(|name| &**name).collect::<Vec<&str>>().join(" < ");
        if row.is_folded { format!("{functions} (and deeper recursion)") } else { functions }
    };
    let (shown, more) = rows.rows.split_at(top.min(rows.rows.len()));
    let mut lines: Vec<GridRow> =
        shown.iter().map(|row| line(&row.figures, name(row), Tone::Plain)).collect();
    if !more.is_empty() {
        let words = format!("{} more (--top N, --all)", grouped(more.len() as u64));
        lines.push(line(&sum(more), words, Tone::Faint));
    }
    if let Some(summed) = &rows.summed {
        lines.push(line(&summed.figures, summed_words(summed), Tone::Faint));
    }
    lines.push(line(&total, "total".to_owned(), Tone::Strong));
    Grid { columns, name: "stack, innermost function first", rows: lines }.write(look, out)
}

fn summed_words(summed: &SummedStacks) -> String {
    let about = if summed.is_estimated { "about " } else { "" };
    let stacks = if summed.stacks == 1 { "stack" } else { "stacks" };
    format!(
        "{about}{} {stacks} with less than {} accesses (--min-share)",
        grouped(summed.stacks),
        grouped(summed.below)
    )
}

fn to_json(rows: &StackRows, row: &StackRow) -> Value {
    let mut stack: Vec<&str> = rows.functions(row).map(|name| &**name).collect();
    stack.reverse();
    json!({
        "stack": stack,
        "loads": row.figures.count.loads,
        "stores": row.figures.count.stores,
        "modifies": row.figures.count.modifies,
        "bytes": row.figures.count.bytes,
        "allocations": row.figures.allocations,
        "allocated_bytes": row.figures.allocated_bytes,
        "stacks": 1,
        "folded": row.is_folded,
    })
}

fn summed_json(summed: &SummedStacks) -> Value {
    json!({
        "stack": [SummedStacks::NAME],
        "loads": summed.figures.count.loads,
        "stores": summed.figures.count.stores,
        "modifies": summed.figures.count.modifies,
        "bytes": summed.figures.count.bytes,
        "allocations": summed.figures.allocations,
        "allocated_bytes": summed.figures.allocated_bytes,
        "stacks": summed.stacks,
        "stacks_estimated": summed.is_estimated,
        "below_accesses": summed.below,
    })
}
