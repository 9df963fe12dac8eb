//! Copying, cutting, repairing and merging traces.

mod common;

use std::{path::Path, sync::Arc};

use common::{Model, events, small};
use memref::*;
use proptest::prelude::*;
use trace_format::{
    CopyOptions, CreateOptions, Damage, DataValue, EndReason, FileSink, Filter, Finding, Level,
    ProcessRecord, SegmentSink, Shard, ThreadRecord, Trace, TraceWriter, copy, merge, repair,
};

fn options(segment_entries: usize) -> CreateOptions {
    CreateOptions { segment_entries, data: true, ..Default::default() }
}

fn written(model: &Model, path: &Path, segment_entries: usize) -> Trace {
    model.write(&TraceWriter::create(path, options(segment_entries)).unwrap());
    Trace::open(path).unwrap()
}

fn copied(trace: &Trace, path: &Path, how: &CopyOptions) -> Trace {
    let create = CreateOptions { force: true, level: how.level, ..Default::default() };
    let sink = FileSink::create(path, create).unwrap();
    copy(trace, &sink, how).unwrap();
    sink.finish(false).unwrap();
    let copy = Trace::open(path).unwrap();
    assert_eq!(copy.check().unwrap().findings, []);
    copy
}

fn values(shard: &Shard) -> Vec<DataValue> {
    shard.values(&Filter::default()).map(Result::unwrap).collect()
}

fn assert_same(copy: &Trace, trace: &Trace) {
    assert_eq!(copy.properties(), trace.properties());
    assert_eq!((copy.processes(), copy.threads()), (trace.processes(), trace.threads()));
    assert_eq!(copy.regions().unwrap(), trace.regions().unwrap());
    assert_eq!(copy.modules().unwrap(), trace.modules().unwrap());
    assert_eq!(copy.counters().unwrap(), trace.counters().unwrap());
    for record in trace.threads() {
        let (copy, trace) = (copy.shard(record.thread), trace.shard(record.thread));
        assert_eq!(events(&copy, &Filter::default()), events(&trace, &Filter::default()));
        assert_eq!(values(&copy), values(&trace));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_copy_is_the_same_whatever_the_segments(model in common::model(), from in 1..20usize, to in 1..20usize, archive: bool) {
        let dir = tempfile::tempdir().unwrap();
        let trace = written(&model, &dir.path().join("a"), from);
        let level = if archive { Level::Archive } else { Level::Standard };
        let how = CopyOptions { segment_entries: to, level, ..Default::default() };
        assert_same(&copied(&trace, &dir.path().join("b"), &how), &trace);
    }

    #[test]
    fn a_cut_has_what_the_filter_has(model in common::model(), from in 0..40u64, len in 0..40u64) {
        let dir = tempfile::tempdir().unwrap();
        let trace = written(&model, &dir.path().join("a"), 7);
        let cycles = Some(from..from + len);
        let how = CopyOptions { cycles: cycles.clone(), ..Default::default() };
        let cut = copied(&trace, &dir.path().join("b"), &how);
        for record in trace.threads() {
            let expected = events(&trace.shard(record.thread), &Filter { cycles: cycles.clone(), ..Default::default() });
            prop_assert_eq!(events(&cut.shard(record.thread), &Filter::default()), expected);
        }
    }
}

#[test]
fn streams_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let trace = written(&small(), &dir.path().join("a"), 10);
    let how = CopyOptions { drop: vec!["accesses".into(), "values-data".into()], ..Default::default() };
    let copy = copied(&trace, &dir.path().join("b"), &how);
    assert!(copy.streams().all(|stream| stream.description.name != "accesses"));
    let accesses = |event: &Event<String>| matches!(event, Event::Access(_));
    for record in trace.threads() {
        let mut expected = events(&trace.shard(record.thread), &Filter::default());
        expected.retain(|event| !accesses(event));
        assert_eq!(events(&copy.shard(record.thread), &Filter::default()), expected);
    }
}

#[test]
fn a_copy_of_version_1_has_its_values_beside_the_accesses() {
    let dir = tempfile::tempdir().unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1.memtap");
    let trace = Trace::open(golden).unwrap();
    let copy = copied(&trace, &dir.path().join("b"), &CopyOptions::default());
    assert_same(&copy, &trace);
    assert!(copy.streams().all(|stream| stream.description.name != "values"));
}

#[test]
fn repair_leaves_a_sound_trace_whose_losses_are_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let model = small();
    drop(written(&model, &path, 4));
    let mut bytes = std::fs::read(&path).unwrap();
    let frames = common::data_frames(&bytes, 16);
    // One frame of accesses is damaged, and the end is torn.
    bytes[frames[1].end - 9] ^= 0xff;
    bytes.truncate(bytes.len() - 100);
    std::fs::write(&path, &bytes).unwrap();
    let damaged = Trace::open(&path).unwrap();
    let found = damaged.check().unwrap();
    assert!(found.findings.contains(&Finding::Damage(Damage::NotClosed)));
    let before: Vec<_> =
        damaged.threads().iter().map(|r| events(&damaged.shard(r.thread), &Filter::default())).collect();
    assert_eq!(repair(&damaged).unwrap(), found.lost_entries);
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.check().unwrap().findings, []);
    assert_eq!(trace.session(), damaged.session());
    let after: Vec<_> =
        trace.threads().iter().map(|r| events(&trace.shard(r.thread), &Filter::default())).collect();
    assert_eq!(after, before);
    let lost: u64 = after
        .concat()
        .iter()
        .map(|event| match event {
            Event::Gap(gap) if gap.reason == GapReason::DamagedFrame => gap.count,
            _ => 0,
        })
        .sum();
    assert_eq!(lost, 4);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn merged_traces_have_all_threads() {
    let dir = tempfile::tempdir().unwrap();
    let one = written(&small(), &dir.path().join("a"), 10);
    let path = dir.path().join("c");
    let sink = Arc::new(FileSink::create(&path, options(100)).unwrap());
    merge(&[one.clone(), one.clone()], sink, options(100)).unwrap();
    let merged = Trace::open(&path).unwrap();
    assert_eq!(merged.check().unwrap().findings, []);
    assert_eq!(merged.threads().len(), 2 * one.threads().len());
    assert_eq!(merged.processes().len(), 2);
    assert_eq!(merged.properties()["program of trace 1"], "gzip");
    let mut orders: Vec<u64> = merged.regions().unwrap().iter().map(|region| region.order).collect();
    let all = orders.len();
    orders.dedup();
    assert_eq!(orders.len(), all, "orders of two traces are told apart");
    for (new, old) in merged.threads().iter().zip(one.threads().iter().chain(one.threads())) {
        let (new, old) = (merged.shard(new.thread), one.shard(old.thread));
        let accesses = |shard: &Shard| {
            let mut events = events(shard, &Filter::default());
            events.retain(|event| matches!(event, Event::Access(_)));
            events
        };
        assert_eq!(accesses(&new), accesses(&old));
        assert_eq!(values(&new), values(&old));
        assert_eq!(events(&new, &Filter::default()).len(), events(&old, &Filter::default()).len());
    }
}

#[test]
fn a_closed_trace_can_be_added_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let model = small();
    let before = written(&model, &path, 5);
    let old: Vec<_> = events(&before.shard(ThreadId(0)), &Filter::default());
    let last = old.iter().map(Event::cycle).max().unwrap();
    let writer = TraceWriter::append(&path, options(5)).unwrap();
    let process = writer.add_process(&Default::default()).unwrap();
    assert_eq!(process, ProcessId(1));
    let access =
        |cycle| Access { cycle, ip: VirtAddr(1), addr: VirtAddr(2), size: 8, kind: AccessKind::Load };
    let mut shard = writer.shard(ThreadId(0)).unwrap();
    assert!(shard.push_accesses(&[access(last - 1)]).unwrap_err().to_string().contains("in order"));
    let new: Vec<Access> = (last..last + 20).map(access).collect();
    shard.push_accesses(&new).unwrap();
    shard.push_with_bytes(&access(last + 20), &[5; 30]).unwrap();
    shard
        .push(&Event::Marker(Marker {
            cycle: last + 30,
            order: 99,
            ip: VirtAddr(3),
            kind: MarkerKind::Mark,
            name: "more",
        }))
        .unwrap();
    // What was flushed is there even if the trace is never closed again.
    writer.flush().unwrap();
    let open = Trace::open(&path).unwrap();
    assert!(!open.closed());
    // And that it may have gone on.
    assert_eq!(events(&open.shard(ThreadId(0)), &Filter::default()).len(), old.len() + 23);
    let refused = TraceWriter::append(&path, options(5)).unwrap_err().to_string();
    assert!(
        refused.ends_with("nothing can be added: it is damaged or not closed; repair it first"),
        "{refused}"
    );
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert!(trace.closed());
    assert_eq!(trace.check().unwrap().findings, []);
    let all = events(&trace.shard(ThreadId(0)), &Filter::default());
    assert_eq!(all[..old.len()], old);
    assert_eq!(all.len(), old.len() + 22);
    assert!(matches!(&all[all.len() - 1], Event::Marker(marker) if marker.name == "more"));
    assert_eq!(values(&trace.shard(ThreadId(0))).last().unwrap().bytes, [5; 30]);
    assert_eq!(trace.processes().len(), 2);
    let without = CreateOptions { data: false, ..options(5) };
    assert!(TraceWriter::append(&path, without).unwrap_err().to_string().contains("with data"));
    let golden = dir.path().join("v1");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1.memtap"), &golden).unwrap();
    let refused = TraceWriter::append(&golden, options(5)).unwrap_err().to_string();
    assert!(refused.contains("an older version of the format"), "{refused}");
}

#[test]
fn why_a_trace_ends_early_is_not_forgotten_by_those_that_add_or_copy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let sink = Arc::new(FileSink::create(&path, options(10)).unwrap());
    let writer = TraceWriter::on_sink(sink.clone(), options(10));
    let process = writer.add_process(&ProcessRecord { pid: 1, ..Default::default() }).unwrap();
    let thread = |tid| ThreadRecord { process, tid, ..Default::default() };
    let (one, other) = (writer.add_thread(&thread(1)).unwrap(), writer.add_thread(&thread(2)).unwrap());
    for (thread, cycle) in [(one, 7), (other, 9)] {
        let (ip, addr) = (VirtAddr(1), VirtAddr(2));
        let access = Access { cycle, ip, addr, size: 8, kind: AccessKind::Load };
        writer.shard(thread).unwrap().push_accesses(&[access]).unwrap();
    }
    writer.end_thread(other, 1).unwrap();
    writer.flush().unwrap();
    sink.end(false, EndReason::DiskFull).unwrap();
    let check = |trace: &Trace, damage: &[Damage]| {
        assert!(trace.closed());
        assert_eq!(trace.damage(), damage);
        let gaps = |thread| {
            let all = events(&trace.shard(thread), &Filter::default());
            let gaps = all.iter().filter_map(|event| match event {
                Event::Gap(gap) => Some((gap.cycle, gap.count, gap.reason)),
                _ => None,
            });
            gaps.collect::<Vec<_>>()
        };
        assert_eq!((gaps(one), gaps(other)), (vec![(8, 1, GapReason::Killed)], vec![]));
    };
    let full = [Damage::Ended { why: EndReason::DiskFull }];
    check(&Trace::open(&path).unwrap(), &full);
    assert!(!Trace::open(&path).unwrap().check().unwrap().is_sound());
    // Whoever adds to it and finishes has not brought back what is missing.
    TraceWriter::append(&path, options(10)).unwrap().finish().unwrap();
    check(&Trace::open(&path).unwrap(), &full);
    // A copy is whole, and has the gap.
    check(&copied(&Trace::open(&path).unwrap(), &dir.path().join("b"), &CopyOptions::default()), &[]);
    repair(&Trace::open(&path).unwrap()).unwrap();
    check(&Trace::open(&path).unwrap(), &[]);
}
