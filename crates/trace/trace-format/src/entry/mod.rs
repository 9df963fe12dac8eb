//! The entries of memtap's own streams: their bytes, and what they contribute to a frame's bounds (docs/format.md, *Entry types*).

mod session;
mod span;
mod thread;

pub(crate) use session::{
    CounterEntry, ModuleEntry, ProcessEntry, PropertyEntry, RegionEntry, VALUE_NONE, ValueEntry,
};
pub(crate) use thread::{MarkerEntry, REFERENCE, allocation_ranges};

use crate::{Bounds, Corrupt, Encoded, Encoder, StreamKind, bytes::ByteReader};

/// A fixed-size entry.
pub(crate) trait StreamEntry: Sized + Clone {
    /// The kind of stream it lives in, which also says its size.
    const KIND: StreamKind;

    /// Appends exactly the entry's bytes.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads one; `None` where a number stands for nothing.
    fn get(reader: &mut ByteReader<'_>) -> Option<Self>;

    /// Widens the bounds of its frame.
    fn bound(&self, bounds: &mut Bounds);

    /// Decodes a segment's entries and appends them. With `end`, those after the first one of that cycle or a later one may be
    /// left out.
    fn decode(
        encoder: &dyn Encoder,
        encoded: &Encoded<'_>,
        _end: Option<u64>,
        out: &mut Vec<Self>,
    ) -> Result<(), Corrupt> {
        let mut bytes = Vec::new();
        encoder.decode(encoded, &mut bytes)?;
        entries(&bytes, out)
    }
}

/// The entries in decoded bytes, one after the other.
pub(crate) fn entries_of<E: StreamEntry>(bytes: &[u8]) -> impl Iterator<Item = Result<E, Corrupt>> {
    bytes.chunks_exact(E::KIND.entry_bytes()).map(|entry| {
        let entry = E::get(&mut ByteReader::new(entry));
        entry.ok_or(Corrupt("an entry has a number that stands for nothing"))
    })
}

/// Appends the entries in decoded bytes.
pub(crate) fn entries<E: StreamEntry>(bytes: &[u8], out: &mut Vec<E>) -> Result<(), Corrupt> {
    out.reserve(bytes.len() / E::KIND.entry_bytes());
    for entry in entries_of(bytes) {
        out.push(entry?);
    }
    Ok(())
}

/// The bytes of a gap, for those who write the stream of gaps without a [`TraceWriter`](crate::TraceWriter).
pub fn gap_entry(gap: &memref::Gap) -> Vec<u8> {
    let mut bytes = Vec::new();
    gap.put(&mut bytes);
    bytes
}

/// Appends zeros up to the next multiple of `bytes`.
pub(crate) fn pad(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, 0);
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use memref::*;

    use super::{session::*, thread::*, *};

    fn check<T: StreamEntry + PartialEq + Debug>(entry: T) {
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        assert_eq!(bytes.len(), T::KIND.entry_bytes(), "{entry:?}");
        assert_eq!(T::get(&mut ByteReader::new(&bytes)).as_ref(), Some(&entry));
        assert_eq!(T::get(&mut ByteReader::new(&bytes[1..])), None);
        for field in T::KIND.entry_type().fields {
            assert!(usize::from(field.offset) + usize::from(field.bytes) <= bytes.len(), "{}", field.name);
        }
    }

    #[test]
    fn entries_round_trip_in_exactly_their_bytes() {
        let (ip, addr) = (VirtAddr(0x40_1000), VirtAddr(0x7fff_0000));
        check(Access { cycle: 1, ip, addr, size: 8, kind: AccessKind::Modify });
        let access = Access { cycle: 1, ip, addr, size: 8, kind: AccessKind::Store };
        check(crate::DataAccess { access, value: 7, value_bytes: 8 });
        check(BlockOp {
            cycle: 1,
            order: 2,
            ip,
            kind: BlockKind::Copy,
            function: BlockFunction::Memmove,
            dst: addr,
            src: ip,
            len: 9,
        });
        check(Allocation {
            cycle: 1,
            order: 2,
            ip,
            kind: AllocationKind::Mremap,
            function: AllocationFunction::Mremap,
            addr,
            len: 3,
            old_addr: ip,
            old_len: 4,
        });
        check(MarkerEntry { cycle: 1, order: 2, ip, kind: MarkerKind::Mark, name: 7 });
        check(OrderMark { cycle: 1, order: 2 });
        check(Sync {
            cycle: 1,
            order: 2,
            ip,
            kind: SyncKind::Depart,
            function: SyncFunction::OpenMp,
            object: addr,
            value: 3,
        });
        check(Gap {
            process: ProcessId(1),
            thread: ThreadId(2),
            cycle: 3,
            count: 4,
            reason: GapReason::Killed,
            addr,
        });
        check(PropertyEntry { key: 1, value: 2 });
        check(ProcessEntry {
            process: 1,
            pid: 2,
            parent: 3,
            exit_status: -4,
            start_ns: 5,
            end_ns: 6,
            exe: 7,
            args: 8,
            flags: 1,
        });
        check(crate::ThreadRecord {
            thread: ThreadId(1),
            process: ProcessId(2),
            tid: 3,
            start_ns: 4,
            end_ns: Some(5),
        });
        check(RegionEntry {
            order: 1,
            process: 2,
            change: RegionChange::Unmap,
            kind: RegionKind::Heap,
            rights: 3,
            traced: true,
            start: VirtAddr(4),
            len: 5,
            file_offset: 6,
            name: 7,
        });
        check(ModuleEntry { process: 1, order: 2, base: VirtAddr(3), len: 4, path: 5, build_id: 6 });
        check(CounterEntry { process: 1, thread: 2, ip: VirtAddr(3), count: 4, name: 5, code: 6 });
        check(ValueEntry { index: 1, value: 2, len: 3, reference: 4 });
    }
}
