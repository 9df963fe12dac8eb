//! The parameters of a request: the words after the `?`, none of which is trusted.

use std::collections::BTreeMap;
use std::ops::Range;

use analysis::By;
use analysis::machine::PartBy;
use memref::{ProcessId, ThreadId};

use crate::accesses::{AccessRequest, SinglesRequest, Way};
use crate::blocks::BlocksRequest;
use crate::compare::{CompareRequest, ComparedBy};
use crate::error::Refusal;
use crate::findings::{FindingKind, FindingsRequest};
use crate::flame::FlameRequest;
use crate::lanes::LanesRequest;
use crate::machine::MachineTable;
use crate::map::{MappedProcess, TraceMap};
use crate::part::{MapPart, TimeAxis};
use crate::places::PlaceRequest;
use crate::table::TableRequest;
use crate::tile::{CountedKinds, TileRequest};

/// Columns or rows of a tile at most.
const MOST_SIDE: u64 = 4096;
/// Cells of a tile at most.
const MOST_CELLS: u64 = 1 << 22;

/// Columns of a lane at most.
const MOST_LANE: u64 = 1_024;

/// Bytes of a text at most.
const MOST_TEXT: usize = 4_096;

/// The tables that there are. Those that follow stacks need the whole run, and are left to `memtap report`.
const TABLES: [By; 8] =
    [By::Variable, By::Field, By::Type, By::Function, By::Line, By::Thread, By::Page, By::Region];

/// Those of a machine.
const MACHINE_TABLES: [(PartBy, &str); 3] =
    [(PartBy::Variable, "variable"), (PartBy::Function, "function"), (PartBy::Process, "process")];

/// The keys and values of a request.
#[derive(Debug, Default)]
pub(crate) struct Parameters<'a> {
    given: BTreeMap<&'a str, &'a str>,
}

/// A number: decimal, or hexadecimal after `0x`.
fn number(key: &str, value: &str) -> Result<u64, Refusal> {
    let parsed = match value.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if value.bytes().all(|byte| byte.is_ascii_digit()) => value.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| Refusal::wrong(format!("{key}: a number from 0 to {} is needed", u64::MAX)))
}

/// A text as forms encode it: `+` is a space, `%` with two hexadecimal digits a byte of UTF-8.
fn text(key: &str, value: &str) -> Result<String, Refusal> {
    let wrong = || {
        Refusal::wrong(format!("{key}: a text of at most {MOST_TEXT} bytes is needed, encoded as forms are"))
    };
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) =
                    (digit(rest.next()).ok_or_else(wrong)?, digit(rest.next()).ok_or_else(wrong)?);
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    if text.trim().is_empty() || text.len() > MOST_TEXT { Err(wrong()) } else { Ok(text.trim().to_owned()) }
}

impl<'a> Parameters<'a> {
    /// Takes a query apart.
    pub(crate) fn parse(query: &'a str) -> Result<Self, Refusal> {
        let mut given = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(Refusal::wrong("a parameter has no value"));
            };
            if given.insert(key, value).is_some() {
                return Err(Refusal::wrong("a parameter is given twice"));
            }
        }
        Ok(Self { given })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        self.given.remove(key)
    }

    /// Which of so many runs is meant: the first where none is named.
    pub(crate) fn run(&mut self, runs: usize) -> Result<usize, Refusal> {
        let run = self.number("run")?.unwrap_or(0);
        usize::try_from(run)
            .ok()
            .filter(|run| *run < runs)
            .ok_or_else(|| Refusal::wrong("run: no run has that number"))
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, Refusal> {
        self.take(key).map(|value| number(key, value)).transpose()
    }

    /// Refuses what nothing is known of.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        match self.given.is_empty() {
            true => Ok(()),
            false => Err(Refusal::wrong("a parameter is not known")),
        }
    }

    /// A process; the busiest where none is named.
    fn process<'m>(&mut self, map: &'m TraceMap) -> Result<(ProcessId, &'m MappedProcess), Refusal> {
        let number = self.number("process")?;
        Self::process_of(number, map)
    }

    fn process_of(number: Option<u64>, map: &TraceMap) -> Result<(ProcessId, &MappedProcess), Refusal> {
        let process = match number {
            Some(number) => u32::try_from(number).ok().map(ProcessId),
            None => Some(map.main_process()),
        };
        let found = process.and_then(|id| Some((id, map.processes.get(&id)?)));
        found.ok_or_else(|| Refusal::wrong("process: the trace has no accesses of a process of that number"))
    }

    /// A part of a trace.
    fn part(&mut self, map: &TraceMap) -> Result<MapPart, Refusal> {
        self.part_with("", map)
    }

    /// The same, of keys that begin so.
    fn part_with(&mut self, prefix: &str, map: &TraceMap) -> Result<MapPart, Refusal> {
        let mut number = |key: &str| self.number(&format!("{prefix}{key}"));
        let (process, mapped) = Self::process_of(number("process")?, map)?;
        let thread = match number("thread")? {
            None => None,
            Some(number) => {
                let record = map
                    .session
                    .trace()
                    .threads()
                    .iter()
                    .find(|record| u64::from(record.thread.0) == number && record.process == process);
                let Some(record) = record else {
                    return Err(Refusal::wrong("thread: the process has no thread of that number"));
                };
                Some(record.thread)
            }
        };
        let (from, to) = (number("from")?, number("to")?);
        let (axis, whole) = self.time_axis(&format!("{prefix}axis"), mapped)?;
        let span = from.unwrap_or(whole.start)..to.unwrap_or(whole.end);
        if span.is_empty() {
            return Err(Refusal::wrong(
                "from, to: the first cycle or time must be less than the one after the last",
            ));
        }
        let mut number = |key: &str| self.number(&format!("{prefix}{key}"));
        let ends = || {
            Some((mapped.axis.runs.first()?.start, mapped.axis.runs.last().map(|run| run.start + run.len)?))
        };
        let (first, end) = ends().unwrap_or_default();
        let addresses = number("low")?.unwrap_or(first)..number("high")?.unwrap_or(end);
        if addresses.is_empty() {
            return Err(Refusal::wrong(
                "low, high: the first address must be less than the one after the last",
            ));
        }
        Ok(MapPart { process, thread, axis, span, addresses })
    }

    /// An axis of time, and all of it.
    fn time_axis(&mut self, key: &str, mapped: &MappedProcess) -> Result<(TimeAxis, Range<u64>), Refusal> {
        match self.take(key) {
            None | Some("cycles") => Ok((TimeAxis::Cycles, mapped.cycles.clone())),
            Some("time") => match &mapped.times {
                Some(times) => Ok((TimeAxis::Time, times.clone())),
                None => Err(Refusal::wrong("axis: the trace has no times, only cycles")),
            },
            Some(_) => Err(Refusal::wrong("axis: cycles or time")),
        }
    }

    /// A table.
    pub(crate) fn table(mut self, map: &TraceMap) -> Result<TableRequest, Refusal> {
        let part = self.part(map)?;
        let asked = self.take("by").unwrap_or("variable");
        let Some(by) = TABLES.into_iter().find(|by| by.name() == asked) else {
            let names = TABLES.map(By::name).join(", ");
            return Err(Refusal::wrong(format!("by: one of {names}")));
        };
        let asker = self.number("asker")?;
        self.finish()?;
        Ok(TableRequest { part, by, asker })
    }

    /// A table of a machine.
    pub(crate) fn machine_table(mut self, map: &TraceMap) -> Result<MachineTable, Refusal> {
        let part = self.part(map)?;
        let asked = self.take("by").unwrap_or("variable");
        let Some((by, name)) = MACHINE_TABLES.into_iter().find(|(_, name)| *name == asked) else {
            let names = MACHINE_TABLES.map(|(_, name)| name).join(", ");
            return Err(Refusal::wrong(format!("by: of a machine one of {names}")));
        };
        let asker = self.number("asker")?;
        self.finish()?;
        Ok(MachineTable { part, by, name, asker })
    }

    /// Two runs side by side. The keys of the second one's part begin with `after-`.
    pub(crate) fn compare(mut self, before: &TraceMap, after: &TraceMap) -> Result<CompareRequest, Refusal> {
        let (before, after) = (self.part(before)?, self.part_with("after-", after)?);
        let asked = self.take("by").unwrap_or("variable");
        let Some(by) = ComparedBy::ALL.into_iter().find(|by| by.name() == asked) else {
            let names = ComparedBy::ALL.map(ComparedBy::name).join(", ");
            return Err(Refusal::wrong(format!("by: one of {names}")));
        };
        let asker = self.number("asker")?;
        self.finish()?;
        Ok(CompareRequest { before, after, by, asker })
    }

    /// Findings of the whole run.
    pub(crate) fn findings(mut self) -> Result<FindingsRequest, Refusal> {
        let asked = self.take("kind").unwrap_or("errors");
        let Some(kind) = FindingKind::ALL.into_iter().find(|kind| kind.name() == asked) else {
            let names = FindingKind::ALL.map(FindingKind::name).join(", ");
            return Err(Refusal::wrong(format!("kind: one of {names}")));
        };
        let asker = self.number("asker")?;
        self.finish()?;
        Ok(FindingsRequest { kind, asker })
    }

    /// A flame graph.
    pub(crate) fn flame(mut self, map: &TraceMap) -> Result<FlameRequest, Refusal> {
        let part = self.part(map)?;
        let asker = self.number("asker")?;
        self.finish()?;
        Ok(FlameRequest { part, asker })
    }

    /// Blocks of the heap.
    pub(crate) fn blocks(mut self, map: &TraceMap) -> Result<BlocksRequest, Refusal> {
        let part = self.part(map)?;
        let least = self.number("least")?.unwrap_or(1);
        self.finish()?;
        Ok(BlocksRequest { part, least })
    }

    /// Lifetimes of blocks.
    pub(crate) fn lifetimes(mut self, map: &TraceMap) -> Result<MapPart, Refusal> {
        let part = self.part(map)?;
        // One answer is as good as another, and none takes long.
        self.number("asker")?;
        self.finish()?;
        Ok(part)
    }

    /// Lanes of threads.
    pub(crate) fn lanes(mut self, map: &TraceMap) -> Result<LanesRequest, Refusal> {
        let part = self.part(map)?;
        let width = self.number("width")?.unwrap_or(600);
        if !(1..=MOST_LANE).contains(&width) {
            return Err(Refusal::wrong(format!("width: from 1 to {MOST_LANE}")));
        }
        let what = self.kinds()?;
        let asker = self.number("asker")?;
        self.finish()?;
        // It is at most a thousand.
        Ok(LanesRequest { part, what, width: width as u32, asker })
    }

    /// Which accesses are counted.
    fn kinds(&mut self) -> Result<CountedKinds, Refusal> {
        match self.take("what") {
            None | Some("all") => Ok(CountedKinds::All),
            Some("loads") => Ok(CountedKinds::Loads),
            Some("stores") => Ok(CountedKinds::Stores),
            Some(_) => Err(Refusal::wrong("what: loads, stores or all")),
        }
    }

    /// Who waits for an answer.
    pub(crate) fn asker(mut self) -> Result<u64, Refusal> {
        let asker =
            self.number("asker")?.ok_or_else(|| Refusal::wrong("asker: the number that asked is missing"))?;
        self.finish()?;
        Ok(asker)
    }

    /// A source file.
    pub(crate) fn source(mut self) -> Result<String, Refusal> {
        let file = text("file", self.take("file").unwrap_or_default())?;
        self.finish()?;
        Ok(file)
    }

    /// What is looked for by its name or address.
    pub(crate) fn place(mut self, map: &TraceMap) -> Result<PlaceRequest, Refusal> {
        let (process, _) = self.process(map)?;
        let name = text("name", self.take("name").unwrap_or_default())?;
        self.finish()?;
        Ok(PlaceRequest { process, name })
    }

    /// An access to some bytes, before or after a moment.
    pub(crate) fn access(mut self, map: &TraceMap) -> Result<AccessRequest, Refusal> {
        let way = match self.take("way") {
            None | Some("next") => Way::Next,
            Some("previous") => Way::Previous,
            Some(_) => return Err(Refusal::wrong("way: next or previous")),
        };
        let at = self.number("at")?.unwrap_or(if way == Way::Next { 0 } else { u64::MAX });
        let entry = match (self.number("of")?, self.number("entry")?) {
            (None, None) => None,
            (Some(of), Some(entry)) => {
                let of =
                    u32::try_from(of).map_err(|_| Refusal::wrong("of: there is no thread of that number"))?;
                Some((ThreadId(of), entry))
            }
            _ => return Err(Refusal::wrong("of, entry: both or none")),
        };
        let begins = match self.take("begins") {
            None | Some("0") => false,
            Some("1") => true,
            Some(_) => return Err(Refusal::wrong("begins: 0 or 1")),
        };
        let what = self.kinds()?;
        let asker = self.number("asker")?;
        let part = self.part(map)?;
        self.finish()?;
        Ok(AccessRequest { part, what, begins, way, at, entry, asker })
    }

    /// Single accesses.
    pub(crate) fn singles(mut self, map: &TraceMap) -> Result<SinglesRequest, Refusal> {
        let what = self.kinds()?;
        let part = self.part(map)?;
        self.finish()?;
        Ok(SinglesRequest { part, what })
    }

    /// A tile.
    pub(crate) fn tile(mut self, map: &TraceMap) -> Result<TileRequest, Refusal> {
        let part = self.part(map)?;
        let width = self.number("width")?.unwrap_or(600);
        let height = self.number("height")?.unwrap_or(300);
        let sides = 1..=MOST_SIDE;
        if !sides.contains(&width) || !sides.contains(&height) || width * height > MOST_CELLS {
            return Err(Refusal::wrong(format!(
                "width, height: from 1 to {MOST_SIDE}, and at most {MOST_CELLS} cells"
            )));
        }
        let what = self.kinds()?;
        let hides_tracer = match self.take("tracer") {
            None | Some("shown") => false,
            Some("hidden") => true,
            Some(_) => return Err(Refusal::wrong("tracer: shown or hidden")),
        };
        let by_thread = match self.take("colors") {
            None | Some("counts") => false,
            Some("threads") => true,
            Some(_) => return Err(Refusal::wrong("colors: counts or threads")),
        };
        self.finish()?;
        // Both are at most 4,096.
        let (width, height) = (width as u32, height as u32);
        Ok(TileRequest { part, width, height, what, hides_tracer, by_thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_nothing_else() {
        let check = |value, expect| assert_eq!(number("from", value).ok(), expect, "{value}");
        check("0", Some(0));
        check("0x7fff0000", Some(0x7fff_0000));
        check("18446744073709551615", Some(u64::MAX));
        for wrong in ["18446744073709551616", "-1", "+1", "0x+1", "1e9", "NaN", "0x", " 1", "%31"] {
            check(wrong, None);
        }
        check("", None);
    }

    #[test]
    fn texts_are_encoded_as_forms_are() {
        let check = |value, expect: Option<&str>| {
            assert_eq!(text("name", value).ok().as_deref(), expect, "{value}");
        };
        check("table%5B3%5D.key", Some("table[3].key"));
        check("a+b%2B8", Some("a b+8"));
        check("+%20x%c3%a9", Some("x\u{e9}"));
        for wrong in ["", "+", "%", "%4", "%zz", "%+1", "%ff", &"x".repeat(MOST_TEXT + 1)] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_parameter_is_given_once_with_a_value() {
        for wrong in ["from", "from=1&from=1", "=&="] {
            assert!(Parameters::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Parameters::parse("a=1&&b=").unwrap().given.len(), 2);
    }
}
