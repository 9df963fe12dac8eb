//! Compares an independent reader in Python, written from docs/format.md, with this crate.

use std::{path::Path, process::Command};

use trace_format::{
    CreateOptions, EntryType, Field, FieldRole, FileSink, Guid, NewSegment, SegmentContent, SegmentSink,
    StreamDescription,
};

const GENERIC: u32 = 5;
const VPC: u32 = 6;

fn read(path: &Path, stream: u32) -> Vec<u8> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reader.py");
    let out = Command::new("python3").arg(script).arg(path).arg(stream.to_string()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// Writes a stream in several segments and returns its number.
fn write(sink: &FileSink, entry_type: EntryType, encoder: u32, entries: &[u8]) -> u32 {
    let description = StreamDescription {
        name: entry_type.name.clone(),
        entry_type: entry_type.clone(),
        encoder,
        variable: false,
        hidden: false,
        process: None,
        thread: None,
        properties: vec![("purpose".into(), "test".into())],
    };
    let stream = sink.add_stream(&description).unwrap();
    let width = entry_type.entry_bytes as usize;
    let mut first_index = 0;
    for (sequence, entries) in entries.chunks(300 * width).enumerate() {
        sink.add_segment(&NewSegment {
            stream,
            entry_type: &entry_type,
            encoder,
            sequence: sequence as u64,
            first_index,
            wall_ns: 0,
            bounds: None,
            content: SegmentContent::Entries(entries),
        })
        .unwrap();
        first_index += (entries.len() / width) as u64;
    }
    stream
}

/// Words of accesses: instruction, address, data.
fn words(n: u64) -> [u64; 3] {
    let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    match n % 4 {
        0 => [0x40_1000, 0x7000 + n * 8, n / 7],
        1 => [0x40_1004, 0x9000 + random % 64 * 4, random],
        2 => [0x40_1010, 0xffff_0000 - n * 16, 7],
        _ => [0x40_1010 + n % 3 * 8, 0x8000, u64::MAX - n],
    }
}

#[test]
fn generic_and_vpc_frames_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let sink = FileSink::create(&path, CreateOptions::default()).unwrap();
    let mut expected = Vec::new();

    let field =
        |name: &str, offset, bytes| Field { name: name.into(), offset, bytes, role: FieldRole::Plain };
    let fields = vec![field("a", 1, 8), field("b", 9, 4), field("c", 15, 2), field("d", 17, 1)];
    let mine = EntryType { guid: Guid([9; 16]), name: "mine".into(), entry_bytes: 19, fields };
    let entry = |n: u64| {
        let [ip, addr, data] = words(n);
        let mut entry = vec![n as u8];
        entry.extend(ip.wrapping_sub(data).to_le_bytes());
        entry.extend((addr as u32).to_le_bytes());
        entry.extend([1, 2]);
        entry.extend((data as u16).to_le_bytes());
        entry.extend([n as u8 % 3, (n / 100) as u8]);
        entry
    };
    let entries: Vec<u8> = (0..1_000).flat_map(entry).collect();
    expected.push((write(&sink, mine, GENERIC, &entries), entries));

    for (wide, data) in [(false, false), (false, true), (true, false), (true, true)] {
        let entry = |n: u64| {
            let mut entry = ((n * 3) | ((n % 5) << 48)).to_le_bytes().to_vec();
            for word in &words(n)[..if data { 3 } else { 2 }] {
                entry.extend(&word.to_le_bytes()[..if wide { 8 } else { 4 }]);
            }
            entry
        };
        let entries: Vec<u8> = (0..1_000).flat_map(entry).collect();
        expected.push((write(&sink, EntryType::memory_access(wide, data), VPC, &entries), entries));
    }
    sink.finish(false).unwrap();
    for (stream, entries) in expected {
        assert!(read(&path, stream) == entries, "stream {stream}");
    }
}
