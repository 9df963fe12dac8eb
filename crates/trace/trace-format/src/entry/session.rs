//! Entries of the session's streams, and of values.

use memref::{ProcessId, RegionChange, RegionKind, ThreadId, VirtAddr};

use super::{StreamEntry, pad};
use crate::{Bounds, StreamKind, ThreadRecord, bytes::ByteReader};

/// A thread, an end or a reference that is not there.
const NONE: u64 = u64::MAX;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PropertyEntry {
    pub(crate) key: u64,
    pub(crate) value: u64,
}

impl StreamEntry for PropertyEntry {
    const KIND: StreamKind = StreamKind::Properties;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.key.to_le_bytes());
        out.extend(self.value.to_le_bytes());
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self { key: reader.u64()?, value: reader.u64()? })
    }

    fn bound(&self, _: &mut Bounds) {}
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessEntry {
    pub(crate) process: u32,
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) exit_status: i32,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) exe: u64,
    pub(crate) args: u64,
    pub(crate) flags: u32,
}

impl StreamEntry for ProcessEntry {
    const KIND: StreamKind = StreamKind::Processes;

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.process, self.pid, self.parent, self.exit_status as u32] {
            out.extend(word.to_le_bytes());
        }
        for word in [self.start_ns, self.end_ns, self.exe, self.args] {
            out.extend(word.to_le_bytes());
        }
        out.extend(self.flags.to_le_bytes());
        pad(out, 12);
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let entry = Self {
            process: reader.u32()?,
            pid: reader.u32()?,
            parent: reader.u32()?,
            exit_status: reader.u32()? as i32,
            start_ns: reader.u64()?,
            end_ns: reader.u64()?,
            exe: reader.u64()?,
            args: reader.u64()?,
            flags: reader.u32()?,
        };
        reader.take(12)?;
        Some(entry)
    }

    fn bound(&self, _: &mut Bounds) {}
}

impl StreamEntry for ThreadRecord {
    const KIND: StreamKind = StreamKind::Threads;

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.thread.0, self.process.0, self.tid, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(self.start_ns.to_le_bytes());
        out.extend(self.end_ns.unwrap_or(NONE).to_le_bytes());
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (thread, process) = (ThreadId(reader.u32()?), ProcessId(reader.u32()?));
        let (tid, _) = (reader.u32()?, reader.u32()?);
        let (start_ns, end_ns) = (reader.u64()?, reader.u64()?);
        Some(Self { thread, process, tid, start_ns, end_ns: (end_ns != NONE).then_some(end_ns) })
    }

    fn bound(&self, _: &mut Bounds) {}
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RegionEntry {
    pub(crate) order: u64,
    pub(crate) process: u32,
    pub(crate) change: RegionChange,
    pub(crate) kind: RegionKind,
    pub(crate) rights: u8,
    pub(crate) traced: bool,
    pub(crate) start: VirtAddr,
    pub(crate) len: u64,
    pub(crate) file_offset: u64,
    pub(crate) name: u64,
}

impl StreamEntry for RegionEntry {
    const KIND: StreamKind = StreamKind::Regions;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.order.to_le_bytes());
        out.extend(self.process.to_le_bytes());
        out.extend([self.change.code(), self.kind.code(), self.rights, self.traced.into()]);
        for word in [self.start.0, self.len, self.file_offset, self.name, 0] {
            out.extend(word.to_le_bytes());
        }
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let entry = Self {
            order: reader.u64()?,
            process: reader.u32()?,
            change: RegionChange::from_code(reader.u8()?)?,
            kind: RegionKind::from_code(reader.u8()?)?,
            rights: reader.u8()?,
            traced: reader.u8()? != 0,
            start: VirtAddr(reader.u64()?),
            len: reader.u64()?,
            file_offset: reader.u64()?,
            name: reader.u64()?,
        };
        reader.take(8)?;
        Some(entry)
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.orders.add(self.order);
        bounds.addrs.add_bytes(self.start, self.len);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModuleEntry {
    pub(crate) process: u32,
    pub(crate) order: u64,
    pub(crate) base: VirtAddr,
    pub(crate) len: u64,
    pub(crate) path: u64,
    pub(crate) build_id: u64,
}

impl StreamEntry for ModuleEntry {
    const KIND: StreamKind = StreamKind::Modules;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(u64::from(self.process).to_le_bytes());
        for word in [self.order, self.base.0, self.len, self.path, self.build_id] {
            out.extend(word.to_le_bytes());
        }
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            process: u32::try_from(reader.u64()?).ok()?,
            order: reader.u64()?,
            base: VirtAddr(reader.u64()?),
            len: reader.u64()?,
            path: reader.u64()?,
            build_id: reader.u64()?,
        })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.orders.add(self.order);
        bounds.addrs.add_bytes(self.base, self.len);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CounterEntry {
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) ip: VirtAddr,
    pub(crate) count: u64,
    pub(crate) name: u64,
    pub(crate) code: u32,
}

impl StreamEntry for CounterEntry {
    const KIND: StreamKind = StreamKind::Counters;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.process.to_le_bytes());
        out.extend(self.thread.to_le_bytes());
        for word in [self.ip.0, self.count, self.name, self.code.into()] {
            out.extend(word.to_le_bytes());
        }
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            process: reader.u32()?,
            thread: reader.u32()?,
            ip: VirtAddr(reader.u64()?),
            count: reader.u64()?,
            name: reader.u64()?,
            code: u32::try_from(reader.u64()?).ok()?,
        })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.ips.add(self.ip.0);
    }
}

/// No reference: the value is in the entry.
pub(crate) const VALUE_NONE: u64 = NONE;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValueEntry {
    pub(crate) index: u64,
    pub(crate) value: u64,
    pub(crate) len: u32,
    pub(crate) reference: u64,
}

impl StreamEntry for ValueEntry {
    const KIND: StreamKind = StreamKind::Values;

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.index, self.value, self.len.into(), self.reference] {
            out.extend(word.to_le_bytes());
        }
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (index, value) = (reader.u64()?, reader.u64()?);
        let len = u32::try_from(reader.u64()?).ok()?;
        Some(Self { index, value, len, reference: reader.u64()? })
    }

    fn bound(&self, _: &mut Bounds) {}
}
