//! Serves one channel from its hello to its end.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use trace_format::EndReason;

use super::kept::{ChannelState, NotTaken};
use super::{Greeting, LogLevel, PATIENCE, Seat, ServerState};
use crate::channel::Channel;
use crate::engine::Answer;
use crate::wire::{self, MAX_BODY_BYTES, MAX_HELLO_BYTES, Message, ReadError, Reply, Request, VERSION};
use crate::{Credentials, RefusalReason, Role};

/// Who came.
pub(super) struct Guest {
    /// For the log.
    pub(super) who: String,
    /// Why it is not admitted, whatever it says.
    pub(super) refusal: Option<&'static str>,
    /// Where it waits.
    pub(super) place: Place,
}

/// Where a client waits until it has said hello.
pub(super) enum Place {
    /// In its seat already, which is `None` where there are too many: only the server's own user comes here.
    Local(Option<Seat>),
    /// Among the strangers: a seat is for those who show the token.
    Remote {
        /// Its place there.
        greeting: Greeting,
        /// What it must show one of.
        credentials: Arc<Credentials>,
        /// What its channel travels on.
        connection: TcpStream,
    },
}

fn send(channel: &mut dyn Channel, answer: &Answer, number: u32) -> std::io::Result<()> {
    let mut message = answer.reply.encode(number);
    if message.body.len() > MAX_BODY_BYTES {
        let text = "the answer is too long for a message".into();
        message = Reply::Refused { reason: RefusalReason::NoRoom, text }.encode(number);
    }
    channel.send(&wire::frame(&message), answer.memory.as_ref().map(|memory| memory.as_fd()))
}

fn refuse(channel: &mut dyn Channel, number: u32, reason: RefusalReason, text: &str) {
    let _ = send(channel, &Reply::Refused { reason, text: text.into() }.into(), number);
}

pub(super) fn serve(shared: &Arc<ServerState>, mut channel: Box<dyn Channel>, guest: Guest) {
    let channel = &mut *channel;
    if channel.limit(Some(PATIENCE), Some(PATIENCE)).is_err() {
        return;
    }
    let Guest { who, refusal, place } = guest;
    let Some(hello) = hello(shared, channel, &who, refusal, place) else { return };
    if channel.limit(None, Some(PATIENCE)).is_err() {
        return;
    }
    let mut handler = shared.engine.channel(hello.shared, hello.role);
    shared.log(LogLevel::Sessions, || format!("{}: came, to {}", hello.who, hello.role.name()));
    let answer = handler.handle(hello.request);
    if send(channel, &answer, hello.number).is_err() {
        return;
    }
    let state = ChannelState { handler, last: answer.reply.encode(hello.number), trace: String::new() };
    ServedChannel { shared, connection: hello.connection, who: &hello.who, kept: None, state }.serve(channel);
}

/// A channel that was admitted.
struct ServedChannel<'a> {
    shared: &'a ServerState,
    /// What it travels on, where that can be cut.
    connection: Option<TcpStream>,
    who: &'a str,
    /// Its number among those that are kept when they are cut.
    kept: Option<u64>,
    state: ChannelState,
}

impl ServedChannel<'_> {
    fn log(&self, level: LogLevel, text: impl FnOnce() -> String) {
        self.shared.log(level, || format!("{}: {}", self.who, text()));
    }

    fn serve(mut self, channel: &mut dyn Channel) {
        let was_cut = self.answer_all(channel);
        let mut state = self.state;
        if let Some(number) = self.kept {
            let patience = self.shared.engine.options().patience;
            if was_cut {
                let seconds = patience.as_secs();
                self.shared
                    .log(LogLevel::Sessions, || format!("{}: was cut off; kept for {seconds} s", self.who));
                match self.shared.kept.wait(number, state, patience) {
                    Some(left) => state = *left,
                    None => return,
                }
            } else {
                self.shared.kept.forget(number);
            }
        }
        match state.handler.leave(EndReason::ClientVanished) {
            Ok(()) => self.shared.log(LogLevel::Sessions, || format!("{}: left", self.who)),
            // A trace that could not be completed after its client had gone.
            Err(error) => self.shared.log(LogLevel::Errors, || format!("{}: left: {error}", self.who)),
        }
    }

    /// Answers until the channel ends; whether it was cut, or its client refused.
    fn answer_all(&mut self, channel: &mut dyn Channel) -> bool {
        loop {
            let message = match wire::read(channel, MAX_BODY_BYTES) {
                Ok(message) => message,
                Err(ReadError::Closed | ReadError::Io(_)) => return true,
                Err(ReadError::Malformed(what)) => {
                    self.log(LogLevel::Refusals, || format!("refused: {what}"));
                    refuse(channel, 0, RefusalReason::Malformed, what);
                    return false;
                }
            };
            let number = message.number;
            let request =
                Request::from_message(message).filter(|request| !matches!(request, Request::Hello { .. }));
            let Some(request) = request else {
                let what = "a message that is not a request, or out of place";
                self.log(LogLevel::Refusals, || format!("refused: {what}"));
                refuse(channel, number, RefusalReason::Malformed, what);
                return false;
            };
            self.log(LogLevel::Requests, || request.name().to_owned());
            let resumes = matches!(request, Request::ResumeChannel { .. });
            let story = StoryOf::before(&request);
            let answer = self.answer(request);
            let (who, shared) = (self.who, self.shared);
            story.after(&answer.reply, &mut self.state.trace, |text| {
                shared.log(LogLevel::Sessions, || format!("{who}: {text}"))
            });
            if !resumes {
                self.state.last = to_keep(&answer.reply, number);
            }
            if let Reply::Refused {
                reason: reason @ (RefusalReason::Malformed | RefusalReason::OutsideRoot | RefusalReason::Role),
                text,
            } = &answer.reply
            {
                self.log(LogLevel::Refusals, || format!("refused: {text}"));
                if *reason == RefusalReason::Malformed {
                    let _ = send(channel, &answer, number);
                    return false;
                }
            }
            if send(channel, &answer, number).is_err() {
                return true;
            }
        }
    }

    /// Does what is asked for: what concerns the channel here, and all else where it does not matter what it travels on.
    fn answer(&mut self, request: Request) -> Answer {
        let again = || self.connection.as_ref().and_then(|connection| connection.try_clone().ok());
        match request {
            Request::KeepChannel { seconds } if self.connection.is_some() && self.kept.is_none() => {
                let most = self.shared.engine.options().patience.as_secs();
                match again().and_then(|connection| self.shared.kept.keep(connection)) {
                    Some(channel) => {
                        self.kept = Some(channel.number);
                        Reply::Kept { channel, seconds: u64::from(seconds).min(most) as u32 }.into()
                    }
                    None => refusal(RefusalReason::NoRoom, "the channel can't be kept"),
                }
            }
            Request::ResumeChannel { channel }
                if self.kept.is_none() && !self.state.handler.is_in_session() =>
            {
                let Some(connection) = again() else {
                    return refusal(RefusalReason::NoRoom, "the channel can't be taken over");
                };
                // The client must hear the answer before its own patience ends.
                match self.shared.kept.resume(channel, connection, PATIENCE / 2) {
                    Ok(state) => {
                        self.kept = Some(channel.number);
                        self.state = *state;
                        Reply::Resumed { last: self.state.last.clone() }.into()
                    }
                    Err(NotTaken::Busy) => {
                        refusal(RefusalReason::NoRoom, "the channel is still busy with what it was sent last")
                    }
                    Err(NotTaken::Unknown) => refusal(
                        RefusalReason::Unknown,
                        "the server does not have this channel any more; what it was sent before is in the trace",
                    ),
                }
            }
            other => {
                if let (Request::LeaveSession, Some(number)) = (&other, self.kept) {
                    // It does not come back.
                    self.shared.kept.forget(number);
                    self.kept = None;
                }
                self.state.handler.handle(other)
            }
        }
    }
}

fn refusal(reason: RefusalReason, text: &str) -> Answer {
    Reply::Refused { reason, text: text.into() }.into()
}

/// The answer as it is given again after a cut, where it can be: what was read can be read again.
fn to_keep(reply: &Reply, number: u32) -> Message {
    let shortened = match reply {
        Reply::Block(_) | Reply::Streams { .. } | Reply::Sessions { .. } => Some(Reply::Refused {
            reason: RefusalReason::Unknown,
            text: "the answer was lost when the connection was cut; ask again".into(),
        }),
        _ => None,
    };
    shortened.as_ref().unwrap_or(reply).encode(number)
}

/// What a request is for the log: who works on which trace.
enum StoryOf {
    Creating(String),
    Opening(String),
    Closing,
    Ending(u64),
    Other,
}

impl StoryOf {
    fn before(request: &Request) -> Self {
        match request {
            Request::CreateTrace { specifier, .. } => Self::Creating(specifier.clone()),
            Request::OpenTrace { specifier, .. } => Self::Opening(specifier.clone()),
            Request::CloseTrace => Self::Closing,
            Request::EndSession { session } => Self::Ending(*session),
            _ => Self::Other,
        }
    }

    /// Tells it once it was done. `trace` is the one that the channel works on.
    fn after(self, reply: &Reply, trace: &mut String, say: impl Fn(String)) {
        if let Reply::Refused { .. } = reply {
            return;
        }
        match (self, reply) {
            (Self::Creating(name), _) => {
                say(format!("creates {name}"));
                *trace = name;
            }
            (Self::Opening(name), _) => {
                say(format!("opens {name}"));
                *trace = name;
            }
            (Self::Closing, Reply::Closed { file_bytes }) => {
                say(format!("closes {}, which has {file_bytes} bytes", std::mem::take(trace)));
            }
            (Self::Ending(session), _) => say(format!("ends session {session}")),
            _ => {}
        }
    }
}

/// A hello that was admitted.
struct Hello {
    request: Request,
    number: u32,
    shared: bool,
    role: Role,
    connection: Option<TcpStream>,
    /// With what the client calls itself.
    who: String,
    /// Given up at the channel's end.
    _seat: Seat,
}

fn hello(
    shared: &Arc<ServerState>,
    channel: &mut dyn Channel,
    who: &str,
    refusal: Option<&'static str>,
    place: Place,
) -> Option<Hello> {
    let refused = |channel: &mut dyn Channel, number, reason, text: &str| {
        shared.log(LogLevel::Refusals, || format!("{who}: refused: {text}"));
        refuse(channel, number, reason, text);
    };
    let message: Message = match wire::read(channel, MAX_HELLO_BYTES) {
        Ok(message) => message,
        // Who connects and says nothing, such as a server that is being stopped.
        Err(ReadError::Closed) => return None,
        Err(ReadError::Io(error)) => {
            shared.log(LogLevel::Refusals, || format!("{who}: refused: no hello: {error}"));
            return None;
        }
        Err(ReadError::Malformed(what)) => {
            refused(channel, 0, RefusalReason::Malformed, what);
            return None;
        }
    };
    let number = message.number;
    let Some(request) = Request::decode(&message) else {
        refused(channel, number, RefusalReason::Malformed, "the first message is not hello");
        return None;
    };
    let Request::Hello { major, token, client, .. } = &request else {
        refused(channel, number, RefusalReason::Malformed, "the first message is not hello");
        return None;
    };
    if let Some(text) = refusal {
        refused(channel, number, RefusalReason::NotAdmitted, text);
        return None;
    }
    let role = match &place {
        Place::Local(_) => Some(Role::Administrate),
        Place::Remote { credentials, .. } => credentials.role_of(token),
    };
    let Some(role) = role else {
        let text = if token.is_empty() { "no token was given" } else { "the token is wrong" };
        refused(channel, number, RefusalReason::NotAdmitted, text);
        return None;
    };
    if *major != VERSION {
        let text = format!("version {major} of the protocol is not spoken here, but {VERSION}");
        refused(channel, number, RefusalReason::NotAdmitted, &text);
        return None;
    }
    let local = matches!(place, Place::Local(_));
    let (seat, connection) = match place {
        Place::Local(seat) => (seat, None),
        // No stranger any more: its place is free.
        Place::Remote { greeting, connection, .. } => {
            drop(greeting);
            (shared.seat(), Some(connection))
        }
    };
    let Some(seat) = seat else {
        let text = format!("{} channels are the most; try again later", shared.engine.options().channels);
        refused(channel, number, RefusalReason::NoRoom, &text);
        return None;
    };
    let who = if client.is_empty() { who.to_owned() } else { format!("{who}, {client}") };
    Some(Hello { request, number, shared: local, role, connection, who, _seat: seat })
}
