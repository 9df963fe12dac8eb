//! Requests and their answers, over a socket or by a call.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use buffers_host::Region;
use trace_format::CodedFrame;

use crate::channel::{Channel, UnixChannel};
use crate::engine::ChannelHandler;
use crate::wire::{self, MAX_BODY_BYTES, Message, ReadError, Reply, Request, VERSION};
use crate::{Address, Engine, Error, Role, lock};

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

/// A buffer on its way to the server.
#[derive(Clone, Copy)]
struct Submission {
    /// The message's number.
    number: u32,
    writer: u32,
}

struct Socket {
    channel: Box<dyn Channel>,
    number: u32,
    /// Submissions whose answers were not read yet.
    sent: VecDeque<Submission>,
    acks: Acks,
    /// The channel broke, or its order is lost.
    dead: bool,
}

/// Answers to submissions.
#[derive(Default)]
struct Acks {
    /// Buffers that came back, by writer, since they were last asked for.
    back: HashMap<u32, u32>,
    /// Submissions that were refused.
    refused: HashMap<u32, (crate::RefusalReason, String)>,
}

impl Acks {
    fn note(&mut self, writer: u32, reply: Reply) -> bool {
        match reply {
            Reply::Submitted { writer: answered, .. } if answered == writer => {
                *self.back.entry(writer).or_default() += 1;
                true
            }
            Reply::Refused { reason, text } => {
                *self.back.entry(writer).or_default() += 1;
                self.refused.insert(writer, (reason, text));
                true
            }
            _ => false,
        }
    }

    fn take(&mut self, writer: u32) -> Result<u32, Error> {
        let back = self.back.remove(&writer).unwrap_or(0);
        match self.refused.remove(&writer) {
            Some((reason, text)) => Err(Error::Refused { reason, text }),
            None => Ok(back),
        }
    }
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
        let (channel, token): (Box<dyn Channel>, String) = match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(|source| Error::Io {
                    what: address.to_string(),
                    operation: "connect",
                    cause: source,
                })?;
                (Box::new(UnixChannel::new(stream, true)), String::new())
            }
            Address::Tcp { host, port } => {
                let token = token.ok_or_else(|| Error::Token {
                    what: address.to_string(),
                    problem: "a token is needed and was not given",
                })?;
                let failed =
                    |source| Error::Io { what: address.to_string(), operation: "connect", cause: source };
                let stream = TcpStream::connect((host.as_str(), *port)).map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                (crate::tls::connect(stream, token)?, token.to_owned())
            }
        };
        let socket = Socket { channel, number: 0, sent: VecDeque::new(), acks: Acks::default(), dead: false };
        let connection = Self { address: address.to_string(), side: Side::Socket(Mutex::new(socket)) };
        let client = format!("memtap {} ({})", env!("CARGO_PKG_VERSION"), std::process::id());
        let hello = Request::Hello { major: VERSION, minor: 0, token, client };
        match connection.call(&hello)? {
            (Reply::Hello { .. }, _) => Ok(connection),
            _ => Err(connection.strange()),
        }
    }

    /// The answer does not belong to the request.
    pub(crate) fn strange(&self) -> Error {
        Error::Protocol { address: self.address.clone(), what: "the answer does not fit the request" }
    }

    fn gone(&self, source: std::io::Error) -> Error {
        Error::Gone { address: self.address.clone(), cause: source }
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
                let number = self.send(&mut socket, |number| request.encode(number))?;
                loop {
                    let message = self.receive(&mut socket)?;
                    let reply = self.parse(&mut socket, &message)?;
                    if self.note(&mut socket, &message, &reply)? {
                        continue;
                    }
                    if message.number != number {
                        return Err(self.strange());
                    }
                    let memory = match &reply {
                        Reply::Writer { shared: true, .. } | Reply::Reader { shared: true, .. } => {
                            socket.channel.descriptor().map_or(AnswerMemory::None, AnswerMemory::Descriptor)
                        }
                        _ => AnswerMemory::None,
                    };
                    return Ok((reply.or_refused()?, memory));
                }
            }
        }
    }

    /// Hands a buffer over without waiting for the answer.
    pub(crate) fn submit(&self, writer: u32, buffer: u32, bytes: u32, entries: Vec<u8>) -> Result<(), Error> {
        let request = Request::Submit { writer, buffer, bytes, entries };
        match &self.side {
            Side::Embedded(embedded) => {
                let mut embedded = lock(embedded);
                let reply = embedded.handler.handle(request).reply;
                if embedded.acks.note(writer, reply) { Ok(()) } else { Err(self.strange()) }
            }
            Side::Socket(socket) => {
                let mut socket = lock(socket);
                let number = self.send(&mut socket, |number| request.encode(number))?;
                socket.sent.push_back(Submission { number, writer });
                Ok(())
            }
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
                    let message = self.receive(&mut socket)?;
                    let reply = self.parse(&mut socket, &message)?;
                    if !self.note(&mut socket, &message, &reply)? {
                        return Err(self.strange());
                    }
                }
            }
        }
    }

    fn send(&self, socket: &mut Socket, encode: impl FnOnce(u32) -> Message) -> Result<u32, Error> {
        if socket.dead {
            return Err(self.gone(std::io::ErrorKind::NotConnected.into()));
        }
        socket.number = socket.number.wrapping_add(1);
        let number = socket.number;
        let message = encode(number);
        if message.body.len() > MAX_BODY_BYTES {
            return Err(Error::Protocol { address: self.address.clone(), what: "the request is too long" });
        }
        socket.channel.send(&wire::frame(&message), None).map_err(|error| {
            socket.dead = true;
            self.gone(error)
        })?;
        Ok(number)
    }

    fn receive(&self, socket: &mut Socket) -> Result<Message, Error> {
        let read = wire::read(&mut *socket.channel, MAX_BODY_BYTES);
        read.map_err(|error| {
            socket.dead = true;
            match error {
                ReadError::Closed => self.gone(std::io::ErrorKind::UnexpectedEof.into()),
                ReadError::Io(error) => self.gone(error),
                ReadError::Malformed(what) => Error::Protocol { address: self.address.clone(), what },
            }
        })
    }

    fn parse(&self, socket: &mut Socket, message: &Message) -> Result<Reply, Error> {
        Reply::decode(message).ok_or_else(|| {
            socket.dead = true;
            Error::Protocol { address: self.address.clone(), what: "the answer is malformed" }
        })
    }

    /// Takes an answer to a submission. `false` where it is none.
    fn note(&self, socket: &mut Socket, message: &Message, reply: &Reply) -> Result<bool, Error> {
        let Some(&Submission { number, writer }) = socket.sent.front() else { return Ok(false) };
        // Answers come in the order of the requests.
        if number != message.number {
            return Ok(false);
        }
        socket.sent.pop_front();
        if socket.acks.note(writer, reply.clone()) {
            return Ok(true);
        }
        socket.dead = true;
        Err(self.strange())
    }
}
