//! Files of all versions of the format, which must stay readable (docs/format.md, *Versions*):
//! by this crate, and by a reader in another language, `reader.py`.
//!
//! `MEMTAP_BLESS=1` rewrites the files of the current version; those of earlier versions can no longer be generated.

mod common;

use std::ops::Range;
use std::process::Command;

use memref::{
    Access, AccessKind, BlockFunction, BlockKind, BlockOp, Event, ProcessId, Sync, SyncFunction, SyncKind,
    ThreadId, VirtAddr,
};
use trace_format::control_flow::{self, BlockEntry, FlowEntry};
use trace_format::machine::{CheckpointEntry, FoundEntry, PLACE_DEVICE, PageEntry, TaskEntry};
use trace_format::{
    CopyOptions, CreateOptions, DataAccess, Encoders, EntryType, FileSink, Filter, Guid, NewSegment,
    ProcessRecord, SegmentContent, SegmentSink, StreamDescription, StreamKind, ThreadRecord, Trace,
    TraceWriter, copy,
};

use common::{assert_nothing_wrong, fixed, open, small, small_file};

fn path(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

fn bless(name: &str, bytes: &[u8]) {
    if std::env::var_os("MEMTAP_BLESS").is_some() {
        std::fs::write(path(name), bytes).unwrap();
    }
}

#[test]
fn the_golden_file_of_version_1_is_read() {
    let trace = open(golden("v1.memtap")).unwrap();
    let all = small().shards.iter().map(Vec::len).sum::<usize>();
    assert_eq!(assert_nothing_wrong(&trace, &small()), all);
    assert!(trace.check().unwrap().is_sound());
    let values: Vec<_> = trace.shard(ThreadId(0)).values(&Filter::default()).map(Result::unwrap).collect();
    assert_eq!((values[0].bytes.as_slice(), values[1].bytes.len()), (&[1, 2, 3][..], 100));
}

#[test]
fn the_golden_file_of_version_2_is_read() {
    let trace = open(golden("v2.memtap")).unwrap();
    let all = small().shards.iter().map(Vec::len).sum::<usize>();
    assert_eq!(assert_nothing_wrong(&trace, &small()), all);
    assert!(trace.check().unwrap().is_sound());
}

#[test]
fn the_golden_file_of_version_3_is_read() {
    let trace = open(golden("v3.memtap")).unwrap();
    let all = small().shards.iter().map(Vec::len).sum::<usize>();
    assert_eq!(assert_nothing_wrong(&trace, &small()), all);
    assert!(trace.check().unwrap().is_sound());
}

#[test]
fn the_golden_file_of_version_4_is_read() {
    let trace = open(golden("v4.memtap")).unwrap();
    let all = small().shards.iter().map(Vec::len).sum::<usize>();
    assert_eq!(assert_nothing_wrong(&trace, &small()), all);
    assert!(trace.check().unwrap().is_sound());
}

#[test]
fn the_golden_file_of_version_5_is_read_and_written_again_byte_by_byte() {
    let bytes = small_file();
    bless("v5.memtap", &bytes);
    let trace = open(golden("v5.memtap")).unwrap();
    let all = small().shards.iter().map(Vec::len).sum::<usize>();
    assert_eq!(assert_nothing_wrong(&trace, &small()), all);
    assert!(trace.check().unwrap().is_sound());
    // A newer zstd may compress otherwise: then this, and this alone, may be relaxed.
    assert!(
        bytes == golden("v5.memtap"),
        "the writer's bytes changed: raise the version, or keep the format"
    );
}

/// Accesses with data as programs make them: loops, a list, a stack, new instructions all the time.
fn program(count: u64) -> Vec<DataAccess> {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut cycle = 0;
    let mut one = |n: u64| {
        cycle += 1 + next(4);
        let addr = match n % 7 {
            0..3 => 0x60_0000 + n * 8,
            3 => 0x7fff_0000 + next(64) * 8,
            4 => 0x7fff_0000 + n % 5,
            _ => next(1 << 40),
        };
        let (ip, size) = (0x40_1000 + n % 7 * 4 + n / 500 * 64, 1 << (n % 7 % 4));
        let kind = AccessKind::ALL[(n % 7 % 4) as usize];
        let access = Access { cycle, ip: VirtAddr(ip), addr: VirtAddr(addr), size, kind };
        let value = next(1 << 20) & (u64::MAX >> (64 - 8 * size));
        DataAccess { access, value, value_bytes: size as u8 }
    };
    (0..count).map(&mut one).collect()
}

/// What a file has in its frames of data: from the attribute tables on, since headers of version 4 have counts.
fn data_of(file: &[u8]) -> Vec<Vec<u8>> {
    let of_kind = |kind| common::data_frames(file, kind);
    let frames = [1, 2, 3, 6, 15, 16].into_iter().flat_map(of_kind);
    frames.map(|frame| file[frame.start + 160..frame.end].to_vec()).collect()
}

/// One file for each encoder of accesses, with data and without. Later versions changed none of these: the files of version 2 differ
/// in headers alone.
#[test]
fn golden_files_of_all_encoders_are_read_and_their_data_is_written_again_byte_by_byte() {
    let dir = tempfile::tempdir().unwrap();
    let entries = program(2_000);
    let plain: Vec<Access> = entries.iter().map(|entry| entry.access).collect();
    for name in ["raw", "columns", "live", "access", "access-archive", "generic", "vpc"] {
        for data in [false, true] {
            let (mine, form) = (dir.path().join("trace"), if data { "data" } else { "plain" });
            let file = path(&format!("v2-{name}-{form}.memtap"));
            let encoder = Encoders::default().by_name(name).map(|encoder| encoder.id());
            let options = CreateOptions { data, encoder, force: true, ..fixed(1_500) };
            let writer = TraceWriter::create(&mine, options).unwrap();
            let process = writer.add_process(&ProcessRecord::default()).unwrap();
            let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
            let mut shard = writer.shard(thread).unwrap();
            if data {
                shard.push_data_accesses(&entries).unwrap();
            } else {
                shard.push_accesses(&plain).unwrap();
            }
            writer.finish().unwrap();
            let trace = Trace::open(&file).unwrap();
            let mut cursor = trace.shard(thread).accesses(&Filter::default());
            let mut read = Vec::new();
            while let Some(block) = cursor.next_block().unwrap() {
                read.extend_from_slice(block);
            }
            assert!(read == plain, "{file}");
            let values = trace.shard(thread).values(&Filter::default()).map(|value| value.unwrap().bytes);
            let written = entries.iter().filter(|_| data);
            let written = written.map(|entry| entry.value.to_le_bytes()[..entry.value_bytes.into()].to_vec());
            assert!(values.eq(written), "{file}");
            let (then, now) = (std::fs::read(&file).unwrap(), std::fs::read(&mine).unwrap());
            assert_eq!(data_of(&then).len(), data_of(&now).len());
            assert!(data_of(&now).len() > 2 && data_of(&then) == data_of(&now), "{file}: the bytes changed");
        }
    }
}

/// A trace with the streams that stand beside events, as `v2-machine.memtap` has them, and two whose names changed.
fn machine_file() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let options = CreateOptions {
        session: Some(Guid([0x5a; 16])),
        clock: || 1_700_000_000_000_000_000,
        ..Default::default()
    };
    let writer = TraceWriter::create(&path, options).unwrap();
    writer.set_property("tracer", "qemu").unwrap();
    let process = writer.add_process(&ProcessRecord { pid: 42, ..Default::default() }).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    assert_eq!((process, thread), (ProcessId(0), ThreadId(0)));
    let mut shard = writer.shard(thread).unwrap();
    for cycle in 0..20 {
        shard.push(&Event::Block(block_op(cycle))).unwrap();
        shard.push(&Event::Sync(sync(cycle))).unwrap();
    }
    shard.flush().unwrap();
    let write = |kind: StreamKind, entries: &mut dyn Iterator<Item = (u64, Vec<u8>)>| {
        let owner = kind.per_thread().then_some((process, thread));
        let mut stream = writer.typed(StreamDescription::of_kind(kind, owner), 16);
        for (cycle, entry) in entries {
            stream.push(cycle, &entry).unwrap();
        }
        stream.flush().unwrap();
    };
    let page = |n| PageEntry { index: n, page: n * 3, place: (n * 5) | PLACE_DEVICE };
    write(StreamKind::Pages, &mut (0..40).map(|n| (n, page(n).to_bytes().to_vec())));
    let found = |n| FoundEntry { cycle: n * 7, since: n, addr: n << 12, len: 3, at: n * 3 };
    write(StreamKind::Found, &mut (0..5).map(|n| (n, found(n).to_bytes().to_vec())));
    write(StreamKind::FoundData, &mut (0..5).map(|n| (n, vec![n as u8; 3])));
    let task = |cycle| {
        let (process, thread, parent, change, name) = (3, 4, 5, 1, *b"init............");
        TaskEntry { cycle, address: VirtAddr(cycle << 8), process, thread, parent, change, name }
    };
    write(StreamKind::Tasks, &mut (0..9).map(|n| (n, task(n).to_bytes().to_vec())));
    let symbol = b"\x0b\0\x10\x20\0\0\0\0\0\0abc".to_vec();
    write(StreamKind::GuestSymbols, &mut std::iter::once((0, symbol)));
    write(StreamKind::Flow, &mut (0..50).map(|n| (n * 2, entered(n).to_bytes().to_vec())));
    write(StreamKind::BasicBlocks, &mut (0..7).map(|n| (n, basic_block(n).to_bytes().to_vec())));
    write(StreamKind::Checkpoints, &mut (0..4).map(|n| (n * 30, checkpoint(n).to_bytes().to_vec())));
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn block_op(cycle: u64) -> BlockOp {
    BlockOp {
        cycle,
        order: cycle,
        ip: VirtAddr(0x1000),
        kind: BlockKind::Copy,
        function: BlockFunction::Memmove,
        dst: VirtAddr(0x2000),
        src: VirtAddr(0x3000 + cycle),
        len: 9,
    }
}

fn sync(cycle: u64) -> Sync {
    Sync {
        cycle,
        order: 100 + cycle,
        ip: VirtAddr(0x1004),
        kind: SyncKind::Depart,
        function: SyncFunction::OpenMp,
        object: VirtAddr(0x4000),
        value: cycle,
    }
}

fn entered(n: u64) -> FlowEntry {
    FlowEntry { cycle: n * 2, block: (n % 7) as u32 }
}

fn basic_block(n: u64) -> BlockEntry {
    BlockEntry { ip: VirtAddr(0x1000 + n * 64), instructions: 2, bytes: 11 }
}

fn checkpoint(n: u64) -> CheckpointEntry {
    CheckpointEntry { cycle: n * 30, time_ns: 1_700_000_000_000_000_000 + n }
}

/// What is in `machine_file`, by the names and kinds of this version.
fn check_machine(trace: &Trace) {
    assert!(trace.check().unwrap().is_sound());
    let mut names: Vec<String> = trace.streams().map(|stream| stream.description.name).collect();
    names.sort();
    let expected = [
        "basic-blocks",
        "block-operations",
        "checkpoints",
        "flow",
        "found",
        "found-data",
        "guest-symbols",
        "names",
        "pages",
        "processes",
        "properties",
        "syncs",
        "tasks",
        "threads",
    ];
    assert_eq!(names, expected);
    assert!(trace.streams().all(|s| s.description.name == s.description.entry_type.name));
    let entries = |kind: StreamKind| {
        let mut cursor = trace.typed(kind, kind.per_thread().then_some(ThreadId(0))).unwrap();
        let mut all = Vec::new();
        while let Some(frame) = cursor.next_frame().unwrap() {
            all.extend_from_slice(frame.bytes);
        }
        all
    };
    let flow: Vec<u8> = (0..50).flat_map(|n| entered(n).to_bytes()).collect();
    assert_eq!(entries(StreamKind::Flow), flow);
    assert_eq!(control_flow::blocks(trace).unwrap(), (0..7).map(basic_block).collect::<Vec<_>>());
    let checkpoints: Vec<u8> = (0..4).flat_map(|n| checkpoint(n).to_bytes()).collect();
    assert_eq!(entries(StreamKind::Checkpoints), checkpoints);
    let events = common::events(&trace.shard(ThreadId(0)), &Filter::default());
    let written: Vec<Event<String>> =
        (0..20).flat_map(|cycle| [Event::Sync(sync(cycle)), Event::Block(block_op(cycle))]).collect();
    assert_eq!(events, written);
}

#[test]
fn streams_of_earlier_versions_have_the_names_of_this_one() {
    let (old, new) = (golden("v2-machine.memtap"), machine_file());
    bless("v5-machine.memtap", &new);
    check_machine(&open(old.clone()).unwrap());
    check_machine(&open(golden("v3-machine.memtap")).unwrap());
    check_machine(&open(golden("v4-machine.memtap")).unwrap());
    check_machine(&open(golden("v5-machine.memtap")).unwrap());
    assert!(new == golden("v5-machine.memtap"), "the writer's bytes changed");
    // The names are all that changed: entries stand in the same frames.
    let frames = |bytes: &[u8]| common::data_frames(bytes, 47).iter().map(Range::len).collect::<Vec<_>>();
    assert_eq!(frames(&old), frames(&new));
}

#[test]
fn a_copy_of_an_earlier_version_is_one_of_this() {
    let dir = tempfile::tempdir().unwrap();
    let trace = open(golden("v2-machine.memtap")).unwrap();
    let copied = |drop: &[&str]| {
        let create = CreateOptions { force: true, ..Default::default() };
        let sink = FileSink::create(dir.path().join("copy"), create).unwrap();
        let drop = drop.iter().map(|&name| name.to_owned()).collect();
        copy(&trace, &sink, &CopyOptions { drop, ..Default::default() }).unwrap();
        sink.finish(false).unwrap();
        Trace::open(dir.path().join("copy")).unwrap()
    };
    let whole = copied(&[]);
    assert_eq!(whole.version(), 5);
    check_machine(&whole);
    // Former names still say which streams to leave out; `syncs` is what it is now.
    let less = copied(&["blocks", "guest-flow", "syncs"]);
    let has = |name: &str| less.streams().any(|stream| stream.description.name == name);
    assert!(!has("block-operations") && !has("flow") && !has("syncs"));
    assert!(has("basic-blocks") && has("checkpoints"));
}

#[test]
fn a_stream_of_an_encoder_that_was_given_up_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::create(dir.path().join("trace"), CreateOptions::default()).unwrap();
    let entry_type = EntryType { guid: Guid([7; 16]), name: "words".into(), entry_bytes: 8, fields: vec![] };
    let mut description = StreamDescription::of_kind(StreamKind::FoundData, None);
    (description.entry_type, description.encoder) = (entry_type.clone(), 7);
    let stream = sink.add_stream(&description).unwrap();
    let (sequence, first_index, wall_ns, bounds) = (0, 0, 0, None);
    let content = SegmentContent::Entries(&[7; 16]);
    let entry_type = &entry_type;
    sink.add_segment(&NewSegment {
        stream,
        entry_type,
        encoder: 7,
        sequence,
        first_index,
        wall_ns,
        bounds,
        content,
    })
    .unwrap();
    sink.finish(false).unwrap();
    let trace = Trace::open(dir.path().join("trace")).unwrap();
    let error = trace.stream(stream).unwrap().read(0, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("encoder 7, flow, which was given up"), "{error}");
}

fn python(arguments: &[&str]) -> Vec<u8> {
    let out = Command::new("python3").arg(path("../reader.py")).args(arguments).output().unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

#[test]
fn a_reader_in_another_language_reads_all_versions() {
    const KNOWN: [&str; 4] = ["raw", "columns", "generic", "vpc"];
    for file in [
        "v1.memtap",
        "v2.memtap",
        "v2-machine.memtap",
        "v3.memtap",
        "v3-machine.memtap",
        "v4.memtap",
        "v4-machine.memtap",
        "v5.memtap",
        "v5-machine.memtap",
    ] {
        let trace = open(golden(file)).unwrap();
        let mut names = String::new();
        let (mut numbers, mut expected) = (Vec::new(), Vec::new());
        for info in trace.streams() {
            let (number, description) = (info.number, &info.description);
            names.push_str(&format!("{number} {}\n", description.name));
            let encoder = Encoders::default().get(description.encoder).map(|encoder| encoder.name());
            if !encoder.is_some_and(|name| KNOWN.contains(&name)) {
                continue;
            }
            let stream = trace.stream(number).unwrap();
            let mut segment = Vec::new();
            for place in 0..stream.segments() {
                assert!(stream.read(place, &mut segment).unwrap());
                expected.extend_from_slice(&segment);
            }
            numbers.push(number.to_string());
        }
        assert!(numbers.len() > 8, "{file}");
        let path = path(file);
        let arguments: Vec<&str> = [&*path].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        assert!(python(&arguments) == expected, "{file}");
        assert_eq!(String::from_utf8(python(&[&path])).unwrap(), names, "{file}");
    }
}
