//! Frames of executions whose blocks are defined in separate frames (docs/format.md, *Block definitions*).

mod common;

use std::sync::Arc;

use blocks::{
    BasicBlock, BlockAccess, Definition, Extent, MAX_DEFINITION_BYTES, RecordedValues, SharedBlock,
    encode_definition,
};
use memref::{Access, AccessKind, Event, ThreadId, VirtAddr};
use trace_format::{
    CopyOptions, CreateOptions, Damage, Encoders, FileSink, Filter, Finding, ProcessRecord, SegmentSink,
    ThreadRecord, Trace, TraceWriter, copy, merge, repair,
};

use common::{events, fixed, open};

/// A block of that number, with one access to four.
fn block(number: u64) -> SharedBlock {
    let access = |place: u64| BlockAccess {
        instruction: place as u16,
        offset: 4 * place as i64,
        base: (place % 2) as u8,
        size: 1 << ((number + place) % 4),
        kind: if place == 1 { AccessKind::Store } else { AccessKind::Load },
        displacement: (8 * place) as i64 - 8,
        ..BlockAccess::NONE
    };
    let accesses: Vec<BlockAccess> = (0..=number % 4).map(access).collect();
    let mut bytes = [0; MAX_DEFINITION_BYTES];
    let extent = Extent::of(VirtAddr(0x40_0000 + 64 * number), 5);
    let len = encode_definition(number as u32, extent, RecordedValues::plain(2), &accesses, &mut bytes);
    BasicBlock::new(&Definition::decode(&bytes[..len]).unwrap().0).unwrap().into()
}

/// Executes blocks on two threads in turns; each turn is a frame, which has most of its blocks from the turn before. Returns what
/// each thread did.
fn execute(writer: &TraceWriter, turns: u64) -> [Vec<Access>; 2] {
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let threads =
        [(); 2].map(|()| writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap());
    let known: Vec<SharedBlock> = (0..10 * turns + 40).map(block).collect();
    let mut all = [Vec::new(), Vec::new()];
    for turn in 0..turns {
        for (thread, all) in threads.iter().zip(&mut all) {
            let mut shard = writer.shard(*thread).unwrap();
            for n in 0..200 {
                let number = 10 * turn + (n * n + u64::from(thread.0)) % 40;
                let (cycle, values) = (1000 * (turn + 1) + 5 * n, [0x7000_0000 + 8 * n, 0x9000 + number]);
                let words = values.map(u64::to_le_bytes);
                let block = &known[number as usize];
                shard.blocks().unwrap().unwrap().push(number as u32, block, cycle, &words, 0).unwrap();
                block.expand(cycle, &values, 0, all);
            }
            shard.flush().unwrap();
        }
    }
    all
}

fn options() -> CreateOptions {
    CreateOptions { encoder: Some(Encoders::BLOCKS), data: false, force: true, ..fixed(1 << 20) }
}

/// The bytes of a trace, and what its threads did.
fn file(turns: u64) -> (Vec<u8>, [Vec<Access>; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let writer = TraceWriter::create(&path, options()).unwrap();
    let all = execute(&writer, turns);
    writer.finish().unwrap();
    (std::fs::read(path).unwrap(), all)
}

fn golden(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn assert_has(trace: &Trace, all: &[Vec<Access>; 2]) {
    assert!(trace.check().unwrap().is_sound(), "{:?}", trace.check().unwrap().findings);
    for (thread, all) in all.iter().enumerate() {
        let expected: Vec<_> = all.iter().map(|&access| Event::Access(access)).collect();
        assert!(events(&trace.shard(ThreadId(thread as u32)), &Filter::default()) == expected);
    }
}

const ACCESSES: u8 = 6;
const DEFINITIONS: u8 = 53;

fn accesses_of(trace: &Trace, thread: u32) -> Vec<Access> {
    let mut all = Vec::new();
    let mut cursor = trace.shard(ThreadId(thread)).accesses(&Filter::default());
    while let Some(block) = cursor.next_block().unwrap() {
        all.extend_from_slice(block);
    }
    assert_eq!(cursor.lost(), []);
    all
}

#[test]
fn golden_files_of_blocks_are_read() {
    let (bytes, all) = file(6);
    if std::env::var_os("MEMTAP_BLESS").is_some() {
        std::fs::write(golden("v5-blocks.memtap"), &bytes).unwrap();
    }
    for name in ["v4-blocks.memtap", "v5-blocks.memtap"] {
        assert_has(&Trace::open(golden(name)).unwrap(), &all);
    }
    assert!(bytes == std::fs::read(golden("v5-blocks.memtap")).unwrap(), "the writer's bytes changed");
}

#[test]
fn a_block_is_defined_once() {
    let (bytes, _) = file(15);
    let trace = open(bytes.clone()).unwrap();
    let stream = trace.streams().find(|stream| stream.description.name == "block-definitions").unwrap();
    assert!(stream.description.hidden && stream.description.thread.is_none());
    // Of the blocks 0 to 179, those of even and odd numbers were executed by one thread or the other; a definition is a head and
    // an entry an access.
    let executed: std::collections::BTreeSet<u64> = (0..15)
        .flat_map(|turn| (0..200).flat_map(move |n| [0, 1].map(|thread| 10 * turn + (n * n + thread) % 40)))
        .collect();
    assert_eq!(stream.entries, executed.iter().map(|number| 2 + number % 4).sum::<u64>());
    assert_eq!(stream.frames as usize, common::data_frames(&bytes, DEFINITIONS).len());
}

/// Whatever a recorder that is killed leaves: the frames that are whole are readable.
#[test]
fn a_file_that_is_cut_anywhere_has_what_its_frames_need() {
    let (bytes, all) = file(6);
    let accesses = common::data_frames(&bytes, ACCESSES);
    let definitions = common::data_frames(&bytes, DEFINITIONS);
    let ends = accesses.iter().chain(&definitions).map(|frame| frame.end);
    for cut in ends.flat_map(|end| [end - 8, end, end + 8]) {
        let trace = open(bytes[..cut].to_vec()).unwrap();
        let whole = accesses.iter().filter(|frame| frame.end <= cut).count();
        let report = trace.check().unwrap();
        let torn = |finding: &Finding| {
            matches!(finding, Finding::Damage(Damage::NotClosed | Damage::Torn { .. } | Damage::Bytes { .. }))
        };
        assert!(report.findings.iter().all(torn), "{:?}", report.findings);
        trace.verify_checksums(2).unwrap();
        assert!(!trace.damage_met().iter().any(|damage| matches!(damage, Damage::Frame { .. })));
        let read = read_of(&trace).0.len();
        let of_frames = |all: &[Access], frames: usize| {
            all.iter().filter(|access| access.cycle < 1000 * (frames as u64 + 1)).count()
        };
        let expected = of_frames(&all[0], whole.div_ceil(2)) + of_frames(&all[1], whole / 2);
        assert_eq!(read, expected, "{cut} bytes with {whole} frames");
    }
}

/// What is read of both threads, and what is lost by it: accesses and frames.
fn read_of(trace: &Trace) -> (Vec<Access>, u64) {
    let (mut read, mut lost) = (Vec::new(), 0);
    for thread in 0..2 {
        let shard = trace.shard(ThreadId(thread));
        let mut cursor = shard.accesses(&Filter::default());
        while let Some(block) = cursor.next_block().unwrap() {
            read.extend_from_slice(block);
        }
        lost += cursor.lost().iter().map(|gap| gap.count).sum::<u64>();
    }
    (read, lost)
}

#[test]
fn damaged_definitions_lose_what_needs_them_and_that_is_told() {
    let (bytes, all) = file(12);
    let definitions = common::data_frames(&bytes, DEFINITIONS);
    let count = all.iter().map(Vec::len).sum::<usize>();
    let mut most = 0;
    for frame in &definitions {
        for at in [frame.start + 40, frame.end - 9] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            let trace = open(bytes.clone()).unwrap();
            let (read, lost) = read_of(&trace);
            assert!(lost > 0 && read.len() + lost as usize == count, "{} and {lost} of {count}", read.len());
            assert!(read.iter().all(|access| all.iter().any(|all| all.contains(access))));
            most = most.max(lost);
            // Whoever reads, and who only verifies, hears of each frame that is lost.
            let needs = |damage: &Damage| matches!(damage, Damage::Frame { what, .. } if what.starts_with("a definition of a block"));
            let told = |trace: &Trace| {
                let met = trace.damage_met();
                met.iter().filter(|damage| needs(damage)).map(Damage::lost_entries).sum::<u64>()
            };
            assert_eq!(told(&trace), lost);
            let verified = open(bytes.clone()).unwrap();
            verified.verify_checksums(2).unwrap();
            assert_eq!(told(&verified), lost, "{:?}", verified.damage_met());
            let report = verified.check().unwrap();
            let found = |finding: &&Finding| matches!(finding, Finding::Damage(damage) if needs(damage));
            assert_eq!(
                report.findings.iter().filter(found).count(),
                verified.damage_met().iter().filter(|d| needs(d)).count()
            );
        }
    }
    assert!((most as usize) < count, "what was defined elsewhere is read");
}

#[test]
fn a_repaired_trace_has_what_was_readable_and_needs_no_definitions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let (mut bytes, all) = file(6);
    let frame = common::data_frames(&bytes, DEFINITIONS).remove(2);
    bytes[frame.end - 9] ^= 0x40;
    std::fs::write(&path, &bytes).unwrap();
    let (read, lost) = read_of(&Trace::open(&path).unwrap());
    assert_eq!(repair(&Trace::open(&path).unwrap()).unwrap(), lost);
    let repaired = Trace::open(&path).unwrap();
    assert!(repaired.check().unwrap().is_sound());
    assert_eq!(read_of(&repaired), (read, 0));
    assert!(repaired.streams().all(|stream| stream.description.name != "block-definitions"));
    let sound = open(file(6).0).unwrap();
    let sink = FileSink::create(dir.path().join("part"), CreateOptions::default()).unwrap();
    copy(&sound, &sink, &CopyOptions { cycles: Some(2100..4200), ..Default::default() }).unwrap();
    sink.finish(false).unwrap();
    let part = read_of(&Trace::open(dir.path().join("part")).unwrap()).0;
    let inside = all.iter().flatten().filter(|access| (2100..4200).contains(&access.cycle)).copied();
    assert_eq!(part, inside.collect::<Vec<_>>());
    let merged = dir.path().join("merged");
    let sink = Arc::new(FileSink::create(&merged, CreateOptions::default()).unwrap());
    merge(&[sound.clone(), sound], sink, options()).unwrap();
    let merged = Trace::open(&merged).unwrap();
    assert!(merged.check().unwrap().is_sound());
    assert_eq!(read_of(&merged).0, all.concat());
}

#[test]
fn executions_are_counted_and_read_at_any_place() {
    let (bytes, all) = file(12);
    for (thread, all) in (0..).zip(&all) {
        for index in (0..all.len()).rev().step_by(97) {
            // Another reader each time: nothing was read before.
            let shard = open(bytes.clone()).unwrap().shard(ThreadId(thread));
            let filter = Filter { index: Some(index as u64..index as u64 + 1), ..Filter::default() };
            assert_eq!(shard.accesses(&filter).next_block().unwrap(), Some(&all[index..=index]));
        }
    }
}

#[test]
fn a_trace_that_grows_is_read_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let (bytes, all) = file(6);
    let frames = common::data_frames(&bytes, ACCESSES);
    std::fs::write(&path, &bytes[..frames[0].end]).unwrap();
    let mut trace = Trace::open_live(&path).unwrap();
    let mut before = accesses_of(&trace, 0).len() + accesses_of(&trace, 1).len();
    for frame in &frames[1..] {
        std::fs::write(&path, &bytes[..frame.end]).unwrap();
        assert!(trace.refresh().unwrap());
        let now = accesses_of(&trace, 0).len() + accesses_of(&trace, 1).len();
        assert!(now > before);
        before = now;
    }
    assert_eq!(trace.damage_met(), []);
    assert_eq!(read_of(&trace).0, all.concat());
}
