//! Handles one channel's requests in sequence (Simutrace, section 2.4: a worker a channel).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use buffers_host::Region;
use trace_format::{CodedFrame, EndReason};

use super::frame::PartialFrame;
use super::read::ClientReader;
use super::ring::{Ring, RingLayout};
use super::session::{SessionList, StoreSession};
use crate::wire::{MINOR_VERSION, Reply, Request, VERSION};
use crate::{Error, RefusalReason, Role, lock};

/// Writers and readers of one channel.
const MAX_HANDLES: usize = 4096;

/// An answer, and the memory whose descriptor goes with it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) memory: Option<Arc<Region>>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, memory: None }
    }
}

/// A channel's state.
#[derive(Debug)]
pub(crate) struct ChannelHandler {
    sessions: Arc<SessionList>,
    shared: bool,
    role: Role,
    session: Option<Arc<StoreSession>>,
    writers: BTreeMap<u32, Arc<Mutex<Ring>>>,
    readers: BTreeMap<u32, ClientReader>,
    /// What came of a frame that is longer than a message.
    frame: PartialFrame,
    has_added_frames: bool,
    next: u32,
}

fn no_such(what: &str, number: u32) -> Error {
    Error::refused(RefusalReason::Unknown, format!("there is no {what} {number} on this channel"))
}

impl ChannelHandler {
    pub(crate) fn new(sessions: Arc<SessionList>, shared: bool, role: Role) -> Self {
        let frame = PartialFrame::new(sessions.resources.clone());
        Self {
            sessions,
            shared,
            role,
            session: None,
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            frame,
            has_added_frames: false,
            next: 1,
        }
    }

    /// Does what is asked for.
    pub(crate) fn handle(&mut self, request: Request) -> Answer {
        self.answer(request)
            .unwrap_or_else(|error| Reply::Refused { reason: error.reason(), text: error.to_string() }.into())
    }

    /// Whether it works on something.
    pub(crate) fn is_in_session(&self) -> bool {
        self.session.is_some()
    }

    fn session(&self) -> Result<&Arc<StoreSession>, Error> {
        self.session
            .as_ref()
            .ok_or_else(|| Error::refused(RefusalReason::Mode, "the channel is in no session"))
    }

    /// Refuses what needs another role.
    fn allow(&self, request: &Request, needed: Role) -> Result<(), Error> {
        if self.role >= needed {
            return Ok(());
        }
        let (what, own, needed) = (request.name(), self.role.name(), needed.name());
        Err(Error::refused(
            RefusalReason::Role,
            format!("{what}: this token is to {own}; one to {needed} is needed"),
        ))
    }

    fn outside(&self) -> Result<(), Error> {
        match self.session {
            Some(_) => Err(Error::refused(RefusalReason::Mode, "the channel is in a session already")),
            None => Ok(()),
        }
    }

    fn number(&mut self) -> Result<u32, Error> {
        if self.writers.len() + self.readers.len() >= MAX_HANDLES {
            let text = format!("{MAX_HANDLES} writers and readers are the most on a channel");
            return Err(Error::refused(RefusalReason::NoRoom, text));
        }
        self.next = self
            .next
            .checked_add(1)
            .ok_or_else(|| Error::refused(RefusalReason::NoRoom, "too many writers"))?;
        Ok(self.next)
    }

    fn answer(&mut self, request: Request) -> Result<Answer, Error> {
        let done = |code| Ok(Reply::Done { code }.into());
        self.allow(&request, Role::needed(&request))?;
        match request {
            Request::Hello { .. } => {
                Ok(Reply::Hello { major: VERSION, minor: MINOR_VERSION, server: super::super::server_name() }
                    .into())
            }
            Request::CreateSession { name } => {
                self.outside()?;
                let session = StoreSession::create(&self.sessions, name);
                let reply = Reply::Session { session: session.id };
                self.session = Some(session);
                Ok(reply.into())
            }
            Request::OpenSession { session } => {
                self.outside()?;
                self.session = Some(StoreSession::join(&self.sessions, session)?);
                done(3)
            }
            Request::ListSessions => {
                let sessions = self.sessions.all();
                Ok(Reply::Sessions { sessions: sessions.iter().map(|session| session.info()).collect() }
                    .into())
            }
            Request::LeaveSession => {
                self.session()?;
                self.leave(EndReason::RecorderEnded)?;
                done(5)
            }
            Request::CreateTrace { specifier, replace, sync, segment_entries } => {
                self.session()?.create_trace(specifier, replace, sync, segment_entries)?;
                done(6)
            }
            Request::OpenTrace { specifier, mode } => {
                self.session()?.open_trace(specifier, mode)?;
                done(7)
            }
            Request::CloseTrace => {
                let session = self.session()?.clone();
                if session.writer().is_ok() {
                    self.allow(&request, Role::Write)?;
                }
                let finished = self.close_writers();
                self.readers.clear();
                let file_bytes = session.close_trace(EndReason::Finished)?;
                finished?;
                Ok(Reply::Closed { file_bytes }.into())
            }
            Request::AddStream { description } => {
                let stream = self.session()?.writer()?.add_stream(description)?;
                Ok(Reply::Stream { stream }.into())
            }
            Request::ListStreams => {
                Ok(Reply::Streams { streams: self.session()?.reader()?.statistics()? }.into())
            }
            Request::OpenWriter { stream, buffer_bytes, buffers } => {
                self.open_writer(stream, buffer_bytes, buffers)
            }
            Request::Submit { writer, buffer, bytes, entries } => {
                let ring = self.writers.get(&writer).ok_or_else(|| no_such("writer", writer))?;
                lock(ring).submit(buffer, bytes, &entries)?;
                Ok(Reply::Submitted { writer, buffer }.into())
            }
            Request::CloseWriter { writer } => {
                let ring = self.writers.remove(&writer).ok_or_else(|| no_such("writer", writer))?;
                lock(&ring).finish()?;
                done(13)
            }
            Request::Flush { sync } => {
                let trace = self.session()?.writer()?;
                trace.flush(sync || trace.syncs_at_flush())?;
                done(14)
            }
            Request::OpenReader { stream, buffer_bytes, filter } => {
                let trace = self.session()?.reader()?;
                let number = self.number()?;
                let reader = ClientReader::open(&trace, stream, buffer_bytes, &filter, self.shared)?;
                let memory = reader.region().cloned();
                let reply = Reply::Reader {
                    reader: number,
                    buffer_bytes: reader.buffer_bytes() as u32,
                    entry_bytes: reader.entry_bytes() as u32,
                    shared: memory.is_some(),
                };
                self.readers.insert(number, reader);
                Ok(Answer { reply, memory })
            }
            Request::Read { reader, index, most } => {
                let reader = self.readers.get_mut(&reader).ok_or_else(|| no_such("reader", reader))?;
                Ok(Reply::Block(reader.read(index, most)?).into())
            }
            Request::Seek { stream, by, value } => {
                Ok(Reply::Index { index: self.session()?.reader()?.seek(stream, by, value)? }.into())
            }
            Request::CloseReader { reader } => {
                self.readers.remove(&reader).ok_or_else(|| no_such("reader", reader))?;
                done(18)
            }
            Request::ReadFile { file, offset, most } => {
                let (file_bytes, bytes) = self.session()?.reader()?.file_bytes_from(file, offset, most)?;
                Ok(Reply::File { file_bytes, bytes }.into())
            }
            Request::AddProperty { key, value } => {
                self.session()?.writer()?.add_property(&key, &value)?;
                done(19)
            }
            Request::EndSession { session } => {
                StoreSession::end(&self.sessions, session)?;
                done(20)
            }
            Request::AddFrame { piece } => {
                let trace = self.session()?.writer()?;
                self.has_added_frames = true;
                if let Some(bytes) = self.frame.add(piece)? {
                    trace.add_frame(bytes)?;
                }
                done(21)
            }
            // The server's sockets know channels; a server in the client's process is never cut off from it.
            Request::KeepChannel { .. } | Request::ResumeChannel { .. } => {
                Err(Error::refused(RefusalReason::Mode, "only channels over TCP are kept"))
            }
        }
    }

    /// Takes a frame that this process has encoded.
    pub(crate) fn add_coded(
        &mut self,
        stream: u32,
        frame: Arc<CodedFrame>,
        wall_ns: u64,
    ) -> Result<(), Error> {
        self.session()?.writer()?.add_coded(stream, frame, wall_ns)
    }

    fn open_writer(&mut self, stream: u32, buffer_bytes: u32, buffers: u32) -> Result<Answer, Error> {
        let trace = self.session()?.writer()?;
        let number = self.number()?;
        let stream = trace.stream(stream)?;
        let layout = RingLayout::near(buffer_bytes, buffers, stream.entry_bytes);
        let ring = Ring::open(&self.sessions.resources, &trace, stream, layout, self.shared)?;
        let (layout, memory) = (ring.layout(), ring.region().cloned());
        let ring = Arc::new(Mutex::new(ring));
        trace.watch(&ring);
        self.writers.insert(number, ring);
        let reply = Reply::Writer {
            writer: number,
            buffer_bytes: layout.buffer_bytes as u32,
            buffers: layout.buffers as u32,
            entry_bytes: layout.entry_bytes as u32,
            shared: memory.is_some(),
        };
        Ok(Answer { reply, memory })
    }

    /// Takes over what was filled, and forgets the writers.
    fn close_writers(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for (_, ring) in std::mem::take(&mut self.writers) {
            result = result.and(lock(&ring).finish());
        }
        result
    }

    /// Leaves the session, for that reason where its trace is not closed: what was filled is kept.
    pub(crate) fn leave(&mut self, why: EndReason) -> Result<(), Error> {
        let wrote = !self.writers.is_empty() || std::mem::take(&mut self.has_added_frames);
        let finished = self.close_writers();
        self.readers.clear();
        match self.session.take() {
            Some(session) => session.leave(why, wrote).and(finished),
            None => finished,
        }
    }
}

impl Drop for ChannelHandler {
    fn drop(&mut self) {
        // Nobody is left who could be told.
        let _ = self.leave(EndReason::RecorderEnded);
    }
}
