//! Perfetto's trace format: one track per thread with the functions that it was in, its accesses as counters, and the heap of
//! each process. Field numbers are those of perfetto's `trace_packet.proto`, `track_descriptor.proto` and `track_event.proto`.
//!
//! One nanosecond stands for one instruction of the thread. A function
//! begins and ends where the first and the last sample saw it.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use analysis::stack::StackNames;
use analysis::{Session, TimeSample, Timeline};
use memref::ThreadId;

use super::message::Message;
use super::running::Running;

/// Fields of a packet.
mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// Fields of a track's descriptor.
mod descriptor {
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const THREAD: u32 = 4;
    pub(super) const PARENT: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
}

/// Fields of an event on a track, and its types.
mod event {
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_ID: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const COUNTER_VALUE: u32 = 30;
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const COUNTER: u64 = 4;
}

/// What a track is; its number is made of that and the number of its thread or process.
#[derive(Clone, Copy)]
enum TrackKind {
    Process = 1,
    Thread,
    Accesses,
    Bytes,
    Heap,
}

impl TrackKind {
    fn uuid(self, number: u32) -> u64 {
        u64::from(number) << 8 | self as u64
    }
}

/// All packets are of one sequence, whose names are numbered.
const SEQUENCE: u64 = 1;
const NAMES_BEGIN: u64 = 1;
const NAMES_GO_ON: u64 = 2;

struct Packets<'a> {
    out: &'a mut dyn Write,
    names: HashMap<String, u64>,
    has_begun: bool,
}

impl Packets<'_> {
    fn write(&mut self, mut packet: Message) -> io::Result<()> {
        packet.number(packet::SEQUENCE, SEQUENCE);
        packet.number(packet::SEQUENCE_FLAGS, if self.has_begun { NAMES_GO_ON } else { NAMES_BEGIN });
        self.has_begun = true;
        let mut trace = Message::default();
        trace.message(1, &packet);
        self.out.write_all(trace.bytes())
    }

    fn track(&mut self, uuid: u64, parent: u64, name: &str, what: (u32, &Message)) -> io::Result<()> {
        let mut track = Message::default();
        track.number(descriptor::UUID, uuid).number(descriptor::PARENT, parent).text(descriptor::NAME, name);
        track.message(what.0, what.1);
        let mut packet = Message::default();
        packet.message(packet::TRACK_DESCRIPTOR, &track);
        self.write(packet)
    }

    fn begin(&mut self, track: u64, time: u64, name: &str) -> io::Result<()> {
        let mut packet = Message::default();
        let next = self.names.len() as u64 + 1;
        let id = *self.names.entry(name.to_owned()).or_insert(next);
        if id == next {
            let (mut entry, mut data) = (Message::default(), Message::default());
            entry.number(1, id).text(2, name);
            data.message(2, &entry);
            packet.message(packet::INTERNED_DATA, &data);
        }
        let mut event = Message::default();
        event.number(event::TYPE, event::BEGIN).number(event::TRACK, track).number(event::NAME_ID, id);
        packet.given(packet::TIMESTAMP, time).message(packet::TRACK_EVENT, &event);
        self.write(packet)
    }

    fn end(&mut self, track: u64, time: u64) -> io::Result<()> {
        let mut event = Message::default();
        event.number(event::TYPE, event::END).number(event::TRACK, track);
        let mut packet = Message::default();
        packet.given(packet::TIMESTAMP, time).message(packet::TRACK_EVENT, &event);
        self.write(packet)
    }

    fn count(&mut self, track: u64, time: u64, value: u64) -> io::Result<()> {
        let mut event = Message::default();
        event.number(event::TYPE, event::COUNTER).number(event::TRACK, track);
        event.given(event::COUNTER_VALUE, value);
        let mut packet = Message::default();
        packet.given(packet::TIMESTAMP, time).message(packet::TRACK_EVENT, &event);
        self.write(packet)
    }
}

/// Writes what a timeline has of a session.
///
/// # Errors
/// Where the output can't be written.
pub fn perfetto(session: &Session, timeline: &Timeline, out: &mut dyn Write) -> io::Result<()> {
    let mut packets = Packets { out, names: HashMap::new(), has_begun: false };
    let running = Running::of(session);
    let counter = Message::default();
    for process in &running.processes {
        let uuid = TrackKind::Process.uuid(process.number.0);
        let mut what = Message::default();
        what.number(1, process.pid.into()).text(6, &process.name);
        packets.track(uuid, 0, &process.name, (descriptor::PROCESS, &what))?;
        let heap = TrackKind::Heap.uuid(process.number.0);
        packets.track(heap, uuid, "heap: bytes of live blocks", (descriptor::COUNTER, &counter))?;
    }
    for thread in &running.threads {
        let uuid = TrackKind::Thread.uuid(thread.number.0);
        let mut what = Message::default();
        what.number(1, thread.pid.into()).number(2, thread.tid.into()).text(5, &thread.name);
        packets.track(uuid, 0, &thread.name, (descriptor::THREAD, &what))?;
        for (kind, name) in [
            (TrackKind::Accesses, "accesses in 1000 instructions"),
            (TrackKind::Bytes, "bytes accessed in 1000 instructions"),
        ] {
            packets.track(kind.uuid(thread.number.0), uuid, name, (descriptor::COUNTER, &counter))?;
        }
    }
    let names = StackNames::new(session.names(), timeline.contexts());
    let mut threads: BTreeMap<ThreadId, Vec<&TimeSample>> = BTreeMap::new();
    for sample in timeline.samples() {
        threads.entry(sample.thread).or_default().push(sample);
    }
    for (thread, samples) in threads {
        let track = TrackKind::Thread.uuid(thread.0);
        let mut open: Vec<String> = Vec::new();
        let mut from = 0;
        for sample in samples {
            let stack: Vec<String> =
                names.stack(sample.place).iter().map(|frame| frame.function.to_string()).collect();
            let common = open.iter().zip(&stack).take_while(|(a, b)| a == b).count();
            for _ in common..open.len() {
                packets.end(track, from)?;
            }
            for name in &stack[common..] {
                packets.begin(track, from, name)?;
            }
            open = stack;
            let instructions = sample.cycle.saturating_sub(from).max(1);
            for (kind, value) in
                [(TrackKind::Accesses, sample.count.accesses()), (TrackKind::Bytes, sample.count.bytes)]
            {
                packets.count(kind.uuid(thread.0), from, value.saturating_mul(1000) / instructions)?;
            }
            from = sample.cycle;
        }
        for _ in &open {
            packets.end(track, from)?;
        }
    }
    for sample in running.heap(timeline) {
        packets.count(TrackKind::Heap.uuid(sample.process.0), sample.cycle, sample.most)?;
    }
    Ok(())
}
