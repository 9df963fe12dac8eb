//! A simple model of a trace: lists of events, written to a file and compared with what is read back.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::ops::Range;

use memref::*;
use proptest::prelude::*;
use trace_format::{
    CounterRecord, CreateOptions, Encoders, Filter, Guid, KindSet, Limits, ModuleRecord, ProcessRecord,
    Shard, ThreadRecord, Trace, TraceWriter,
};

/// The events of each thread, in merged order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) shards: Vec<Vec<Event<String>>>,
    /// Whether to write session tables and values as well.
    pub(crate) session: bool,
}

/// An event whose name is borrowed.
pub(crate) fn borrowed(event: &Event<String>) -> Event<&str> {
    match event {
        Event::Access(e) => Event::Access(*e),
        Event::Block(e) => Event::Block(*e),
        Event::Allocation(e) => Event::Allocation(*e),
        Event::Order(e) => Event::Order(*e),
        Event::Gap(e) => Event::Gap(*e),
        Event::Sync(e) => Event::Sync(*e),
        Event::Marker(e) => {
            Event::Marker(Marker { cycle: e.cycle, order: e.order, ip: e.ip, kind: e.kind, name: &e.name })
        }
    }
}

impl Model {
    /// Writes the model and closes the trace.
    pub(crate) fn write(&self, writer: &TraceWriter) {
        self.try_write(writer).unwrap();
        writer.clone().finish().unwrap();
    }

    /// Writes the model, goes on after errors and returns the first one.
    pub(crate) fn try_write(&self, writer: &TraceWriter) -> Result<(), trace_format::Error> {
        let mut result = Ok(());
        let process = ProcessRecord { pid: 42, start_ns: 3, exe: "/bin/gzip".into(), ..Default::default() };
        let process = writer.add_process(&process)?;
        if self.session {
            result = result.and(self.write_session(writer, process));
        }
        for events in &self.shards {
            let record = ThreadRecord { process, tid: 42, start_ns: 4, ..Default::default() };
            let thread = writer.add_thread(&record)?;
            let mut shard = writer.shard(thread)?;
            let values: [&[u8]; 2] = [&[1, 2, 3], &[9; 100]];
            let mut values = values.into_iter().filter(|_| self.session && thread == ThreadId(0));
            for event in events {
                let value = if matches!(event, Event::Access(_)) { values.next() } else { None };
                result = result.and(match (event, value) {
                    (Event::Access(access), Some(value)) => shard.push_with_bytes(access, value),
                    _ => shard.push(&borrowed(event)),
                });
            }
        }
        if self.session {
            result = result.and(writer.end_thread(ThreadId(1), 66));
            result = result.and(writer.end_process(process, 77, Some(-9)));
        }
        result
    }

    fn write_session(&self, writer: &TraceWriter, process: ProcessId) -> Result<(), trace_format::Error> {
        writer.set_property("program", "gzip")?;
        writer.set_property("status", "first")?;
        writer.set_property("status", "second")?;
        for (order, name) in [(2, "/lib/libc.so.6"), (1, "[heap]")] {
            writer.add_region(&RegionEvent {
                order,
                process,
                change: RegionChange::Map,
                kind: RegionKind::Heap,
                rights: 3,
                traced: true,
                start: VirtAddr(order << 20),
                len: 4096,
                file_offset: 0,
                name,
            })?;
        }
        let path = "/lib/".repeat(50);
        let module = ModuleRecord {
            process,
            order: 5,
            base: VirtAddr(1 << 30),
            len: 99,
            path,
            build_id: "abcdef".into(),
        };
        writer.add_module(&module)?;
        for count in [3, 4] {
            let name = "cpuid".into();
            let ip = VirtAddr(0x40_0000);
            writer.add_counter(&CounterRecord { process, thread: None, ip, code: 1, count, name })?;
        }
        Ok(())
    }
}

/// A fixed model with every kind of stream, two threads.
pub(crate) fn small() -> Model {
    let access = |cycle: u64| {
        let kind = AccessKind::ALL[cycle as usize % 4];
        Event::Access(Access {
            cycle,
            ip: VirtAddr(0x40_1000 + cycle % 3),
            addr: VirtAddr(0x7000 + cycle * 8),
            size: 8,
            kind,
        })
    };
    let block = |cycle| {
        Event::Block(BlockOp {
            cycle,
            order: 3,
            ip: VirtAddr(0x40_2000),
            kind: BlockKind::Copy,
            function: BlockFunction::Memcpy,
            dst: VirtAddr(0x7100),
            src: VirtAddr(0x7000),
            len: 16,
        })
    };
    let allocation = |cycle| {
        Event::Allocation(Allocation {
            cycle,
            order: 4,
            ip: VirtAddr(0x40_3000),
            kind: AllocationKind::Malloc,
            function: AllocationFunction::Malloc,
            addr: VirtAddr(0x7000),
            len: 100,
            old_addr: VirtAddr(0),
            old_len: 0,
        })
    };
    let marker = |cycle| {
        Event::Marker(Marker {
            cycle,
            order: 5,
            ip: VirtAddr(0x40_4000),
            kind: MarkerKind::Mark,
            name: "here".to_owned(),
        })
    };
    let gap = |cycle| {
        Event::Gap(Gap {
            process: ProcessId(0),
            thread: ThreadId(0),
            cycle,
            count: 2,
            reason: GapReason::UntracedMapping,
            addr: VirtAddr(0x9000),
        })
    };
    let order = |cycle| Event::Order(OrderMark { cycle, order: 6 });
    let first = vec![
        access(1),
        allocation(2),
        order(3),
        access(3),
        access(4),
        block(5),
        marker(6),
        gap(7),
        access(8),
    ];
    Model { shards: vec![first, (1..30).map(access).collect()], session: true }
}

/// All events that match, one by one.
pub(crate) fn events(shard: &Shard, filter: &Filter) -> Vec<Event<String>> {
    shard.events(filter).map(Result::unwrap).collect()
}

fn addr() -> impl Strategy<Value = VirtAddr> {
    prop_oneof![(0..64_u64).prop_map(|slot| VirtAddr(0x1000 + slot * 8)), any::<u64>().prop_map(VirtAddr)]
}

fn event() -> impl Strategy<Value = Event<String>> {
    let access = (addr(), addr(), 1..70_u32, prop::sample::select(AccessKind::ALL))
        .prop_map(|(ip, addr, size, kind)| Event::Access(Access { cycle: 0, ip, addr, size, kind }));
    let block = (
        (any::<u64>(), addr(), addr(), addr(), 0..100_u64),
        prop::sample::select(BlockKind::ALL),
        prop::sample::select(BlockFunction::ALL),
    )
        .prop_map(|((order, ip, dst, src, len), kind, function)| {
            Event::Block(BlockOp { cycle: 0, order, ip, kind, function, dst, src, len })
        });
    let allocation = (
        (any::<u64>(), addr(), addr(), 0..100_u64, addr(), 0..100_u64),
        prop::sample::select(AllocationKind::ALL),
        prop::sample::select(AllocationFunction::ALL),
    )
        .prop_map(|((order, ip, addr, len, old_addr, old_len), kind, function)| {
            let cycle = 0;
            Event::Allocation(Allocation { cycle, order, ip, kind, function, addr, len, old_addr, old_len })
        });
    let marker = (any::<u64>(), addr(), prop::sample::select(MarkerKind::ALL), "[a-zé]{0,130}")
        .prop_map(|(order, ip, kind, name)| Event::Marker(Marker { cycle: 0, order, ip, kind, name }));
    let gap = (1..99_u64, addr(), prop::sample::select(GapReason::ALL)).prop_map(|(count, addr, reason)| {
        Event::Gap(Gap { process: ProcessId(0), thread: ThreadId(0), cycle: 0, count, reason, addr })
    });
    let order = any::<u64>().prop_map(|order| Event::Order(OrderMark { cycle: 0, order }));
    let sync = (
        (any::<u64>(), addr(), addr(), any::<u64>()),
        prop::sample::select(SyncKind::ALL),
        prop::sample::select(SyncFunction::ALL),
    )
        .prop_map(|((order, ip, object, value), kind, function)| {
            Event::Sync(Sync { cycle: 0, order, ip, kind, function, object, value })
        });
    prop_oneof![1 => sync, 8 => access, 1 => block, 1 => allocation, 1 => marker, 1 => gap, 1 => order]
}

/// Any threads with any events: cycles grow, an order mark has that of its successor.
pub(crate) fn model() -> impl Strategy<Value = Model> {
    let shard = prop::collection::vec((event(), 1..4_u64), 0..120).prop_map(|events| {
        let mut cycle = 0;
        let mut all = Vec::new();
        for (mut event, step) in events {
            cycle += step;
            match &mut event {
                Event::Access(e) => e.cycle = cycle,
                Event::Block(e) => e.cycle = cycle,
                Event::Allocation(e) => e.cycle = cycle,
                Event::Marker(e) => e.cycle = cycle,
                Event::Gap(e) => e.cycle = cycle,
                Event::Sync(e) => e.cycle = cycle,
                Event::Order(e) => {
                    e.cycle = cycle + 1;
                    all.push(event);
                    // The next step may be more than one: a mark need not have an event at its cycle.
                    continue;
                }
            }
            all.push(event);
        }
        // Marks may have overtaken the event that follows by a cycle; restore the merged order.
        let marks: BTreeMap<u64, u64> = all
            .iter()
            .filter_map(|event| match event {
                Event::Order(mark) => Some((mark.cycle, mark.order)),
                _ => None,
            })
            .collect();
        all.sort_by_key(|event| {
            let order = match event {
                Event::Block(e) => e.order,
                Event::Allocation(e) => e.order,
                Event::Marker(e) => e.order,
                Event::Sync(e) => e.order,
                Event::Order(_) => return (event.cycle(), 1),
                Event::Access(_) | Event::Gap(_) => u64::MAX,
            };
            let is_before = marks.get(&event.cycle()).is_some_and(|&mark| order < mark);
            (event.cycle(), if is_before { 0 } else { 2 })
        });
        all
    });
    prop::collection::vec(shard, 1..4).prop_map(|shards| Model { shards, session: false })
}

/// Any filter.
pub(crate) fn filter() -> impl Strategy<Value = Filter> {
    let range = |to: u64| prop::option::of((0..to, 0..to).prop_map(|(a, len)| a..a + len));
    let ranges = || {
        let one = (addr(), 0..64_u64).prop_map(|(a, len)| a..VirtAddr(a.0.saturating_add(len)));
        prop::collection::vec(one, 0..3)
    };
    let kinds = prop_oneof![
        Just(KindSet::ALL),
        Just(KindSet::WRITES),
        Just(KindSet::ACCESSES | KindSet::ORDERS),
        any::<u32>().prop_map(KindSet)
    ];
    (range(150), range(300), kinds, ranges(), ranges()).prop_map(|(index, cycles, kinds, addresses, ips)| {
        Filter { index, cycles, wall_ns: None, kinds, addresses, ips }
    })
}

/// What a filter leaves of all events, by trying each.
pub(crate) fn filtered(all: &[Event<String>], filter: &Filter) -> Vec<Event<String>> {
    let mut index = 0;
    let touched = |parts: &[Option<(VirtAddr, u64)>]| {
        filter.addresses.is_empty()
            || parts.iter().flatten().any(|&(addr, len)| {
                let last = addr.0.saturating_add(len.max(1) - 1);
                filter.addresses.iter().any(|range| range.start.0 <= last && addr < range.end)
            })
    };
    let ip = |ip: VirtAddr| filter.ips.is_empty() || filter.ips.iter().any(|range| range.contains(&ip));
    let keep = |event: &&Event<String>| {
        let cycle = filter.cycles.as_ref().is_none_or(|range| range.contains(&event.cycle()));
        let (kind, rest) = match event {
            Event::Access(e) => {
                index += 1;
                let index = filter.index.as_ref().is_none_or(|range| range.contains(&(index - 1)));
                let bytes = touched(&[Some((e.addr, e.size.into()))]);
                (KindSet::access(e.kind), index && ip(e.ip) && bytes)
            }
            Event::Block(e) => {
                (KindSet::block(e.kind), ip(e.ip) && touched(&[e.read(), e.written(), e.compared()]))
            }
            Event::Allocation(e) => {
                let old = (e.old_addr.0 != 0).then_some((e.old_addr, e.old_len));
                (KindSet::allocation(e.kind), ip(e.ip) && touched(&[Some((e.addr, e.len)), old]))
            }
            Event::Marker(e) => (KindSet::marker(e.kind), ip(e.ip)),
            Event::Order(_) => (KindSet::ORDERS, true),
            Event::Sync(e) => (KindSet::SYNCS, ip(e.ip)),
            Event::Gap(_) => (KindSet::GAPS, true),
        };
        cycle && rest && filter.kinds.intersects(kind)
    };
    all.iter().filter(keep).cloned().collect()
}

/// Where the data frames of streams with that entry type (the number in its GUID) are in the file. Finds frames as docs/format.md says,
/// independently of the reader.
pub(crate) fn data_frames(file: &[u8], entry_type: u8) -> Vec<Range<usize>> {
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut streams, mut frames) = (64, Vec::new(), Vec::new());
    while at < file.len() {
        let len = u64_at(at + 32) as usize;
        match file[at + 16] {
            0 if file[at + 192 + 3] == entry_type => streams.push(u32_at(at + 20)),
            1 if streams.contains(&u32_at(at + 20)) => frames.push(at..at + len),
            _ => {}
        }
        at += len;
    }
    frames
}

/// Options that give the same bytes each time.
pub(crate) fn fixed(segment_entries: usize) -> CreateOptions {
    CreateOptions {
        segment_entries,
        data: true,
        session: Some(Guid([0x5a; 16])),
        clock: || 1_000,
        ..Default::default()
    }
}

/// The bytes of a trace of [`small`].
pub(crate) fn small_file() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    small().write(&TraceWriter::create(&path, fixed(8)).unwrap());
    std::fs::read(path).unwrap()
}

/// Opens a trace in memory.
pub(crate) fn open(bytes: Vec<u8>) -> Result<Trace, trace_format::Error> {
    Trace::open_on(Box::new(bytes), "test", Encoders::default(), Limits::default())
}

/// Whether all events but the reader's own gaps, and lost names, are among the written ones in their order. Returns how many
/// were read.
pub(crate) fn assert_nothing_wrong(trace: &Trace, model: &Model) -> usize {
    let mut read = 0;
    for (thread, written) in model.shards.iter().enumerate() {
        let mut written = written.iter();
        for event in events(&trace.shard(ThreadId(thread as u32)), &Filter::default()) {
            let is_told = |gap: &Gap| match gap.reason {
                GapReason::DamagedFrame => true,
                // That it ends early.
                GapReason::Killed => !trace.closed(),
                _ => false,
            };
            if matches!(&event, Event::Gap(gap) if is_told(gap)) {
                continue;
            }
            let same = |other: &Event<String>| match (&event, other) {
                (Event::Marker(a), Event::Marker(b)) => {
                    (a.cycle, a.ip) == (b.cycle, b.ip) && (a.name == b.name || a.name == "<name lost>")
                }
                (event, other) => *event == *other,
            };
            assert!(written.any(same), "{event:?} was not written there");
            read += 1;
        }
    }
    read
}
