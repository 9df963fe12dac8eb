//! Hits as lines: for people, or as JSON.

use std::io::Write;

use anyhow::{Context, Result};
use memref::VirtAddr;
use serde_json::json;
use symbols::{Call, Resolver};

use super::list::Wanted;
use super::live::{Place, Report};
use super::stop::Stop;
use crate::output::call_json;
use crate::record::Hit;

/// Writes hits.
pub(crate) struct Log<'a> {
    /// Where to.
    pub(crate) out: Box<dyn Write + 'a>,
    /// The expressions by their number.
    pub(crate) wanted: &'a [Wanted],
    /// One object a line.
    pub(crate) json: bool,
    /// Who waits at a stopped program.
    pub(crate) stop: Stop,
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

impl Log<'_> {
    fn line(&self, at: &mut Place<'_>, hit: &Hit) -> String {
        let code = at.resolver.code_name(hit.ip);
        let stack: Vec<_> = hit.stack.iter().flat_map(|&ip| calls(at.resolver, ip)).collect();
        let watch = self.wanted.get(hit.watch as usize).map_or("", |(expression, _)| expression.as_str());
        let hex = |value: u64| format!("{value:#x}");
        if self.json {
            let line = code.as_ref().and_then(|code| code.line());
            let (file, line) = line.map_or((None, None), |(file, line)| (Some(file), line));
            return json!({
                "watch": watch, "kind": hit.kind.name(),
                "function": code.as_ref().and_then(|code| code.function.as_deref()),
                "offset": code.as_ref().map(|code| code.offset), "file": file, "line": line,
                "pid": at.pid, "thread": hit.thread, "old": hit.old.map(hex), "new": hex(hit.new),
                "cycle": hit.cycle, "stack": stack.iter().map(|(call, _)| call_json(call)).collect::<Vec<_>>(),
            })
            .to_string();
        }
        let variable = at.resolver.data_text(hit.addr, 0);
        let old = hit.old.map_or("?".to_owned(), hex);
        let process = if at.is_first { String::new() } else { format!(" of process {}", at.pid) };
        let here = stack.first().map_or_else(|| hit.ip.to_string(), |(_, place)| place.clone());
        let mut text = format!(
            "{watch}: {} of {variable} by thread {}{process} in {here}: {old} -> {}",
            hit.kind,
            hit.thread,
            hex(hit.new)
        );
        for (_, place) in stack.iter().skip(1) {
            text.push_str("\n    from ");
            text.push_str(place);
        }
        text
    }
}

impl Report for Log<'_> {
    fn hit(&mut self, at: &mut Place<'_>, hit: &Hit) -> Result<()> {
        let line = self.line(at, hit);
        writeln!(self.out, "{line}").context(FAILED)?;
        if hit.stops {
            self.out.flush().context(FAILED)?;
            self.stop.wait(at.pid, at.is_continued);
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<()> {
        self.out.flush().context(FAILED)
    }
}

const FAILED: &str = "the log of hits can't be written";
