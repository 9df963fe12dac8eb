//! Hits as lines, for people or as JSON.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::layout::LiveFields;
use memref::VirtAddr;
use recorder::watching::{Hit, HitPlace, HitReport};
use report::tables::call_json;
use serde_json::{Value, json};
use symbols::{Call, Resolver};

use super::stop::StoppedProgram;

/// Writes hits.
pub(crate) struct HitLog<'a> {
    /// Where to.
    out: Box<dyn Write + 'a>,
    /// One object a line.
    json: bool,
    /// Who waits at a stopped program.
    stop: StoppedProgram,
    /// By process, instruction and stack.
    known: HashMap<(u32, VirtAddr, Vec<VirtAddr>), StackText>,
    /// What heap blocks consist of.
    fields: LiveFields,
}

impl<'a> HitLog<'a> {
    /// Nothing written yet.
    pub(crate) fn new(out: Box<dyn Write + 'a>, json: bool) -> Self {
        Self { out, json, stop: StoppedProgram::new(), known: HashMap::new(), fields: LiveFields::default() }
    }
}

/// The functions at an address, the innermost one first, each with its place for people.
fn calls(resolver: &mut Resolver, ip: VirtAddr) -> Vec<(Call, String)> {
    let Some(code) = resolver.code_name(ip) else {
        return vec![(Call { function: None, file: None, line: None }, ip.to_string())];
    };
    let mut all: Vec<(Call, String)> = code
        .calls()
        .into_iter()
        .map(|call| {
            let name = call.function.as_deref().unwrap_or_default().to_owned();
            (call, name)
        })
        .collect();
    if let Some((_, place)) = all.last_mut() {
        *place = code.to_string();
    }
    for (call, place) in &mut all {
        if let (Some(file), Some(line)) = (&call.file, call.line) {
            place.push_str(&format!(" ({file}:{line})"));
        }
    }
    all
}

/// What the lines of hits with one stack have in common.
struct StackText {
    /// For people: the instruction's place, and the lines of its callers.
    here: String,
    callers: String,
    /// As JSON: what is told of the instruction, without its braces, and the stack.
    code: String,
    stack: String,
}

/// Stacks that are kept; a program has few.
const MOST_KNOWN: usize = 1 << 14;

impl StackText {
    fn of(resolver: &mut Resolver, hit: &Hit) -> Self {
        let code = resolver.code_name(hit.ip);
        let stack: Vec<_> = hit.stack.iter().flat_map(|&ip| calls(resolver, ip)).collect();
        let here = stack.first().map_or_else(|| hit.ip.to_string(), |(_, place)| place.clone());
        let callers = stack.iter().skip(1).map(|(_, place)| format!("\n    from {place}")).collect();
        let line = code.as_ref().and_then(|code| code.line());
        let (file, line) = line.map_or((None, None), |(file, line)| (Some(file), line));
        let code = json!({
            "function": code.as_ref().and_then(|code| code.function.as_deref()),
            "offset": code.as_ref().map(|code| code.offset), "file": file, "line": line,
        });
        let code = code.to_string().trim_matches(['{', '}']).to_owned();
        let stack = Value::from_iter(stack.iter().map(|(call, _)| call_json(call))).to_string();
        Self { here, callers, code, stack }
    }
}

impl HitLog<'_> {
    fn line(&mut self, at: &mut HitPlace<'_>, hit: &Hit) -> String {
        let watch = at.expression;
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let key = (at.pid, hit.ip, hit.stack.clone());
        let known = self.known.entry(key).or_insert_with(|| StackText::of(at.resolver, hit));
        let old = hit.old.map(|old| format!("{old:#x}"));
        let (kind, thread, new) = (hit.kind, hit.thread, hit.new);
        let field = self.fields.name(at.resolver, hit.ip, hit.addr);
        let variable = field.unwrap_or_else(|| at.resolver.data_text(hit.addr, 0));
        if self.json {
            let (watch, code, stack) = (Value::from(watch), &known.code, &known.stack);
            let variable = Value::from(variable);
            let old = old.map_or("null".to_owned(), |old| format!("\"{old}\""));
            return format!(
                "{{\"watch\":{watch},\"variable\":{variable},\"kind\":\"{kind}\",{code},\"pid\":{},\"thread\":{thread},\"old\":{old},\"new\":\"{new:#x}\",\"cycle\":{},\"stack\":{stack}}}",
                at.pid, hit.cycle
            );
        }
        let process = if at.is_first { String::new() } else { format!(" of process {}", at.pid) };
        let (old, here, callers) = (old.as_deref().unwrap_or("?"), &known.here, &known.callers);
        format!(
            "{watch}: {kind} of {variable} by thread {thread}{process} in {here}: {old} -> {new:#x}{callers}"
        )
    }
}

impl HitReport for HitLog<'_> {
    fn hit(&mut self, at: &mut HitPlace<'_>, hit: &Hit) -> io::Result<()> {
        let line = self.line(at, hit);
        writeln!(self.out, "{line}")?;
        if hit.stops {
            self.out.flush()?;
            self.stop.wait(at.pid, at.is_continued);
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.known.clear();
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
