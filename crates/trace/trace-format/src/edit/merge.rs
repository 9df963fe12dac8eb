//! Merges several traces into one: processes and threads get new numbers, and so do orders, which mean nothing across traces.

use std::{collections::HashMap, sync::Arc};

use memref::{Event, Marker, ProcessId, RegionEvent, ThreadId};

use super::output::CopiedStream;
use crate::{
    CounterRecord, CreateOptions, Error, FRAMES_BEGIN, Filter, ModuleRecord, ProcessRecord, SegmentSink,
    StreamDescription, StreamKind, ThreadRecord, Trace, TraceWriter, TypedWriter,
    control_flow::{self, FlowEntry},
};

/// New numbers.
struct Numbers {
    processes: HashMap<ProcessId, ProcessId>,
    threads: HashMap<ThreadId, ThreadId>,
    /// What is added to orders.
    order: u64,
}

impl Numbers {
    fn process(&self, process: ProcessId) -> ProcessId {
        self.processes.get(&process).copied().unwrap_or(process)
    }

    fn thread(&self, thread: ThreadId) -> ThreadId {
        self.threads.get(&thread).copied().unwrap_or(thread)
    }
}

/// Merges traces into a sink that has no stream yet, and closes it. `options.data` must be set if one of them has data. What
/// is damaged becomes a gap of its thread. Properties of the first trace keep their names, those of the others get a number.
pub fn merge(traces: &[Trace], sink: Arc<dyn SegmentSink>, options: CreateOptions) -> Result<(), Error> {
    let segment_entries = options.segment_entries;
    let writer = TraceWriter::on_sink(sink.clone(), options.clone());
    let mut next_order = 0;
    let mut blocks = writer.typed(StreamDescription::of_kind(StreamKind::BasicBlocks, None), segment_entries);
    for (number, trace) in traces.iter().enumerate() {
        let mut numbers = Numbers { processes: HashMap::new(), threads: HashMap::new(), order: next_order };
        session(&writer, trace, number, &mut numbers)?;
        next_order = next_order.max(tables(&writer, trace, &numbers)?);
        for record in trace.threads() {
            let last = shard(&writer, trace, record.thread, &numbers, options.data)?;
            next_order = next_order.max(last);
        }
        flow(&writer, trace, &numbers, &mut blocks, segment_entries)?;
        foreign(&*sink, trace, &numbers, segment_entries)?;
    }
    let is_told = Trace::frames_begin_with_accesses;
    if traces.first().is_some_and(is_told) && !traces.iter().all(is_told) {
        // What is true of the first one is not of all.
        writer.set_property(FRAMES_BEGIN, "")?;
    }
    blocks.flush()?;
    writer.finish()
}

fn session(writer: &TraceWriter, trace: &Trace, number: usize, numbers: &mut Numbers) -> Result<(), Error> {
    for (key, value) in trace.properties() {
        match number {
            0 => writer.set_property(key, value)?,
            _ => writer.set_property(&format!("{key} of trace {number}"), value)?,
        }
    }
    for record in trace.processes() {
        let parent = record.parent.map(|parent| numbers.process(parent));
        let new = writer.add_process(&ProcessRecord { parent, ..record.clone() })?;
        numbers.processes.insert(record.process, new);
    }
    for record in trace.threads() {
        let process = numbers.process(record.process);
        let new = writer.add_thread(&ThreadRecord { process, ..record.clone() })?;
        numbers.threads.insert(record.thread, new);
    }
    Ok(())
}

/// Regions, modules and counters; returns the order after the last.
fn tables(writer: &TraceWriter, trace: &Trace, numbers: &Numbers) -> Result<u64, Error> {
    let mut next = numbers.order;
    let mut order = |order: u64| {
        let order = order.saturating_add(numbers.order);
        next = next.max(order.saturating_add(1));
        order
    };
    for event in trace.regions()? {
        let (order, process) = (order(event.order), numbers.process(event.process));
        writer.add_region(&RegionEvent { order, process, ..event })?;
    }
    for record in trace.modules()? {
        let process = numbers.process(record.process);
        writer.add_module(&ModuleRecord { process, order: order(record.order), ..record })?;
    }
    for record in trace.counters()? {
        let thread = record.thread.map(|thread| numbers.thread(thread));
        writer.add_counter(&CounterRecord { process: numbers.process(record.process), thread, ..record })?;
    }
    Ok(next)
}

/// The events of a thread; returns the order after the last.
fn shard(
    writer: &TraceWriter,
    trace: &Trace,
    thread: ThreadId,
    numbers: &Numbers,
    data: bool,
) -> Result<u64, Error> {
    let mut next = numbers.order;
    let mut shard = writer.shard(numbers.thread(thread))?;
    let from = trace.shard(thread);
    let mut values = from.values(&Filter::default()).peekable();
    let mut order = |order: u64| {
        let order = order.saturating_add(numbers.order);
        next = next.max(order.saturating_add(1));
        order
    };
    // Indices among the readable accesses are not those of the trace where frames are damaged; the cursor tells them.
    let mut accesses = from.accesses(&Filter::default());
    let mut places = std::iter::from_fn(move || match accesses.next_block() {
        Ok(Some(block)) => {
            let len = block.len() as u64;
            let first = accesses.first_index();
            Some(first..first + len)
        }
        _ => None,
    })
    .flatten();
    for event in from.events(&Filter::default()) {
        match event? {
            Event::Access(access) if data => {
                let index = places.next().unwrap_or(u64::MAX);
                while let Some(Ok(_)) =
                    values.next_if(|value| matches!(value, Ok(value) if value.access_index < index))
                {
                }
                match values.next_if(|value| !matches!(value, Ok(value) if value.access_index != index)) {
                    Some(value) => shard.push_with_bytes(&access, &value?.bytes)?,
                    None => shard.push_accesses(&[access])?,
                }
            }
            Event::Access(access) => shard.push_accesses(&[access])?,
            Event::Block(mut block) => {
                block.order = order(block.order);
                shard.push(&Event::Block(block))?;
            }
            Event::Allocation(mut allocation) => {
                allocation.order = order(allocation.order);
                shard.push(&Event::Allocation(allocation))?;
            }
            Event::Marker(Marker { cycle, order: old, ip, kind, name }) => {
                shard.push(&Event::Marker(Marker { cycle, order: order(old), ip, kind, name: &name }))?;
            }
            Event::Sync(mut sync) => {
                // Objects are numbers of one process, which stay apart.
                sync.order = order(sync.order);
                shard.push(&Event::Sync(sync))?;
            }
            Event::Order(mut mark) => {
                mark.order = order(mark.order);
                shard.push(&Event::Order(mark))?;
            }
            Event::Gap(mut gap) => {
                gap.process = numbers.process(gap.process);
                gap.thread = numbers.thread(gap.thread);
                shard.push(&Event::Gap(gap))?;
            }
        }
    }
    Ok(next)
}

/// Control flow: the lists of blocks become one, in which those of this trace begin at another number.
fn flow(
    writer: &TraceWriter,
    trace: &Trace,
    numbers: &Numbers,
    blocks: &mut TypedWriter,
    segment_entries: usize,
) -> Result<(), Error> {
    let first = blocks.next_index();
    for block in control_flow::blocks(trace)? {
        blocks.push(0, &block.to_bytes())?;
    }
    for record in trace.threads() {
        let Some(mut cursor) = trace.typed(StreamKind::Flow, Some(record.thread)) else { continue };
        let owner = (numbers.process(record.process), numbers.thread(record.thread));
        let mut stream =
            writer.typed(StreamDescription::of_kind(StreamKind::Flow, Some(owner)), segment_entries);
        while let Some(frame) = cursor.next_frame()? {
            for entry in frame.bytes.chunks_exact(FlowEntry::BYTES).map(FlowEntry::from_bytes) {
                let block = (first + u64::from(entry.block)) as u32;
                stream.push(entry.cycle, &FlowEntry { block, ..entry }.to_bytes())?;
            }
        }
        stream.flush()?;
    }
    Ok(())
}

/// Streams that stand beside the events: of types that are not memtap's, and of machines. As they are.
fn foreign(
    sink: &dyn SegmentSink,
    trace: &Trace,
    numbers: &Numbers,
    segment_entries: usize,
) -> Result<(), Error> {
    for info in trace.streams() {
        let kind = StreamKind::of(&info.description.entry_type);
        let is_done = |kind| {
            use StreamKind::{BasicBlocks, BlockDefinitions, Flow};
            matches!(kind, Flow | BasicBlocks | BlockDefinitions) || !kind.by_frames()
        };
        if kind.is_some_and(is_done) {
            continue;
        }
        let Some(reader) = trace.stream(info.number) else { continue };
        let description = StreamDescription {
            process: info.description.process.map(|process| numbers.process(process)),
            thread: info.description.thread.map(|thread| numbers.thread(thread)),
            ..info.description
        };
        let mut output = CopiedStream::new(sink, description, segment_entries);
        let mut bytes = Vec::new();
        for place in 0..reader.segments() {
            if reader.read(place, &mut bytes)?
                && let Some(segment) = reader.segment(place)
            {
                output.push(&bytes, segment.bounds.wall_ns)?;
            }
        }
        output.finish(true)?;
    }
    Ok(())
}
