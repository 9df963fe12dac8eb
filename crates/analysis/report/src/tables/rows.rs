//! Who accesses what, most accessed first.

use std::io::{self, Write};

use analysis::{AccessRow, By, coverage};
use serde_json::{Value, json};

use super::json as write_json;
use crate::Error;
use crate::export::{Exporter, Figures, Needs};
use crate::number::grouped;

/// Writes the rows of one table.
#[derive(Debug)]
pub struct Rows {
    /// What the rows are.
    pub by: By,
    /// As a JSON array.
    pub json: bool,
    /// How many of them at most.
    pub most: usize,
}

impl Exporter for Rows {
    fn needs(&self) -> Needs {
        Needs { tables: vec![self.by], ..Needs::default() }
    }

    fn finish(&mut self, figures: &Figures<'_>, out: &mut dyn Write) -> Result<(), Error> {
        let mut rows = figures.rows(self.by);
        rows.truncate(self.most);
        if !self.json
            && let Some(words) = coverage(figures.session)
        {
            writeln!(out, "{words}")?;
        }
        Ok(write(&rows, self.json, out)?)
    }
}

/// Writes rows.
///
/// # Errors
/// Where the output can't be written.
pub fn write(rows: &[AccessRow], as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json { write_json(&rows.iter().map(to_json).collect(), out) } else { text(rows, out) }
}

fn to_json(row: &AccessRow) -> Value {
    json!({
        "name": row.name,
        "region": row.region,
        "loads": row.count.loads,
        "stores": row.count.stores,
        "modifies": row.count.modifies,
        "bytes": row.count.bytes,
        "size": row.size,
        "things": row.things,
        "line": row.line,
    })
}

fn text(rows: &[AccessRow], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>14} {:>14} {:>14} {:>16}  {:<8} name",
        "loads", "stores", "modifies", "bytes", "memory"
    )?;
    for row in rows {
        let count = &row.count;
        let [loads, stores, modifies, bytes] =
            [count.loads, count.stores, count.modifies, count.bytes].map(grouped);
        let line = row.line.as_deref().map_or_else(String::new, |line| format!("  ({line})"));
        let things =
            if row.things > 1 { format!("  [{} of them]", grouped(row.things)) } else { String::new() };
        writeln!(
            out,
            "{loads:>14} {stores:>14} {modifies:>14} {bytes:>16}  {:<8} {}{things}{line}",
            row.region, row.name
        )?;
    }
    Ok(())
}
