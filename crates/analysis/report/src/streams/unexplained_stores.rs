//! Writes found in a machine's memory that no instruction made.

use std::io::Write;

use analysis::{Session, machine};
use serde_json::json;

use super::StreamForm;
use crate::Error;
use crate::export::Selection;

pub(super) fn write(
    session: &Session,
    selection: &Selection,
    form: StreamForm,
    out: &mut dyn Write,
) -> Result<(), Error> {
    for entry in machine::found(session.trace())? {
        if selection.cycles.as_ref().is_some_and(|cycles| !cycles.contains(&entry.cycle)) {
            continue;
        }
        match form {
            StreamForm::Text => {
                writeln!(out, "{} since {} {:#x} {}", entry.cycle, entry.since, entry.addr, entry.len)?;
            }
            StreamForm::JsonLines => {
                let object = json!({
                    "type": "found", "cycle": entry.cycle, "since": entry.since,
                    "physical": format!("{:#x}", entry.addr), "size": entry.len,
                });
                writeln!(out, "{object}")?;
            }
        }
    }
    Ok(())
}
