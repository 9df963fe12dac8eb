//! What the tasks of a machine's guest did: one line each time one was switched to, created, ran another program or ended.

use std::io::Write;

use analysis::{Session, machine};
use serde_json::json;
use trace_format::ThreadRecord;

use super::StreamForm;
use crate::Error;
use crate::export::Selection;

pub(super) fn write(
    session: &Session,
    record: &ThreadRecord,
    selection: &Selection,
    form: StreamForm,
    out: &mut dyn Write,
) -> Result<(), Error> {
    for task in machine::tasks(session.trace(), record.thread)? {
        if selection.cycles.as_ref().is_some_and(|cycles| !cycles.contains(&task.cycle)) {
            continue;
        }
        let change = ["switch", "create", "exec", "exit"].get(usize::from(task.change)).unwrap_or(&"?");
        let (cycle, cpu, name) = (task.cycle, record.tid, task.name());
        let (process, thread, parent) = (task.process, task.thread, task.parent);
        match form {
            StreamForm::Text => {
                writeln!(out, "{cycle} cpu {cpu} {change} {process} thread {thread} parent {parent} {name}")?
            }
            StreamForm::JsonLines => {
                let object = json!({
                    "type": "task", "change": change, "cycle": cycle, "cpu": cpu, "process": process,
                    "thread": thread, "parent": parent, "name": name.to_string(),
                });
                writeln!(out, "{object}")?;
            }
        }
    }
    Ok(())
}
