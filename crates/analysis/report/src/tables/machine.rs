//! A machine's accesses by process of the guest, with kernel and
//! user mode separate, and what its kernel did to initialise itself.

use std::cmp::Reverse;
use std::io::{self, Write};

use analysis::Count;
use analysis::machine::{CountsByProcess, GuestMode, Initcall, Owner};
use serde_json::json;

use super::appearance::{Look, Tone};
use super::grid::{ALWAYS, Column, Figure, Grid, GridRow};
use super::json as write_json;
use super::rows::{count_columns, count_figures};
use crate::number::grouped;

/// Second rows of each process that people see, unless they ask for all.
const MOST_SECOND: usize = 5;

/// A process of the guest in one mode.
pub type ProcessRow = ((Owner, GuestMode), Count);

/// Writes processes.
///
/// # Errors
/// Where the output can't be written.
pub fn processes(rows: &[ProcessRow], as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        let row = |((owner, mode), count): &ProcessRow| {
            json!({
                "name": owner.name, "process": owner.process, "mode": mode.name(), "loads": count.loads,
                "stores": count.stores, "modifies": count.modifies, "bytes": count.bytes,
            })
        };
        return write_json(&rows.iter().map(row).collect(), out);
    }
    writeln!(
        out,
        "{:>14} {:>14} {:>14} {:>16}  {:<8} {:>7} process",
        "loads", "stores", "modifies", "bytes", "mode", "pid"
    )?;
    for ((owner, mode), count) in rows {
        let [loads, stores, modifies, bytes] =
            [count.loads, count.stores, count.modifies, count.bytes].map(grouped);
        let process = owner.process.map_or_else(|| "-".to_owned(), |process| process.to_string());
        writeln!(
            out,
            "{loads:>14} {stores:>14} {modifies:>14} {bytes:>16}  {:<8} {process:>7} {}",
            mode.name(),
            owner.name
        )?;
    }
    Ok(())
}

/// A process of the guest in one mode, and what it did by name.
pub type NamesOfProcess = ((Owner, GuestMode), Vec<(String, Count)>);

/// What processes did by name, most first.
pub fn sorted_names(counts: CountsByProcess) -> Vec<NamesOfProcess> {
    let sort = |(owner, names): (_, std::collections::BTreeMap<String, Count>)| {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(_, count)| Reverse(count.accesses()));
        (owner, names)
    };
    let mut rows: Vec<NamesOfProcess> = counts.into_iter().map(sort).collect();
    rows.sort_by_key(|(_, names)| Reverse(sum(names).accesses()));
    rows
}

fn sum(names: &[(String, Count)]) -> Count {
    let mut sum = Count::default();
    names.iter().for_each(|(_, count)| sum += *count);
    sum
}

/// Writes what processes did as a JSON array: an object for each of their names, which stands under `kind`; the first `top` of them.
///
/// # Errors
/// Where the output can't be written.
pub fn process_names_json(
    rows: &[NamesOfProcess],
    kind: &str,
    top: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let objects = rows.iter().flat_map(|((owner, mode), names)| {
        names.iter().map(move |(name, count)| {
            json!({
                "name": owner.name, "process": owner.process, "mode": mode.name(), kind: name,
                "loads": count.loads, "stores": count.stores, "modifies": count.modifies, "bytes": count.bytes,
            })
        })
    });
    write_json(&objects.take(top).collect(), out)
}

/// Writes what processes did for people: the first `top` processes, and after each what it did by name.
///
/// # Errors
/// Where the output can't be written.
pub fn process_names_text(
    rows: &[NamesOfProcess],
    top: usize,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut total = Count::default();
    rows.iter().for_each(|(_, names)| total += sum(names));
    let all = total.accesses();
    let row = |count: &Count, name: String, indent, tone| GridRow {
        figures: count_figures(count, all),
        name,
        indent,
        tone,
        ..GridRow::default()
    };
    let mut lines = Vec::new();
    let (shown, more) = rows.split_at(top.min(rows.len()));
    for ((owner, mode), names) in shown {
        let name = format!("{owner}, {}", mode.name());
        lines.push(row(&sum(names), name, 0, Tone::Strong));
        let most = if top == usize::MAX { usize::MAX } else { MOST_SECOND };
        let (seconds, rest) = names.split_at(most.min(names.len()));
        lines.extend(seconds.iter().map(|(name, count)| row(count, name.clone(), 2, Tone::Plain)));
        if !rest.is_empty() {
            lines.push(row(&sum(rest), format!("{} more", grouped(rest.len() as u64)), 2, Tone::Faint));
        }
    }
    if !more.is_empty() {
        let mut rest = Count::default();
        more.iter().for_each(|(_, names)| rest += sum(names));
        let words = format!("{} more (--top N, --all)", grouped(more.len() as u64));
        lines.push(row(&rest, words, 0, Tone::Faint));
    }
    lines.push(row(&total, "total".to_owned(), 0, Tone::Strong));
    Grid { columns: count_columns(), name: "process, and what in it", rows: lines }.write(look, out)
}

/// Writes what the kernel's parts did as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn initcalls_json(rows: &[Initcall], out: &mut dyn Write) -> io::Result<()> {
    let row = |row: &Initcall| {
        let count = row.total.count;
        json!({
            "name": row.name, "may_jump": row.may_jump, "instructions": row.total.instructions, "loads": count.loads,
            "stores": count.stores, "modifies": count.modifies, "bytes": count.bytes,
        })
    };
    write_json(&rows.iter().map(row).collect(), out)
}

/// Writes them for people, the first `top`. Shares are of `instructions`, which the whole machine executed.
///
/// # Errors
/// Where the output can't be written.
pub fn initcalls_text(
    rows: &[Initcall],
    instructions: u64,
    top: usize,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let column = |head, worth| Column { head, worth, left: false };
    let columns = vec![
        column("share", ALWAYS),
        column("instructions", ALWAYS),
        column("loads", 90),
        column("stores", 90),
        column("modifies", 30),
    ];
    let line = |rows: &[Initcall], name: String, tone| {
        let mut total = analysis::machine::GuestTotal::default();
        rows.iter().for_each(|row| total += row.total);
        let figures = vec![
            Figure::Share(total.instructions, instructions),
            Figure::Number(total.instructions),
            Figure::Number(total.count.loads),
            Figure::Number(total.count.stores),
            Figure::Number(total.count.modifies),
        ];
        GridRow { figures, name, tone, ..GridRow::default() }
    };
    let (shown, more) = rows.split_at(top.min(rows.len()));
    let row = |row: &Initcall| GridRow {
        note: if row.may_jump { "(or what jumps to it)".to_owned() } else { String::new() },
        ..line(std::slice::from_ref(row), row.name.clone(), Tone::Plain)
    };
    let mut lines: Vec<GridRow> = shown.iter().map(row).collect();
    if !more.is_empty() {
        lines.push(line(more, format!("{} more (--top N, --all)", grouped(more.len() as u64)), Tone::Faint));
    }
    lines.push(line(rows, "total".to_owned(), Tone::Strong));
    Grid { columns, name: "initcall, with all that it called", rows: lines }.write(look, out)
}
