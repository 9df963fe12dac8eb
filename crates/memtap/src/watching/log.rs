//! Hits as lines: for people, or as JSON.

use std::io::Write;

use anyhow::{Context, Result};
use memref::VirtAddr;
use serde_json::{Value, json};
use symbols::Resolver;

use super::list::Wanted;
use super::live::{Place, Report};
use super::stop::Stop;
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

/// One frame of a stack: a function that was called, or one that was inlined into it.
struct Frame {
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    /// For people: with the distance from the function's begin.
    place: String,
}

/// The frames of an address, the innermost inlined one first.
fn frames(resolver: &mut Resolver, ip: VirtAddr) -> Vec<Frame> {
    let Some(code) = resolver.code_name(ip) else {
        return vec![Frame { function: None, file: None, line: None, place: ip.to_string() }];
    };
    let mut all: Vec<Frame> = code
        .frames()
        .iter()
        .map(|frame| Frame {
            function: frame.function.as_deref().map(str::to_owned),
            file: frame.line.as_ref().map(|line| line.file.to_string()),
            line: frame.line.as_ref().and_then(|line| line.line),
            place: frame.function.as_deref().unwrap_or_default().to_owned(),
        })
        .collect();
    if all.is_empty() {
        all.push(Frame { function: None, file: None, line: None, place: String::new() });
    }
    // The symbol's name is that of the outermost one, and the only one without debug information.
    if let Some(outer) = all.last_mut() {
        outer.function = code.function.as_deref().map(str::to_owned);
        outer.place = code.to_string();
    }
    all
}

impl Frame {
    fn text(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{} ({file}:{line})", self.place),
            _ => self.place.clone(),
        }
    }

    fn json(&self) -> Value {
        json!({ "function": self.function, "file": self.file, "line": self.line })
    }
}

impl Log<'_> {
    fn line(&self, at: &mut Place<'_>, hit: &Hit) -> String {
        let code = at.resolver.code_name(hit.ip);
        let stack: Vec<Frame> = hit.stack.iter().flat_map(|&ip| frames(at.resolver, ip)).collect();
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
                "cycle": hit.cycle, "stack": stack.iter().map(Frame::json).collect::<Vec<_>>(),
            })
            .to_string();
        }
        let variable = at.resolver.data_text(hit.addr, 0);
        let old = hit.old.map_or("?".to_owned(), hex);
        let process = if at.is_first { String::new() } else { format!(" of process {}", at.pid) };
        let here = stack.first().map_or_else(|| hit.ip.to_string(), Frame::text);
        let mut text = format!(
            "{watch}: {} of {variable} by thread {}{process} in {here}: {old} -> {}",
            hit.kind,
            hit.thread,
            hex(hit.new)
        );
        for frame in stack.iter().skip(1) {
            text.push_str("\n    from ");
            text.push_str(&frame.text());
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
