//! Tables of a trace's metadata: its frames, processes, threads and mappings. No accesses are read for them.

use std::sync::Arc;

use analysis::{Moment, Session, Tool};
use arrow_array::{ArrayRef, BooleanArray, Int32Array};
use memref::{Access, ProcessId};
use symbols::{Region, Resolver};
use trace_format::{Filter, Interval, KindSet, SegmentInfo, StreamDescription};

use crate::batch::{WholeColumns, numbers, numbers32, some_numbers, some_numbers32, texts};
use crate::name_column::names;

/// A frame of a stream.
struct ListedFrame<'a> {
    stream: u32,
    place: u64,
    description: &'a StreamDescription,
    segment: SegmentInfo,
}

fn lowest(interval: Interval) -> Option<u64> {
    (!interval.is_none()).then_some(interval.min)
}

fn highest(interval: Interval) -> Option<u64> {
    (!interval.is_none()).then_some(interval.max)
}

pub(crate) fn frames(session: &Session) -> WholeColumns {
    let trace = session.trace();
    let streams: Vec<_> =
        trace.streams().filter_map(|stream| Some((stream.number, trace.stream(stream.number)?))).collect();
    let mut rows = Vec::new();
    for (number, stream) in &streams {
        for place in 0..stream.segments() {
            let Some(segment) = stream.segment(place) else { continue };
            let (description, place) = (stream.description(), place as u64);
            rows.push(ListedFrame { stream: *number, place, description, segment });
        }
    }
    Ok(vec![
        numbers32(rows.iter().map(|row| row.stream)),
        names(rows.iter().map(|row| Some(&row.description.name)))?,
        some_numbers32(rows.iter().map(|row| Some(row.description.thread?.0))),
        some_numbers32(rows.iter().map(|row| Some(row.description.process?.0))),
        numbers(rows.iter().map(|row| row.place)),
        numbers(rows.iter().map(|row| row.segment.first_index)),
        numbers(rows.iter().map(|row| row.segment.entries)),
        some_numbers(rows.iter().map(|row| lowest(row.segment.bounds.cycles))),
        some_numbers(rows.iter().map(|row| highest(row.segment.bounds.cycles))),
        some_numbers(rows.iter().map(|row| lowest(row.segment.bounds.wall_ns))),
        some_numbers(rows.iter().map(|row| highest(row.segment.bounds.wall_ns))),
        some_numbers(rows.iter().map(|row| lowest(row.segment.bounds.addrs))),
        some_numbers(rows.iter().map(|row| highest(row.segment.bounds.addrs))),
        some_numbers(rows.iter().map(|row| lowest(row.segment.bounds.ips))),
        some_numbers(rows.iter().map(|row| highest(row.segment.bounds.ips))),
        numbers(rows.iter().map(|row| row.segment.stored_bytes)),
    ])
}

pub(crate) fn processes(session: &Session) -> WholeColumns {
    let rows = session.trace().processes();
    let status: Int32Array = rows.iter().map(|row| row.exit_status).collect();
    Ok(vec![
        numbers32(rows.iter().map(|row| row.process.0)),
        numbers32(rows.iter().map(|row| row.pid)),
        some_numbers32(rows.iter().map(|row| Some(row.parent?.0))),
        numbers(rows.iter().map(|row| row.start_ns)),
        some_numbers(rows.iter().map(|row| row.end_ns)),
        Arc::new(status) as ArrayRef,
        texts(rows.iter().map(|row| Some(&row.exe))),
        texts(rows.iter().map(|row| Some(&row.args))),
    ])
}

pub(crate) fn threads(session: &Session) -> WholeColumns {
    let trace = session.trace();
    let rows = trace.threads();
    Ok(vec![
        numbers32(rows.iter().map(|row| row.thread.0)),
        numbers32(rows.iter().map(|row| row.process.0)),
        numbers32(rows.iter().map(|row| row.tid)),
        numbers(rows.iter().map(|row| row.start_ns)),
        some_numbers(rows.iter().map(|row| row.end_ns)),
        numbers(rows.iter().map(|row| trace.shard(row.thread).access_count())),
    ])
}

/// Looks at nothing: the replay's resolvers are what is wanted.
struct RegionsAlone;

impl Tool for RegionsAlone {
    fn accesses(&mut self, _: &mut Moment<'_>, _: &[Access]) -> Result<(), analysis::Error> {
        Ok(())
    }
}

pub(crate) fn regions(session: &Session) -> WholeColumns {
    let filter = Filter { kinds: KindSet::NONE, ..Filter::default() };
    let resolvers = session.replay(&filter, None, &mut RegionsAlone)?;
    let of = |resolver: &Resolver| {
        let process = resolver.process();
        let regions = resolver.image().regions().regions().to_vec();
        regions.into_iter().map(move |region| (process, region))
    };
    let rows: Vec<(ProcessId, Region)> = resolvers.iter().flat_map(of).collect();
    let right = |bit: u8| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, row)| Some(row.rights & 1 << bit != 0)).collect::<BooleanArray>())
    };
    Ok(vec![
        numbers32(rows.iter().map(|(process, _)| process.0)),
        numbers(rows.iter().map(|(_, row)| row.start.0)),
        numbers(rows.iter().map(|(_, row)| row.len)),
        names(rows.iter().map(|(_, row)| Some(row.kind.name())))?,
        right(0),
        right(1),
        right(2),
        names(rows.iter().map(|(_, row)| Some(&row.name)))?,
        numbers(rows.iter().map(|(_, row)| row.file_offset)),
        numbers(rows.iter().map(|(_, row)| row.since)),
        some_numbers(rows.iter().map(|(_, row)| row.until)),
    ])
}
