//! Tiles of a trace of many frames: they add up, whatever they are drawn from.

use analysis::Session;
use memref::{Access, AccessKind, Event, OrderMark, ProcessId, ThreadId, VirtAddr};
use trace_format::{CreateOptions, ProcessRecord, ThreadRecord, TraceWriter};

use super::*;
use crate::part::TimeAxis;

const ACCESSES: u64 = 2_000;

/// Two threads that walk over 40 pages, in frames of 50 accesses.
fn map(dir: &std::path::Path) -> TraceMap {
    write(&dir.join("t"));
    open(&dir.join("t"))
}

fn open(path: &std::path::Path) -> TraceMap {
    TraceMap::new(Session::open(path).unwrap(), &mut |_| ()).unwrap()
}

fn write(path: &std::path::Path) {
    let options = CreateOptions { segment_entries: 50, ..CreateOptions::default() };
    let writer = TraceWriter::create(path, options).unwrap();
    let process = writer.add_process(&ProcessRecord { pid: 1, ..ProcessRecord::default() }).unwrap();
    for number in 0..2 {
        let thread = writer.add_thread(&ThreadRecord { process, ..ThreadRecord::default() }).unwrap();
        let mut shard = writer.shard(thread).unwrap();
        shard.push(&Event::Order(OrderMark { cycle: 0, order: 1 })).unwrap();
        for access in 0..ACCESSES {
            let kind = AccessKind::ALL[access as usize % 4];
            let addr = VirtAddr(0x10_0000 + access * 80 + number * 0x100_0000);
            shard
                .push(&Event::Access(Access { cycle: access * 3, ip: VirtAddr(1), addr, size: 4, kind }))
                .unwrap();
        }
    }
    writer.finish().unwrap();
}

fn whole(map: &TraceMap) -> TileRequest {
    let process = &map.processes[&ProcessId(0)];
    let last = process.axis.runs.last().unwrap();
    TileRequest {
        part: MapPart {
            process: ProcessId(0),
            thread: None,
            axis: TimeAxis::Cycles,
            span: process.cycles.clone(),
            addresses: process.axis.runs[0].start..last.start + last.len,
        },
        width: 100,
        height: 50,
        what: CountedKinds::All,
        hides_tracer: false,
        by_thread: false,
    }
}

/// A part of the time of a tile.
fn within(request: &TileRequest, span: Range<u64>) -> TileRequest {
    TileRequest { part: MapPart { span, ..request.part.clone() }, ..request.clone() }
}

fn sum(tile: &MapTile) -> u64 {
    tile.grid.counts.iter().map(|&count| u64::from(count)).sum()
}

/// The sum of a window's parts.
fn parts(map: &TraceMap, request: &TileRequest, parts: u64) -> u64 {
    let Range { start, end } = request.part.span;
    let cut = |part: u64| start + (end - start) * part / parts;
    let tile = |part| within(request, cut(part)..cut(part + 1));
    (0..parts).map(|part| sum(&map.tile(&tile(part)).unwrap())).sum()
}

#[test]
fn parts_add_up_to_the_whole_before_and_after_frames_are_counted_again() {
    let dir = tempfile::tempdir().unwrap();
    let map = map(dir.path());
    let request = whole(&map);
    // Of four accesses one is a prefetch.
    let expected = 2 * ACCESSES / 4 * 3;
    let check = || {
        for number in [1, 2, 3, 10, 64] {
            assert_eq!(parts(&map, &request, number), expected, "{number} parts");
        }
        let part = MapPart { thread: Some(ThreadId(1)), ..request.part.clone() };
        let one = TileRequest { part, ..request.clone() };
        assert_eq!(sum(&map.tile(&one).unwrap()), expected / 2);
        let loads = TileRequest { what: CountedKinds::Loads, ..request.clone() };
        assert_eq!(parts(&map, &loads, 3), expected / 3 * 2);
    };
    check();
    let first = map.tile(&request).unwrap();
    assert_eq!((first.frames, first.decoded, first.waiting, first.estimated), (80, 0, 80, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| map.frames.count_in_slices(&map.session));
        while map.tile(&request).unwrap().waiting > 0 {
            std::thread::yield_now();
        }
        map.frames.stop();
    });
    check();
    // Where there are as few cells as pages and columns, it is as if every access was looked at.
    let coarse = TileRequest { width: 40, height: 80, ..request };
    let tile = map.tile(&coarse).unwrap();
    assert_eq!(tile.spread, 0);
    let mut exact = CountGrid::new(
        coarse.part.span.clone(),
        0..map.processes[&ProcessId(0)].axis.units,
        coarse.width,
        coarse.height,
    );
    for frame in &map.frames.frames {
        map.count(&coarse, &map.processes[&ProcessId(0)].axis, frame, &mut exact).unwrap();
    }
    assert_eq!(sum(&tile), exact.counts.iter().map(|&count| u64::from(count)).sum::<u64>());
}

#[test]
fn few_frames_are_decoded_to_single_accesses() {
    let dir = tempfile::tempdir().unwrap();
    let map = map(dir.path());
    let part = MapPart {
        thread: Some(ThreadId(0)),
        span: 300..303,
        addresses: 0x10_0000 + 100 * 80..0x10_0000 + 100 * 80 + 1,
        ..whole(&map).part
    };
    let request = TileRequest { part: part.clone(), width: 3, height: 1, ..whole(&map) };
    assert_eq!(map.tile(&request).unwrap().grid.counts, [1, 0, 0]);
    let nowhere = TileRequest { part: MapPart { addresses: 0..1, ..part }, ..request };
    assert_eq!(map.tile(&nowhere).unwrap_err().status, 400);
}

#[test]
fn what_is_damaged_is_told_and_the_rest_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    write(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&path, bytes).unwrap();
    let map = open(&path);
    let missing = map.json()["missing"].clone();
    let missing = missing.as_array().unwrap();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!((&missing[0]["count"], &missing[0]["why"]), (&50.into(), &"damaged frame".into()));
    let (from, to) = (missing[0]["from"].as_u64().unwrap(), missing[0]["to"].as_u64().unwrap());
    assert_eq!(to - from, 49 * 3 + 1);
    let expected = 2 * ACCESSES / 4 * 3;
    let drawn = sum(&map.tile(&whole(&map)).unwrap());
    assert!((expected - 39..=expected - 36).contains(&drawn), "{drawn}");
}
