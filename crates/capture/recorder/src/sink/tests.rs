//! Tests that buffers of translated threads come out of the workers, piece by piece, as the events that a single thread reads in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use blocks::{BlockAccess, Extent, MAX_DEFINITION_BYTES, RecordedValues, Repeated, encode_definition};
use buffers::flow::{CUT, CUT_ALL, EMBED, FIRST_BLOCK, ID_BITS, PAD};
use buffers::{Content, Record, RecordRoom, encode};
use memref::{AccessKind, Event, GapReason, MarkerKind, ThreadId, VirtAddr};
use proptest::prelude::*;
use trace_format::{Batch, CreateOptions, Encoders, Filter, Trace, TraceWriter};
use trace_server::Workers;

use super::gathered::HeldBuffer;
use super::{Contents, Sink};
use crate::store::memory_plan::MemoryPlan;

const LOAD: u32 = FIRST_BLOCK;
const LOCKED: u32 = FIRST_BLOCK + 1;
const FILL: u32 = FIRST_BLOCK + 2;
const LOAD_LOCAL: u32 = FIRST_BLOCK + 3;
const FILL_LOCAL: u32 = FIRST_BLOCK + 4;
/// Defined by the child alone.
const OF_CHILD: u32 = FIRST_BLOCK + 1000;
const UNDEFINED: u32 = FIRST_BLOCK + 1001;

pub(super) fn define(sink: &mut Sink<'_>) {
    let load = BlockAccess { base: 0, size: 8, instruction: 1, offset: 3, ..BlockAccess::NONE };
    let modify = BlockAccess { base: 0, size: 8, kind: AccessKind::Modify, ..BlockAccess::NONE };
    let repeated = Some(Repeated { count_after: 2, place_after: 3 });
    let fill =
        BlockAccess { base: 0, index: 1, size: 1, kind: AccessKind::Store, repeated, ..BlockAccess::NONE };
    let (one, four) = (RecordedValues::plain(1), RecordedValues::plain(4));
    let defined = [
        (0, LOAD, 2, one, load),
        (0, LOCKED, 1, RecordedValues { count: 3, ordered: true }, modify),
        (0, FILL, 1, four, fill),
        (0, LOAD_LOCAL, 3, one, BlockAccess { fs: true, ..load }),
        (0, FILL_LOCAL, 1, four, BlockAccess { fs: true, ..fill }),
        (1, OF_CHILD, 2, one, load),
    ];
    let mut room = [0; MAX_DEFINITION_BYTES];
    for (process, id, instructions, values, access) in defined {
        let extent = Extent::of(VirtAddr(u64::from(id) * 64), instructions);
        let len = encode_definition(id, extent, values, &[access], &mut room);
        sink.blocks.add(process, id, &room[..len], sink.list.as_mut()).unwrap();
    }
}

fn embed(words: &mut Vec<u64>, record: &Record<'_>) {
    let mut room = RecordRoom::new();
    let (record, _) = encode(record, &mut room).as_chunks();
    words.push(EMBED | (record.len() as u64) << ID_BITS);
    words.extend(record.iter().map(|word| u64::from_le_bytes(*word)));
    words.push(PAD);
}

/// A buffer with all that may stand between executions: 21 accesses.
pub(super) fn buffer(order: u64) -> Vec<u64> {
    let load = |addr| [u64::from(LOAD) | 1 << ID_BITS, addr];
    let mut words = vec![5 << ID_BITS];
    words.extend(load(0x5000));
    words.extend(load(0x5008));
    embed(&mut words, &Record::Counter { ip: VirtAddr(7), count: 1, name: b"slow" });
    words.extend(load(0x5010));
    words.extend([u64::from(LOCKED) | 2 << ID_BITS, 0x6000, order, order + 3]);
    words.extend(load(0x5018));
    embed(
        &mut words,
        &Record::Gap { reason: GapReason::LostControl, count: 2, addr: VirtAddr(9), name: b"x" },
    );
    // Its access was not made, and one after it was.
    words.extend([u64::from(LOAD), 0x9990, CUT, 1]);
    words.extend([u64::from(LOAD), 0x5020, PAD, CUT, 2 | CUT_ALL]);
    words.extend(load(0x5028));
    embed(&mut words, &Record::ThreadBase { addr: VirtAddr(0x100) });
    words.extend(load(0x5030));
    let (ip, addr) = (VirtAddr(3), VirtAddr(0x7000));
    embed(&mut words, &Record::Access { ip, addr, kind: AccessKind::Store, size: 4 });
    words.extend(load(0x5038));
    words.extend([u64::from(LOCKED), 0x6008, 0, 0]);
    words.extend([u64::from(FILL), 0x8000, 10, 0, 0x800a, PAD]);
    words
}

/// A buffer that a thread hands over.
#[derive(Clone, Debug)]
struct HandedOver {
    thread: u32,
    sequence: u32,
    words: Vec<u64>,
    /// Whether many others wait.
    many: bool,
    /// Whether all that came so far is written then.
    flush: bool,
}

/// How buffers are read.
#[derive(Clone, Copy, Debug)]
enum ReadingWay {
    /// An entry after the other: where control flow is kept.
    ByEntries,
    /// By pieces of so many buffers where many wait, with so many workers; 0: without any.
    ByPieces(usize, usize),
    /// The same, where next to nothing may be buffered.
    Bounded(usize, usize),
}

/// Bytes of a frame where little is buffered: a few executions.
const FEW_BYTES: usize = 512;

/// What was read.
#[derive(Debug, PartialEq)]
struct ReadEvents {
    accesses: u64,
    gaps: u64,
    instructions: u64,
    threads: Vec<Vec<Event<String>>>,
}

/// What is read of threads that hand these over. The odd ones are of a child of the process of the others.
fn events(way: ReadingWay, buffers: &[HandedOver]) -> ReadEvents {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.memtap");
    let mut memory = MemoryPlan::new(None, 2);
    let (workers, buffers_of_a_piece) = match way {
        ReadingWay::ByEntries => (0, memory.piece_buffers),
        ReadingWay::ByPieces(buffers, workers) | ReadingWay::Bounded(buffers, workers) => (workers, buffers),
    };
    memory.piece_buffers = buffers_of_a_piece;
    memory.coding_buffers = 2 * workers.max(1) * buffers_of_a_piece;
    if matches!(way, ReadingWay::Bounded(..)) {
        (memory.open_bytes, memory.frame_bytes, memory.gathered_buffers) =
            (FEW_BYTES, FEW_BYTES, buffers_of_a_piece);
    }
    let frame_bytes = memory.frame_bytes;
    let options = CreateOptions { encoder: Some(Encoders::BLOCKS), frame_bytes, ..CreateOptions::default() };
    let trace = TraceWriter::create(&path, options).unwrap();
    let flow = matches!(way, ReadingWay::ByEntries);
    let contents = Contents { regions: u32::MAX, data: false, flow, verify: false };
    let workers = (workers > 0).then(|| Arc::new(Workers::start(workers)));
    let mut sink = Sink::new(trace.clone(), contents, workers, memory, None);
    sink.add_process(0, std::process::id(), None, 0).unwrap();
    sink.add_process(1, std::process::id(), Some(0), 0).unwrap();
    define(&mut sink);
    for HandedOver { thread, sequence, words, many, flush } in buffers {
        sink.fall_behind(*many);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        sink.take(thread % 2, *thread, 1, *sequence, Content::Flow, HeldBuffer::of(&bytes)).unwrap();
        sink.enter_coded().unwrap();
        if *flush {
            sink.flush().unwrap();
        }
    }
    sink.settle(0).unwrap();
    sink.settle(1).unwrap();
    sink.finish().unwrap();
    let (totals, instructions) = (sink.totals(), sink.instructions());
    drop(sink);
    trace.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert!(trace.check().unwrap().is_sound(), "{:?}", trace.check());
    let all = |thread| {
        let shard = trace.shard(ThreadId(thread));
        let mut cursor = shard.events(&Filter::default());
        let mut all = Vec::new();
        while let Some(batch) = cursor.next_batch().unwrap() {
            match batch {
                Batch::Accesses(some) => all.extend(some.iter().map(|&access| Event::Access(access))),
                Batch::Event(event) => all.push(event),
            }
        }
        all
    };
    let threads = (0..trace.threads().len() as u32).map(all).collect();
    ReadEvents { accesses: totals.accesses, gaps: totals.gaps, instructions, threads }
}

/// The last two of three buffers are handed over in the wrong order.
fn three_buffers() -> Vec<HandedOver> {
    let one = |sequence| {
        let words = buffer(1 + 10 * u64::from(sequence));
        HandedOver { thread: 0, sequence, words, many: true, flush: false }
    };
    [0, 2, 1].map(one).to_vec()
}

#[test]
fn what_workers_find_is_what_each_entry_by_itself_gives() {
    let read = events(ReadingWay::ByPieces(2, 2), &three_buffers());
    assert_eq!(read, events(ReadingWay::ByEntries, &three_buffers()));
    let expected = &read.threads[0];
    let count = expected.iter().filter(|event| matches!(event, Event::Access(_))).count();
    assert_eq!((count as u64, read.accesses), (3 * 21, 3 * 21));
    let locked =
        |event: &&Event<String>| matches!(event, Event::Access(access) if access.kind == AccessKind::Modify);
    assert_eq!(expected.iter().filter(locked).count(), 3 * 2);
    let orders = expected.iter().filter(|event| matches!(event, Event::Order(_))).count();
    assert_eq!(orders, 3 * 2);
    let loads: Vec<u64> = expected
        .iter()
        .filter_map(|event| match event {
            Event::Access(access) if access.kind == AccessKind::Load => Some(access.addr.0),
            _ => None,
        })
        .collect();
    let once = [0x5000, 0x5008, 0x5010, 0x5018, 0x5020, 0x5028, 0x5030, 0x5038];
    assert_eq!(loads, once.repeat(3));
}

#[test]
fn one_instruction_with_more_accesses_than_a_frame_takes_is_read_where_it_stands() {
    let many = 300_000;
    let mut buffers = three_buffers();
    let fill = [u64::from(FILL) | 7 << ID_BITS, 0x8000, many, 0, 0x8000 + many];
    buffers[2].words.splice(5..5, fill);
    let read = events(ReadingWay::ByPieces(3, 1), &buffers);
    assert_eq!(read.accesses, 3 * 21 + many);
    assert!(read == events(ReadingWay::ByEntries, &buffers));
}

/// Something in a buffer.
#[derive(Clone, Debug)]
enum Item {
    Execution(u32, u64, u64),
    Fill(u32, u64, u64),
    Locked(u64, bool),
    Cut(u32, u64, u64, bool),
    CutLocked,
    Base(u64),
    Single(u64),
    Order,
    Marker,
    Gap,
    Instructions(u64),
    /// No block has that number; nothing after it is read.
    Undefined,
}

fn item() -> impl Strategy<Value = Item> {
    let block = prop::sample::select(&[LOAD, LOAD_LOCAL, OF_CHILD]);
    let addr = prop_oneof![0x1000u64..0x1010, any::<u64>()];
    prop_oneof![
        30 => (block.clone(), addr.clone(), 0u64..3).prop_map(|(id, addr, after)| Item::Execution(id, addr, after)),
        5 => (prop::sample::select(&[FILL, FILL_LOCAL]), 0u64..1 << 40, 0u64..20)
            .prop_map(|(id, addr, count)| Item::Fill(id, addr, count)),
        5 => (addr.clone(), any::<bool>()).prop_map(|(addr, alone)| Item::Locked(addr, alone)),
        3 => (block, addr.clone(), 0u64..4, any::<bool>()).prop_map(|(id, addr, n, all)| Item::Cut(id, addr, n, all)),
        1 => Just(Item::CutLocked),
        2 => prop::sample::select(&[0u64, 0x7000, u64::MAX - 5]).prop_map(Item::Base),
        2 => addr.prop_map(Item::Single),
        2 => Just(Item::Order),
        2 => Just(Item::Marker),
        1 => Just(Item::Gap),
        3 => (0u64..9).prop_map(Item::Instructions),
        1 => prop::bool::weighted(0.1).prop_map(|is| if is { Item::Undefined } else { Item::Instructions(1) }),
    ]
}

impl Item {
    /// `order` is the last one of the session.
    fn put(&self, words: &mut Vec<u64>, order: &mut u64) {
        let (ip, addr) = (VirtAddr(3), VirtAddr(0x7000));
        match *self {
            Self::Execution(id, value, after) => words.extend([u64::from(id) | after << ID_BITS, value]),
            Self::Fill(id, addr, count) => words.extend([id.into(), addr, count, 0, addr + count]),
            Self::Locked(addr, true) => words.extend([LOCKED.into(), addr, 0, 0]),
            Self::Locked(addr, false) => {
                words.extend([u64::from(LOCKED) | 1 << ID_BITS, addr, *order, *order + 2]);
                *order += 2;
            }
            Self::Cut(id, addr, executed, all) => {
                // The second instruction is the one that accesses memory.
                let executed = if all { CUT_ALL | (executed + 2) } else { executed };
                words.extend([id.into(), addr, PAD, CUT, executed]);
            }
            Self::CutLocked => {
                words.extend([LOCKED.into(), 0x5000, *order, *order + 1, CUT, 0]);
                *order += 1;
            }
            Self::Base(base) => embed(words, &Record::ThreadBase { addr: VirtAddr(base) }),
            Self::Single(value) => {
                let addr = VirtAddr(value & 0xffff_ffff_ffff);
                embed(words, &Record::Access { ip, addr, kind: AccessKind::Store, size: 4 });
            }
            Self::Order => {
                *order += 1;
                embed(words, &Record::Order { order: *order });
            }
            Self::Marker => {
                *order += 1;
                embed(words, &Record::Marker { order: *order, ip, kind: MarkerKind::Start, name: b"here" });
            }
            Self::Gap => {
                embed(words, &Record::Gap { reason: GapReason::LostControl, count: 2, addr, name: b"x" });
            }
            Self::Instructions(count) => words.push(count << ID_BITS),
            Self::Undefined => words.push(UNDEFINED.into()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn workers_find_what_one_thread_finds(
        drawn in prop::collection::vec((0u32..3, prop::collection::vec(item(), 0..30), any::<bool>(), prop::bool::weighted(0.1), 0u8..20), 1..40),
        piece in 1usize..6, workers in 0usize..4,
    ) {
        let (mut sequences, mut order) = (BTreeMap::new(), 1);
        let mut buffers: Vec<HandedOver> = Vec::new();
        let mut early = Vec::new();
        for (thread, items, many, flush, luck) in drawn {
            let mut words = Vec::new();
            items.iter().for_each(|item| item.put(&mut words, &mut order));
            let sequence = sequences.entry(thread).or_insert(0);
            // Some are lost, some come before their turn.
            *sequence += if luck == 0 { 2 } else { 1 };
            early.push(HandedOver { thread, sequence: *sequence - 1, words, many, flush });
            if luck > 3 {
                early.reverse();
                buffers.append(&mut early);
            }
        }
        buffers.append(&mut early);
        let expected = events(ReadingWay::ByEntries, &buffers);
        prop_assert_eq!(&events(ReadingWay::ByPieces(piece, workers), &buffers), &expected);
        prop_assert_eq!(&events(ReadingWay::Bounded(piece, workers), &buffers), &expected);
    }
}
