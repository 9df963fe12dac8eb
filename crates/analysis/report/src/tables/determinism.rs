//! Regions of threads that would roll back under deterministic execution.

use std::io::{self, Write};

use analysis::determinism::{Granularity, MergeRegion};
use serde_json::{Value, json};

use super::json as write_json;

/// Writes the regions that roll back, and how many by page, line and byte. `missing` events may have changed that.
///
/// # Errors
/// Where the output can't be written.
pub fn write(regions: &[MergeRegion], missing: u64, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if !as_json {
        return text(regions, out);
    }
    let all: Vec<Value> = regions.iter().enumerate().map(|(index, region)| to_json(index, region)).collect();
    let object = json!({
        "regions": all,
        "rollbacks": {
            "page": rollbacks(regions, Granularity::Page), "line": rollbacks(regions, Granularity::Line),
            "byte": rollbacks(regions, Granularity::Byte),
        },
        "uncertain": missing > 0,
    });
    write_json(&object, out)
}

/// Regions that would roll back where reads and writes are known that exactly: finer conflicts are coarser ones too.
fn rollbacks(regions: &[MergeRegion], granularity: Granularity) -> usize {
    regions
        .iter()
        .filter_map(|region| region.conflict.as_ref())
        .filter(|c| c.granularity >= granularity)
        .count()
}

fn to_json(index: usize, region: &MergeRegion) -> Value {
    let counts = |[pages, lines, bytes]: [u64; 3]| json!({"pages": pages, "lines": lines, "bytes": bytes});
    let conflict = region.conflict.as_ref();
    let rolls_back = |granularity| conflict.is_some_and(|conflict| conflict.granularity >= granularity);
    json!({
        "region": index, "thread": region.thread.0, "process": region.process.0, "function": region.function,
        "file": region.file, "line": region.line, "reads": counts(region.reads), "writes": counts(region.writes),
        "rolls_back": {
            "page": rolls_back(Granularity::Page), "line": rolls_back(Granularity::Line),
            "byte": rolls_back(Granularity::Byte),
        },
        "false_sharing": conflict.is_some_and(|conflict| conflict.granularity != Granularity::Byte),
        "with": conflict.map(|conflict| conflict.with),
        "variable": conflict.map(|conflict| conflict.variable.clone()),
    })
}

fn text(regions: &[MergeRegion], out: &mut dyn Write) -> io::Result<()> {
    for (index, region) in regions.iter().enumerate() {
        let Some(conflict) = &region.conflict else { continue };
        let why = match conflict.granularity {
            Granularity::Byte => "shares bytes",
            Granularity::Line => "shares cache lines, but no byte,",
            Granularity::Page => "shares pages, but no cache line,",
        };
        let line = region.line.map_or(String::new(), |line| format!(":{line}"));
        let place = region.file.as_ref().map_or(String::new(), |file| format!(" ({file}{line})"));
        writeln!(
            out,
            "region {index}, thread {} from {}{place}: rolls back, it {why} with region {} ({})",
            region.thread.0, region.function, conflict.with, conflict.variable
        )?;
    }
    for (name, granularity) in
        [("page", Granularity::Page), ("64-byte line", Granularity::Line), ("byte", Granularity::Byte)]
    {
        let count = rollbacks(regions, granularity);
        writeln!(out, "by {name}: {count} of {} regions roll back", regions.len())?;
    }
    Ok(())
}
