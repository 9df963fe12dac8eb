//! Types of heap blocks and variables, and how their fields are used.

use std::io::{self, Write};

use analysis::layout::{FieldUse, TypeUse};
use serde_json::{Value, json};

use super::appearance::{Look, Tone, Toned};
use super::grid::{ALWAYS, Column, Figure, Grid, GridRow};
use super::json as write_json;
use super::rows::{conflicts_json, doubt_of_type};
use crate::number::{amount, grouped};

/// Pairs that people see.
const PAIRS: usize = 3;

/// Writes them as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn layouts_json(types: &[TypeUse], out: &mut dyn Write) -> io::Result<()> {
    let field = |field: &FieldUse| {
        json!({
            "name": field.name, "type": field.type_name, "offset": field.offset, "size": field.size,
            "loads": field.count.loads, "stores": field.count.stores, "modifies": field.count.modifies,
            "block_reads": field.block_reads, "block_writes": field.block_writes, "threads": field.threads,
        })
    };
    let all = types.iter().map(|one| {
        json!({
            "type": one.name, "bytes": one.bytes, "blocks": one.blocks, "objects": one.objects, "block_bytes": one.block_bytes,
            "variables": one.variables,
            "typed_by": one.typed_by, "confidence": one.confidence, "complete": one.is_complete,
            "accesses": one.count.accesses(), "lower_bound": one.is_lower_bound,
            "conflicts": conflicts_json(&one.conflicts),
            "fields": one.fields.iter().map(field).collect::<Vec<_>>(),
            "holes": one.holes.iter().map(|hole| json!({ "offset": hole.offset, "size": hole.size })).collect::<Vec<_>>(),
            "lines": one.lines.iter().enumerate().map(|(line, accesses)| json!({ "line": line, "accesses": accesses })).collect::<Vec<_>>(),
            "together": one.pairs.iter().map(|pair| json!({ "fields": [pair.first, pair.second], "times": pair.times })).collect::<Vec<_>>(),
            "advice": one.advice,
        })
    });
    write_json(&all.collect::<Value>(), out)
}

/// Writes them for people, each with its fields.
///
/// # Errors
/// Where the output can't be written.
pub fn layouts_text(types: &[TypeUse], top: usize, look: Look, out: &mut dyn Write) -> io::Result<()> {
    for one in types.iter().take(top) {
        let doubt = match doubt_of_type(&one.conflicts) {
            doubt if doubt.is_empty() => doubt,
            doubt => format!("; {doubt}"),
        };
        let head = format!(
            "{}: {}, {}, {}{}{doubt}",
            one.name,
            amount(one.bytes, "byte"),
            places(one),
            if one.is_lower_bound { "at least " } else { "" },
            amount(one.count.accesses(), "access"),
        );
        writeln!(out, "{}", Toned(look, Tone::Strong, &head))?;
        fields(one).write(look, out)?;
        for pair in one.pairs.iter().take(PAIRS) {
            writeln!(
                out,
                "  `{}` and `{}` are used together {}",
                pair.first,
                pair.second,
                amount(pair.times, "time")
            )?;
        }
        for advice in &one.advice {
            writeln!(out, "  {}", Toned(look, Tone::Strong, advice))?;
        }
        writeln!(out)?;
    }
    if let Some(more) = types.len().checked_sub(top).filter(|more| *more > 0) {
        writeln!(
            out,
            "{}",
            Toned(look, Tone::Faint, &format!("{} (--top N)", amount(more as u64, "more type")))
        )?;
    }
    Ok(())
}

/// The objects of a type, and what they are in.
fn places(one: &TypeUse) -> String {
    let objects = grouped(one.objects);
    match one.blocks {
        0 => format!("{objects} in {}", amount(one.variables, "variable")),
        blocks => format!("{objects} in {} of {}", amount(blocks, "block"), amount(one.block_bytes, "byte")),
    }
}

fn fields(one: &TypeUse) -> Grid {
    let column = |head, worth| Column { head, worth, left: false };
    let columns = vec![
        column("offset", ALWAYS),
        column("size", ALWAYS),
        column("share", ALWAYS),
        column("loads", 90),
        column("stores", 90),
        column("modifies", 50),
        column("threads", 30),
    ];
    let all = one.count.accesses();
    let mut rows: Vec<(u64, GridRow)> = Vec::new();
    for field in &one.fields {
        let count = field.count;
        // Where accesses may be missing, nobody knows of all.
        let note = match one.is_complete {
            true if !field.is_used() => "(never used)",
            false if !field.is_used() => "(not seen)",
            _ if count.accesses() == 0 => "(by block operations)",
            true if !field.is_read() => "(never read)",
            false if !field.is_read() => "(not seen read)",
            _ => "",
        };
        let threads =
            if field.threads.len() > 1 { Figure::Number(field.threads.len() as u64) } else { Figure::Empty };
        let figures = vec![
            Figure::Number(field.offset),
            Figure::Number(field.size),
            Figure::Share(count.accesses(), all),
            Figure::Number(count.loads),
            Figure::Number(count.stores),
            Figure::Number(count.modifies),
            threads,
        ];
        rows.push((
            field.offset,
            GridRow { figures, name: field.name.clone(), note: note.to_owned(), ..GridRow::default() },
        ));
    }
    for hole in &one.holes {
        let mut figures = vec![Figure::Number(hole.offset), Figure::Number(hole.size)];
        figures.resize(7, Figure::Empty);
        rows.push((
            hole.offset,
            GridRow { figures, name: "[hole]".to_owned(), tone: Tone::Faint, ..GridRow::default() },
        ));
    }
    rows.sort_by_key(|(offset, _)| *offset);
    Grid { columns, name: "field", rows: rows.into_iter().map(|(_, row)| row).collect() }
}
