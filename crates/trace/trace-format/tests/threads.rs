//! Many threads write and read at once.

mod common;

use memref::{Access, AccessKind, Event, OrderMark, VirtAddr};
use trace_format::{CreateOptions, Filter, ProcessRecord, ThreadRecord, Trace, TraceWriter};

use common::events;

#[test]
fn threads_write_and_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    let options = CreateOptions { segment_entries: 50, ..Default::default() };
    let writer = TraceWriter::create(&path, options).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let event = |thread: u64, cycle: u64| match cycle % 5 {
        0 => Event::Order(OrderMark { cycle: cycle + 1, order: cycle }),
        _ => Event::Access(Access {
            cycle,
            ip: VirtAddr(thread),
            addr: VirtAddr(cycle << thread),
            size: 1,
            kind: AccessKind::Store,
        }),
    };
    // Enough frames for several directories.
    const EVENTS: u64 = 20_000;
    std::thread::scope(|scope| {
        for number in 0..8 {
            let writer = writer.clone();
            scope.spawn(move || {
                let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
                let mut shard = writer.shard(thread).unwrap();
                for cycle in 1..EVENTS {
                    shard.push(&event(u64::from(thread.0), cycle)).unwrap();
                }
                writer.set_property(&format!("thread {number}"), "done").unwrap();
            });
        }
        for _ in 0..20 {
            writer.flush().unwrap();
        }
    });
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert_eq!((trace.threads().len(), trace.properties().len()), (8, 8));
    assert!(trace.streams().map(|stream| stream.frames).sum::<u64>() > 2 * 1024);
    std::thread::scope(|scope| {
        for record in trace.threads() {
            let shard = trace.shard(record.thread);
            scope.spawn(move || {
                let read = events(&shard, &Filter::default());
                let expected = (1..EVENTS).map(|cycle| event(u64::from(shard.thread().0), cycle));
                let same = |(read, expected): (Event<String>, Event<&str>)| match (read, expected) {
                    (Event::Access(a), Event::Access(b)) => a == b,
                    (Event::Order(a), Event::Order(b)) => a == b,
                    _ => false,
                };
                assert_eq!(read.len() as u64, EVENTS - 1);
                assert!(read.into_iter().zip(expected).all(same));
            });
        }
    });
    assert!(trace.check().unwrap().is_sound());
}
