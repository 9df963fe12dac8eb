//! DHAT's file, version 2, as `dh_view.html` loads it: what happened to heap blocks, by the stack that allocated them.
//!
//! Mappings are not part of the heap. Times are instructions of all threads. A reallocation is an allocation of its own, with its
//! own stack. DHAT counts it under the first stack of the block, so stacks differ where blocks are reallocated; totals do not.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::stack::EnteredBy;
use analysis::{BlockUse, BlockUses, Session};
use serde_json::{Value, json};
use symbols::CodeId;

/// So many accesses of a byte are many: what the viewer shows as infinite.
const MANY: u64 = 0xffff;

/// Frames of the file, each written once.
struct FrameTable<'a> {
    session: &'a Session,
    frames: Vec<String>,
    number_of: HashMap<String, usize>,
    of_code: HashMap<CodeId, Vec<usize>>,
}

impl FrameTable<'_> {
    fn number(&mut self, frame: String) -> usize {
        let next = self.frames.len();
        let number = *self.number_of.entry(frame.clone()).or_insert(next);
        if number == next {
            self.frames.push(frame);
        }
        number
    }

    /// The functions at an instruction, innermost first.
    fn of(&mut self, code: CodeId) -> Vec<usize> {
        if let Some(known) = self.of_code.get(&code) {
            return known.clone();
        }
        let mut numbers = Vec::new();
        match self.session.names().code(code) {
            None => numbers.push(self.number("0x0: ???".to_owned())),
            Some(name) => {
                let address = name.place().map_or(name.offset, |(_, address)| address.0);
                for call in name.calls() {
                    let function = call.function.as_deref().unwrap_or("???");
                    let place = match (&call.file, call.line, &name.module) {
                        (Some(file), Some(line), _) => {
                            format!(" ({}:{line})", file.rsplit('/').next().unwrap_or(file))
                        }
                        (_, _, Some(module)) => format!(" (in {module})"),
                        _ => String::new(),
                    };
                    numbers.push(
                        self.number(format!("{address:#X}: {function}{place}").replacen("0X", "0x", 1)),
                    );
                }
            }
        }
        self.of_code.insert(code, numbers.clone());
        numbers
    }
}

/// Writes the profile of a session.
///
/// # Errors
/// Where the output can't be written.
pub fn dhat(session: &Session, uses: &BlockUses, out: &mut dyn Write) -> io::Result<()> {
    let mut table = FrameTable {
        session,
        frames: vec!["[root]".to_owned()],
        number_of: HashMap::new(),
        of_code: HashMap::new(),
    };
    table.number_of.insert("[root]".to_owned(), 0);
    let mut points = Vec::new();
    for point in uses.points().iter().filter(|point| !point.is_mapping) {
        let mut stack = table.of(point.code);
        for (_, context) in uses.contexts().outwards(point.context) {
            match context.entry {
                EnteredBy::Call(site) => stack.extend(table.of(site)),
                EnteredBy::Begin => {}
                root => stack.push(table.number(format!("0x0: {root}"))),
            }
        }
        points.push(to_json(point, &stack));
    }
    let file = json!({
        "dhatFileVersion": 2,
        "mode": "heap",
        "verb": "Allocated",
        "bklt": true,
        "bkacc": true,
        "tu": "instrs",
        "Mtu": "Minstr",
        "tuth": 500,
        "cmd": crate::title(session),
        "pid": 0,
        "te": uses.time(),
        "tg": uses.peak_time(),
        "pps": points,
        "ftbl": table.frames,
    });
    writeln!(out, "{file}")
}

fn to_json(point: &BlockUse, stack: &[usize]) -> Value {
    let mut object = json!({
        "tb": point.total.bytes, "tbk": point.total.blocks,
        "tl": point.lifetimes,
        "mb": point.most.bytes, "mbk": point.most.blocks,
        "gb": point.peak.bytes, "gbk": point.peak.blocks,
        "eb": point.live.bytes, "ebk": point.live.blocks,
        "rb": point.read_bytes, "wb": point.written_bytes,
        "fs": stack,
    });
    if !point.histogram.is_empty() {
        object["acc"] = run_lengths(&point.histogram).into();
    }
    object
}

/// Equal neighbours are their number, negative, and one of them.
fn run_lengths(counts: &[u64]) -> Vec<i64> {
    let mut coded = Vec::new();
    for run in counts.chunk_by(|a, b| a == b) {
        if run.len() > 1 {
            coded.push(-(run.len() as i64));
        }
        coded.push(run[0].min(MANY) as i64);
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_equal_counts_are_short() {
        assert_eq!(run_lengths(&[6, 6, 6, 6, 0, 3, 0, 0]), [-4, 6, 0, 3, -2, 0]);
        assert_eq!(run_lengths(&[1 << 40]), [0xffff]);
    }
}
