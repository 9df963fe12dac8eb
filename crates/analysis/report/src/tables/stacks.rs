//! Accesses and allocations by stack of functions.

use std::io::{self, Write};

use analysis::stack::StackCount;
use serde_json::{Value, json};

use super::json as write_json;
use crate::number::grouped;

/// Writes stacks: a line each, innermost function first, or as a JSON array, outermost first.
///
/// # Errors
/// Where the output can't be written.
pub fn stacks(rows: &[StackCount], as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        return write_json(&rows.iter().map(to_json).collect(), out);
    }
    writeln!(
        out,
        "{:>14} {:>14} {:>14} {:>12}  stack, innermost function first",
        "loads", "stores", "modifies", "allocations"
    )?;
    for row in rows {
        let counts = [row.count.loads, row.count.stores, row.count.modifies, row.allocations];
        let [loads, stores, modifies, allocations] = counts.map(grouped);
        let stack: Vec<&str> = row.stack.iter().rev().map(|name| &**name).collect();
        writeln!(out, "{loads:>14} {stores:>14} {modifies:>14} {allocations:>12}  {}", stack.join(" < "))?;
    }
    Ok(())
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
