//! The page index gives the same answers as a full scan, for any accesses; a stale or damaged index is rejected.

mod common;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use memref::{Access, AccessKind, ProcessId, ThreadId, VirtAddr};
use proptest::prelude::*;
use trace_format::{
    CreateOptions, Encoders, Filter, KindSet, Limits, NoIndex, PageCell, PageIndex, PageTotal, ProcessRecord,
    ThreadRecord, Trace, TraceSource, TraceWriter,
};

/// Writes threads of two processes; each thread's frames have `frame` accesses.
fn write(path: &Path, shards: &[Vec<Access>], encoder: &str, frame: usize) {
    let encoder = Encoders::default().by_name(encoder).map(|encoder| encoder.id());
    let options = CreateOptions { force: true, encoder, segment_entries: frame, ..CreateOptions::default() };
    let writer = TraceWriter::create(path, options).unwrap();
    let processes =
        [1, 2].map(|pid| writer.add_process(&ProcessRecord { pid, ..ProcessRecord::default() }).unwrap());
    for (number, accesses) in shards.iter().enumerate() {
        let process = processes[number % 2];
        let thread = writer.add_thread(&ThreadRecord { process, ..ThreadRecord::default() }).unwrap();
        let mut shard = writer.shard(thread).unwrap();
        for frame in accesses.chunks(frame) {
            shard.push_accesses(frame).unwrap();
            shard.flush().unwrap();
        }
    }
    writer.finish().unwrap();
}

fn read(trace: &Trace, filter: &Filter) -> Vec<Vec<Access>> {
    let shards = trace.threads().iter().map(|record| trace.shard(record.thread));
    let all = |shard: trace_format::Shard| {
        let mut cursor = shard.accesses(filter);
        let mut all = Vec::new();
        while let Some(block) = cursor.next_block().unwrap() {
            all.extend_from_slice(block);
        }
        all
    };
    shards.map(all).collect()
}

fn build(trace: &Trace, threads: usize) -> PageIndex {
    PageIndex::build(trace, threads, &mut |_| ()).unwrap()
}

/// What a scan of all accesses says.
fn scanned(shards: &[Vec<Access>]) -> Vec<PageTotal> {
    let mut pages: BTreeMap<(ProcessId, u64), PageTotal> = BTreeMap::new();
    for (number, accesses) in shards.iter().enumerate() {
        let process = ProcessId(number as u32 % 2);
        for access in accesses {
            let page = access.addr.0 >> 12;
            if access.kind == AccessKind::Prefetch {
                continue;
            }
            let empty = PageTotal { process, page, counts: [0; 3], bytes: 0 };
            let total = pages.entry((process, page)).or_insert(empty);
            total.counts[usize::from(access.kind.code())] += 1;
            total.bytes += u64::from(access.size);
        }
    }
    pages.into_values().collect()
}

fn access((step, addr, size, kind): (u64, u64, u32, AccessKind)) -> Access {
    Access { cycle: step, ip: VirtAddr(0x40_0000), addr: VirtAddr(addr), size, kind }
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let addr = prop_oneof![
        8 => 0u64..1 << 15,
        2 => 0x7fff_0000u64..0x7fff_4000,
        2 => 0u64..1 << 32,
        1 => any::<u64>(),
    ];
    let size = prop_oneof![9 => prop::sample::select(vec![1u32, 2, 4, 8, 16, 32, 64]), 1 => 0u32..1 << 20];
    let one = (Just(7), addr, size, prop::sample::select(AccessKind::ALL)).prop_map(access);
    prop::collection::vec(one, 0..400)
}

fn ranges() -> impl Strategy<Value = Range<VirtAddr>> {
    let start = prop_oneof![0u64..1 << 15, 0x7fff_0000u64..0x7fff_4000, any::<u64>()];
    let len = prop_oneof![1u64..200, 1u64..1 << 14, any::<u64>()];
    (start, len).prop_map(|(start, len)| VirtAddr(start)..VirtAddr(start.saturating_add(len)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_a_full_scan(
        shards in prop::collection::vec(accesses(), 1..4),
        asked in prop::collection::vec((prop::collection::vec(ranges(), 1..3), prop::bool::ANY, prop::bool::ANY), 1..12),
        encoder in prop::sample::select(vec!["live", "blocks", "access"]),
        frame in 20usize..200,
        threads in 1usize..4,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        write(&path, &shards, encoder, frame);
        let plain = Trace::open(&path).unwrap();
        let filters: Vec<Filter> = asked
            .into_iter()
            .map(|(addresses, loads, stores)| {
                let kinds = KindSet(u32::from(loads) | u32::from(stores) << 1 | KindSet::GAPS.0);
                let kinds = if loads || stores { kinds } else { KindSet::ALL };
                Filter { addresses, kinds, ..Filter::default() }
            })
            .collect();
        let expected: Vec<_> = filters.iter().map(|filter| read(&plain, filter)).collect();
        prop_assert_eq!(PageIndex::open(&plain).unwrap_err(), NoIndex::Absent);
        let index = build(&plain, threads);
        prop_assert_eq!(index.totals().unwrap().unwrap(), scanned(&shards));
        let indexed = Trace::open(&path).unwrap();
        for (filter, expected) in filters.iter().zip(expected) {
            prop_assert_eq!(read(&indexed, filter), expected);
        }
        let bytes = std::fs::read(PageIndex::path(&path)).unwrap();
        build(&plain, 1);
        prop_assert!(std::fs::read(PageIndex::path(&path)).unwrap() == bytes, "the same trace, another index");
    }
}

/// Frame n of 100 touches page n alone; the accesses' cycles say which frame they are of.
fn pages(frames: u64, each: usize) -> Vec<Access> {
    let one = |n: u64| access((n, n << 12 | 64, 8, AccessKind::Store));
    (0..frames).flat_map(|n| std::iter::repeat_n(one(n), each)).collect()
}

#[test]
fn frames_that_the_index_rules_out_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    // Addresses wander so that each frame's bounds span all of memory.
    let far = access((0, 1 << 40, 8, AccessKind::Load));
    let mut accesses = Vec::new();
    for one in pages(10, 1) {
        let at = |access: Access| Access { cycle: one.cycle, ..access };
        let near = access((0, 1, 8, AccessKind::Load));
        accesses.extend([at(near), at(one), at(one), at(far)]);
    }
    write(&path, &[accesses], "live", 4);
    build(&Trace::open(&path).unwrap(), 2);
    // Every frame but the one asked for is made unreadable; nobody notices, since nobody reads them.
    let mut bytes = std::fs::read(&path).unwrap();
    let wanted = 6;
    for (number, frame) in common::data_frames(&bytes, 6).into_iter().enumerate() {
        if number != wanted {
            bytes[frame.end - 9] ^= 0x55;
        }
    }
    std::fs::write(&path, bytes).unwrap();
    let trace = Trace::open(&path).unwrap();
    let filter = Filter { addresses: vec![VirtAddr(6 << 12)..VirtAddr(7 << 12)], ..Filter::default() };
    assert_eq!(trace.page_index().unwrap().frames_touching(&filter), Ok(1));
    let mut cursor = trace.shard(ThreadId(0)).accesses(&filter);
    assert_eq!(cursor.next_block().unwrap().map(<[_]>::len), Some(2));
    assert_eq!(cursor.next_block().unwrap(), None);
    assert_eq!(cursor.lost(), []);
    // The cells of the damaged frames are still there.
    let totals = trace.page_index().unwrap().totals().unwrap().unwrap();
    assert_eq!(totals.iter().filter(|total| total.counts == [0, 2, 0]).count(), 9, "{totals:?}");
}

#[test]
fn a_frame_that_is_damaged_when_the_index_is_built_is_marked_and_never_ruled_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    write(&path, &[pages(10, 4)], "live", 4);
    let mut bytes = std::fs::read(&path).unwrap();
    let frame = common::data_frames(&bytes, 6).remove(3);
    bytes[frame.end - 9] ^= 0x55;
    std::fs::write(&path, bytes).unwrap();
    let trace = Trace::open(&path).unwrap();
    let index = build(&trace, 2);
    assert_eq!((index.frames(), index.unreadable_entries()), ((10, 1), 4));
    assert_eq!(index.totals().unwrap().unwrap().len(), 9);
    let trace = Trace::open(&path).unwrap();
    let filter = Filter { addresses: vec![VirtAddr(3 << 12)..VirtAddr(4 << 12)], ..Filter::default() };
    let mut cursor = trace.shard(ThreadId(0)).accesses(&filter);
    assert_eq!(cursor.next_block().unwrap(), None);
    assert_eq!(cursor.lost().iter().map(|gap| gap.count).sum::<u64>(), 4);
}

#[test]
fn many_pages_make_coarse_cells_and_exact_totals() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let accesses: Vec<Access> = (0..5000u64)
        .map(|n| access((n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30, 8, AccessKind::Load)))
        .collect();
    write(&path, std::slice::from_ref(&accesses), "live", 5000);
    let trace = Trace::open(&path).unwrap();
    let index = build(&trace, 2);
    assert_eq!(index.coarse_frames(), 1);
    let cells = index.cells().unwrap();
    let (shift, cells): &(u8, Vec<PageCell>) = &cells[0];
    assert!(cells.len() <= 1024 && cells.len() > 300 && *shift > 12, "{shift}");
    assert_eq!(cells.iter().map(|cell| cell.counts[0]).sum::<u32>(), 5000);
    assert_eq!(index.totals().unwrap().unwrap(), scanned(&[accesses]));
}

/// The bytes of a trace that lies elsewhere.
struct Elsewhere(Vec<u8>);

impl TraceSource for Elsewhere {
    fn len_bytes(&self) -> std::io::Result<u64> {
        self.0.len_bytes()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, bytes)
    }
}

#[test]
fn the_index_of_a_trace_that_lies_elsewhere_is_kept_while_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    write(&path, &[pages(10, 4), pages(3, 9)], "live", 4);
    let here = Trace::open(&path).unwrap();
    let expected = build(&here, 2);
    let source = Box::new(Elsewhere(std::fs::read(&path).unwrap()));
    let there = Trace::open_on(source, "there", Encoders::default(), Limits::default()).unwrap();
    assert!(here.is_here() && !there.is_here());
    assert!(there.page_index().is_none());
    let refused = PageIndex::build(&there, 2, &mut |_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("there: lies elsewhere"), "{refused}");
    let built = PageIndex::build_apart(&there, 2, &mut |_| ()).unwrap();
    assert_eq!(built.cells().unwrap(), expected.cells().unwrap());
    assert_eq!(built.totals().unwrap(), expected.totals().unwrap());
    // Whoever looks for it finds it, and filters do.
    assert_eq!(there.page_index().unwrap().totals().unwrap(), expected.totals().unwrap());
    let filter = Filter { addresses: vec![VirtAddr(0x1000)..VirtAddr(0x1800)], ..Filter::default() };
    assert_eq!(read(&there, &filter), read(&here, &filter));
    assert!(!std::path::Path::new("there.mtx").exists());
}

#[test]
fn an_index_of_another_state_of_the_trace_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    write(&path, &[pages(10, 4)], "live", 4);
    build(&Trace::open(&path).unwrap(), 1);
    write(&path, &[pages(11, 4)], "live", 4);
    let trace = Trace::open(&path).unwrap();
    assert_eq!(PageIndex::open(&trace).unwrap_err(), NoIndex::OfAnother);
    assert_eq!(read(&trace, &Filter::default())[0].len(), 44);
    assert_eq!(build(&trace, 1).frames(), (11, 0));
}

#[test]
fn a_damaged_index_is_not_believed_wherever_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    write(&path, &[pages(40, 3)], "live", 3);
    let trace = Trace::open(&path).unwrap();
    let (whole, cells) = (build(&trace, 1).totals().unwrap(), build(&trace, 1).cells().unwrap());
    let file = PageIndex::path(&path);
    let sound = std::fs::read(&file).unwrap();
    for at in (0..sound.len()).step_by(7) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&file, &bytes).unwrap();
        let index = PageIndex::open(&trace);
        // Either it is refused, or the byte says nothing: never another answer.
        if let Ok(index) = index {
            if let Ok(totals) = index.totals() {
                assert_eq!(totals, whole, "byte {at}");
            }
            if let Ok(found) = index.cells() {
                assert_eq!(found, cells, "byte {at}");
            }
        }
    }
    for len in (0..sound.len()).step_by(5) {
        std::fs::write(&file, &sound[..len]).unwrap();
        assert!(matches!(PageIndex::open(&trace), Err(NoIndex::Damaged(_))), "{len} bytes");
    }
}

/// The golden index belongs to the golden trace of version 5.
#[test]
fn the_golden_index_is_read_and_written_again_byte_by_byte() {
    let golden = format!("{}/tests/golden/v5.memtap", env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("v5.memtap");
    std::fs::copy(&golden, &copy).unwrap();
    build(&Trace::open(&copy).unwrap(), 2);
    if std::env::var_os("MEMTAP_BLESS").is_some() {
        std::fs::copy(PageIndex::path(&copy), PageIndex::path(golden.as_ref())).unwrap();
    }
    let written = std::fs::read(PageIndex::path(&copy)).unwrap();
    let trace = Trace::open(&golden).unwrap();
    let index = trace.page_index().unwrap();
    let scanned = scanned(&read(&trace, &Filter::default()));
    let totals = index.totals().unwrap().unwrap();
    // One process, whatever the number of the thread.
    let sum = |totals: &[PageTotal]| totals.iter().map(|total| total.counts.iter().sum::<u64>()).sum::<u64>();
    assert_eq!(sum(&totals), sum(&scanned));
    assert!(written == std::fs::read(PageIndex::path(golden.as_ref())).unwrap(), "the index's bytes changed");
}

#[test]
fn golden_indices_of_earlier_versions_are_read() {
    for version in [3, 4] {
        let path = format!("{}/tests/golden/v{version}.memtap", env!("CARGO_MANIFEST_DIR"));
        let trace = Trace::open(path).unwrap();
        let index = trace.page_index().unwrap();
        assert!(index.totals().unwrap().is_some_and(|totals| !totals.is_empty()));
    }
}
