//! One channel from its hello to its end.

use std::os::fd::AsFd;
use std::sync::Arc;

use trace_format::EndReason;

use super::{Greeting, PATIENCE, Seat, ServerState};
use crate::channel::Channel;
use crate::engine::Answer;
use crate::wire::{self, MAX_BODY_BYTES, MAX_HELLO_BYTES, Message, ReadError, Reply, Request, VERSION};
use crate::{Error, RefusalReason};

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
        /// What it must show.
        token: Arc<str>,
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
    let mut handler = shared.engine.channel(hello.shared);
    let answer = handler.handle(hello.request);
    if send(channel, &answer, hello.number).is_err() {
        return;
    }
    loop {
        let message = match wire::read(channel, MAX_BODY_BYTES) {
            Ok(message) => message,
            Err(ReadError::Closed | ReadError::Io(_)) => break,
            Err(ReadError::Malformed(what)) => {
                shared.log(&format!("{who}: refused: {what}"));
                refuse(channel, 0, RefusalReason::Malformed, what);
                break;
            }
        };
        let number = message.number;
        let request = Request::decode(&message).filter(|request| !matches!(request, Request::Hello { .. }));
        drop(message);
        let Some(request) = request else {
            let what = "a message that is no request, or not in its place";
            shared.log(&format!("{who}: refused: {what}"));
            refuse(channel, number, RefusalReason::Malformed, what);
            break;
        };
        let answer = handler.handle(request);
        if let Reply::Refused {
            reason: reason @ (RefusalReason::Malformed | RefusalReason::OutsideRoot),
            text,
        } = &answer.reply
        {
            shared.log(&format!("{who}: refused: {text}"));
            if *reason == RefusalReason::Malformed {
                let _ = send(channel, &answer, number);
                break;
            }
        }
        if send(channel, &answer, number).is_err() {
            break;
        }
    }
    if let Err(error) = handler.leave(EndReason::ClientVanished) {
        report(shared, &who, &error);
    }
}

/// A trace that could not be completed after its client had gone.
fn report(shared: &ServerState, who: &str, error: &Error) {
    shared.log(&format!("{who}: left: {error}"));
}

/// A hello that was admitted.
struct Hello {
    request: Request,
    number: u32,
    shared: bool,
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
        shared.log(&format!("{who}: refused: {text}"));
        refuse(channel, number, reason, text);
    };
    let message: Message = match wire::read(channel, MAX_HELLO_BYTES) {
        Ok(message) => message,
        // Who connects and says nothing, such as a server that is being stopped.
        Err(ReadError::Closed) => return None,
        Err(ReadError::Io(error)) => {
            shared.log(&format!("{who}: refused: no hello: {error}"));
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
    let Request::Hello { major, token, .. } = &request else {
        refused(channel, number, RefusalReason::Malformed, "the first message is no hello");
        return None;
    };
    if let Some(text) = refusal {
        refused(channel, number, RefusalReason::NotAdmitted, text);
        return None;
    }
    if let Place::Remote { token: right, .. } = &place
        && !same(right.as_bytes(), token.as_bytes())
    {
        let text = if token.is_empty() { "no token was given" } else { "the token is wrong" };
        refused(channel, number, RefusalReason::NotAdmitted, text);
        return None;
    }
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
    Some(Hello { request, number, shared: local, _seat: seat })
}

/// Compares without telling by the time how much is right.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
