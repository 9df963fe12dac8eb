//! Accesses by kind, from frame headers or, in files of earlier versions, from the frames themselves.

mod common;

use memref::{Event, GapReason, ThreadId};
use proptest::prelude::*;
use trace_format::{
    AccessCounts, CreateOptions, Damage, Encoders, Filter, Finding, ThreadAccesses, Trace, TraceWriter,
};

use common::events;

/// What reading every access gives.
fn counted(events: &[Event<String>]) -> AccessCounts {
    let mut counts = AccessCounts::default();
    for event in events {
        if let Event::Access(access) = event {
            counts.add(access.kind, 1);
        }
    }
    counts
}

fn of(trace: &Trace, thread: u32) -> ThreadAccesses {
    trace.shard(ThreadId(thread)).count_accesses(2).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn headers_count_what_was_written(
        model in common::model(), segment in 1..40_usize, encoder in prop::option::of(Just(Encoders::BLOCKS)),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.memtap");
        let options = CreateOptions { segment_entries: segment, encoder, ..Default::default() };
        model.write(&TraceWriter::create(&path, options).unwrap());
        let trace = Trace::open(&path).unwrap();
        for (thread, expected) in (0..).zip(&model.shards) {
            prop_assert_eq!(of(&trace, thread), ThreadAccesses { counts: counted(expected), lost: vec![] });
        }
    }
}

fn golden(version: u32) -> Vec<u8> {
    std::fs::read(format!("{}/tests/golden/v{version}.memtap", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn files_of_all_versions_are_counted() {
    for version in 1..=5 {
        let trace = common::open(golden(version)).unwrap();
        for thread in 0..trace.threads().len() as u32 {
            let counts = counted(&events(&trace.shard(ThreadId(thread)), &Filter::default()));
            assert!(counts.all() > 0);
            assert_eq!(of(&trace, thread), ThreadAccesses { counts, lost: vec![] }, "version {version}");
        }
    }
}

/// Counts stand in headers, so damage elsewhere changes nothing in them; where they don't, it is a gap. Who asks is told of both.
#[test]
fn damage_behind_a_header_changes_no_count_and_is_found_by_checksums() {
    for version in [3, 4, 5] {
        let sound = common::open(golden(version)).unwrap();
        let mut bytes = golden(version);
        // Accesses with data.
        let frame = common::data_frames(&bytes, 16).remove(0);
        bytes[frame.end - 9] ^= 1;
        let trace = common::open(bytes).unwrap();
        let mut missing = 0;
        for thread in 0..trace.threads().len() as u32 {
            let (whole, found) = (of(&sound, thread), of(&trace, thread));
            let lost: u64 = found.lost.iter().map(|gap| gap.count).sum();
            assert!(found.lost.iter().all(|gap| gap.reason == GapReason::DamagedFrame));
            assert_eq!(found.counts.all() + lost, whole.counts.all());
            missing += lost;
        }
        assert_eq!(missing == 0, version >= 4, "{missing} are missing");
        trace.verify_checksums(2).unwrap();
        let met = trace.damage_met();
        assert!(matches!(met[..], [Damage::Frame { offset, .. }] if offset == frame.start as u64), "{met:?}");
        sound.verify_checksums(2).unwrap();
        assert_eq!(sound.damage_met(), vec![]);
    }
}

/// A writer that counts wrongly is found by `check`.
#[test]
fn counts_that_are_not_those_of_the_entries_are_found() {
    let mut bytes = golden(5);
    let frame = common::data_frames(&bytes, 16).remove(0);
    // One load less is one prefetch more, under a checksum that holds.
    bytes[frame.start + 140] -= 1;
    bytes[frame.start + 152..frame.start + 160].fill(0);
    // Without an end, and directories that know better.
    bytes.truncate(frame.end);
    let head = 160 + 32 * usize::from(bytes[frame.start + 18]);
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[frame.start..frame.start + head]);
    bytes[frame.start + 152..frame.start + 160].copy_from_slice(&checksum.to_le_bytes());
    let report = common::open(bytes).unwrap().check().unwrap();
    let wrong = |finding: &Finding| {
        matches!(finding, Finding::Invariant { what: "its header counts other accesses than it has", .. })
    };
    assert!(report.findings.iter().any(wrong), "{:?}", report.findings);
}
