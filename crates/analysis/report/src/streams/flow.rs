//! The basic blocks that threads entered, each with the function of a program, or the processor of a machine.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

use analysis::flow::{self, Flow};
use analysis::machine::Machine;
use analysis::{Moment, Session, Tool};
use memref::{Access, ThreadId};
use serde_json::json;
use symbols::Resolver;
use trace_format::{Filter, KindSet};

use super::StreamForm;
use crate::Error;
use crate::export::{Selection, code_name};

pub(super) fn write(
    session: &Session,
    selection: &Selection,
    form: StreamForm,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let trace = session.trace();
    let blocks = flow::blocks(trace)?;
    if blocks.is_empty() {
        return Err(Error::NoFlow);
    }
    let cycles = selection.cycles.clone().unwrap_or(0..u64::MAX);
    let mut lines = FlowLines { threads: BTreeMap::new(), cycles, form, out, failed: None };
    for record in trace.threads() {
        if selection.thread.is_none_or(|thread| thread == record.thread) {
            let mut flow = Flow::of(trace, record.thread, &blocks);
            flow.seek(lines.cycles.start);
            lines.threads.insert(record.thread, flow);
        }
    }
    // Names as they were meanwhile; a machine's are not those of its own process.
    let mut names = Vec::new();
    if Machine::of(session).is_none() {
        let filter =
            Filter { kinds: KindSet::ACCESSES, cycles: selection.cycles.clone(), ..Default::default() };
        let replayed = session.replay(&filter, selection.thread, &mut lines);
        if let Some(error) = lines.failed {
            return Err(error);
        }
        names = replayed?;
    }
    for record in trace.threads() {
        let mut names = names.iter_mut().find(|names| names.process() == record.process);
        while lines.next(record.thread, u64::MAX, names.as_deref_mut(), record.tid)? {}
    }
    Ok(())
}

/// The lines that are still to be written.
struct FlowLines<'a> {
    threads: BTreeMap<ThreadId, Flow>,
    cycles: Range<u64>,
    form: StreamForm,
    out: &'a mut dyn Write,
    /// What went wrong; it ended the replay.
    failed: Option<Error>,
}

impl FlowLines<'_> {
    /// Writes the thread's next entry, if it was made at that cycle or before. Without names it is a processor's, of that number.
    fn next(
        &mut self,
        thread: ThreadId,
        last: u64,
        names: Option<&mut Resolver>,
        processor: u32,
    ) -> Result<bool, Error> {
        let Some(flow) = self.threads.get_mut(&thread) else { return Ok(false) };
        let last = last.min(self.cycles.end - 1);
        let Some(entered) = flow.peek()?.filter(|entered| entered.cycle <= last) else { return Ok(false) };
        flow.advance()?;
        if entered.cycle >= self.cycles.start {
            let (cycle, ip, count) = (entered.cycle, entered.block.ip, entered.block.instructions);
            let code = names.map(|names| code_name(names, ip));
            let line = match (self.form, code) {
                (StreamForm::JsonLines, code) => json!({
                    "type": "block_entered",
                    "thread": thread.0,
                    "cycle": cycle,
                    "ip": format!("{ip:#x}"),
                    "instructions": count,
                    "bytes": entered.block.bytes,
                    "code": code,
                })
                .to_string(),
                (StreamForm::Text, None) => format!("{cycle} cpu {processor} {ip:#x} {count} instructions"),
                (StreamForm::Text, Some(code)) => {
                    format!("{cycle} thread {} {ip:#x} {count} instructions {code}", thread.0)
                }
            };
            writeln!(self.out, "{line}")?;
        }
        Ok(true)
    }
}

impl Tool for FlowLines<'_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), analysis::Error> {
        let Some(last) = accesses.last() else { return Ok(()) };
        loop {
            match self.next(at.thread, last.cycle, Some(at.resolver), 0) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(analysis::Error::Output(io::ErrorKind::Other.into()));
                }
            }
        }
    }
}
