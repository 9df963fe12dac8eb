//! The bounds of the entries of any stream, for a frame's header (docs/format.md, *Bounds*).

use memref::{Access, Allocation, BlockOp, Gap, OrderMark, Sync};

use super::{
    CounterEntry, MarkerEntry, ModuleEntry, ProcessEntry, PropertyEntry, RegionEntry, StreamEntry, ValueEntry,
};
use crate::{
    Bounds, DataAccess, EntryType, FieldRole, Interval, KindSet, StreamKind, ThreadRecord, bytes::ByteReader,
};

impl Bounds {
    /// The bounds of whole entries, their wall clock apart. Of memtap's own types by what they mean; of others by their
    /// fields: growing ones named `cycle` and `order`, addresses, and addresses named `ip`. An entry of memtap's types that
    /// cannot be read widens the bounds to everything, so that no filter passes over the frame.
    pub fn of(entry_type: &EntryType, entries: &[u8]) -> Self {
        match StreamKind::of(entry_type) {
            Some(StreamKind::Properties) => own::<PropertyEntry>(entries),
            Some(StreamKind::Processes) => own::<ProcessEntry>(entries),
            Some(StreamKind::Threads) => own::<ThreadRecord>(entries),
            Some(StreamKind::Regions) => own::<RegionEntry>(entries),
            Some(StreamKind::Modules) => own::<ModuleEntry>(entries),
            Some(StreamKind::Accesses) => own::<Access>(entries),
            Some(StreamKind::DataAccesses) => own::<DataAccess>(entries),
            Some(StreamKind::BlockOps) => own::<BlockOp>(entries),
            Some(StreamKind::Allocations) => own::<Allocation>(entries),
            Some(StreamKind::Markers) => own::<MarkerEntry>(entries),
            Some(StreamKind::Orders) => own::<OrderMark>(entries),
            Some(StreamKind::Gaps) => own::<Gap>(entries),
            Some(StreamKind::Syncs) => own::<Sync>(entries),
            Some(StreamKind::Counters) => own::<CounterEntry>(entries),
            Some(StreamKind::Values) => own::<ValueEntry>(entries),
            Some(StreamKind::ValuesData | StreamKind::Names) => Self::NONE,
            // Those that are read frame by frame have nothing that their fields do not say.
            Some(
                StreamKind::Pages
                | StreamKind::Found
                | StreamKind::FoundData
                | StreamKind::Tasks
                | StreamKind::GuestSymbols
                | StreamKind::Flow
                | StreamKind::BasicBlocks
                | StreamKind::Checkpoints
                | StreamKind::PageCells
                | StreamKind::IndexedFrames
                | StreamKind::PageTotals
                | StreamKind::BlockDefinitions,
            )
            | None => by_fields(entry_type, entries),
        }
    }
}

fn own<E: StreamEntry>(entries: &[u8]) -> Bounds {
    let mut bounds = Bounds::NONE;
    for bytes in entries.chunks_exact(E::KIND.entry_bytes()) {
        match E::get(&mut ByteReader::new(bytes)) {
            Some(entry) => entry.bound(&mut bounds),
            None => return everything(),
        }
    }
    bounds
}

fn everything() -> Bounds {
    let all = Interval { min: 0, max: u64::MAX };
    Bounds { cycles: all, wall_ns: Interval::NONE, orders: all, addrs: all, ips: all, kinds: KindSet::ALL }
}

fn by_fields(entry_type: &EntryType, entries: &[u8]) -> Bounds {
    let mut bounds = Bounds::NONE;
    for field in &entry_type.fields {
        let interval = match (field.role, field.name.as_str()) {
            (FieldRole::Growing, "cycle") => &mut bounds.cycles,
            (FieldRole::Growing, "order") => &mut bounds.orders,
            (FieldRole::Address, "ip") => &mut bounds.ips,
            (FieldRole::Address, _) => &mut bounds.addrs,
            _ => continue,
        };
        for entry in entries.chunks_exact(entry_type.entry_bytes.max(1) as usize) {
            interval.add(field.get(entry));
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, Guid};

    fn field(name: &str, offset: u16, bytes: u8, role: FieldRole) -> Field {
        Field { name: name.into(), offset, bytes, role }
    }

    #[test]
    fn foreign_types_are_spanned_by_their_fields() {
        let entry_type = EntryType {
            guid: Guid([7; 16]),
            name: "sample".into(),
            entry_bytes: 16,
            fields: vec![
                field("cycle", 0, 4, FieldRole::Growing),
                field("to", 4, 4, FieldRole::Address),
                field("ip", 8, 8, FieldRole::Address),
            ],
        };
        let mut entries = Vec::new();
        for (cycle, to, ip) in [(3u32, 100u32, 7u64), (9, 50, 5)] {
            entries.extend(cycle.to_le_bytes());
            entries.extend(to.to_le_bytes());
            entries.extend(ip.to_le_bytes());
        }
        let bounds = Bounds::of(&entry_type, &entries);
        assert_eq!(bounds.cycles, Interval { min: 3, max: 9 });
        assert_eq!(bounds.addrs, Interval { min: 50, max: 100 });
        assert_eq!(bounds.ips, Interval { min: 5, max: 7 });
        assert!(bounds.orders.is_none());
    }

    #[test]
    fn an_access_of_no_kind_is_hidden_by_no_filter() {
        let mut bytes = [0; 32];
        bytes[28] = 200;
        let bounds = Bounds::of(&StreamKind::Accesses.entry_type(), &bytes);
        assert_eq!(bounds.kinds, KindSet::ALL);
    }
}
