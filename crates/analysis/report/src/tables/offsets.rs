//! Blocks of unknown type, and which offsets in them are used.

use std::io::{self, Write};

use analysis::layout::{OffsetUse, SiteUse};
use serde_json::{Value, json};

use super::appearance::{Look, Tone, Toned};
use super::grid::{Grid, GridRow};
use super::json as write_json;
use super::rows::{count_columns, count_figures};
use crate::number::{amount, grouped};

/// Writes them as a JSON array.
///
/// # Errors
/// Where the output can't be written.
pub fn offsets_json(sites: &[SiteUse], out: &mut dyn Write) -> io::Result<()> {
    let place = |place: &OffsetUse| {
        json!({
            "offset": place.offset, "size": place.size, "loads": place.count.loads, "stores": place.count.stores,
            "modifies": place.count.modifies, "threads": place.threads,
        })
    };
    let all = sites.iter().map(|one| {
        json!({
            "site": one.site, "line": one.line, "module": one.module, "bytes": one.bytes, "blocks": one.blocks,
            "accesses": one.count.accesses(), "offsets": one.offsets.iter().map(place).collect::<Vec<_>>(),
        })
    });
    write_json(&all.collect::<Value>(), out)
}

/// Writes them for people, each with its places.
///
/// # Errors
/// Where the output can't be written.
pub fn offsets_text(sites: &[SiteUse], top: usize, look: Look, out: &mut dyn Write) -> io::Result<()> {
    if sites.is_empty() {
        return writeln!(out, "each block of up to 512 bytes that was accessed has a type");
    }
    for one in sites.iter().take(top) {
        let line = one.line.as_ref().map_or_else(String::new, |line| format!(" ({line})"));
        let head = format!(
            "{}{line}: {} of {}, {}",
            one.site,
            amount(one.blocks, "block"),
            amount(one.bytes, "byte"),
            amount(one.count.accesses(), "access"),
        );
        writeln!(out, "{}", Toned(look, Tone::Strong, &head))?;
        let all = one.count.accesses();
        let rows = one.offsets.iter().map(|place| GridRow {
            figures: count_figures(&place.count, all),
            name: format!("+{}", place.offset),
            note: match place.threads.len() {
                0 | 1 => format!("({})", amount(place.size, "byte")),
                threads => format!("({}, {} threads)", amount(place.size, "byte"), grouped(threads as u64)),
            },
            ..GridRow::default()
        });
        Grid { columns: count_columns(), name: "place", rows: rows.collect() }.write(look, out)?;
        writeln!(out)?;
    }
    if let Some(more) = sites.len().checked_sub(top).filter(|more| *more > 0) {
        let words = format!("{} of blocks (--top N)", amount(more as u64, "more kind"));
        writeln!(out, "{}", Toned(look, Tone::Faint, &words))?;
    }
    Ok(())
}
