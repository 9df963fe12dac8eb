//! Messages: each one is restored from its bytes, and no bytes make the parser panic.

use memref::VirtAddr;
use proptest::prelude::*;
use trace_format::{EntryType, Filter, KindSet};
use trace_server::wire::{ChannelKey, EntryBlock, FramePiece, Message, Reply, Request};
use trace_server::{By, EntryStream, OpenMode, RefusalReason, SessionInfo, StoredFile, SyncWhen};

fn requests(text: String, a: u64, b: u32, c: u32, bytes: Vec<u8>) -> Vec<Request> {
    let range = VirtAddr(a)..VirtAddr(a.wrapping_add(9));
    let filter = Filter {
        cycles: b.is_multiple_of(2).then_some(a..a.wrapping_add(5)),
        wall_ns: b.is_multiple_of(3).then_some(3..a),
        kinds: KindSet(c),
        addresses: vec![range.clone(); (b % 5) as usize],
        ips: vec![range; (c % 5) as usize],
        ..Filter::default()
    };
    let (specifier, frame) = (text.clone(), bytes.clone());
    vec![
        Request::Hello { major: b as u16, minor: c as u16, token: text.clone(), client: text.clone() },
        Request::CreateSession { name: text.clone() },
        Request::OpenSession { session: a },
        Request::ListSessions,
        Request::LeaveSession,
        Request::CreateTrace {
            specifier: specifier.clone(),
            replace: b.is_multiple_of(2),
            sync: SyncWhen::Flushed,
            segment_entries: c,
        },
        Request::OpenTrace { specifier, mode: OpenMode::Append },
        Request::CloseTrace,
        Request::AddStream { description: EntryStream::new(&text, EntryType::accesses()) },
        Request::ListStreams,
        Request::OpenWriter { stream: b, buffer_bytes: c, buffers: b },
        Request::Submit { writer: b, buffer: c, bytes: b, entries: bytes },
        Request::CloseWriter { writer: c },
        Request::Flush { sync: b.is_multiple_of(2) },
        Request::OpenReader { stream: b, buffer_bytes: c, filter },
        Request::Read { reader: b, index: a, most: c },
        Request::Seek { stream: b, by: By::WallNs, value: a },
        Request::CloseReader { reader: b },
        Request::AddProperty { key: text.clone(), value: text },
        Request::AddFrame { piece: FramePiece { total_bytes: a, offset: b.into(), bytes: frame } },
        Request::KeepChannel { seconds: b },
        Request::ResumeChannel { channel: ChannelKey { number: a, secret: [c as u8; 16] } },
        Request::ReadFile { file: StoredFile::Index, offset: a, most: b },
    ]
}

fn replies(text: String, a: u64, b: u32, bytes: Vec<u8>) -> Vec<Reply> {
    let session =
        SessionInfo { session: a, channels: b, mode: 1, name: text.clone(), specifier: text.clone() };
    let answer = bytes.clone();
    vec![
        Reply::Hello { major: 1, minor: b as u16, server: text.clone() },
        Reply::Session { session: a },
        Reply::Done { code: 14 },
        Reply::Sessions { sessions: vec![session; (b % 4) as usize] },
        Reply::Closed { file_bytes: a },
        Reply::Stream { stream: b },
        Reply::Streams { streams: Vec::new() },
        Reply::Writer { writer: b, buffer_bytes: b, buffers: b, entry_bytes: b, shared: b.is_multiple_of(2) },
        Reply::Submitted { writer: b, buffer: b },
        Reply::Reader { reader: b, buffer_bytes: b, entry_bytes: b, shared: b.is_multiple_of(2) },
        Reply::Block(EntryBlock {
            first_index: a,
            entries: b,
            next_index: a,
            end_index: a,
            lost: a,
            indexed: b.is_multiple_of(2),
            compressed: b.is_multiple_of(3),
            bytes: b,
            data: bytes,
        }),
        Reply::Index { index: a },
        Reply::Kept { channel: ChannelKey { number: a, secret: [b as u8; 16] }, seconds: b },
        Reply::Resumed { last: Message { code: b as u16, number: b, body: answer.clone() } },
        Reply::File { file_bytes: a, bytes: answer },
        Reply::Refused { reason: RefusalReason::Mode, text },
    ]
}

proptest! {
    #[test]
    fn messages_come_back(
        text in ".{0,40}", a: u64, b: u32, c: u32, bytes in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        for request in requests(text.clone(), a, b, c, bytes.clone()) {
            let message = request.encode(b);
            prop_assert_eq!(Request::decode(&message), Some(request));
            // One byte less or more is another message, or none.
            let mut cut = message.clone();
            if cut.body.pop().is_some() {
                prop_assert_ne!(Request::decode(&cut), Request::decode(&message));
            }
        }
        for reply in replies(text, a, b, bytes) {
            prop_assert_eq!(Reply::decode(&reply.encode(c)), Some(reply));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(code: u16, body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for code in [code, code % 25, (code % 25) | 0x8000, 0xffff] {
            let message = Message { code, number: 1, body: body.clone() };
            if let Some(request) = Request::decode(&message) {
                prop_assert_eq!(Request::decode(&request.encode(1)), Some(request));
            }
            if let Some(reply) = Reply::decode(&message) {
                prop_assert_eq!(Reply::decode(&reply.encode(1)), Some(reply));
            }
        }
    }
}
