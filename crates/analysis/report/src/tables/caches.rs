//! Misses of modelled caches, and what caches of every size would miss.

use std::io::{self, Write};

use analysis::Owner;
use analysis::cache::{CacheMisses, CacheSetup, CacheShape, LevelMisses, MissCurve, MissRow};
use serde_json::{Value, json};

use super::appearance::{Look, Tone};
use super::grid::{ALWAYS, Column, Figure, Grid, GridRow, share};
use super::json as write_json;
use crate::number::{amount, grouped};

fn shape_json(shape: CacheShape) -> Value {
    json!({ "bytes": shape.bytes, "ways": shape.ways, "line_bytes": shape.line_bytes })
}

fn misses_json(misses: &LevelMisses) -> Value {
    json!({
        "l1_loads": misses.l1_loads, "l1_stores": misses.l1_stores,
        "l2_loads": misses.l2_loads, "l2_stores": misses.l2_stores,
        "ll_loads": misses.ll_loads, "ll_stores": misses.ll_stores,
        "coherence": misses.coherence,
    })
}

/// Writes the model's figures as a JSON object.
///
/// # Errors
/// Where the output can't be written.
pub fn misses_as_json(
    setup: &CacheSetup,
    model: &CacheMisses,
    by: &str,
    rows: &[MissRow],
    out: &mut dyn Write,
) -> io::Result<()> {
    let row_json = |row: &MissRow| {
        let mut object = misses_json(&row.misses);
        let what = match by {
            "stack" => json!({ "stack": row.stack }),
            _ => json!({
                "name": row.row.name, "region": row.row.region, "line": row.row.line, "module": row.row.module,
                "owner": row.row.owner.name(),
            }),
        };
        if let (Some(object), Value::Object(what)) = (object.as_object_mut(), what) {
            object.extend(what);
        }
        object
    };
    let [loads, stores] = model.accesses();
    let totals = model.totals();
    let object = json!({
        "caches": {
            "l1": shape_json(setup.l1), "l2": setup.l2.map(shape_json), "ll": setup.ll.map(shape_json),
            "replacement": setup.replacement.name(), "prefetch": setup.prefetch,
        },
        "loads": loads,
        "stores": stores,
        "misses": misses_json(&model.total()),
        "l1_write_backs": totals.l1_write_backs,
        "memory_writes": totals.memory_writes,
        "invalidations": totals.invalidations,
        "transfers": totals.transfers,
        "prefetched": totals.prefetched,
        "prefetched_used": totals.prefetched_used,
        "missing": model.missing,
        "by": by,
        "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
    });
    write_json(&object, out)
}

/// Writes them for people: totals, then the first `top` rows of the program's own; without it all rows.
///
/// # Errors
/// Where the output can't be written.
pub fn misses_as_text(
    setup: &CacheSetup,
    model: &CacheMisses,
    by: &'static str,
    rows: &[MissRow],
    top: Option<usize>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let [loads, stores] = model.accesses();
    let (accesses, total, totals) = (loads + stores, model.total(), model.totals());
    writeln!(
        out,
        "{} and modifies, {}; {} replacement",
        amount(loads, "load"),
        amount(stores, "store"),
        setup.replacement.name()
    )?;
    let levels =
        [("l1", Some(setup.l1), total.l1()), ("l2", setup.l2, total.l2()), ("ll", setup.ll, total.ll())];
    for (name, shape, misses) in levels {
        let Some(shape) = shape else { continue };
        writeln!(
            out,
            "{name} {shape}: {}, {} of all accesses",
            amount(misses, "miss"),
            share(misses, accesses)
        )?;
    }
    writeln!(out, "{} written to memory", amount(totals.memory_writes, "line"))?;
    if totals.invalidations > 0 || total.coherence > 0 {
        let (copies, times) = (amount(totals.invalidations, "copy"), amount(total.coherence, "time"));
        writeln!(out, "{copies} taken from other threads, which missed them {times}")?;
    }
    if setup.prefetch {
        writeln!(
            out,
            "{} prefetched, {} of them used",
            amount(totals.prefetched, "line"),
            grouped(totals.prefetched_used)
        )?;
    }
    writeln!(out)?;
    let column = |head, worth| Column { head, worth, left: false };
    let columns = vec![
        column("share", ALWAYS),
        column("l1 misses", ALWAYS),
        column("l2", 90),
        column("ll", 95),
        column("of stores", 50),
        column("coherence", 70),
    ];
    let figures = |misses: &LevelMisses| {
        let share = Figure::Share(misses.l1(), total.l1());
        let numbers = [misses.l1(), misses.l2(), misses.ll(), misses.l1_stores, misses.coherence];
        std::iter::once(share).chain(numbers.map(Figure::Number)).collect::<Vec<_>>()
    };
    let line = |misses: &LevelMisses, name: String, note: String, tone| GridRow {
        figures: figures(misses),
        name,
        note,
        tone,
        ..GridRow::default()
    };
    let (own, others): (Vec<&MissRow>, Vec<&MissRow>) =
        rows.iter().partition(|row| top.is_none() || row.row.owner == Owner::Program);
    let shown = top.map_or(own.len(), |top| top.min(own.len()));
    let note = |row: &MissRow| {
        let line = row.row.line.as_deref().filter(|line| *line != row.row.name);
        line.map_or_else(String::new, |line| format!("({line})"))
    };
    let mut lines: Vec<GridRow> = own[..shown]
        .iter()
        .map(|row| line(&row.misses, row.row.name.clone(), note(row), Tone::Plain))
        .collect();
    for (rest, words) in
        [(&own[shown..], "more (--top N, --all)"), (&others[..], "of the C library and others (--all)")]
    {
        if !rest.is_empty() {
            let mut sum = LevelMisses::default();
            rest.iter().for_each(|row| sum += row.misses);
            lines.push(line(
                &sum,
                format!("{} {words}", grouped(rest.len() as u64)),
                String::new(),
                Tone::Faint,
            ));
        }
    }
    lines.push(line(&total, "total".to_owned(), String::new(), Tone::Strong));
    Grid { columns, name: by, rows: lines }.write(look, out)
}

/// Writes a sweep as a JSON object.
///
/// # Errors
/// Where the output can't be written.
pub fn curve_json(curve: &MissCurve, out: &mut dyn Write) -> io::Result<()> {
    let ratio = |misses: f64| misses / (curve.accesses as f64).max(1.0);
    let points = curve.points.iter().map(
        |point| json!({ "bytes": point.bytes, "misses": point.misses, "miss_ratio": ratio(point.misses) }),
    );
    let distances =
        curve.distances.iter().map(|one| json!({ "from_lines": one.from_lines, "accesses": one.accesses }));
    let windows = curve.working_set.iter().map(|one| json!({ "access": one.access, "bytes": one.bytes }));
    let object = json!({
        "line_bytes": curve.line_bytes, "accesses": curve.accesses, "lines": curve.lines, "sampled": curve.sampled,
        "first_accesses": curve.first_accesses, "window_accesses": curve.window_accesses, "missing": curve.missing,
        "curve": points.collect::<Vec<_>>(), "distances": distances.collect::<Vec<_>>(), "working_set": windows.collect::<Vec<_>>(),
    });
    write_json(&object, out)
}

/// Writes a sweep for people: sizes that are powers of two.
///
/// # Errors
/// Where the output can't be written.
pub fn curve_text(curve: &MissCurve, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let bytes = |bytes: u64| match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    };
    let sampled = if curve.sampled < 1.0 {
        format!(", estimated from {} % of the lines", curve.sampled * 100.0)
    } else {
        String::new()
    };
    let used = (curve.lines * curve.line_bytes as f64).round() as u64;
    writeln!(
        out,
        "{} to lines of {} bytes, {} in all{sampled}",
        amount(curve.accesses, "access"),
        curve.line_bytes,
        bytes(used)
    )?;
    let most = curve.working_set.iter().map(|one| one.bytes as u64).max().unwrap_or(0);
    writeln!(out, "at most {} in {}", bytes(most), amount(curve.window_accesses, "access"))?;
    writeln!(out)?;
    let column = |head| Column { head, worth: ALWAYS, left: false };
    let powers = curve
        .points
        .iter()
        .filter(|point| point.bytes.is_power_of_two() || Some(*point) == curve.points.last());
    let rows = powers.map(|point| GridRow {
        figures: vec![
            Figure::Number(point.misses.round() as u64),
            Figure::Share(point.misses.round() as u64, curve.accesses),
        ],
        name: bytes(point.bytes),
        ..GridRow::default()
    });
    Grid { columns: vec![column("misses"), column("of all")], name: "cache of", rows: rows.collect() }
        .write(look, out)
}
