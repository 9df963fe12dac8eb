//! Streams of any type as bytes, segment by segment: for callers that know the type themselves, and for servers.

use std::{ops::Range, sync::Arc};

use memref::VirtAddr;

use super::{
    file::FrameError,
    filter::Filter,
    stream::Stream,
    trace::{Trace, TraceData},
};
use crate::{Bounds, EntryType, Error, Field, FieldRole, KindSet, StreamDescription, StreamKind};

/// What is known of a segment without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The index of its first entry.
    pub first_index: u64,
    /// Its entries.
    pub entries: u64,
    /// What they span.
    pub bounds: Bounds,
    /// Bytes in the file.
    pub stored_bytes: u64,
}

/// One stream of an open trace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StreamReader {
    inner: Arc<TraceData>,
    stream: Arc<Stream>,
}

impl Trace {
    /// The stream of that number.
    pub fn stream(&self, number: u32) -> Option<StreamReader> {
        let stream = self.inner.streams.get(&number)?.clone();
        Some(StreamReader { inner: self.inner.clone(), stream })
    }
}

impl StreamReader {
    /// What it holds, and whose.
    pub fn description(&self) -> &StreamDescription {
        &self.stream.description
    }

    /// How many segments it has.
    pub fn segments(&self) -> usize {
        self.stream.frames.len()
    }

    /// A segment by its place; `None` beyond the last.
    pub fn segment(&self, place: usize) -> Option<SegmentInfo> {
        let frame = self.stream.frames.get(place)?;
        let header = &frame.header;
        Some(SegmentInfo {
            first_index: header.first_index,
            entries: header.entries,
            bounds: header.bounds,
            stored_bytes: header.total_bytes,
        })
    }

    /// The sequence number of the next segment.
    pub fn next_sequence(&self) -> u64 {
        self.stream.frames.last().map_or(0, |frame| frame.header.sequence + 1)
    }

    /// The index after the last entry.
    pub fn end_index(&self) -> u64 {
        self.stream.frames.last().map_or(0, |frame| frame.header.end_index())
    }

    /// Decodes a segment into the bytes of its entries, which replace what is in `out`. `false` where it is damaged or does
    /// not exist.
    pub fn read(&self, place: usize, out: &mut Vec<u8>) -> Result<bool, Error> {
        let Some(frame) = self.stream.frames.get(place) else { return Ok(false) };
        match self.stream.decode(&self.inner.file, &self.inner.encoders, frame, out) {
            Ok(()) => Ok(true),
            Err(FrameError::Damaged(_)) => Ok(false),
            Err(FrameError::Failed(error)) => Err(error),
        }
    }

    /// The first segment that has the entry of that index or a later one.
    pub fn place_of_index(&self, index: u64) -> usize {
        self.stream.frames.partition_point(|frame| frame.header.end_index() <= index)
    }

    /// The first segment that may have an entry of that cycle or a later one. Only for types with growing cycles.
    pub fn place_of_cycle(&self, cycle: u64) -> usize {
        self.stream.frames.partition_point(|frame| frame.header.bounds.cycles.max < cycle)
    }

    /// The first segment that was not complete before that time, ns since the Unix epoch.
    pub fn place_of_wall_ns(&self, wall_ns: u64) -> usize {
        self.stream.frames.partition_point(|frame| frame.header.bounds.wall_ns.max < wall_ns)
    }
}

/// A [`Filter`] made ready for the entries of one type, whatever the type. Conditions on something that the type has no
/// field for do not exclude; `filter.index` is not tested.
#[derive(Clone, Debug)]
pub struct EntryFilter {
    filter: Filter,
    cycle: Option<Field>,
    ip: Option<Field>,
    addresses: Vec<Field>,
    /// Bytes that an access touches.
    size: Option<Field>,
    /// The kind's field, and the kind bit of kind 0.
    kind: Option<(Field, u32)>,
}

impl EntryFilter {
    /// Tests entries of that type.
    pub fn new(filter: &Filter, entry_type: &EntryType) -> Self {
        let find = |role, name: &str| {
            entry_type.fields.iter().find(|field| field.role == role && field.name == name).cloned()
        };
        let first_bit = match StreamKind::from_guid(entry_type.guid) {
            Some(StreamKind::Accesses | StreamKind::DataAccesses) => Some(0),
            Some(StreamKind::BlockOps) => Some(4),
            Some(StreamKind::Allocations) => Some(8),
            Some(StreamKind::Markers) => Some(16),
            _ => None,
        };
        let own = first_bit == Some(0);
        let address = |field: &&Field| field.role == FieldRole::Address && field.name != "ip";
        Self {
            filter: filter.clone(),
            cycle: find(FieldRole::Growing, "cycle"),
            ip: find(FieldRole::Address, "ip"),
            addresses: entry_type.fields.iter().filter(address).cloned().collect(),
            size: find(FieldRole::Plain, "size").filter(|_| own),
            kind: find(FieldRole::Plain, "kind").zip(first_bit),
        }
    }

    /// Whether a segment may have an entry that matches.
    pub fn may_match(&self, segment: &SegmentInfo) -> bool {
        let bounds = &segment.bounds;
        let filter = &self.filter;
        let raw = |range: &Range<VirtAddr>| range.start.0..range.end.0;
        let any = |ranges: &[Range<VirtAddr>], interval: crate::Interval| {
            ranges.is_empty() || ranges.iter().any(|range| interval.meets(&raw(range)))
        };
        (self.cycle.is_none() || filter.cycles.as_ref().is_none_or(|range| bounds.cycles.meets(range)))
            && filter.wall_ns.as_ref().is_none_or(|range| bounds.wall_ns.meets(range))
            && (self.kind.is_none() || filter.kinds.intersects(bounds.kinds))
            && (self.addresses.is_empty() || any(&filter.addresses, bounds.addrs))
            && (self.ip.is_none() || any(&filter.ips, bounds.ips))
    }

    /// Whether every entry matches, so that none need be tested.
    pub fn takes_all(&self) -> bool {
        let filter = &self.filter;
        filter.cycles.is_none()
            && filter.kinds == KindSet::ALL
            && filter.addresses.is_empty()
            && filter.ips.is_empty()
    }

    /// The cycle of an entry, where its type has one.
    pub fn cycle(&self, entry: &[u8]) -> Option<u64> {
        Some(self.cycle.as_ref()?.get(entry))
    }

    /// Whether an entry matches.
    pub fn matches(&self, entry: &[u8]) -> bool {
        let filter = &self.filter;
        let in_cycles = match (&self.cycle, &filter.cycles) {
            (Some(field), Some(range)) => range.contains(&field.get(entry)),
            _ => true,
        };
        let of_kind = match &self.kind {
            Some((field, first)) => {
                let bit = u32::try_from(field.get(entry)).ok().and_then(|kind| kind.checked_add(*first));
                let set = KindSet(bit.and_then(|bit| 1u32.checked_shl(bit)).unwrap_or(0));
                filter.kinds == KindSet::ALL || filter.kinds.intersects(set)
            }
            None => true,
        };
        let at_ip = match &self.ip {
            Some(field) if !filter.ips.is_empty() => {
                let ip = VirtAddr(field.get(entry));
                filter.ips.iter().any(|range| range.contains(&ip))
            }
            _ => true,
        };
        let len = self.size.as_ref().map_or(1, |field| field.get(entry).max(1));
        let touches = |field: &Field| {
            let addr = VirtAddr(field.get(entry));
            let last = addr.0.saturating_add(len - 1);
            filter.addresses.iter().any(|range| addr < range.end && last >= range.start.0)
        };
        in_cycles
            && of_kind
            && at_ip
            && (filter.addresses.is_empty()
                || self.addresses.is_empty()
                || self.addresses.iter().any(touches))
    }
}
