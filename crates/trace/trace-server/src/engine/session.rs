//! Sessions: the clients that work on one trace (Simutrace, section 2.1).

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex};

use trace_format::{
    CreateOptions, Encoders, EndReason, FileSink, FileStorage, Limits, MAX_FRAME_ENTRIES, SegmentSink,
    SyncPolicy, Trace,
};

use super::quota::LimitedFile;
use super::read::ReadTrace;
use super::resources::Resources;
use super::root::Purpose;
use super::text::{StoreFormat, TextSink};
use super::write::WriteTrace;
use crate::wire::{OpenMode, SessionInfo, SyncWhen};
use crate::{Error, RefusalReason, TraceOptions, lock};

/// Entries of a segment where the client leaves it to us: longer ones compress better (2 million 40 % better than 256 thousand).
const SEGMENT_ENTRIES: usize = 1 << 21;

fn entries_of_segment(asked: u32) -> usize {
    match asked as usize {
        0 => SEGMENT_ENTRIES,
        entries => entries.min(MAX_FRAME_ENTRIES),
    }
}

/// The trace of a session.
#[derive(Clone, Debug)]
enum SessionTrace {
    Writing(Arc<WriteTrace>),
    Reading(Arc<ReadTrace>),
}

#[derive(Debug, Default)]
struct SessionState {
    channels: u32,
    specifier: String,
    /// Whether a channel that wrote has vanished.
    vanished: bool,
    /// Whether somebody else ended it.
    ended: bool,
    open: Option<SessionTrace>,
    /// The trace that is being written, as a reader sees it.
    own: Option<Arc<ReadTrace>>,
}

/// All sessions of a server, and what they share.
#[derive(Debug)]
pub(crate) struct SessionList {
    pub(crate) resources: Arc<Resources>,
    sessions: Mutex<BTreeMap<u64, Arc<StoreSession>>>,
}

impl SessionList {
    pub(crate) fn new(resources: Arc<Resources>) -> Self {
        Self { resources, sessions: Mutex::default() }
    }

    /// The sessions that there are, by number.
    pub(crate) fn all(&self) -> Vec<Arc<StoreSession>> {
        lock(&self.sessions).values().cloned().collect()
    }
}

/// A session.
#[derive(Debug)]
pub(crate) struct StoreSession {
    list: Arc<SessionList>,
    pub(crate) id: u64,
    name: String,
    state: Mutex<SessionState>,
}

fn refused(error: trace_format::Error) -> Error {
    Error::refused(RefusalReason::File, error.to_string())
}

impl StoreSession {
    /// A new session with one channel.
    pub(crate) fn create(list: &Arc<SessionList>, name: String) -> Arc<Self> {
        let id = list.resources.next_id();
        let state = Mutex::new(SessionState { channels: 1, ..SessionState::default() });
        let session = Arc::new(Self { list: list.clone(), id, name, state });
        lock(&list.sessions).insert(id, session.clone());
        session
    }

    /// One more channel in a session.
    pub(crate) fn join(list: &SessionList, id: u64) -> Result<Arc<Self>, Error> {
        let sessions = lock(&list.sessions);
        let none = || Error::refused(RefusalReason::Unknown, format!("there is no session {id}"));
        let session = sessions.get(&id).cloned().ok_or_else(none)?;
        let mut state = lock(&session.state);
        if state.channels == 0 || state.ended {
            // It ends.
            return Err(none());
        }
        state.channels += 1;
        drop(state);
        Ok(session)
    }

    /// Ends a session for those who are in it: its trace is closed as when the server stops. They can do nothing with it but leave.
    pub(crate) fn end(list: &SessionList, id: u64) -> Result<(), Error> {
        let none = || Error::refused(RefusalReason::Unknown, format!("there is no session {id}"));
        let session = lock(&list.sessions).get(&id).cloned().ok_or_else(none)?;
        lock(&session.state).ended = true;
        session.close(EndReason::ServerStopped)
    }

    /// One channel less; with the last one the trace is closed. It leaves for that reason; whether it `wrote` says whether anything
    /// of it can be missing while others go on.
    pub(crate) fn leave(&self, why: EndReason, wrote: bool) -> Result<(), Error> {
        let mut state = lock(&self.state);
        state.channels -= 1;
        state.vanished |= wrote && why == EndReason::ClientVanished;
        if state.channels > 0 {
            return Ok(());
        }
        drop(state);
        // It is listed until its trace is closed, so that who waits for that can see it.
        let closed = self.close(why);
        lock(&self.list.sessions).remove(&self.id);
        closed
    }

    pub(crate) fn info(&self) -> SessionInfo {
        let state = lock(&self.state);
        let mode = match &state.open {
            None => 0,
            Some(SessionTrace::Writing(_)) => 1,
            Some(SessionTrace::Reading(_)) => 2,
        };
        SessionInfo {
            session: self.id,
            channels: state.channels,
            mode,
            name: self.name.clone(),
            specifier: state.specifier.clone(),
        }
    }

    fn not_open(state: &SessionState) -> Result<(), Error> {
        if state.ended {
            return Err(Error::refused(
                RefusalReason::Mode,
                "the session was ended by who administrates the server",
            ));
        }
        if state.open.is_none() {
            return Ok(());
        }
        Err(Error::refused(
            RefusalReason::Mode,
            format!("the session has a trace already: {}", state.specifier),
        ))
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
        if specifier.contains(char::is_control) {
            let text = format!("{specifier:?}: a name with control characters, which a terminal would obey");
            return Err(Error::refused(RefusalReason::OutsideRoot, text));
        }
        if let Some(word) = StoreFormat::unknown(&specifier) {
            let text = format!(
                "{specifier}: no format is called {word}; there are memtap, lackey, din and entries64; a file of that name is memtap:{specifier}"
            );
            return Err(Error::refused(RefusalReason::OutsideRoot, text));
        }
        if let Some(upstream) = &self.list.resources.options.upstream {
            let options = TraceOptions { replace, sync, segment_entries };
            let sink = upstream.create_trace(&specifier, &options)?;
            let entries = entries_of_segment(segment_entries);
            self.write(&mut state, specifier, sink, false, sync, entries);
            return Ok(());
        }
        let (format, name) = StoreFormat::split(&specifier);
        let file = self.list.resources.root.open(name, Purpose::Create { replace })?;
        let path = self.list.resources.root.path(name);
        let failed = |source| Error::Io { what: name.into(), operation: "empty the file", cause: source };
        self.list.resources.claim(&file, name)?;
        file.set_len(0).map_err(failed)?;
        let entries = entries_of_segment(segment_entries);
        let sink: Arc<dyn SegmentSink> = match format {
            StoreFormat::Memtap => {
                let policy = match sync {
                    SyncWhen::Never => SyncPolicy::Never,
                    SyncWhen::Closed => SyncPolicy::AtFinish,
                    SyncWhen::Flushed => SyncPolicy::EachFlush,
                };
                let options = CreateOptions { sync: policy, ..CreateOptions::default() };
                let storage = Box::new(self.limited(file));
                Arc::new(FileSink::create_on(storage, &path, options).map_err(refused)?)
            }
            _ if self.list.resources.options.quota_bytes.is_some() => {
                let text =
                    format!("{specifier}: where traces have a quota, only memtap's own format is written");
                return Err(Error::refused(RefusalReason::NoRoom, text));
            }
            _ => Arc::new(TextSink::new(format, path, file)),
        };
        self.write(&mut state, specifier, sink, format != StoreFormat::Memtap, sync, entries);
        Ok(())
    }

    fn write(
        &self,
        state: &mut SessionState,
        specifier: String,
        sink: Arc<dyn SegmentSink>,
        in_order: bool,
        sync: SyncWhen,
        entries: usize,
    ) {
        let trace = Arc::new(WriteTrace::new(&self.list.resources, sink, in_order, sync, entries));
        self.list.resources.add_trace(&trace);
        state.open = Some(SessionTrace::Writing(trace));
        state.specifier = specifier;
    }

    /// Opens a trace that is there.
    pub(crate) fn open_trace(&self, specifier: String, mode: OpenMode) -> Result<(), Error> {
        let mut state = lock(&self.state);
        Self::not_open(&state)?;
        let (format, name) = StoreFormat::split(&specifier);
        if format != StoreFormat::Memtap {
            let text = format!("{specifier}: this format can only be written, and only anew");
            return Err(Error::refused(RefusalReason::Mode, text));
        }
        match mode {
            OpenMode::Read => state.open = Some(SessionTrace::Reading(self.reading(name)?)),
            OpenMode::Append => {
                let trace = self.appending(name)?;
                self.list.resources.add_trace(&trace);
                state.open = Some(SessionTrace::Writing(trace));
            }
        }
        state.specifier = specifier;
        Ok(())
    }

    fn limited(&self, file: File) -> LimitedFile {
        LimitedFile { file: FileStorage(file), most: self.list.resources.options.quota_bytes }
    }

    fn appending(&self, name: &str) -> Result<Arc<WriteTrace>, Error> {
        let file = self.list.resources.root.open(name, Purpose::Append)?;
        let path = self.list.resources.root.path(name);
        self.list.resources.claim(&file, name)?;
        let failed = |source| Error::Io { what: name.into(), operation: "open the file", cause: source };
        let again = file.try_clone().map_err(failed)?;
        let before = Trace::open_on(Box::new(again), &path, Encoders::default(), Limits::default())
            .map_err(refused)?;
        let storage = Box::new(self.limited(file));
        let sink = FileSink::append_on(storage, &before, CreateOptions::default()).map_err(refused)?;
        let (sync, entries) = (SyncWhen::Closed, SEGMENT_ENTRIES);
        let trace = Arc::new(WriteTrace::new(&self.list.resources, Arc::new(sink), false, sync, entries));
        trace.resume(&self.list.resources, &before);
        Ok(trace)
    }

    fn reading(&self, name: &str) -> Result<Arc<ReadTrace>, Error> {
        let file = self.list.resources.root.open(name, Purpose::Read)?;
        let path = self.list.resources.root.path(name);
        let failed = |source| Error::Io { what: name.into(), operation: "open the file", cause: source };
        let again = file.try_clone().map_err(failed)?;
        let trace = Trace::open_live_on(Box::new(again), &path, Encoders::default(), Limits::default())
            .map_err(refused)?;
        Ok(Arc::new(ReadTrace::new(&self.list.resources, trace, file, name)))
    }

    /// The trace, if it is being written.
    pub(crate) fn writer(&self) -> Result<Arc<WriteTrace>, Error> {
        match &lock(&self.state).open {
            Some(SessionTrace::Writing(trace)) => Ok(trace.clone()),
            Some(SessionTrace::Reading(_)) => {
                Err(Error::refused(RefusalReason::Mode, "the session's trace is open for reading only"))
            }
            None => Err(Error::refused(RefusalReason::Mode, "the session has no trace")),
        }
    }

    /// The trace as a reader sees it, whether it is being written or not.
    pub(crate) fn reader(&self) -> Result<Arc<ReadTrace>, Error> {
        let mut state = lock(&self.state);
        match &state.open {
            Some(SessionTrace::Reading(trace)) => Ok(trace.clone()),
            Some(SessionTrace::Writing(_)) => {
                if let Some(own) = &state.own {
                    return Ok(own.clone());
                }
                let (format, name) = StoreFormat::split(&state.specifier);
                if format != StoreFormat::Memtap {
                    let text = format!("{}: this format can only be written", state.specifier);
                    return Err(Error::refused(RefusalReason::Mode, text));
                }
                let own = self.reading(name)?;
                state.own = Some(own.clone());
                Ok(own)
            }
            None => Err(Error::refused(RefusalReason::Mode, "the session has no trace")),
        }
    }

    /// Closes the trace, if there is one, for that reason, and returns the bytes of its file.
    pub(crate) fn close_trace(&self, why: EndReason) -> Result<u64, Error> {
        let (open, own, vanished) = {
            let mut state = lock(&self.state);
            (state.open.take(), state.own.take(), std::mem::take(&mut state.vanished))
        };
        let why = if vanished && why.is_finished() { EndReason::ClientVanished } else { why };
        drop(own);
        match open {
            Some(SessionTrace::Writing(trace)) => {
                trace.close(why)?;
                Ok(std::fs::metadata(trace.path()).map_or(0, |metadata| metadata.len()))
            }
            Some(SessionTrace::Reading(trace)) => Ok(trace.file_bytes()),
            None => Err(Error::refused(RefusalReason::Mode, "the session has no trace")),
        }
    }

    /// Closes the trace if one is open.
    pub(crate) fn close(&self, why: EndReason) -> Result<(), Error> {
        if lock(&self.state).open.is_some() { self.close_trace(why).map(|_| ()) } else { Ok(()) }
    }
}
