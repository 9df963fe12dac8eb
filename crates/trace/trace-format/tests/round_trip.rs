//! Whatever is written is read back, by any cursor.

mod common;

use blocks::{
    BasicBlock, BlockAccess, Definition, Extent, MAX_DEFINITION_BYTES, RecordedValues, Repeated, SharedBlock,
    encode_definition,
};
use memref::{Access, AccessKind, Event, OrderMark, ThreadId, VirtAddr};
use proptest::prelude::*;
use trace_format::{
    Batch, CreateOptions, Encoders, ExecutionBatch, Filter, KindSet, ModuleRecord, ProcessRecord, Shard,
    ThreadRecord, Trace, TraceWriter,
};

use common::{Model, events, small};

/// All events of a shard that was recorded as executions, with what these expand to.
fn executed(shard: &Shard) -> Vec<Event<String>> {
    let mut all = Vec::new();
    let mut cursor = shard.executions(&Filter::default()).expect("executions were recorded");
    while let Some(batch) = cursor.next_batch().unwrap() {
        match batch {
            ExecutionBatch::Executions(frame, part) => {
                let mut accesses = Vec::new();
                frame.expand_part(part, &mut accesses);
                all.extend(accesses.into_iter().map(Event::Access));
            }
            ExecutionBatch::Accesses(accesses) => all.extend(accesses.iter().map(|&a| Event::Access(a))),
            ExecutionBatch::Event(event) => all.push(event),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_session_is_read_back(
        model in common::model(), segment in 1..40_usize, encoder in prop::option::of(Just(Encoders::BLOCKS)),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.memtap");
        let options = CreateOptions { segment_entries: segment, encoder, ..Default::default() };
        model.write(&TraceWriter::create(&path, options).unwrap());
        let trace = Trace::open(&path).unwrap();
        prop_assert!(trace.closed());
        prop_assert_eq!(trace.damage(), &[]);
        for (thread, expected) in model.shards.iter().enumerate() {
            let shard = trace.shard(ThreadId(thread as u32));
            prop_assert_eq!(&events(&shard, &Filter::default()), expected);
            let mut batched = Vec::new();
            let mut cursor = shard.events(&Filter::default());
            while let Some(batch) = cursor.next_batch().unwrap() {
                match batch {
                    Batch::Accesses(accesses) => batched.extend(accesses.iter().map(|&a| Event::Access(a))),
                    Batch::Event(event) => batched.push(event),
                }
            }
            prop_assert_eq!(&batched, expected);
            if encoder.is_some() && expected.iter().any(|event| matches!(event, Event::Access(_))) {
                prop_assert_eq!(&executed(&shard), expected);
            }
        }
        let report = trace.check().unwrap();
        prop_assert!(report.is_sound(), "{:?}", report.findings);
    }

    #[test]
    fn pushing_a_filter_down_changes_nothing(
        model in common::model(), segment in 1..40_usize, filter in common::filter(),
        encoder in prop::option::of(Just(Encoders::BLOCKS)),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.memtap");
        let options = CreateOptions { segment_entries: segment, encoder, ..Default::default() };
        model.write(&TraceWriter::create(&path, options).unwrap());
        let trace = Trace::open(&path).unwrap();
        for (thread, all) in model.shards.iter().enumerate() {
            let shard = trace.shard(ThreadId(thread as u32));
            prop_assert_eq!(events(&shard, &filter), common::filtered(all, &filter));
            let mut accesses = Vec::new();
            let mut cursor = shard.accesses(&filter);
            while let Some(block) = cursor.next_block().unwrap() {
                prop_assert!(!block.is_empty());
                accesses.extend(block.iter().map(|&access| Event::Access(access)));
            }
            let mut expected = common::filtered(all, &filter);
            expected.retain(|event| matches!(event, Event::Access(_)));
            prop_assert_eq!(accesses, expected);
        }
    }
}

/// A block with a load, and one that ends with a string instruction.
fn blocks() -> [SharedBlock; 2] {
    let load = BlockAccess { base: 0, size: 8, ..BlockAccess::NONE };
    let fill = BlockAccess {
        instruction: 1,
        base: 0,
        index: 1,
        size: 1,
        kind: AccessKind::Store,
        repeated: Some(Repeated { count_after: 2, place_after: 3 }),
        ..BlockAccess::NONE
    };
    [(1, &[load][..]), (4, &[load, fill])].map(|(values, accesses)| {
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(VirtAddr(0x1000), 3);
        let len = encode_definition(16, extent, RecordedValues::plain(values), accesses, &mut bytes);
        BasicBlock::new(&Definition::decode(&bytes[..len]).unwrap().0).unwrap().into()
    })
}

#[test]
fn accesses_by_blocks_stand_between_other_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let options = CreateOptions { encoder: Some(Encoders::BLOCKS), ..Default::default() };
    let writer = TraceWriter::create(&path, options).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let mut shard = writer.shard(thread).unwrap();
    let [load, fill] = blocks();
    let mut expected = Vec::new();
    let mut cycle = 0;
    // The last ones are more than a frame takes.
    for (number, times) in [3, 0, 5, 400_000, 5_000_000].into_iter().enumerate() {
        let from = 0x7000_0000 + number as u64;
        let end = from + times;
        for (id, block, values) in [(16, &load, vec![from]), (17, &fill, vec![from, times, 0, end])] {
            let words: Vec<_> = values.iter().map(|value: &u64| value.to_le_bytes()).collect();
            let count =
                shard.blocks().unwrap().unwrap().push(id, block, cycle, &words, number as u64).unwrap();
            let len = expected.len();
            let mut accesses = Vec::new();
            block.expand(cycle, &values, number as u64, &mut accesses);
            expected.extend(accesses.into_iter().map(Event::Access));
            assert_eq!(count, (expected.len() - len) as u64);
            cycle += 3;
        }
        let mark = Event::Order(OrderMark { cycle, order: number as u64 });
        shard.push(&mark).unwrap();
        expected.push(Event::Order(OrderMark { cycle, order: number as u64 }));
        assert_eq!(shard.next_access_index(), (expected.len() - number - 1) as u64);
    }
    drop(shard);
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert!(trace.check().unwrap().is_sound());
    assert!(events(&trace.shard(thread), &Filter::default()) == expected);
    assert!(executed(&trace.shard(thread)) == expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn events_come_between_the_accesses_of_an_execution(
        steps in prop::collection::vec((0u64..9, prop::option::of(0u64..4)), 1..60), segment in 1..40_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.memtap");
        let encoder = Some(Encoders::BLOCKS);
        let options = CreateOptions { segment_entries: segment, encoder, ..Default::default() };
        let writer = TraceWriter::create(&path, options).unwrap();
        let process = writer.add_process(&ProcessRecord::default()).unwrap();
        let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
        let mut shard = writer.shard(thread).unwrap();
        let [_, fill] = blocks();
        for ((times, mark), order) in steps.iter().copied().zip(0..) {
            let cycle = 5 * order;
            let words = [0x5000, times, 0, 0x5000 + times].map(u64::to_le_bytes);
            shard.blocks().unwrap().unwrap().push(1, &fill, cycle, &words, 0).unwrap();
            if let Some(after) = mark {
                shard.push(&Event::Order(OrderMark { cycle: cycle + after, order })).unwrap();
            }
        }
        drop(shard);
        writer.finish().unwrap();
        let trace = Trace::open(&path).unwrap();
        let shard = trace.shard(thread);
        prop_assert_eq!(executed(&shard), events(&shard, &Filter::default()));
        let some = Filter { cycles: Some(0..u64::MAX), ..Filter::default() };
        prop_assert!(shard.executions(&some).is_none());
    }
}

#[test]
fn a_trace_of_blocks_is_added_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let options = CreateOptions { encoder: Some(Encoders::BLOCKS), ..Default::default() };
    let writer = TraceWriter::create(&path, options.clone()).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let [load, _] = blocks();
    let shard = writer.shard(thread).unwrap();
    shard.blocks().unwrap().unwrap().push(16, &load, 5, &[7u64.to_le_bytes()], 0).unwrap();
    writer.finish().unwrap();
    let writer = TraceWriter::append(&path, options).unwrap();
    let mut shard = writer.shard(thread).unwrap();
    let more = Access { cycle: 9, ip: VirtAddr(1), addr: VirtAddr(2), size: 4, kind: AccessKind::Modify };
    shard.push_accesses(&[more]).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert!(trace.check().unwrap().is_sound());
    let first = Access { cycle: 5, ip: VirtAddr(0x1000), addr: VirtAddr(7), size: 8, kind: AccessKind::Load };
    assert_eq!(events(&trace.shard(thread), &Filter::default()), [Event::Access(first), Event::Access(more)]);
}

#[test]
fn session_tables_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let model = small();
    let options = CreateOptions { data: true, ..Default::default() };
    model.write(&TraceWriter::create(&path, options).unwrap());
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.properties()["program"], "gzip");
    assert_eq!(trace.properties()["status"], "second");
    let process = &trace.processes()[0];
    assert_eq!((process.pid, process.exit_status, process.end_ns), (42, Some(-9), Some(77)));
    assert_eq!((process.exe.as_str(), process.args.as_str()), ("/bin/gzip", ""));
    assert_eq!(trace.threads().len(), 2);
    assert_eq!(trace.threads()[1].end_ns, Some(66));
    let regions = trace.regions().unwrap();
    assert_eq!(regions.iter().map(|region| region.order).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(regions[0].name, "[heap]");
    let counters = trace.counters().unwrap();
    assert_eq!(counters.len(), 1);
    assert_eq!((counters[0].count, counters[0].name.as_str()), (7, "cpuid"));
    let modules = trace.modules().unwrap();
    let long = "/lib/".repeat(50);
    assert_eq!(modules, [ModuleRecord { path: long, build_id: "abcdef".into(), ..modules[0].clone() }]);
    let values: Vec<_> = trace.shard(ThreadId(0)).values(&Filter::default()).map(Result::unwrap).collect();
    assert_eq!(values.len(), 2);
    assert_eq!((values[0].access_index, values[0].bytes.as_slice()), (0, &[1, 2, 3][..]));
    assert_eq!((values[1].access_index, values[1].bytes.len()), (1, 100));
    assert!(trace.check().unwrap().is_sound());
    assert!(Model::default().shards.is_empty());
}

#[test]
fn an_order_mark_comes_before_the_event_of_its_cycle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let writer = TraceWriter::create(&path, CreateOptions::default()).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let mut shard = writer.shard(thread).unwrap();
    let access =
        |cycle| Access { cycle, ip: VirtAddr(1), addr: VirtAddr(2), size: 1, kind: AccessKind::Load };
    shard.push_accesses(&[access(5)]).unwrap();
    shard.push(&Event::Order(OrderMark { cycle: 6, order: 9 })).unwrap();
    shard.push_accesses(&[access(6)]).unwrap();
    writer.finish().unwrap();
    let read = events(&Trace::open(&path).unwrap().shard(thread), &Filter::default());
    let expected =
        [Event::Access(access(5)), Event::Order(OrderMark { cycle: 6, order: 9 }), Event::Access(access(6))];
    assert_eq!(read, expected);
}

#[test]
fn events_must_come_in_order_and_threads_must_be_known() {
    let dir = tempfile::tempdir().unwrap();
    let writer = TraceWriter::create(dir.path().join("trace.memtap"), CreateOptions::default()).unwrap();
    let unknown = writer.shard(ThreadId(0)).unwrap_err().to_string();
    assert!(unknown.ends_with("thread 0 was not added to the trace"), "{unknown}");
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let mut shard = writer.shard(thread).unwrap();
    shard.push(&Event::Order(OrderMark { cycle: 6, order: 9 })).unwrap();
    let error = shard.push(&Event::Order(OrderMark { cycle: 5, order: 9 })).unwrap_err().to_string();
    assert!(error.ends_with("thread 0: cycle 5 after cycle 6; the events of a thread must come in order"));
    writer.finish().unwrap();
    let error = shard.push(&Event::Order(OrderMark { cycle: 7, order: 9 })).unwrap_err().to_string();
    assert!(error.ends_with("the trace is finished; nothing can be added"));
}

#[test]
fn frames_without_a_match_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let options = CreateOptions { segment_entries: 10, ..Default::default() };
    let writer = TraceWriter::create(&path, options).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let of =
        |cycle| Access { cycle, ip: VirtAddr(1), addr: VirtAddr(cycle * 8), size: 8, kind: AccessKind::Load };
    writer.shard(thread).unwrap().push_accesses(&(0..100).map(of).collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.shard(thread).access_count(), 100);
    assert_eq!(trace.streams().find(|stream| stream.description.name == "accesses").unwrap().frames, 10);
    // Everything but the frame with cycles 50..60 becomes unreadable.
    let mut bytes = std::fs::read(&path).unwrap();
    let frames = common::data_frames(&bytes, 6);
    for (index, range) in frames.into_iter().enumerate() {
        if index != 5 {
            bytes[range.end - 8] ^= 1;
        }
    }
    std::fs::write(&path, bytes).unwrap();
    let shard = Trace::open(&path).unwrap().shard(thread);
    for filter in [
        Filter { cycles: Some(52..55), ..Default::default() },
        Filter { index: Some(52..55), ..Default::default() },
        Filter { addresses: vec![VirtAddr(52 * 8)..VirtAddr(55 * 8)], ..Default::default() },
    ] {
        let filter = Filter { kinds: KindSet::ALL, ..filter };
        let read = events(&shard, &filter);
        assert_eq!(read, (52..55).map(|cycle| Event::Access(of(cycle))).collect::<Vec<_>>());
    }
}
