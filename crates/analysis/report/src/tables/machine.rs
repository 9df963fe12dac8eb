//! A machine's accesses by process of the guest, kernel and user mode apart.

use std::io::{self, Write};

use analysis::Count;
use analysis::machine::{GuestMode, Owner};
use serde_json::json;

use super::json as write_json;
use crate::number::grouped;

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
