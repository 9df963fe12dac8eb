//! The claims of a file are compared with the limits for reading before memory is allocated for them.

mod common;

use common::small_file;
use memref::{Access, AccessKind, ProcessId, ThreadId, VirtAddr};
use trace_format::{
    CreateOptions, Damage, Encoders, FileSink, Filter, Limits, MAX_THREADS, ProcessRecord, SegmentSink,
    StreamDescription, StreamKind, ThreadRecord, Trace, TraceWriter,
};

fn open(bytes: &[u8], frame_bytes: u64) -> Trace {
    let limits = Limits { frame_bytes };
    Trace::open_on(Box::new(bytes.to_vec()), "test", Encoders::default(), limits).unwrap()
}

fn count(trace: &Trace) -> u64 {
    let mut cursor = trace.shard(ThreadId(0)).accesses(&Filter::default());
    let mut sum = 0;
    while let Some(accesses) = cursor.next_block().unwrap() {
        sum += accesses.len() as u64;
    }
    sum
}

/// A few kilobytes that decode to 32 megabytes.
fn repetitive(accesses: u64) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let options = CreateOptions { segment_entries: accesses as usize, ..Default::default() };
    let writer = TraceWriter::create(&path, options).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let mut shard = writer.shard(thread).unwrap();
    let (ip, addr) = (VirtAddr(1), VirtAddr(8));
    let all: Vec<Access> =
        (0..accesses).map(|cycle| Access { cycle, ip, addr, size: 8, kind: AccessKind::Load }).collect();
    shard.push_accesses(&all).unwrap();
    shard.end().unwrap();
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_frame_that_claims_more_than_it_may_is_damaged_and_the_rest_is_read() {
    let accesses = 1 << 20;
    let bytes = repetitive(accesses);
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    let all = open(&bytes, Limits::default().frame_bytes);
    assert_eq!((count(&all), all.damage_met()), (accesses, vec![]));
    let few = open(&bytes, 1 << 20);
    assert_eq!(count(&few), 0);
    let met = few.damage_met();
    let told = |damage: &Damage| matches!(damage, Damage::Frame { entries, .. } if *entries == accesses);
    assert!(met.len() == 1 && told(&met[0]), "{met:?}");
    assert_eq!(few.threads().len(), 1, "its tables are small enough");
}

/// Readers have tables by the numbers of threads: a few bytes would take gigabytes.
#[test]
fn a_stream_whose_thread_no_recorder_numbers_so_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let sink = FileSink::create(&path, CreateOptions::default()).unwrap();
    for thread in [3, MAX_THREADS - 1, MAX_THREADS, u32::MAX - 1] {
        let owner = Some((ProcessId(0), ThreadId(thread)));
        sink.add_stream(&StreamDescription::of_kind(StreamKind::Gaps, owner)).unwrap();
    }
    sink.finish(false).unwrap();
    let trace = Trace::open(&path).unwrap();
    let threads: Vec<u32> = trace.threads().iter().map(|record| record.thread.0).collect();
    assert_eq!(threads, [3, MAX_THREADS - 1]);
    let told = |damage: &Damage| matches!(damage, Damage::Frame { what, .. } if what.contains("no recorder"));
    assert!(trace.damage().len() == 2 && trace.damage().iter().all(told), "{:?}", trace.damage());
}

#[test]
fn a_limit_below_every_frame_is_no_crash() {
    let bytes = small_file();
    for frame_bytes in [0, 1, 100, 200, 400, 1000, 10_000] {
        let trace = open(&bytes, frame_bytes);
        let _ = (trace.regions().unwrap(), trace.modules().unwrap(), trace.counters().unwrap());
        trace.check().unwrap();
    }
}
