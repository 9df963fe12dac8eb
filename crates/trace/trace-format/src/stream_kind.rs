//! The streams that memtap itself writes: a table of their types, names, sizes and fields (docs/format.md, *Entry types*).
//!
//! A stream is found by its kind, which is determined by the GUID of its entry type; names are for people. A new kind needs
//! only a row here and the bytes of its entries. These are in `entry` if [`crate::Shard`] merges them or they belong to the
//! session's tables, and in `machine.rs` or `control_flow.rs` if they are read frame by frame ([`crate::TypedCursor`]).

use crate::{
    EntryType, Field,
    FieldRole::{self, Address, Growing, Plain},
    Guid,
    encoder::{Level, number},
    var::BLOCK_BYTES,
};

/// Name, offset, bytes and role.
type FieldRow = (&'static str, u16, u8, FieldRole);

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal $bytes:expr, $encoder:ident, [$($field:literal $offset:literal $size:literal $role:ident),*];)+) => {
        /// A kind of stream that memtap writes itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum StreamKind { $($(#[$doc])* $variant = $number),+ }

        impl StreamKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stream's and the type's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Bytes of an entry.
            pub const fn entry_bytes(self) -> usize {
                match self { $(Self::$variant => $bytes),+ }
            }

            /// The encoder that new streams of the kind use.
            pub const fn encoder(self) -> u32 {
                match self { $(Self::$variant => number::$encoder),+ }
            }

            const fn fields(self) -> &'static [FieldRow] {
                match self { $(Self::$variant => &[$(($field, $offset, $size, $role)),*]),+ }
            }
        }
    };
}

kinds! {
    /// Key and value.
    Properties = 1 "properties" 16, COLUMNS, ["key" 0 8 Plain, "value" 8 8 Plain];
    /// Processes.
    Processes = 2 "processes" 64, COLUMNS, ["process" 0 4 Plain, "pid" 4 4 Plain, "parent" 8 4 Plain, "exit_status" 12 4 Plain,
        "start_ns" 16 8 Growing, "end_ns" 24 8 Plain, "exe" 32 8 Plain, "args" 40 8 Plain, "flags" 48 4 Plain];
    /// Threads.
    Threads = 3 "threads" 32, COLUMNS, ["thread" 0 4 Plain, "process" 4 4 Plain, "tid" 8 4 Plain, "start_ns" 16 8 Growing,
        "end_ns" 24 8 Plain];
    /// Changes of mappings.
    Regions = 4 "regions" 56, COLUMNS, ["order" 0 8 Growing, "process" 8 4 Plain, "change" 12 1 Plain, "kind" 13 1 Plain,
        "rights" 14 1 Plain, "traced" 15 1 Plain, "start" 16 8 Address, "len" 24 8 Plain, "file_offset" 32 8 Plain,
        "name" 40 8 Plain];
    /// Loaded programs and libraries.
    Modules = 5 "modules" 48, COLUMNS, ["process" 0 4 Plain, "order" 8 8 Growing, "base" 16 8 Address, "len" 24 8 Plain,
        "path" 32 8 Plain, "build_id" 40 8 Plain];
    /// Accesses of a thread.
    Accesses = 6 "accesses" 32, ACCESS, ["cycle" 0 8 Growing, "ip" 8 8 Address, "addr" 16 8 Address, "size" 24 4 Plain,
        "kind" 28 1 Plain];
    /// Block operations of a thread.
    BlockOps = 7 "block-operations" 56, COLUMNS, ["cycle" 0 8 Growing, "order" 8 8 Growing, "ip" 16 8 Address, "dst" 24 8 Address,
        "src" 32 8 Address, "len" 40 8 Plain, "kind" 48 1 Plain, "function" 49 1 Plain];
    /// Allocations and releases of a thread.
    Allocations = 8 "allocations" 72, COLUMNS, ["cycle" 0 8 Growing, "order" 8 8 Growing, "ip" 16 8 Address,
        "addr" 24 8 Address, "len" 32 8 Plain, "old_addr" 40 8 Address, "old_len" 48 8 Plain, "kind" 56 1 Plain,
        "function" 57 1 Plain];
    /// Markers of a thread.
    Markers = 9 "markers" 40, COLUMNS, ["cycle" 0 8 Growing, "order" 8 8 Growing, "ip" 16 8 Address, "name" 24 8 Plain,
        "kind" 32 1 Plain];
    /// Order marks of a thread.
    Orders = 10 "orders" 16, COLUMNS, ["cycle" 0 8 Growing, "order" 8 8 Growing];
    /// Gaps of a thread.
    Gaps = 11 "gaps" 40, COLUMNS, ["cycle" 0 8 Growing, "count" 8 8 Plain, "addr" 16 8 Address, "process" 24 4 Plain,
        "thread" 28 4 Plain, "reason" 32 1 Plain];
    /// Counters by instruction.
    Counters = 12 "counters" 40, COLUMNS, ["process" 0 4 Plain, "thread" 4 4 Plain, "ip" 8 8 Address, "count" 16 8 Plain,
        "name" 24 8 Plain, "code" 32 4 Plain];
    /// Bytes that accesses of a thread read or wrote.
    Values = 13 "values" 32, COLUMNS, ["index" 0 8 Growing, "value" 8 8 Plain, "len" 16 4 Plain, "reference" 24 8 Plain];
    /// Those that do not fit 8 bytes.
    ValuesData = 14 "values-data" BLOCK_BYTES, RAW, [];
    /// Strings.
    Names = 15 "names" BLOCK_BYTES, RAW, [];
    /// Accesses of a thread with the bytes that they read or wrote; a thread has these or `Accesses`.
    DataAccesses = 16 "accesses" 40, ACCESS, ["cycle" 0 8 Growing, "ip" 8 8 Address, "addr" 16 8 Address,
        "size" 24 4 Plain, "kind" 28 1 Plain, "value_bytes" 29 1 Plain, "value" 32 8 Plain];
    /// Synchronisation of a thread.
    Syncs = 18 "syncs" 48, COLUMNS, ["cycle" 0 8 Growing, "order" 8 8 Growing, "ip" 16 8 Address, "object" 24 8 Address,
        "value" 32 8 Plain, "kind" 40 1 Plain, "function" 41 1 Plain];
    /// Where the pages of a machine's thread lie.
    Pages = 40 "pages" 24, COLUMNS, ["index" 0 8 Growing, "page" 8 8 Address, "place" 16 8 Address];
    /// Runs of bytes that were found in a machine's memory.
    Found = 43 "found" 40, COLUMNS, ["cycle" 0 8 Growing, "since" 8 8 Growing, "addr" 16 8 Address, "len" 24 8 Plain,
        "at" 32 8 Growing];
    /// Those bytes.
    FoundData = 44 "found-data" 1, RAW, ["byte" 0 1 Plain];
    /// What tasks of a machine did on a thread.
    Tasks = 45 "tasks" 48, COLUMNS, ["cycle" 0 8 Growing, "address" 8 8 Address, "process" 16 4 Plain, "thread" 20 4 Plain,
        "parent" 24 4 Plain, "change" 28 1 Plain, "name_low" 32 8 Plain, "name_high" 40 8 Plain];
    /// The symbols of a machine's kernel.
    GuestSymbols = 46 "guest-symbols" 1, RAW, ["byte" 0 1 Plain];
    /// Basic blocks that a thread entered.
    Flow = 47 "flow" 12, COLUMNS, ["cycle" 0 8 Growing, "block" 8 4 Address];
    /// The basic blocks.
    BasicBlocks = 48 "basic-blocks" 16, COLUMNS, ["ip" 0 8 Address, "instructions" 8 4 Plain, "bytes" 12 4 Plain];
    /// Points at which all of a machine's memory is known.
    Checkpoints = 49 "checkpoints" 16, COLUMNS, ["cycle" 0 8 Growing, "time_ns" 8 8 Growing];
    /// An index: pages that a frame of accesses touched.
    PageCells = 50 "page-cells" 48, COLUMNS, ["page" 0 8 Address, "loads" 8 4 Plain, "stores" 12 4 Plain, "modifies" 16 4 Plain,
        "bytes" 24 8 Plain, "lines_read" 32 8 Plain, "lines_written" 40 8 Plain];
    /// An index: the frames, and which cells are theirs.
    IndexedFrames = 51 "indexed-frames" 48, COLUMNS, ["stream" 0 4 Plain, "shift" 4 1 Plain, "flags" 5 1 Plain, "cells" 6 2 Plain,
        "sequence" 8 8 Growing, "first_cell" 16 8 Growing, "entries" 24 8 Plain, "wide" 32 8 Address, "wide_end" 40 8 Address];
    /// An index: counts of all of the trace, by page.
    PageTotals = 52 "page-totals" 48, COLUMNS, ["process" 0 4 Plain, "page" 8 8 Address, "loads" 16 8 Plain,
        "stores" 24 8 Plain, "modifies" 32 8 Plain, "bytes" 40 8 Plain];
    /// What blocks do that frames of accesses name: the head of a definition, or one of its accesses.
    BlockDefinitions = 53 "block-definitions" 24, RAW, [];
}

impl StreamKind {
    /// The encoder that new streams of the kind use at that level; `accesses` is the one that was chosen for accesses.
    pub(crate) fn encoder_for(self, level: Level, accesses: Option<u32>) -> u32 {
        match (self.encoder(), accesses) {
            // Blocks make accesses without data.
            (_, Some(number::BLOCKS)) if self == Self::DataAccesses => number::LIVE,
            (number::ACCESS, Some(number)) => number,
            (number::ACCESS, None) if level == Level::Archive => number::ACCESS_ARCHIVE,
            (number, _) => number,
        }
    }

    /// Identifies the type.
    pub const fn guid(self) -> Guid {
        Guid::of_type(self as u8)
    }

    /// The kind with that type, if it is memtap's.
    pub fn from_guid(guid: Guid) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.guid() == guid)
    }

    /// The kind whose entries are of that type: its GUID and its size.
    pub fn of(entry_type: &EntryType) -> Option<Self> {
        Self::from_guid(entry_type.guid).filter(|kind| kind.entry_bytes() as u32 == entry_type.entry_bytes)
    }

    /// The kind of that name, also of one that it had in versions 1 and 2 of the format and no other kind has now.
    pub fn from_name(name: &str) -> Option<Self> {
        let find = |named: &dyn Fn(Self) -> bool| Self::ALL.iter().copied().find(|&kind| named(kind));
        find(&|kind| kind.name() == name).or_else(|| find(&|kind| kind.former_name() == Some(name)))
    }

    /// What streams of that name are called in this version of the format.
    pub fn current_name(name: &str) -> &str {
        Self::from_name(name).map_or(name, |kind| kind.name())
    }

    /// The name of the kind's streams in versions 1 and 2 of the format, where it was another one. This is the one place that
    /// knows them.
    pub const fn former_name(self) -> Option<&'static str> {
        match self {
            Self::BlockOps => Some("blocks"),
            Self::Flow => Some("guest-flow"),
            Self::BasicBlocks => Some("guest-blocks"),
            // The name of what threads have for synchronisation: told apart by the type alone.
            Self::Checkpoints => Some("syncs"),
            _ => None,
        }
    }

    /// Whether entries are blocks of variable-sized data.
    pub const fn variable(self) -> bool {
        matches!(self, Self::ValuesData | Self::Names)
    }

    /// Whether each thread has its own.
    pub const fn per_thread(self) -> bool {
        matches!(
            self,
            Self::Accesses
                | Self::BlockOps
                | Self::Allocations
                | Self::Markers
                | Self::Orders
                | Self::Gaps
                | Self::Syncs
                | Self::Values
                | Self::ValuesData
                | Self::DataAccesses
                | Self::Pages
                | Self::Tasks
                | Self::Flow
        )
    }

    /// Whether it stands beside the events of threads and the tables of the session: nothing refers to its entries, and who
    /// wants them reads them frame by frame ([`crate::Trace::typed`]).
    pub(crate) const fn by_frames(self) -> bool {
        self as u8 >= Self::Pages as u8
    }

    /// Whether its entries are a thread's events.
    pub(crate) const fn is_event(self) -> bool {
        self.per_thread() && !self.variable() && !self.by_frames()
    }

    /// Whether it belongs to the session, and entries of threads' streams may refer to its entries.
    pub(crate) const fn is_table(self) -> bool {
        !self.per_thread() && !self.by_frames()
    }

    /// The description of the entries.
    pub fn entry_type(self) -> EntryType {
        let fields = self.fields().iter();
        EntryType {
            guid: self.guid(),
            name: self.name().into(),
            entry_bytes: self.entry_bytes() as u32,
            fields: fields
                .map(|&(name, offset, bytes, role)| Field { name: name.into(), offset, bytes, role })
                .collect(),
        }
    }
}

impl EntryType {
    /// The type of accesses: 32 bytes each (docs/format.md, *Entry types*).
    pub fn accesses() -> Self {
        StreamKind::Accesses.entry_type()
    }

    /// One of memtap's own types, by its name ([`StreamKind::from_name`]).
    pub fn own(name: &str) -> Option<Self> {
        StreamKind::from_name(name).map(StreamKind::entry_type)
    }

    /// The number of the encoder that suits it best.
    pub fn default_encoder(&self) -> u32 {
        match StreamKind::of(self) {
            Some(kind) => kind.encoder(),
            None if self.fields.is_empty() => number::RAW,
            None => number::COLUMNS,
        }
    }

    /// Whether its entries are the names that others refer to.
    pub fn is_names(&self) -> bool {
        StreamKind::of(self) == Some(StreamKind::Names)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::StreamDescription;

    #[test]
    fn no_two_kinds_share_a_name_but_accesses_with_and_without_data() {
        let names: BTreeSet<&str> = StreamKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len() + 1, StreamKind::ALL.len());
    }

    #[test]
    fn fields_lie_in_their_entries_in_their_order() {
        for kind in StreamKind::ALL {
            let mut end = 0;
            for field in kind.entry_type().fields {
                assert!(field.offset >= end, "{} of {}", field.name, kind.name());
                end = field.offset + u16::from(field.bytes);
            }
            assert!(usize::from(end) <= kind.entry_bytes(), "{}", kind.name());
        }
    }

    #[test]
    fn former_names_lead_to_the_kinds_that_had_them() {
        let check = |name, expect| assert_eq!(StreamKind::from_name(name), expect, "{name}");
        check("blocks", Some(StreamKind::BlockOps));
        check("guest-flow", Some(StreamKind::Flow));
        check("guest-blocks", Some(StreamKind::BasicBlocks));
        check("syncs", Some(StreamKind::Syncs));
        check("accesses", Some(StreamKind::Accesses));
        check("nothing", None);
    }

    #[test]
    fn descriptions_of_earlier_versions_get_the_names_of_this_one() {
        for &kind in StreamKind::ALL {
            let now = StreamDescription::of_kind(kind, None);
            let mut then = now.clone();
            if let Some(name) = kind.former_name() {
                then.name = name.into();
                then.entry_type.name = name.into();
            }
            assert_eq!(StreamDescription::from_bytes(&then.to_bytes()), Some(now));
        }
        // A stream of somebody else's keeps its name.
        let mut foreign = StreamDescription::of_kind(StreamKind::Flow, None);
        foreign.entry_type.guid = Guid([7; 16]);
        foreign.name = "guest-flow".into();
        assert_eq!(StreamDescription::from_bytes(&foreign.to_bytes()), Some(foreign));
    }
}
