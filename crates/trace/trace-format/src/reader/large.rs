//! A test: a trace of ten billion accesses, of which only the directories and one frame exist.

use std::{fs::File, os::unix::fs::FileExt, time::Instant};

use memref::{Access, AccessKind, ProcessId, ThreadId, VirtAddr};

use super::trace::Trace;
use crate::{
    Bounds, Encoders, EndReason, Filter, Guid, Interval, KindSet, StreamDescription, StreamKind,
    directory::{CAPACITY, Directory, End, FrameRef},
    entry::StreamEntry,
    file_header::FileHeader,
    frame::{self, FrameHeader, FrameKind},
};

const FRAME_ENTRIES: u64 = 1 << 20;
const FRAMES: u64 = 10_000_000_000 / FRAME_ENTRIES + 1;
/// Bytes that a frame takes in the file.
const FRAME_BYTES: u64 = 100_000 * 8;
const STEP: u64 = 3;
const CHOSEN: u64 = 6_789;

/// The access of an index: a loop over an array, an instruction in three an access.
fn access(index: u64) -> Access {
    let (ip, addr) = (VirtAddr(0x40_1000 + index % 4 * 4), VirtAddr(0x10_0000 + index / 4 % 5_000 * 8));
    Access { cycle: index * STEP, ip, addr, size: 8, kind: AccessKind::Load }
}

fn bounds(place: u64) -> Bounds {
    let cycles =
        Interval { min: place * FRAME_ENTRIES * STEP, max: ((place + 1) * FRAME_ENTRIES - 1) * STEP };
    let addrs = Interval { min: 0x10_0000, max: 0x10_0000 + 40_000 };
    let ips = Interval { min: 0x40_1000, max: 0x40_100c };
    Bounds { cycles, addrs, ips, kinds: KindSet::access(AccessKind::Load), ..Bounds::NONE }
}

#[test]
fn ten_billion_entries_are_opened_and_read_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.memtap");
    let file = File::create(&path).unwrap();
    let guid = Guid([0x77; 16]);
    let session = guid.session_key();
    file.write_all_at(
        &FileHeader { version: crate::FORMAT_VERSION, session: guid, created_ns: 1 }.to_bytes(),
        0,
    )
    .unwrap();
    let mut end = 64;
    let mut put = |header: FrameHeader, parts: &[crate::Attribute], room: u64| {
        let (header, bytes, checksum) = frame::build(session, header, parts, 1);
        file.write_all_at(&bytes, end).unwrap();
        let reference = FrameRef { offset: end, header, checksum };
        end += (bytes.len() as u64).max(room);
        reference
    };
    let kind = StreamKind::Accesses;
    let description = StreamDescription {
        name: kind.name().into(),
        entry_type: kind.entry_type(),
        encoder: kind.encoder(),
        variable: false,
        hidden: false,
        process: Some(ProcessId(0)),
        thread: Some(ThreadId(0)),
        properties: Vec::new(),
    };
    let mut due = vec![put(FrameHeader::plain(FrameKind::Description, 1, 0), &[description.part()], 0)];
    let encoders = Encoders::default();
    let mut entries = Vec::new();
    for index in CHOSEN * FRAME_ENTRIES..(CHOSEN + 1) * FRAME_ENTRIES {
        access(index).put(&mut entries);
    }
    let real = encoders.get(kind.encoder()).unwrap().encode(&description.entry_type, &entries);
    let (mut previous, mut directories) = (None, 0);
    for place in 0..FRAMES {
        let header = FrameHeader {
            first_index: place * FRAME_ENTRIES,
            entries: FRAME_ENTRIES,
            bounds: bounds(place),
            ..FrameHeader::plain(FrameKind::Data, 1, place)
        };
        due.push(put(header, if place == CHOSEN { &real } else { &[] }, FRAME_BYTES));
        if due.len() == CAPACITY || place + 1 == FRAMES {
            let directory = Directory { previous, frames: std::mem::take(&mut due) };
            let header = FrameHeader::plain(FrameKind::Directory, 0, directories);
            previous = Some(put(header, &[directory.part()], 0).offset);
            directories += 1;
        }
    }
    let last = End { last_directory: previous, frames: FRAMES + 1, why: EndReason::Finished };
    put(FrameHeader::plain(FrameKind::End, 0, 0), &[last.part()], 0);

    let start = Instant::now();
    let trace = Trace::open(&path).unwrap();
    let opened = start.elapsed();
    assert!(trace.closed() && trace.damage().is_empty());
    let index = CHOSEN * FRAME_ENTRIES + 777_777;
    let cycle = index * STEP;
    let start = Instant::now();
    let mut cursor =
        trace.shard(ThreadId(0)).accesses(&Filter { cycles: Some(cycle..cycle + 1), ..Default::default() });
    assert_eq!(cursor.next_block().unwrap(), Some(&[access(index)][..]));
    let read = start.elapsed();
    println!(
        "{} entries: opened in {opened:.1?}, read at a random cycle in {read:.1?}",
        FRAMES * FRAME_ENTRIES
    );
}
