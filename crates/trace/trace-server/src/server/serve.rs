//! One channel from its hello to its end.

use std::os::fd::AsFd;
use std::sync::Arc;

use trace_format::EndReason;

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
    let who = hello.who;
    shared.log(LogLevel::Sessions, || format!("{who}: came, to {}", hello.role.name()));
    let mut trace = String::new();
    let answer = handler.handle(hello.request);
    if send(channel, &answer, hello.number).is_err() {
        return;
    }
    loop {
        let message = match wire::read(channel, MAX_BODY_BYTES) {
            Ok(message) => message,
            Err(ReadError::Closed | ReadError::Io(_)) => break,
            Err(ReadError::Malformed(what)) => {
                shared.log(LogLevel::Refusals, || format!("{who}: refused: {what}"));
                refuse(channel, 0, RefusalReason::Malformed, what);
                break;
            }
        };
        let number = message.number;
        let request = Request::decode(&message).filter(|request| !matches!(request, Request::Hello { .. }));
        drop(message);
        let Some(request) = request else {
            let what = "a message that is no request, or not in its place";
            shared.log(LogLevel::Refusals, || format!("{who}: refused: {what}"));
            refuse(channel, number, RefusalReason::Malformed, what);
            break;
        };
        shared.log(LogLevel::Requests, || format!("{who}: {}", request.name()));
        let story = StoryOf::before(&request);
        let answer = handler.handle(request);
        story.after(&answer.reply, &mut trace, |text| {
            shared.log(LogLevel::Sessions, || format!("{who}: {text}"))
        });
        if let Reply::Refused {
            reason: reason @ (RefusalReason::Malformed | RefusalReason::OutsideRoot | RefusalReason::Role),
            text,
        } = &answer.reply
        {
            shared.log(LogLevel::Refusals, || format!("{who}: refused: {text}"));
            if *reason == RefusalReason::Malformed {
                let _ = send(channel, &answer, number);
                break;
            }
        }
        if send(channel, &answer, number).is_err() {
            break;
        }
    }
    match handler.leave(EndReason::ClientVanished) {
        Ok(()) => shared.log(LogLevel::Sessions, || format!("{who}: left")),
        // A trace that could not be completed after its client had gone.
        Err(error) => shared.log(LogLevel::Errors, || format!("{who}: left: {error}")),
    }
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
        refused(channel, number, RefusalReason::Malformed, "the first message is no hello");
        return None;
    };
    let Request::Hello { major, token, client, .. } = &request else {
        refused(channel, number, RefusalReason::Malformed, "the first message is no hello");
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
    let seat = match place {
        Place::Local(seat) => seat,
        // No stranger any more: its place is free.
        Place::Remote { greeting, .. } => {
            drop(greeting);
            shared.seat()
        }
    };
    let Some(seat) = seat else {
        let text = format!("{} channels are the most; try again later", shared.engine.options().channels);
        refused(channel, number, RefusalReason::NoRoom, &text);
        return None;
    };
    let who = if client.is_empty() { who.to_owned() } else { format!("{who}, {client}") };
    Some(Hello { request, number, shared: local, role, who, _seat: seat })
}
