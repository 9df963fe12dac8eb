//! Entries of a thread's streams.

use memref::{
    Access, AccessKind, Allocation, AllocationFunction, AllocationKind, BlockFunction, BlockKind, BlockOp,
    Gap, GapReason, MarkerKind, OrderMark, ProcessId, Sync, SyncFunction, SyncKind, ThreadId, VirtAddr,
};

use super::{StreamEntry, pad};
use crate::{Bounds, Corrupt, DataAccess, Encoded, Encoder, KindSet, StreamKind, bytes::ByteReader};

/// The `value_bytes` of an entry whose `value` refers to `values-data`.
pub(crate) const REFERENCE: u8 = 0xff;

impl StreamEntry for Access {
    const KIND: StreamKind = StreamKind::Accesses;

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 32];
        bytes[0..8].copy_from_slice(&self.cycle.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.ip.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.addr.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.size.to_le_bytes());
        bytes[28] = self.kind.code();
        out.extend_from_slice(&bytes);
    }

    #[inline]
    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (cycle, ip, addr) = (reader.u64()?, VirtAddr(reader.u64()?), VirtAddr(reader.u64()?));
        let (size, rest) = (reader.u32()?, reader.u32()?);
        Some(Self { cycle, ip, addr, size, kind: AccessKind::from_code(u8::try_from(rest).ok()?)? })
    }

    #[inline]
    fn bound(&self, bounds: &mut Bounds) {
        bounds.cycles.add(self.cycle);
        bounds.ips.add(self.ip.0);
        bounds.addrs.add_bytes(self.addr, self.size.into());
        bounds.kinds = bounds.kinds | KindSet::access(self.kind);
    }

    fn decode(
        encoder: &dyn Encoder,
        encoded: &Encoded<'_>,
        end: Option<u64>,
        out: &mut Vec<Self>,
    ) -> Result<(), Corrupt> {
        if end.is_none() {
            out.reserve(encoded.count);
        }
        encoder.decode_accesses(encoded, end, out)
    }
}

impl StreamEntry for DataAccess {
    const KIND: StreamKind = StreamKind::DataAccesses;

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.access.put(out);
        let at = out.len() - 3;
        out[at] = self.value_bytes;
        out.extend_from_slice(&self.value.to_le_bytes());
    }

    #[inline]
    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (cycle, ip, addr) = (reader.u64()?, VirtAddr(reader.u64()?), VirtAddr(reader.u64()?));
        let (size, kind, value_bytes, rest) = (reader.u32()?, reader.u8()?, reader.u8()?, reader.u16()?);
        let value = reader.u64()?;
        let kind = AccessKind::from_code(kind).filter(|_| rest == 0)?;
        let known = value_bytes <= 8 || value_bytes == REFERENCE;
        let access = Access { cycle, ip, addr, size, kind };
        known.then_some(Self { access, value, value_bytes })
    }

    #[inline]
    fn bound(&self, bounds: &mut Bounds) {
        self.access.bound(bounds);
    }
}

impl StreamEntry for BlockOp {
    const KIND: StreamKind = StreamKind::BlockOps;

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.cycle, self.order, self.ip.0, self.dst.0, self.src.0, self.len] {
            out.extend(word.to_le_bytes());
        }
        out.extend([self.kind.code(), self.function.code()]);
        pad(out, 6);
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (cycle, order, ip) = (reader.u64()?, reader.u64()?, VirtAddr(reader.u64()?));
        let (dst, src, len) = (VirtAddr(reader.u64()?), VirtAddr(reader.u64()?), reader.u64()?);
        let kind = BlockKind::from_code(reader.u8()?)?;
        let function = BlockFunction::from_code(reader.u8()?)?;
        reader.take(6)?;
        Some(Self { cycle, order, ip, kind, function, dst, src, len })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.cycles.add(self.cycle);
        bounds.orders.add(self.order);
        bounds.ips.add(self.ip.0);
        for (addr, len) in [self.written(), self.read(), self.compared()].into_iter().flatten() {
            bounds.addrs.add_bytes(addr, len);
        }
        bounds.kinds = bounds.kinds | KindSet::block(self.kind);
    }
}

impl StreamEntry for Allocation {
    const KIND: StreamKind = StreamKind::Allocations;

    fn put(&self, out: &mut Vec<u8>) {
        let words = [self.cycle, self.order, self.ip.0, self.addr.0, self.len, self.old_addr.0, self.old_len];
        let mut bytes = [0; 72];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        (bytes[56], bytes[57]) = (self.kind.code(), self.function.code());
        out.extend_from_slice(&bytes);
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (cycle, order, ip) = (reader.u64()?, reader.u64()?, VirtAddr(reader.u64()?));
        let (addr, len) = (VirtAddr(reader.u64()?), reader.u64()?);
        let (old_addr, old_len) = (VirtAddr(reader.u64()?), reader.u64()?);
        let kind = AllocationKind::from_code(reader.u8()?)?;
        let function = AllocationFunction::from_code(reader.u8()?)?;
        reader.take(14)?;
        Some(Self { cycle, order, ip, kind, function, addr, len, old_addr, old_len })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.cycles.add(self.cycle);
        bounds.orders.add(self.order);
        bounds.ips.add(self.ip.0);
        for (addr, len) in allocation_ranges(self) {
            bounds.addrs.add_bytes(addr, len);
        }
        bounds.kinds = bounds.kinds | KindSet::allocation(self.kind);
    }
}

/// The blocks that an allocation event speaks of; a block of unknown length counts as its first byte.
pub(crate) fn allocation_ranges(event: &Allocation) -> impl Iterator<Item = (VirtAddr, u64)> {
    let old = (event.old_addr.0 != 0).then_some((event.old_addr, event.old_len));
    [Some((event.addr, event.len)), old].into_iter().flatten()
}

/// A marker whose name is a reference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MarkerEntry {
    pub(crate) cycle: u64,
    pub(crate) order: u64,
    pub(crate) ip: VirtAddr,
    pub(crate) kind: MarkerKind,
    pub(crate) name: u64,
}

impl StreamEntry for MarkerEntry {
    const KIND: StreamKind = StreamKind::Markers;

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.cycle, self.order, self.ip.0, self.name] {
            out.extend(word.to_le_bytes());
        }
        out.push(self.kind.code());
        pad(out, 7);
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (cycle, order, ip) = (reader.u64()?, reader.u64()?, VirtAddr(reader.u64()?));
        let name = reader.u64()?;
        let kind = MarkerKind::from_code(reader.u8()?)?;
        reader.take(7)?;
        Some(Self { cycle, order, ip, kind, name })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.cycles.add(self.cycle);
        bounds.orders.add(self.order);
        bounds.ips.add(self.ip.0);
        bounds.kinds = bounds.kinds | KindSet::marker(self.kind);
    }
}

impl StreamEntry for OrderMark {
    const KIND: StreamKind = StreamKind::Orders;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.cycle.to_le_bytes());
        out.extend(self.order.to_le_bytes());
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self { cycle: reader.u64()?, order: reader.u64()? })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.cycles.add(self.cycle);
        bounds.orders.add(self.order);
        bounds.kinds = bounds.kinds | KindSet::ORDERS;
    }
}

impl StreamEntry for Sync {
    const KIND: StreamKind = StreamKind::Syncs;

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.cycle, self.order, self.ip.0, self.object.0, self.value] {
            out.extend(word.to_le_bytes());
        }
        out.extend([self.kind.code(), self.function.code()]);
        pad(out, 6);
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (cycle, order, ip) = (reader.u64()?, reader.u64()?, VirtAddr(reader.u64()?));
        let (object, value) = (VirtAddr(reader.u64()?), reader.u64()?);
        let kind = SyncKind::from_code(reader.u8()?)?;
        let function = SyncFunction::from_code(reader.u8()?)?;
        reader.take(6)?;
        Some(Self { cycle, order, ip, kind, function, object, value })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.cycles.add(self.cycle);
        bounds.orders.add(self.order);
        bounds.ips.add(self.ip.0);
        bounds.kinds = bounds.kinds | KindSet::SYNCS;
    }
}

impl StreamEntry for Gap {
    const KIND: StreamKind = StreamKind::Gaps;

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.cycle, self.count, self.addr.0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(self.process.0.to_le_bytes());
        out.extend(self.thread.0.to_le_bytes());
        out.push(self.reason.code());
        pad(out, 7);
    }

    fn get(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (cycle, count, addr) = (reader.u64()?, reader.u64()?, VirtAddr(reader.u64()?));
        let (process, thread) = (ProcessId(reader.u32()?), ThreadId(reader.u32()?));
        let reason = GapReason::from_code(reader.u8()?)?;
        reader.take(7)?;
        Some(Self { process, thread, cycle, count, reason, addr })
    }

    fn bound(&self, bounds: &mut Bounds) {
        bounds.cycles.add(self.cycle);
        bounds.kinds = bounds.kinds | KindSet::GAPS;
    }
}
