//! Sessions: who works on one trace (Simutrace, section 2.1).

use std::sync::{Arc, Mutex};

use trace_format::{
    CreateOptions, Encoders, FileSink, FileStorage, MAX_FRAME_ENTRIES, SegmentSink, SyncPolicy, Trace,
};

use super::Inner;
use super::read::ReadTrace;
use super::root::Purpose;
use super::text::{Format, TextSink};
use super::write::WriteTrace;
use crate::wire::{Mode, SessionInfo, SyncWhen};
use crate::{Error, Reason, lock};

/// Entries of a segment where the client leaves it to us: longer ones compress better (2 million 40 % better than 256 thousand).
const SEGMENT_ENTRIES: usize = 1 << 21;

/// The trace of a session.
#[derive(Clone, Debug)]
enum Open {
    Writing(Arc<WriteTrace>),
    Reading(Arc<ReadTrace>),
}

#[derive(Debug, Default)]
struct State {
    channels: u32,
    specifier: String,
    open: Option<Open>,
    /// The trace that is being written, as a reader sees it.
    own: Option<Arc<ReadTrace>>,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    engine: Arc<Inner>,
    pub(crate) id: u64,
    name: String,
    state: Mutex<State>,
}

fn refused(error: trace_format::Error) -> Error {
    Error::refused(Reason::File, error.to_string())
}

impl Session {
    /// A new session with one channel.
    pub(crate) fn create(engine: &Arc<Inner>, name: String) -> Arc<Self> {
        let id = engine.next_id();
        let state = Mutex::new(State { channels: 1, ..State::default() });
        let session = Arc::new(Self { engine: engine.clone(), id, name, state });
        lock(&engine.sessions).insert(id, session.clone());
        session
    }

    /// One more channel in a session.
    pub(crate) fn join(engine: &Arc<Inner>, id: u64) -> Result<Arc<Self>, Error> {
        let sessions = lock(&engine.sessions);
        let none = || Error::refused(Reason::Unknown, format!("there is no session {id}"));
        let session = sessions.get(&id).cloned().ok_or_else(none)?;
        let mut state = lock(&session.state);
        if state.channels == 0 {
            // It ends.
            return Err(none());
        }
        state.channels += 1;
        drop(state);
        Ok(session)
    }

    /// One channel less; with the last one the trace is closed.
    pub(crate) fn leave(&self) -> Result<(), Error> {
        let mut state = lock(&self.state);
        state.channels -= 1;
        if state.channels > 0 {
            return Ok(());
        }
        drop(state);
        // It is listed until its trace is closed, so that who waits for that can see it.
        let closed = self.close();
        lock(&self.engine.sessions).remove(&self.id);
        closed
    }

    pub(crate) fn info(&self) -> SessionInfo {
        let state = lock(&self.state);
        let mode = match &state.open {
            None => 0,
            Some(Open::Writing(_)) => 1,
            Some(Open::Reading(_)) => 2,
        };
        SessionInfo {
            session: self.id,
            channels: state.channels,
            mode,
            name: self.name.clone(),
            specifier: state.specifier.clone(),
        }
    }

    fn not_open(state: &State) -> Result<(), Error> {
        if state.open.is_none() {
            return Ok(());
        }
        Err(Error::refused(Reason::Mode, format!("the session has a trace already: {}", state.specifier)))
    }

    /// Creates a trace.
    pub(crate) fn create_trace(
        &self,
        specifier: String,
        replace: bool,
        sync: SyncWhen,
        segment_entries: u32,
    ) -> Result<(), Error> {
        let mut state = lock(&self.state);
        Self::not_open(&state)?;
        let (format, name) = Format::split(&specifier);
        let file = self.engine.root.open(name, Purpose::Create { replace })?;
        let path = self.engine.root.path(name);
        let failed = |source| Error::Io { what: name.into(), operation: "empty the file", cause: source };
        self.engine.claim(&file, name)?;
        file.set_len(0).map_err(failed)?;
        let entries = match segment_entries as usize {
            0 => SEGMENT_ENTRIES,
            entries => entries.min(MAX_FRAME_ENTRIES),
        };
        let sink: Arc<dyn SegmentSink> = match format {
            Format::Memtap => {
                let policy = match sync {
                    SyncWhen::Never => SyncPolicy::Never,
                    SyncWhen::Closed => SyncPolicy::AtFinish,
                    SyncWhen::Flushed => SyncPolicy::EachFlush,
                };
                let options = CreateOptions { sync: policy, ..CreateOptions::default() };
                let storage = Box::new(FileStorage(file));
                Arc::new(FileSink::create_on(storage, &path, options).map_err(refused)?)
            }
            _ => Arc::new(TextSink::new(format, path, file)),
        };
        self.write(&mut state, specifier, sink, format != Format::Memtap, sync, entries);
        Ok(())
    }

    fn write(
        &self,
        state: &mut State,
        specifier: String,
        sink: Arc<dyn SegmentSink>,
        in_order: bool,
        sync: SyncWhen,
        entries: usize,
    ) {
        let trace = Arc::new(WriteTrace::new(&self.engine, sink, in_order, sync, entries));
        self.engine.add_trace(&trace);
        state.open = Some(Open::Writing(trace));
        state.specifier = specifier;
    }

    /// Opens a trace that is there.
    pub(crate) fn open_trace(&self, specifier: String, mode: Mode) -> Result<(), Error> {
        let mut state = lock(&self.state);
        Self::not_open(&state)?;
        let (format, name) = Format::split(&specifier);
        if format != Format::Memtap {
            let text = format!("{specifier}: this format can only be written, and only anew");
            return Err(Error::refused(Reason::Mode, text));
        }
        match mode {
            Mode::Read => state.open = Some(Open::Reading(self.reading(name)?)),
            Mode::Append => {
                let trace = self.appending(name)?;
                self.engine.add_trace(&trace);
                state.open = Some(Open::Writing(trace));
            }
        }
        state.specifier = specifier;
        Ok(())
    }

    fn appending(&self, name: &str) -> Result<Arc<WriteTrace>, Error> {
        let file = self.engine.root.open(name, Purpose::Append)?;
        let path = self.engine.root.path(name);
        self.engine.claim(&file, name)?;
        let failed = |source| Error::Io { what: name.into(), operation: "open the file", cause: source };
        let again = file.try_clone().map_err(failed)?;
        let before = Trace::open_on(Box::new(again), &path, Encoders::default()).map_err(refused)?;
        let storage = Box::new(FileStorage(file));
        let sink = FileSink::append_on(storage, &before, CreateOptions::default()).map_err(refused)?;
        let (sync, entries) = (SyncWhen::Closed, SEGMENT_ENTRIES);
        let trace = Arc::new(WriteTrace::new(&self.engine, Arc::new(sink), false, sync, entries));
        trace.resume(&self.engine, &before);
        Ok(trace)
    }

    fn reading(&self, name: &str) -> Result<Arc<ReadTrace>, Error> {
        let file = self.engine.root.open(name, Purpose::Read)?;
        let path = self.engine.root.path(name);
        let trace = Trace::open_live_on(Box::new(file), &path, Encoders::default()).map_err(refused)?;
        Ok(Arc::new(ReadTrace::new(&self.engine, trace)))
    }

    /// The trace, if it is being written.
    pub(crate) fn writer(&self) -> Result<Arc<WriteTrace>, Error> {
        match &lock(&self.state).open {
            Some(Open::Writing(trace)) => Ok(trace.clone()),
            Some(Open::Reading(_)) => {
                Err(Error::refused(Reason::Mode, "the session's trace is open for reading only"))
            }
            None => Err(Error::refused(Reason::Mode, "the session has no trace")),
        }
    }

    /// The trace as a reader sees it, whether it is being written or not.
    pub(crate) fn reader(&self) -> Result<Arc<ReadTrace>, Error> {
        let mut state = lock(&self.state);
        match &state.open {
            Some(Open::Reading(trace)) => Ok(trace.clone()),
            Some(Open::Writing(_)) => {
                if let Some(own) = &state.own {
                    return Ok(own.clone());
                }
                let (format, name) = Format::split(&state.specifier);
                if format != Format::Memtap {
                    let text = format!("{}: this format can only be written", state.specifier);
                    return Err(Error::refused(Reason::Mode, text));
                }
                let own = self.reading(name)?;
                state.own = Some(own.clone());
                Ok(own)
            }
            None => Err(Error::refused(Reason::Mode, "the session has no trace")),
        }
    }

    /// Closes the trace, if there is one, and returns the bytes of its file.
    pub(crate) fn close_trace(&self) -> Result<u64, Error> {
        let (open, own) = {
            let mut state = lock(&self.state);
            (state.open.take(), state.own.take())
        };
        drop(own);
        match open {
            Some(Open::Writing(trace)) => {
                trace.close()?;
                Ok(std::fs::metadata(trace.path()).map_or(0, |metadata| metadata.len()))
            }
            Some(Open::Reading(trace)) => Ok(trace.file_bytes()),
            None => Err(Error::refused(Reason::Mode, "the session has no trace")),
        }
    }

    /// Closes the trace if one is open.
    pub(crate) fn close(&self) -> Result<(), Error> {
        if lock(&self.state).open.is_some() { self.close_trace().map(|_| ()) } else { Ok(()) }
    }
}
