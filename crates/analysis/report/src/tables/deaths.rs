//! Processes that were killed by a signal, with names.

use std::fmt;

use analysis::{Death, Session};
use memref::{ProcessId, VirtAddr};
use serde_json::{Value, json};

use crate::Error;

/// A process that a signal ended.
#[derive(Clone, Debug)]
pub struct NamedDeath {
    death: Death,
    /// The path of what it ran; empty where that is not known.
    program: String,
    /// The instruction's function or module.
    place: Option<String>,
}

/// The processes of a trace that a signal ended.
///
/// # Errors
/// Where the trace can't be read.
pub fn deaths(session: &Session) -> Result<Vec<NamedDeath>, Error> {
    named(session, session.deaths()?)
}

/// The same, of deaths that were read already.
pub(super) fn named(session: &Session, deaths: Vec<Death>) -> Result<Vec<NamedDeath>, Error> {
    if deaths.is_empty() {
        return Ok(Vec::new());
    }
    let mut resolvers = session.regions_at_end()?;
    let mut place = |process: ProcessId, ip: VirtAddr| {
        let resolver = resolvers.iter_mut().find(|resolver| resolver.process() == process);
        let code = resolver.and_then(|resolver| resolver.code_name(ip));
        let Some(code) = code else { return ip.to_string() };
        let frame = code.frames().first();
        match frame.and_then(|frame| frame.line.as_ref()) {
            Some(line) => format!("{code}{}", super::place(Some(&line.file), line.line)),
            None => code.to_string(),
        }
    };
    let program = |process: ProcessId| {
        let record = session.trace().process(process);
        record.map(|record| record.exe.clone()).unwrap_or_default()
    };
    let named = |death: Death| NamedDeath {
        program: program(death.process),
        place: death.is_placed().then(|| place(death.process, death.ip)),
        death,
    };
    Ok(deaths.into_iter().map(named).collect())
}

impl fmt::Display for NamedDeath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { death, program, place } = self;
        let program = if program.is_empty() { "a program" } else { program };
        write!(f, "{program} ended by {}", death.signal)?;
        if let Some(fault) = &death.fault {
            write!(f, " ({} at {})", fault.code, fault.addr)?;
        }
        if let Some(place) = place {
            write!(f, " in {place}")?;
        }
        match death.thread {
            Some(thread) => write!(f, ", process {}, thread {}", death.process.0, thread.0),
            None => write!(f, ", process {}", death.process.0),
        }
    }
}

impl NamedDeath {
    pub(super) fn to_json(&self) -> Value {
        let Self { death, program, place } = self;
        json!({
            "program": program,
            "process": death.process.0,
            "thread": death.thread.map(|thread| thread.0),
            "signal": death.signal,
            "code": death.fault.as_ref().map(|fault| &fault.code),
            "address": death.fault.as_ref().map(|fault| fault.addr.to_string()),
            "ip": place.as_ref().map(|_| death.ip.to_string()),
            "place": place,
        })
    }
}
