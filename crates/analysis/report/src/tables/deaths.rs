//! Processes that a signal ended.

use std::fmt;

use analysis::Session;
use memref::{ProcessId, ThreadId, VirtAddr};
use serde_json::{Value, json};
use trace_format::{COUNTER_DEATH, CounterRecord};

use crate::Error;

/// A process that a signal ended.
#[derive(Clone, Debug)]
pub struct Death {
    /// The path of what it ran; empty where that is not known.
    program: String,
    process: ProcessId,
    /// Whose fault it was, or who sent the signal; `None` where no thread told of it.
    thread: Option<ThreadId>,
    /// As signal(7) names it.
    signal: String,
    /// Why it came, and the address concerned, where the thread's own fault was the cause.
    fault: Option<(String, String)>,
    /// The instruction, and its function or module.
    place: Option<(VirtAddr, String)>,
}

/// The processes of a trace that a signal ended.
///
/// # Errors
/// Where the trace can't be read.
pub fn deaths(session: &Session) -> Result<Vec<Death>, Error> {
    let counters = session.trace().counters()?;
    named(session, counters.into_iter().filter(|counter| counter.code == COUNTER_DEATH).collect())
}

/// What these counters of deaths tell.
pub(super) fn named(session: &Session, told: Vec<CounterRecord>) -> Result<Vec<Death>, Error> {
    if told.is_empty() {
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
        let record = session.trace().processes().iter().find(|record| record.process == process);
        record.map(|record| record.exe.clone()).unwrap_or_default()
    };
    let death = |counter: CounterRecord| {
        let mut words = counter.name.split(' ').map(str::to_owned);
        let signal = words.next().unwrap_or_default();
        Death {
            program: program(counter.process),
            process: counter.process,
            thread: counter.thread,
            signal,
            fault: words.next().zip(words.next()),
            place: (counter.ip.0 != 0 || counter.thread.is_some())
                .then(|| (counter.ip, place(counter.process, counter.ip))),
        }
    };
    Ok(told.into_iter().map(death).collect())
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = if self.program.is_empty() { "a program" } else { &self.program };
        write!(f, "{program} ended by {}", self.signal)?;
        if let Some((code, addr)) = &self.fault {
            write!(f, " ({code} at {addr})")?;
        }
        if let Some((_, place)) = &self.place {
            write!(f, " in {place}")?;
        }
        match self.thread {
            Some(thread) => write!(f, ", process {}, thread {}", self.process.0, thread.0),
            None => write!(f, ", process {}", self.process.0),
        }
    }
}

impl Death {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "program": self.program,
            "process": self.process.0,
            "thread": self.thread.map(|thread| thread.0),
            "signal": self.signal,
            "code": self.fault.as_ref().map(|(code, _)| code),
            "address": self.fault.as_ref().map(|(_, addr)| addr),
            "ip": self.place.as_ref().map(|(ip, _)| ip.to_string()),
            "place": self.place.as_ref().map(|(_, place)| place),
        })
    }
}
