//! The table of memtap's stream kinds.

use crate::{
    EntryType, Field, FieldRole, Guid, Level, encoder,
    stream::FieldRole::{Address, Growing, Plain},
    var::BLOCK_BYTES,
};

type FieldRow = (&'static str, u16, u8, FieldRole);

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal $bytes:expr, $encoder:ident, [$($field:literal $offset:literal $size:literal $role:ident),*];)+) => {
        /// A kind of stream that memtap writes itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum StreamKind { $($(#[$doc])* $variant = $number),+ }

        impl StreamKind {
            /// All kinds.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stream's and the type's name.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Bytes of an entry.
            pub(crate) const fn entry_bytes(self) -> usize {
                match self { $(Self::$variant => $bytes),+ }
            }

            /// The encoder that new streams of the kind use.
            pub(crate) const fn encoder(self) -> u32 {
                match self { $(Self::$variant => encoder::$encoder),+ }
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
    Blocks = 7 "blocks" 56, COLUMNS, ["cycle" 0 8 Growing, "order" 8 8 Growing, "ip" 16 8 Address, "dst" 24 8 Address,
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
}

impl StreamKind {
    /// The encoder that new streams of the kind use at that level; `accesses` is the one that was chosen for accesses.
    pub(crate) fn encoder_for(self, level: Level, accesses: Option<u32>) -> u32 {
        match (self.encoder(), accesses) {
            // Blocks make accesses without data.
            (_, Some(encoder::BLOCKS)) if self == Self::DataAccesses => encoder::LIVE,
            (encoder::ACCESS, Some(number)) => number,
            (encoder::ACCESS, None) if level == Level::Archive => encoder::ARCHIVE,
            (number, _) => number,
        }
    }

    /// Identifies the type.
    pub(crate) const fn guid(self) -> Guid {
        Guid::of_type(self as u8)
    }

    /// The kind with that type, if it is memtap's.
    pub(crate) fn from_guid(guid: Guid) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.guid() == guid)
    }

    /// Whether entries are blocks of variable-sized data.
    pub(crate) const fn variable(self) -> bool {
        matches!(self, Self::ValuesData | Self::Names)
    }

    /// Whether each thread has its own.
    pub(crate) const fn per_thread(self) -> bool {
        matches!(
            self,
            Self::Accesses
                | Self::Blocks
                | Self::Allocations
                | Self::Markers
                | Self::Orders
                | Self::Gaps
                | Self::Syncs
                | Self::Values
                | Self::ValuesData
                | Self::DataAccesses
        )
    }

    /// The description of the entries.
    pub(crate) fn entry_type(self) -> EntryType {
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
