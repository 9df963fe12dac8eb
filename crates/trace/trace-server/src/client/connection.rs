//! Requests and their answers, over a socket or by a direct call.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use buffers_host::Region;
use trace_format::{CodedFrame, StreamDescription};

use super::socket::{Acks, Awaited, Socket};
use crate::engine::ChannelHandler;
use crate::wire::{FramePiece, Reply, Request};
use crate::{Address, Engine, Error, Role, lock};

/// Bytes of a frame in one message.
const PIECE_BYTES: usize = 8 << 20;

/// AnswerMemory that came with an answer.
#[derive(Debug)]
pub(crate) enum AnswerMemory {
    /// The answer has none.
    None,
    /// As a descriptor.
    Descriptor(OwnedFd),
    /// As it is: the server is in this process.
    Region(Arc<Region>),
}

/// A channel.
pub(crate) struct Connection {
    address: String,
    side: Side,
}

enum Side {
    Embedded(Mutex<Embedded>),
    Socket(Mutex<Socket>),
}

struct Embedded {
    handler: ChannelHandler,
    acks: Acks,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn embedded(engine: &Engine) -> Self {
        let embedded = Embedded { handler: engine.channel(true, Role::Administrate), acks: Acks::default() };
        Self { address: "the server in this process".into(), side: Side::Embedded(Mutex::new(embedded)) }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.side, Side::Embedded(_))
    }

    pub(crate) fn open(address: &Address, token: Option<&str>) -> Result<Self, Error> {
        let socket = Socket::open(address, token)?;
        Ok(Self { address: address.to_string(), side: Side::Socket(Mutex::new(socket)) })
    }

    /// The answer does not belong to the request.
    pub(crate) fn strange(&self) -> Error {
        Error::Protocol { address: self.address.clone(), what: "the answer does not fit the request" }
    }

    /// Fails where the server speaks an earlier version of the protocol.
    pub(crate) fn needs(&self, minor: u16) -> Result<(), Error> {
        match &self.side {
            Side::Embedded(_) => Ok(()),
            Side::Socket(socket) => lock(socket).needs(minor),
        }
    }

    /// Has the server keep the channel after a cut.
    pub(crate) fn keep(&self, seconds: u32, tell: fn(&str)) -> Result<u32, Error> {
        match &self.side {
            Side::Embedded(_) => Ok(0),
            Side::Socket(socket) => lock(socket).keep(seconds, tell),
        }
    }

    /// Sends a request and waits for its answer. Refusals are errors.
    pub(crate) fn call(&self, request: &Request) -> Result<(Reply, AnswerMemory), Error> {
        match &self.side {
            Side::Embedded(embedded) => {
                let answer = lock(embedded).handler.handle(request.clone());
                let memory = answer.memory.map_or(AnswerMemory::None, AnswerMemory::Region);
                Ok((answer.reply.or_refused()?, memory))
            }
            Side::Socket(socket) => {
                let mut socket = lock(socket);
                let reply = socket.call(request)?;
                let memory = match &reply {
                    Reply::Writer { shared: true, .. } | Reply::Reader { shared: true, .. } => {
                        socket.descriptor().map_or(AnswerMemory::None, AnswerMemory::Descriptor)
                    }
                    _ => AnswerMemory::None,
                };
                Ok((reply, memory))
            }
        }
    }

    /// Does a request whose answer nobody waits for.
    fn post(&self, request: Request, awaited: Awaited) -> Result<(), Error> {
        match &self.side {
            Side::Embedded(embedded) => {
                let mut embedded = lock(embedded);
                let reply = embedded.handler.handle(request).reply;
                if embedded.acks.note(awaited, reply) { Ok(()) } else { Err(self.strange()) }
            }
            Side::Socket(socket) => lock(socket).post(&request, awaited),
        }
    }

    /// Hands a buffer over without waiting for the answer.
    pub(crate) fn submit(&self, writer: u32, buffer: u32, bytes: u32, entries: Vec<u8>) -> Result<(), Error> {
        let request = Request::Submit { writer, buffer, bytes, entries };
        self.post(request, Awaited::Submission { writer, buffer })
    }

    /// Announces a stream that must get this number, without waiting for the answer.
    pub(crate) fn expect_stream(&self, description: &StreamDescription, expected: u32) -> Result<(), Error> {
        let request = Request::AddStream { description: description.clone() };
        self.post(request, Awaited::Stream { expected })
    }

    /// Hands over a frame without waiting for the answer.
    pub(crate) fn add_frame(&self, frame: &[u8]) -> Result<(), Error> {
        let total_bytes = frame.len() as u64;
        // The pieces of one frame follow each other.
        let mut socket = match &self.side {
            Side::Embedded(_) => None,
            Side::Socket(socket) => Some(lock(socket)),
        };
        let mut offset = 0;
        for bytes in frame.chunks(PIECE_BYTES) {
            let piece = FramePiece { total_bytes, offset, bytes: bytes.to_vec() };
            offset += bytes.len() as u64;
            match &mut socket {
                Some(socket) => socket.post(&Request::AddFrame { piece }, Awaited::Frame)?,
                None => self.post(Request::AddFrame { piece }, Awaited::Frame)?,
            }
        }
        Ok(())
    }

    /// Has the server flush, and waits until it has done what it was asked for a second ago; a server in this process has done this one.
    pub(crate) fn flush_behind(&self) -> Result<(), Error> {
        match &self.side {
            Side::Embedded(_) => self.post(Request::Flush { sync: false }, Awaited::Flush),
            Side::Socket(socket) => lock(socket).flush_behind(),
        }
    }

    /// Hands over a frame that is encoded, to a server in this process.
    pub(crate) fn add_coded(&self, stream: u32, frame: Arc<CodedFrame>, wall_ns: u64) -> Result<(), Error> {
        match &self.side {
            Side::Embedded(embedded) => lock(embedded).handler.add_coded(stream, frame, wall_ns),
            Side::Socket(_) => Err(self.strange()),
        }
    }

    /// How many buffers of a writer came back since the last call; with `wait`, at least one.
    pub(crate) fn back(&self, writer: u32, wait: bool) -> Result<u32, Error> {
        match &self.side {
            Side::Embedded(embedded) => lock(embedded).acks.take(writer),
            Side::Socket(socket) => {
                let mut socket = lock(socket);
                loop {
                    let back = socket.acks.take(writer)?;
                    if back > 0 || !wait {
                        return Ok(back);
                    }
                    socket.take_answer()?;
                }
            }
        }
    }
}
