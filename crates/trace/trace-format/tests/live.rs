//! Reading a trace while it is being written, and streams of any type.

use memref::{Access, AccessKind, VirtAddr};
use trace_format::{
    CreateOptions, EntryFilter, EntryType, Field, FieldRole, FileSink, Filter, Guid, NewSegment,
    ProcessRecord, SegmentContent, SegmentSink, StreamDescription, ThreadRecord, Trace, TraceWriter,
};

fn accesses(range: std::ops::Range<u64>) -> Vec<Access> {
    range
        .map(|cycle| Access {
            cycle,
            ip: VirtAddr(0x1000 + cycle % 7),
            addr: VirtAddr(0x8000 + cycle * 8),
            size: 8,
            kind: AccessKind::ALL[(cycle % 3) as usize],
        })
        .collect()
}

#[test]
fn a_growing_trace_is_read_as_far_as_it_got() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.memtap");
    let writer = TraceWriter::create(&path, CreateOptions::default()).unwrap();
    let mut live = Trace::open_live(&path).unwrap();
    assert!(live.damage().is_empty(), "{:?}", live.damage());
    assert!(live.threads().is_empty() && !live.refresh().unwrap());
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    let mut shard = writer.shard(thread).unwrap();
    for round in 0..5 {
        shard.push_accesses(&accesses(round * 100..round * 100 + 100)).unwrap();
        writer.flush().unwrap();
        assert!(live.refresh().unwrap());
        assert!(!live.refresh().unwrap());
        let mut cursor = live.shard(thread).accesses(&Filter::default());
        let mut read = Vec::new();
        while let Some(block) = cursor.next_block().unwrap() {
            read.extend_from_slice(block);
        }
        assert_eq!(read, accesses(0..round * 100 + 100));
        assert!(!live.closed() && live.damage().is_empty(), "{:?}", live.damage());
    }
    writer.finish().unwrap();
    assert!(live.refresh().unwrap());
    assert!(live.closed());
    assert_eq!(live.shard(thread).access_count(), 500);
}

#[test]
fn a_frame_that_is_not_whole_yet_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, growing) = (dir.path().join("whole.memtap"), dir.path().join("growing.memtap"));
    let writer = TraceWriter::create(&whole, CreateOptions::default()).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
    writer.shard(thread).unwrap().push_accesses(&accesses(0..1000)).unwrap();
    writer.finish().unwrap();
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&growing, &bytes[..64]).unwrap();
    let mut live = Trace::open_live(&growing).unwrap();
    let mut seen = 0;
    for len in (64..bytes.len()).step_by(40).chain([bytes.len()]) {
        std::fs::write(&growing, &bytes[..len]).unwrap();
        live.refresh().unwrap();
        assert!(live.damage().is_empty(), "{len}: {:?}", live.damage());
        let now = live.streams().map(|stream| stream.entries).sum();
        assert!(seen <= now);
        seen = now;
    }
    assert!(live.closed());
    assert_eq!(live.shard(thread).access_count(), 1000);
}

fn sample_type() -> EntryType {
    let field = |name: &str, offset, role| Field { name: name.into(), offset, bytes: 8, role };
    EntryType {
        guid: Guid([9; 16]),
        name: "sample".into(),
        entry_bytes: 20,
        fields: vec![field("cycle", 0, FieldRole::Growing), field("place", 8, FieldRole::Address)],
    }
}

#[test]
fn streams_of_any_type_are_found_by_index_cycle_and_time_and_filtered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("any.memtap");
    let sink = FileSink::create(&path, CreateOptions::default()).unwrap();
    let entry_type = sample_type();
    let description = StreamDescription {
        name: "samples".into(),
        entry_type: entry_type.clone(),
        encoder: 1,
        variable: false,
        hidden: false,
        process: None,
        thread: None,
        properties: vec![("unit".into(), "bytes".into())],
    };
    let stream = sink.add_stream(&description).unwrap();
    // The second half first: segments carry their places.
    for sequence in [1u64, 0] {
        let mut entries = Vec::new();
        for index in sequence * 10..sequence * 10 + 10 {
            entries.extend((index * 3).to_le_bytes());
            entries.extend((0x1000 + index).to_le_bytes());
            entries.extend([0; 4]);
        }
        let (encoder, first_index) = (1, sequence * 10);
        let entry_type = &entry_type;
        sink.add_segment(&NewSegment {
            stream,
            entry_type,
            encoder,
            sequence,
            first_index,
            wall_ns: 0,
            bounds: None,
            content: SegmentContent::Entries(&entries),
        })
        .unwrap();
    }
    sink.finish(false).unwrap();
    let trace = Trace::open(&path).unwrap();
    let reader = trace.stream(stream).unwrap();
    assert!(trace.stream(stream + 1).is_none());
    assert_eq!(reader.description(), &description);
    assert_eq!((reader.segments(), reader.end_index()), (2, 20));
    assert_eq!((reader.place_of_index(9), reader.place_of_index(10), reader.place_of_index(20)), (0, 1, 2));
    assert_eq!((reader.place_of_cycle(27), reader.place_of_cycle(28), reader.place_of_cycle(58)), (0, 1, 2));
    assert_eq!((reader.place_of_wall_ns(0), reader.place_of_wall_ns(u64::MAX)), (0, 2));
    let filter = Filter {
        cycles: Some(6..45),
        addresses: vec![VirtAddr(0x1004)..VirtAddr(0x1006), VirtAddr(0x100e)..VirtAddr(0x1100)],
        ..Filter::default()
    };
    let filter = EntryFilter::new(&filter, &reader.description().entry_type);
    let mut found = Vec::new();
    let mut bytes = Vec::new();
    for place in 0..reader.segments() {
        assert!(filter.may_match(&reader.segment(place).unwrap()));
        assert!(reader.read(place, &mut bytes).unwrap());
        found.extend(bytes.chunks(20).filter(|entry| filter.matches(entry)).map(|entry| entry[8] as u64));
    }
    assert_eq!(found, [4, 5, 14]);
    assert!(!reader.read(2, &mut bytes).unwrap());
}
