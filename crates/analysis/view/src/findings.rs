//! Findings of the whole run: memory errors, data races, shared cache lines and how the fields of types are used, as `memtap errors`,
//! `race`, `lines` and `layout` print them as JSON.

use std::io::Write;
use std::sync::{Arc, PoisonError};

use analysis::errors::FoundErrors;
use analysis::layout::TypeUses;
use analysis::lines::LineUses;
use analysis::race::FoundRaces;
use analysis::{Error, Session};
use memref::ThreadId;
use report::tables::errors::errors_json;
use report::tables::findings;
use report::tables::layouts::layouts_json;
use report::tables::lines::lines_json;
use serde_json::{Value, json};

use crate::error::Refusal;
use crate::map::TraceMap;
use crate::pending_requests::PendingRequests;
use crate::table::superseded;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindingKind {
    Errors,
    Races,
    Lines,
    Layout,
}

impl FindingKind {
    pub(crate) const ALL: [Self; 4] = [Self::Errors, Self::Races, Self::Lines, Self::Layout];

    /// The name of the command that finds it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Races => "race",
            Self::Lines => "lines",
            Self::Layout => "layout",
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FindingsRequest {
    pub(crate) kind: FindingKind,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

/// What was found, and what has to be known about it.
#[derive(Debug)]
struct Findings {
    json: Vec<u8>,
    notes: Vec<String>,
}

impl TraceMap {
    /// Looks for something in the whole trace.
    pub(crate) fn findings(
        &self,
        request: &FindingsRequest,
        pending: &PendingRequests,
    ) -> Result<String, Refusal> {
        let waiting = pending.begin(request.asker);
        // One at a time: each needs memory for all stacks.
        let turn = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        let session = self.session.read_for(waiting.clone());
        let found = match request.kind {
            FindingKind::Errors => errors(&session),
            FindingKind::Races => races(&session),
            FindingKind::Lines => lines(&session),
            FindingKind::Layout => layout(&session),
        };
        drop(turn);
        pending.end(request.asker, &waiting);
        let Findings { json, notes } = superseded(found.map_err(Refusal::from), &waiting)?;
        let rows: Value = serde_json::from_slice(&json).unwrap_or_default();
        let mut listed = self.listed_files.lock().unwrap_or_else(PoisonError::into_inner);
        list_files(&rows, &mut |file| _ = listed.insert(file.to_owned()));
        let times = self.times_of(&rows);
        Ok(json!({"kind": request.kind.name(), "rows": rows, "times": times, "notes": notes}).to_string())
    }
}

impl TraceMap {
    /// When each finding was seen first, where that is known.
    fn times_of(&self, rows: &Value) -> Vec<Option<u64>> {
        let time = |row: &Value| {
            let first = row.get("first_seen")?;
            let number = |key: &str| first.get(key).and_then(Value::as_u64);
            let thread = ThreadId(u32::try_from(number("thread")?).ok()?);
            Some(self.clock.as_ref()?.at(thread, number("cycle")?))
        };
        rows.as_array().into_iter().flatten().map(time).collect()
    }
}

/// Files that findings are in may be shown.
fn list_files(value: &Value, list: &mut impl FnMut(&str)) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| list_files(element, list)),
        Value::Object(members) => {
            if let Some(file) = members.get("file").and_then(Value::as_str) {
                list(file);
            }
            members.values().for_each(|member| list_files(member, list));
        }
        _ => {}
    }
}

fn written(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<Vec<u8>, Error> {
    let mut json = Vec::new();
    write(&mut json).map_err(Error::Output)?;
    Ok(json)
}

fn missing(events: u64) -> Option<String> {
    (events > 0)
        .then(|| format!("{} from the trace, so this may be incomplete, or wrong.", report::missing(events)))
}

fn errors(session: &Session) -> Result<Findings, Error> {
    let found = FoundErrors::of(session)?;
    let json = written(|out| errors_json(&found.errors, found.missing > 0, out))?;
    Ok(Findings { json, notes: missing(found.missing).into_iter().collect() })
}

fn races(session: &Session) -> Result<Findings, Error> {
    let FoundRaces { races, runtimes, possibly_ordered } = FoundRaces::of(session)?;
    let mut notes = Vec::new();
    if races.iter().any(|race| race.uncertain) {
        notes.push("Events are missing from the trace; they could have ordered what is reported.".to_owned());
    }
    if !runtimes.is_empty() {
        let names: Vec<String> = runtimes.into_iter().collect();
        notes.push(format!(
            "What threads do inside of {} is not modelled, so races may be missed.",
            names.join(", ")
        ));
    }
    if possibly_ordered > 0 {
        notes.push(format!(
            "{possibly_ordered} more are not reported, because atomic variables may order them."
        ));
    }
    Ok(Findings { json: written(|out| findings(&races, true, "", out))?, notes })
}

fn lines(session: &Session) -> Result<Findings, Error> {
    let uses = LineUses::of(session)?;
    let gone = uses.missing;
    let groups = uses.groups(session);
    Ok(Findings {
        json: written(|out| lines_json(&groups, gone > 0, out))?,
        notes: missing(gone).into_iter().collect(),
    })
}

fn layout(session: &Session) -> Result<Findings, Error> {
    let heap = session.heap_blocks()?;
    let uses = TypeUses::new(session, Arc::clone(&heap)).replay(session)?;
    let (covered, accesses) = (uses.covered(), heap.share().accesses);
    let mut notes = Vec::new();
    if !heap.has_debug_info() && accesses > 0 {
        notes.push(
            "The code that accesses heap blocks has no debug information, so nothing has a type; build with -g."
                .to_owned(),
        );
    } else if accesses > 0 {
        notes.push(format!(
            "{:.1} % of {} accesses to heap blocks have a type.",
            covered * 100.0,
            report::grouped(accesses)
        ));
    }
    let types = uses.types_used();
    let gone = heap.missing();
    if gone > 0 {
        notes.push(format!("{} from the trace; fields may be used more than shown.", report::missing(gone)));
    }
    Ok(Findings { json: written(|out| layouts_json(&types, out))?, notes })
}

#[cfg(test)]
mod tests {
    use memref::{Access, AccessKind, Event, OrderMark, VirtAddr};
    use trace_format::{CreateOptions, ProcessRecord, ThreadRecord, TraceWriter};

    use super::*;

    /// Both threads write the same bytes, and the trace does not say what orders them: the command refuses it, too.
    #[test]
    fn without_synchronisation_nothing_is_called_a_race() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let writer = TraceWriter::create(&path, CreateOptions::default()).unwrap();
        let process = writer.add_process(&ProcessRecord { pid: 1, ..ProcessRecord::default() }).unwrap();
        for order in 1..3 {
            let thread = writer.add_thread(&ThreadRecord { process, ..ThreadRecord::default() }).unwrap();
            let mut shard = writer.shard(thread).unwrap();
            shard.push(&Event::Order(OrderMark { cycle: 0, order })).unwrap();
            let (addr, kind) = (VirtAddr(0x10_0000), AccessKind::Store);
            shard.push(&Event::Access(Access { cycle: 1, ip: VirtAddr(1), addr, size: 4, kind })).unwrap();
        }
        writer.finish().unwrap();
        let map = TraceMap::new(Session::open(&path).unwrap(), &mut |_| ()).unwrap();
        let request = FindingsRequest { kind: FindingKind::Races, asker: None };
        let refusal = map.findings(&request, &PendingRequests::default()).unwrap_err();
        assert_eq!(refusal.status, 404);
        assert!(refusal.line.contains("no synchronisation events"), "{}", refusal.line);
    }

    #[test]
    fn files_of_findings_are_listed_wherever_they_are() {
        let mut files = Vec::new();
        let rows = json!([{"file": "a.c", "stack": [{"file": "b.c"}, {"file": null}]}, {"access": {"own": {"file": "c.c"}}}, 5]);
        list_files(&rows, &mut |file| files.push(file.to_owned()));
        files.sort();
        assert_eq!(files, ["a.c", "b.c", "c.c"]);
    }
}
