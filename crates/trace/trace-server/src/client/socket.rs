//! A connection over a socket: requests, their answers in order, and recovery of the same channel when the connection was cut.
//!
//! Requests whose answers are not waited for ([`Awaited`]) follow one another without a pause, up to [`WINDOW_BYTES`] of them, so
//! that a link with a long round trip is fully used. A channel that the server keeps ([`Socket::keep`]) remembers them until they are
//! answered. After a cut, the server reports the last one that it executed, and the later ones are sent again: each is executed once.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::channel::{Channel, UnixChannel, notice_cuts};
use crate::wire::{
    self, ChannelKey, LEAST_MINOR_VERSION, MAX_BODY_BYTES, MINOR_VERSION, Message, ReadError, Reply, Request,
    VERSION,
};
use crate::{Address, Error, RefusalReason};

/// Bytes of requests under way: what a link of a gigabit has with a round trip of a quarter of a second.
const WINDOW_BYTES: usize = 32 << 20;
/// Requests under way. Their answers fit into a socket's buffers, so that the server never waits for us to read them.
const WINDOW_REQUESTS: usize = 512;
/// Flushes that were asked for longer ago are waited for before the next one.
const FLUSHING: Duration = Duration::from_secs(1);
/// How long connecting takes at most.
const CONNECTING: Duration = Duration::from_secs(10);
/// Pauses between two tries.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Who waits for the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Somebody, now.
    Answer,
    /// A writer, which gets its buffer back.
    Submission { writer: u32, buffer: u32 },
    /// Nobody, unless it is refused: a frame.
    Frame,
    /// A request of this kind of a second later ([`Socket::flush_behind`]).
    Flush,
    /// Nobody, unless it has another number: a stream.
    Stream { expected: u32 },
}

/// A request that was sent and not answered.
struct Sent {
    number: u32,
    at: Instant,
    awaited: Awaited,
    code: u16,
    len: usize,
    /// Its message, where the channel is kept.
    again: Vec<u8>,
}

/// Answers that somebody will ask for.
#[derive(Default)]
pub(super) struct Acks {
    /// Buffers that came back, by writer, since they were last asked for.
    back: HashMap<u32, u32>,
    /// Submissions that were refused.
    refused: HashMap<u32, (RefusalReason, String)>,
    /// The first refusal of what no writer sent. Nothing after it makes the trace whole again.
    failed: Option<(RefusalReason, String)>,
}

impl Acks {
    /// Takes an answer; `false`: it does not belong to what was asked for.
    pub(super) fn note(&mut self, awaited: Awaited, reply: Reply) -> bool {
        match (awaited, reply) {
            (Awaited::Submission { writer, .. }, Reply::Submitted { writer: answered, .. }) => {
                *self.back.entry(writer).or_default() += 1;
                answered == writer
            }
            (Awaited::Submission { writer, .. }, Reply::Refused { reason, text }) => {
                *self.back.entry(writer).or_default() += 1;
                self.refused.insert(writer, (reason, text));
                true
            }
            (Awaited::Frame | Awaited::Flush, Reply::Done { .. }) => true,
            (Awaited::Stream { expected }, Reply::Stream { stream }) => stream == expected,
            (Awaited::Frame | Awaited::Flush | Awaited::Stream { .. }, Reply::Refused { reason, text }) => {
                self.failed.get_or_insert((reason, text));
                true
            }
            _ => false,
        }
    }

    /// A writer's buffers that came back.
    pub(super) fn take(&mut self, writer: u32) -> Result<u32, Error> {
        let back = self.back.remove(&writer).unwrap_or(0);
        match self.refused.remove(&writer) {
            Some((reason, text)) => Err(Error::Refused { reason, text }),
            None => Ok(back),
        }
    }

    /// Fails where a frame or a stream was refused.
    fn check(&self) -> Result<(), Error> {
        match &self.failed {
            Some((reason, text)) => Err(Error::Refused { reason: *reason, text: text.clone() }),
            None => Ok(()),
        }
    }
}

/// What a channel is resumed by.
struct Kept {
    key: ChannelKey,
    patience: Duration,
    tell: fn(&str),
}

/// The client's side of a channel.
pub(super) struct Socket {
    address: Address,
    token: String,
    channel: Box<dyn Channel>,
    /// The minor version of the protocol that the server speaks.
    minor: u16,
    number: u32,
    sent: VecDeque<Sent>,
    in_flight_bytes: usize,
    /// Answers that the server gave before the connection was cut, as far as is known.
    given: VecDeque<Message>,
    pub(super) acks: Acks,
    kept: Option<Kept>,
    /// The channel broke, or its order is lost.
    dead: bool,
}

/// Why a channel was not resumed.
enum NotResumed {
    /// Another try may help.
    Yet(io::Error),
    /// No try will.
    Ever(Error),
}

impl Socket {
    /// Connects, and says hello.
    pub(super) fn open(address: &Address, token: Option<&str>) -> Result<Self, Error> {
        let token = match (address, token) {
            (Address::Unix(_), _) => String::new(),
            (Address::Tcp { .. }, Some(token)) => token.to_owned(),
            (Address::Tcp { .. }, None) => {
                return Err(Error::Token {
                    what: address.to_string(),
                    problem: "a token is needed and was not given",
                });
            }
        };
        let channel = connect(address, &token)?;
        let mut socket = Self {
            address: address.clone(),
            token,
            channel,
            minor: 0,
            number: 0,
            sent: VecDeque::new(),
            in_flight_bytes: 0,
            given: VecDeque::new(),
            acks: Acks::default(),
            kept: None,
            dead: false,
        };
        let hello = hello(&socket.token);
        match socket.call(&hello)? {
            Reply::Hello { minor, .. } if minor >= LEAST_MINOR_VERSION => {
                socket.minor = minor;
                Ok(socket)
            }
            Reply::Hello { .. } => Err(Error::OlderServer { address: address.to_string() }),
            _ => Err(socket.strange()),
        }
    }

    /// Fails where the server speaks an earlier version of the protocol.
    pub(super) fn needs(&self, minor: u16) -> Result<(), Error> {
        match self.minor < minor {
            true => Err(Error::OlderServer { address: self.address.to_string() }),
            false => Ok(()),
        }
    }

    /// Has the server keep the channel for so many seconds after a cut, or fewer, which are returned.
    pub(super) fn keep(&mut self, seconds: u32, tell: fn(&str)) -> Result<u32, Error> {
        match self.call(&Request::KeepChannel { seconds })? {
            Reply::Kept { channel: key, seconds } => {
                let patience = Duration::from_secs(seconds.into());
                self.kept = Some(Kept { key, patience, tell });
                Ok(seconds)
            }
            _ => Err(self.strange()),
        }
    }

    /// The answer does not belong to the request.
    pub(super) fn strange(&self) -> Error {
        Error::Protocol { address: self.address.to_string(), what: "the answer does not fit the request" }
    }

    fn gone(&mut self, cause: io::Error) -> Error {
        self.dead = true;
        Error::Gone { address: self.address.to_string(), cause }
    }

    /// The descriptor that came with the last answer.
    pub(super) fn descriptor(&mut self) -> Option<std::os::fd::OwnedFd> {
        self.channel.descriptor()
    }

    /// Sends a request and waits for its answer. Refusals are errors.
    pub(super) fn call(&mut self, request: &Request) -> Result<Reply, Error> {
        self.send(request, Awaited::Answer)?;
        loop {
            let (awaited, reply) = self.receive()?;
            if awaited == Awaited::Answer {
                self.acks.check()?;
                return reply.or_refused();
            }
            self.note(awaited, reply)?;
        }
    }

    /// Sends a request whose answer nobody waits for. Waits while too much is under way.
    pub(super) fn post(&mut self, request: &Request, awaited: Awaited) -> Result<(), Error> {
        self.acks.check()?;
        self.send(request, awaited)?;
        while self.in_flight_bytes > WINDOW_BYTES || self.sent.len() > WINDOW_REQUESTS {
            self.take_answer()?;
        }
        Ok(())
    }

    /// Has the server flush, and waits until it has done what it was asked for a second ago and before.
    pub(super) fn flush_behind(&mut self) -> Result<(), Error> {
        let is_due = |sent: &Sent| sent.awaited == Awaited::Flush && sent.at.elapsed() >= FLUSHING;
        while self.sent.iter().any(is_due) {
            self.take_answer()?;
        }
        self.post(&Request::Flush { sync: false }, Awaited::Flush)
    }

    /// Waits for the next answer to what was posted.
    pub(super) fn take_answer(&mut self) -> Result<(), Error> {
        let (awaited, reply) = self.receive()?;
        self.note(awaited, reply)
    }

    fn note(&mut self, awaited: Awaited, reply: Reply) -> Result<(), Error> {
        if self.acks.note(awaited, reply) {
            return Ok(());
        }
        self.dead = true;
        Err(self.strange())
    }

    fn send(&mut self, request: &Request, awaited: Awaited) -> Result<(), Error> {
        if self.dead {
            return Err(self.gone(io::ErrorKind::NotConnected.into()));
        }
        let number = self.number.wrapping_add(1);
        let message = request.encode(number);
        if message.body.len() > MAX_BODY_BYTES {
            return Err(Error::Protocol {
                address: self.address.to_string(),
                what: "the request is too long",
            });
        }
        self.number = number;
        let bytes = wire::frame(&message);
        let sent = self.channel.send(&bytes, None);
        let again = if self.kept.is_some() { bytes } else { Vec::new() };
        let len = message.body.len();
        self.sent.push_back(Sent { number, at: Instant::now(), awaited, code: message.code, len, again });
        self.in_flight_bytes += len;
        sent.or_else(|error| self.resume(error))
    }

    /// The next answer, and who waits for it. Answers come in the order of the requests.
    fn receive(&mut self) -> Result<(Awaited, Reply), Error> {
        let message = loop {
            if let Some(message) = self.given.pop_front() {
                break message;
            }
            match wire::read(&mut *self.channel, MAX_BODY_BYTES) {
                Ok(message) => break message,
                Err(ReadError::Closed) => self.resume(io::ErrorKind::UnexpectedEof.into())?,
                Err(ReadError::Io(error)) => self.resume(error)?,
                Err(ReadError::Malformed(what)) => {
                    self.dead = true;
                    return Err(Error::Protocol { address: self.address.to_string(), what });
                }
            }
        };
        let reply = Reply::decode(&message);
        match (self.sent.pop_front(), reply) {
            (Some(sent), Some(reply)) if sent.number == message.number => {
                self.in_flight_bytes -= sent.len;
                Ok((sent.awaited, reply))
            }
            (_, reply) => {
                self.dead = true;
                let what = "the answer is malformed";
                let malformed = Error::Protocol { address: self.address.to_string(), what };
                Err(if reply.is_none() { malformed } else { self.strange() })
            }
        }
    }

    /// Goes on after the connection broke, where the server keeps the channel.
    fn resume(&mut self, cause: io::Error) -> Result<(), Error> {
        let Some(Kept { patience, tell, .. }) = self.kept else { return Err(self.gone(cause)) };
        let address = self.address.to_string();
        let seconds = patience.as_secs();
        tell(&format!("{address}: the connection was cut ({cause}); trying again for {seconds} s"));
        let until = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.try_to_resume() {
                Ok(()) => {
                    tell(&format!("{address}: connected again; nothing was lost"));
                    return Ok(());
                }
                Err(NotResumed::Ever(error)) => {
                    self.dead = true;
                    return Err(error);
                }
                Err(NotResumed::Yet(_)) if Instant::now() < until => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(NotResumed::Yet(cause)) => return Err(self.gone(cause)),
            }
        }
    }

    fn try_to_resume(&mut self) -> Result<(), NotResumed> {
        let Some(Kept { key, .. }) = self.kept else { return Ok(()) };
        let connected = connect(&self.address, &self.token);
        self.channel = connected.map_err(|error| match error {
            Error::Io { cause, .. } => NotResumed::Yet(cause),
            other => NotResumed::Ever(other),
        })?;
        self.channel.limit(Some(CONNECTING), None).map_err(NotResumed::Yet)?;
        self.ask(&hello(&self.token))?;
        let last = match self.ask(&Request::ResumeChannel { channel: key })? {
            Reply::Resumed { last } => last,
            _ => return Err(NotResumed::Ever(self.strange())),
        };
        self.channel.limit(None, None).map_err(NotResumed::Yet)?;
        // Those up to the last one are done; of the answers the last alone is known, and the others say that they are.
        let known = self.given.len();
        for sent in self.sent.iter().skip(known) {
            let ahead = last.number.wrapping_sub(sent.number);
            if ahead > u32::MAX / 2 {
                break;
            }
            let done = match sent.awaited {
                Awaited::Submission { writer, buffer } => Reply::Submitted { writer, buffer },
                Awaited::Stream { expected } => Reply::Stream { stream: expected },
                Awaited::Frame | Awaited::Flush | Awaited::Answer => Reply::Done { code: sent.code },
            };
            self.given.push_back(if ahead == 0 { last.clone() } else { done.encode(sent.number) });
        }
        for sent in self.sent.iter().skip(self.given.len()) {
            self.channel.send(&sent.again, None).map_err(NotResumed::Yet)?;
        }
        Ok(())
    }

    /// A request of a channel that is not resumed yet.
    fn ask(&mut self, request: &Request) -> Result<Reply, NotResumed> {
        self.channel.send(&wire::frame(&request.encode(0)), None).map_err(NotResumed::Yet)?;
        let message = match wire::read(&mut *self.channel, MAX_BODY_BYTES) {
            Ok(message) => message,
            Err(ReadError::Closed) => return Err(NotResumed::Yet(io::ErrorKind::UnexpectedEof.into())),
            Err(ReadError::Io(error)) => return Err(NotResumed::Yet(error)),
            Err(ReadError::Malformed(_)) => return Err(NotResumed::Ever(self.strange())),
        };
        match Reply::decode(&message) {
            Some(Reply::Refused { reason: RefusalReason::NoRoom, text }) => {
                Err(NotResumed::Yet(io::Error::other(text)))
            }
            Some(Reply::Refused { reason, text }) => Err(NotResumed::Ever(Error::Refused { reason, text })),
            Some(reply) => Ok(reply),
            None => Err(NotResumed::Ever(self.strange())),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Otherwise the server would wait for us to come back.
        if self.kept.take().is_some()
            && !self.dead
            && self.channel.limit(Some(CONNECTING), Some(CONNECTING)).is_ok()
        {
            let _ = self.call(&Request::LeaveSession);
        }
    }
}

fn hello(token: &str) -> Request {
    let client = format!("memtap {} ({})", env!("CARGO_PKG_VERSION"), std::process::id());
    Request::Hello { major: VERSION, minor: MINOR_VERSION, token: token.to_owned(), client }
}

/// Connects to a server that has not been spoken to yet.
fn connect(address: &Address, token: &str) -> Result<Box<dyn Channel>, Error> {
    let failed = |source| Error::Io { what: address.to_string(), operation: "connect", cause: source };
    match address {
        Address::Unix(path) => {
            Ok(Box::new(UnixChannel::new(UnixStream::connect(path).map_err(failed)?, true)))
        }
        Address::Tcp { host, port } => {
            let stream = connect_tcp(host, *port).map_err(failed)?;
            notice_cuts(&stream).map_err(failed)?;
            crate::tls::connect(stream, token)
        }
    }
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for socket in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&socket, CONNECTING) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::Client;

    #[test]
    fn a_server_of_an_earlier_version_is_named_as_what_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = std::thread::spawn(move || {
            let mut channel = UnixChannel::new(listener.accept().expect("a client").0, false);
            let hello = wire::read(&mut channel, MAX_BODY_BYTES).expect("a hello");
            let reply =
                Reply::Hello { major: VERSION, minor: LEAST_MINOR_VERSION - 1, server: "earlier".into() };
            channel.send(&wire::frame(&reply.encode(hello.number)), None).expect("it listens");
        });
        let error = Client::connect(&Address::Unix(path.clone()), None).expect_err("it is older");
        server.join().expect("it answered");
        let expect =
            format!("unix:{}: the server is older than this client; update the server", path.display());
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn a_flush_after_a_refusal_waits_for_no_answer_that_nobody_owes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let server = std::thread::spawn(move || {
            let mut channel = UnixChannel::new(listener.accept().expect("a client").0, false);
            let mut answer = |reply: Reply| {
                let request = wire::read(&mut channel, MAX_BODY_BYTES).expect("a request");
                channel.send(&wire::frame(&reply.encode(request.number)), None).expect("it listens");
                request.code
            };
            answer(Reply::Hello { major: VERSION, minor: MINOR_VERSION, server: "full".into() });
            let code = Request::Flush { sync: false }.encode(0).code;
            assert_eq!(answer(Reply::Refused { reason: RefusalReason::NoRoom, text: "full".into() }), code);
            // It answers nothing more, and hangs up when the client does.
            let _ = wire::read(&mut channel, MAX_BODY_BYTES);
        });
        let mut socket = Socket::open(&Address::Unix(path), None).expect("it answers");
        socket.flush_behind().expect("it is sent");
        for _ in 0..2 {
            // What is asked for now would be due the next time.
            std::thread::sleep(FLUSHING);
            let error = socket.flush_behind().expect_err("the one before was refused");
            assert!(matches!(error, Error::Refused { reason: RefusalReason::NoRoom, .. }), "{error}");
        }
        drop(socket);
        server.join().expect("it answered");
    }
}
