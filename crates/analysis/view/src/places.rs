//! From a name or an address to a place on the map.

use memref::ProcessId;
use serde_json::{Value, json};

use crate::error::Refusal;
use crate::map::TraceMap;

/// Places that are told at most.
const MOST_PLACES: usize = 30;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceRequest {
    pub(crate) process: ProcessId,
    /// An address as `0x1000`, or a variable as `memtap watch` takes them (`table[3].key`), or a part of its name.
    pub(crate) name: String,
}

/// Bytes that have a name.
struct NamedPlace {
    name: String,
    start: u64,
    bytes: u64,
}

impl TraceMap {
    /// The places of a name that something was accessed in or near; of a function, which accesses others' places, its name.
    pub(crate) fn places(&self, request: &PlaceRequest) -> Result<Value, Refusal> {
        let PlaceRequest { process, name } = request;
        if let Some(function) = self.function(*process, name) {
            return Ok(json!({"found": [], "more": 0, "function": function}));
        }
        let found = match name.strip_prefix("0x") {
            Some(digits) => {
                let start = u64::from_str_radix(digits, 16);
                let start =
                    start.map_err(|_| Refusal::wrong("name: an address is hexadecimal, as 0x7ffe10"))?;
                vec![NamedPlace { name: name.clone(), start, bytes: 1 }]
            }
            None => self.named(*process, name)?,
        };
        let any = found.len();
        let mut seen: Vec<NamedPlace> =
            found.into_iter().filter(|place| self.is_seen(*process, place)).collect();
        if seen.is_empty() {
            let line = match any {
                0 => format!("nothing is called {name}"),
                _ => format!("{name}: nothing was accessed in its pages"),
            };
            return Err(Refusal::new(404, line));
        }
        let more = seen.len().saturating_sub(MOST_PLACES);
        seen.truncate(MOST_PLACES);
        let place = |place: &NamedPlace| json!({"name": place.name, "start": format!("{:#x}", place.start), "bytes": place.bytes});
        Ok(json!({"found": seen.iter().map(place).collect::<Vec<_>>(), "more": more}))
    }

    /// The static variables of a name, or those whose names contain it, shorter ones first.
    fn named(&self, process: ProcessId, name: &str) -> Result<Vec<NamedPlace>, Refusal> {
        let Some(resolver) = self.resolvers.iter().find(|resolver| resolver.process() == process) else {
            return Ok(Vec::new());
        };
        let image = resolver.image();
        let failed = match image.find_variable(name) {
            Ok(places) => {
                let place = |place: symbols::Place| NamedPlace {
                    name: place.name,
                    start: place.addr.0,
                    bytes: place.len.max(1),
                };
                return Ok(places.into_iter().map(place).collect());
            }
            Err(failed) => failed,
        };
        let part = name.to_lowercase();
        let mut all: Vec<NamedPlace> = image
            .variables()
            .into_iter()
            .filter(|variable| variable.name.to_lowercase().contains(&part))
            .map(|variable| NamedPlace {
                name: variable.name,
                start: variable.addr.0,
                bytes: variable.bytes.max(1),
            })
            .collect();
        all.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
        match all.is_empty() {
            // It says which names are near, or which field there is none of.
            true => Err(Refusal::new(404, failed.to_string().replace('\n', " "))),
            false => Ok(all),
        }
    }

    /// The function of that name, unless a variable has it as well.
    fn function(&self, process: ProcessId, name: &str) -> Option<String> {
        let image = self.resolvers.iter().find(|resolver| resolver.process() == process)?.image();
        if image.find_variable(name).is_ok() {
            return None;
        }
        image.find_function(name).ok()?.into_iter().next().map(|function| function.name)
    }

    fn is_seen(&self, process: ProcessId, place: &NamedPlace) -> bool {
        let runs = self.processes.get(&process).map_or(&[][..], |process| &process.axis.runs);
        let end = place.start.saturating_add(place.bytes);
        runs.iter().any(|run| run.start < end && place.start < run.start + run.len)
    }
}
