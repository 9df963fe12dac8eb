//! The output of memtap for a trace, parsed from its output formats. The keys are part of the command line's contract.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::{Counts, Finished, Reference, Tally, memtap, parse_lackey, run};

/// A trace file.
#[derive(Debug)]
pub struct Trace {
    /// Where it is.
    pub path: PathBuf,
    /// Keeps its directory, where that is its own.
    _dir: Option<tempfile::TempDir>,
}

/// One row of `report --by variable --json`.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are the keys")]
pub struct VariableRow {
    pub name: String,
    pub region: String,
    pub counts: Counts,
}

/// A block that a thread entered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct EnteredBlock {
    pub cycle: u64,
    pub thread: u32,
    pub ip: u64,
    pub instructions: u64,
    /// The name of its first instruction; of a machine empty.
    pub code: String,
}

impl Trace {
    /// The trace at that path.
    pub fn at(path: PathBuf) -> Self {
        Self { path, _dir: None }
    }

    /// The trace of that name in a directory that goes with it.
    pub fn within(dir: tempfile::TempDir, name: &str) -> Self {
        Self { path: dir.path().join(name), _dir: Some(dir) }
    }

    /// Runs `memtap COMMAND FILE OPTIONS`.
    pub fn ask(&self, command: &str, options: &[&str]) -> Finished {
        run(Command::new(memtap()).arg(command).arg(&self.path).args(options), b"")
    }

    fn answer(&self, command: &str, options: &[&str]) -> String {
        let outcome = self.ask(command, options);
        assert_eq!(outcome.status, 0, "memtap {command} {options:?}: {}", outcome.err());
        String::from_utf8(outcome.stdout).expect("memtap writes UTF-8")
    }

    /// `stat --json`.
    pub fn stat(&self) -> Value {
        serde_json::from_str(&self.answer("stat", &["--json"])).expect("stat --json is JSON")
    }

    /// One number of `stat --json`.
    pub fn number(&self, key: &str) -> u64 {
        let stat = self.stat();
        stat[key].as_u64().unwrap_or_else(|| panic!("stat --json has no number {key}: {stat}"))
    }

    /// `report --by variable --json`.
    pub fn variables(&self) -> Vec<VariableRow> {
        let rows: Vec<Value> = serde_json::from_str(&self.answer("report", &["--by", "variable", "--json"]))
            .expect("report --json is an array");
        let number =
            |row: &Value, key: &str| row[key].as_u64().unwrap_or_else(|| panic!("no {key} in {row}"));
        let text = |row: &Value, key: &str| {
            row[key].as_str().unwrap_or_else(|| panic!("no {key} in {row}")).to_owned()
        };
        rows.iter()
            .map(|row| VariableRow {
                name: text(row, "name"),
                region: text(row, "region"),
                counts: Counts {
                    loads: number(row, "loads"),
                    stores: number(row, "stores"),
                    modifies: number(row, "modifies"),
                },
            })
            .collect()
    }

    /// `dump --format lackey`.
    pub fn references(&self) -> Vec<Reference> {
        parse_lackey(&self.answer("dump", &["--format", "lackey"]))
    }

    /// `dump --stream flow`: of a machine its processors are the threads.
    pub fn flow(&self) -> Vec<EnteredBlock> {
        let text = self.answer("dump", &["--stream", "flow"]);
        let entered = |line: &str| -> Option<EnteredBlock> {
            let mut words = line.split(' ');
            let cycle = words.next()?.parse().ok()?;
            let thread = words.nth(1)?.parse().ok()?;
            let ip = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
            let instructions = words.next()?.parse().ok()?;
            Some(EnteredBlock {
                cycle,
                thread,
                ip,
                instructions,
                code: words.nth(1).unwrap_or_default().to_owned(),
            })
        };
        text.lines()
            .map(|line| entered(line).unwrap_or_else(|| panic!("no entry of a block: {line}")))
            .collect()
    }

    /// `dump --format jsonl`, one object an event.
    pub fn events(&self) -> Vec<Value> {
        let text = self.answer("dump", &["--format", "jsonl"]);
        // `parse` is compiled with serde_json, and optimised; `from_str` would be compiled here.
        text.lines().map(|l| l.parse().unwrap_or_else(|e| panic!("{e} in {l}"))).collect()
    }

    /// `dump --format symbolic`, line by line.
    pub fn symbolic(&self) -> Vec<String> {
        self.answer("dump", &["--format", "symbolic"]).lines().map(str::to_owned).collect()
    }

    /// All single accesses to one variable, or to the blocks that one function allocates.
    pub fn tally(&self, events: &[Value], name: &str) -> Tally {
        let mut tally = Tally::default();
        for event in events {
            let kind = match event["type"].as_str() {
                Some("load") => 'L',
                Some("store") => 'S',
                Some("modify") => 'M',
                _ => continue,
            };
            if event["variable"].as_str().is_some_and(|variable| is_named(variable, name)) {
                tally.count(kind, event["size"].as_u64().unwrap_or_else(|| panic!("no size in {event}")));
            }
        }
        tally
    }
}

/// Whether a name in a report is the one a program's head means: `<malloc@make>` stands for the blocks of all calls in
/// `make`, a variable for its fields and elements and, within its function, for `function::variable`.
pub fn is_named(reported: &str, name: &str) -> bool {
    if let Some((kind, function)) =
        name.strip_prefix('<').and_then(|n| n.strip_suffix('>')).and_then(|n| n.split_once('@'))
    {
        let Some((number, place)) =
            reported.strip_prefix('<').and_then(|r| r.strip_prefix(kind)).and_then(|r| r.split_once('@'))
        else {
            return false;
        };
        return number.bytes().all(|b| b.is_ascii_digit())
            && place.strip_prefix(function).is_some_and(|rest| rest.starts_with(['+', '(', '>']));
    }
    if reported.starts_with('<') {
        return false;
    }
    let whole = reported.split(['.', '[', '+']).next().unwrap_or(reported);
    whole == name || whole.strip_suffix(name).is_some_and(|rest| rest.ends_with("::"))
}

/// The counts of all rows that one name means.
pub fn total_of(rows: &[VariableRow], name: &str) -> Counts {
    let named = rows.iter().filter(|row| is_named(&row.name, name)).map(|row| row.counts);
    named.fold(Counts::default(), |a, b| Counts {
        loads: a.loads + b.loads,
        stores: a.stores + b.stores,
        modifies: a.modifies + b.modifies,
    })
}

#[cfg(test)]
mod tests {
    use super::is_named;

    fn check(reported: &str, name: &str, expect: bool) {
        assert_eq!(is_named(reported, name), expect, "{reported} against {name}");
    }

    #[test]
    fn names_in_reports_are_recognised() {
        check("counter", "counter", true);
        check("counters", "counter", false);
        check("count::calls", "calls", true);
        check("frame.pixels[3].red", "frame", true);
        check("calls.0", "calls", true);
        check("<malloc0014@func1+230>", "<malloc@func1>", true);
        check("<malloc0014@func12+230>", "<malloc@func1>", false);
        check("<malloc0014@make(int)+230>", "<malloc@make>", true);
        check("<calloc0014@func1+230>", "<malloc@func1>", false);
        check("<freed:0014@func1+230>", "<freed:@func1>", true);
        check("<malloc0014@func1+230>", "func1", false);
    }
}
