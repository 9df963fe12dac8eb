//! The traces that a command reads. All commands open traces through this module,
//! so that every command reports at its end what was damaged or missing on the way.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use analysis::Session;
use analysis::machine::{GuestProgram, Machine, ProgramPlaces};
use anyhow::{Context, Result, bail};
use recorder::RemoteStore;
use symbols::{Module, SearchPath};
use trace_format::{Encoders, Limits, Trace};
use trace_server::ServerFile;

use crate::unnamed_trace::in_words;

/// Those that were opened. Clones share what they met.
static OPENED: Mutex<Vec<Trace>> = Mutex::new(Vec::new());

/// Directories with symbols; said once, before any command runs.
static SYMBOLS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// How many threads count; said once, before any command runs.
static JOBS: OnceLock<NonZero<usize>> = OnceLock::new();

/// Has traces counted by so many threads.
pub(crate) fn count_by(jobs: NonZero<usize>) {
    let _first = JOBS.set(jobs);
}

/// Looks for the files that names come from in these directories, too.
pub(crate) fn look_in(directories: Vec<PathBuf>) {
    let _first = SYMBOLS.set(directories);
}

/// Opens a trace, by its path or its address in an object store.
pub(crate) fn trace(path: &Path) -> Result<Trace> {
    let trace = open(path)?;
    remember(&trace);
    Ok(trace)
}

#[cfg(feature = "object-stores")]
fn open(path: &Path) -> Result<Trace> {
    Ok(object_traces::open(path)?)
}

#[cfg(not(feature = "object-stores"))]
fn open(path: &Path) -> Result<Trace> {
    if path.to_str().is_some_and(|path| path.contains("://")) && !path.exists() {
        bail!(
            "{}: this memtap was built without object stores; the packages have them, and cargo build --features object-stores",
            path.display()
        );
    }
    Ok(Trace::open(path)?)
}

/// Opens a trace with what its names need.
pub(crate) fn session(path: &Path) -> Result<Session> {
    session_with(trace(path)?)
}

/// The same, of a trace that a server has.
pub(crate) fn session_of_server(server: &RemoteStore, name: &Path) -> Result<Session> {
    let shown = PathBuf::from(format!("{}/{}", server.address, name.display()));
    let name = name.to_str().with_context(|| format!("{}: not a name in UTF-8", name.display()))?;
    let file = ServerFile::open(server.connect().context("--server")?, name).context("--server")?;
    let trace = Trace::open_on(Box::new(file), &shown, Encoders::default(), Limits::default())?;
    remember(&trace);
    session_with(trace)
}

fn session_with(trace: Trace) -> Result<Session> {
    let symbols = SYMBOLS.get().map_or(&[][..], Vec::as_slice);
    Ok(Session::of(trace, symbols)?.with_jobs(JOBS.get().copied()))
}

/// The same, of a program: a machine's trace has none of what `command` looks at.
pub(crate) fn program_session(path: &Path, command: &str) -> Result<Session> {
    let session = session(path)?;
    if Machine::of(&session).is_some() {
        bail!(
            "{}: is the trace of a machine, which has no heaps and threads of programs; memtap {command} needs the trace of a program",
            path.display()
        );
    }
    Ok(session)
}

/// Opens the files of a guest's programs and libraries, for their names.
pub(crate) fn guest_programs(paths: &[PathBuf]) -> Result<Vec<GuestProgram>> {
    let symbol_roots = SYMBOLS.get().cloned().unwrap_or_default();
    let search = SearchPath { symbol_roots, ..SearchPath::default() };
    let open = |path: &PathBuf| {
        let module = Module::open(path, None, &search)?;
        GuestProgram::new(module).with_context(|| format!("{}: its code cannot be read", path.display()))
    };
    paths.iter().map(open).collect()
}

/// Finds where they lay in a machine, and says of which nothing was found.
pub(crate) fn guest_places<'a>(trace: &Trace, programs: &'a [GuestProgram]) -> Result<ProgramPlaces<'a>> {
    let places = ProgramPlaces::find(trace, programs)?;
    for program in places.unplaced() {
        let shown = program.module().path().display();
        say!(
            "memtap: {shown}: where this code lay is not known: it did not execute, too little of it was recorded, or \
             another file that is given has the same"
        );
    }
    Ok(places)
}

/// One that is opened again takes the place of what it was.
fn remember(trace: &Trace) {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.retain(|before| before.path() != trace.path());
    opened.push(trace.clone());
}

/// Forgets the traces of a command that tells all of it itself.
pub(crate) fn told() {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Says, a line a trace, what the results lack. Whether they lack anything.
pub(crate) fn tell_what_is_missing() -> bool {
    let mut lacking = false;
    for trace in OPENED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if let Some(lacks) = report::shortfall(&trace) {
            say!("memtap: {}: {lacks}", in_words(trace.path().display().to_string()));
            lacking = true;
        }
    }
    lacking
}
