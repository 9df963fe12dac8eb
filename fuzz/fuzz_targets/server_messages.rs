//! Messages of the trace store: the first two bytes choose which, the rest is its body. Whatever is accepted must come back
//! from its own bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace_server::wire::{self, HEADER_BYTES, MAX_BODY_BYTES, Message, Reply, Request};

fuzz_target!(|input: &[u8]| {
    let _ = wire::read(&mut &*input, MAX_BODY_BYTES);
    if let Some((header, _)) = input.split_first_chunk::<HEADER_BYTES>() {
        let _ = wire::parse_header(header, MAX_BODY_BYTES);
    }
    let Some((&[kind, answer], body)) = input.split_first_chunk::<2>() else { return };
    let code = u16::from(kind % 24) | if answer % 2 == 1 { 0x8000 } else { 0 };
    let message = Message { code, number: 1, body: body.to_vec() };
    if let Some(request) = Request::decode(&message) {
        assert_eq!(Request::decode(&request.encode(1)), Some(request));
    }
    if let Some(reply) = Reply::decode(&message) {
        assert_eq!(Reply::decode(&reply.encode(1)), Some(reply));
    }
});
