//! The streams that a whole machine's trace has beside its accesses (docs/format.md, *Machines*).
//!
//! The accesses of each vCPU are those of a thread. Their virtual addresses become physical ones through `pages`, which
//! says for the first access of a frame to a page, and whenever a page has moved, where it lies. The accesses carry the
//! bytes that stores wrote, where that was asked for. `found` holds what was in memory without an instruction having written it.
//!
//! The control flow, [`FLOW`] and [`BLOCKS`], is written of translated programs too.

use memref::{ProcessId, ThreadId};

use crate::{
    EntryType, Error, Field, FieldRole, Guid, StreamDescription, Trace, encoder,
    stream::FieldRole::{Address, Growing, Plain},
};

/// A stream's name, the number of its type, bytes of an entry, encoder and fields.
type Row = (&'static str, u8, u32, u32, &'static [(&'static str, u16, u8, FieldRole)]);

/// Where pages lie: of a thread.
pub const PAGES: &str = "pages";
/// Runs of bytes that were found in memory: of the session.
pub const FOUND: &str = "found";
/// Those bytes: of the session.
pub const FOUND_DATA: &str = "found-data";
/// What tasks of the guest did: of a thread.
pub const TASKS: &str = "tasks";
/// The guest kernel's symbols: of the session.
pub const SYMBOLS: &str = "guest-symbols";
/// Blocks that were entered: of a thread.
pub const FLOW: &str = "guest-flow";
/// The blocks: of the session.
pub const BLOCKS: &str = "guest-blocks";
/// Points where all of memory is known: of the session.
pub const SYNCS: &str = "syncs";

const ROWS: &[Row] = &[
    (
        PAGES,
        40,
        24,
        encoder::COLUMNS,
        &[("index", 0, 8, Growing), ("page", 8, 8, Address), ("place", 16, 8, Address)],
    ),
    (
        FOUND,
        43,
        40,
        encoder::COLUMNS,
        &[
            ("cycle", 0, 8, Growing),
            ("since", 8, 8, Growing),
            ("addr", 16, 8, Address),
            ("len", 24, 8, Plain),
            ("at", 32, 8, Growing),
        ],
    ),
    (FOUND_DATA, 44, 1, encoder::RAW, &[("byte", 0, 1, Plain)]),
    (
        TASKS,
        45,
        48,
        encoder::COLUMNS,
        &[
            ("cycle", 0, 8, Growing),
            ("address", 8, 8, Address),
            ("process", 16, 4, Plain),
            ("thread", 20, 4, Plain),
            ("parent", 24, 4, Plain),
            ("change", 28, 1, Plain),
            ("name_low", 32, 8, Plain),
            ("name_high", 40, 8, Plain),
        ],
    ),
    (SYMBOLS, 46, 1, encoder::RAW, &[("byte", 0, 1, Plain)]),
    (FLOW, 47, 12, encoder::COLUMNS, &[("cycle", 0, 8, Growing), ("block", 8, 4, Address)]),
    (
        BLOCKS,
        48,
        16,
        encoder::COLUMNS,
        &[("ip", 0, 8, Address), ("instructions", 8, 4, Plain), ("bytes", 12, 4, Plain)],
    ),
    (SYNCS, 49, 16, encoder::COLUMNS, &[("cycle", 0, 8, Growing), ("time_ns", 8, 8, Growing)]),
];

/// The description of one of these streams; `owner` where it belongs to a thread.
///
/// # Panics
/// Where `name` is none of this module's.
pub fn description(name: &str, owner: Option<(ProcessId, ThreadId)>) -> StreamDescription {
    let &(name, number, entry_bytes, encoder, fields) =
        ROWS.iter().find(|row| row.0 == name).expect("one of the names of this module");
    let field = |&(name, offset, bytes, role): &(&str, u16, u8, FieldRole)| Field {
        name: name.to_owned(),
        offset,
        bytes,
        role,
    };
    StreamDescription {
        name: name.into(),
        entry_type: EntryType {
            guid: Guid::of_type(number),
            name: name.into(),
            entry_bytes,
            fields: fields.iter().map(field).collect(),
        },
        encoder,
        variable: false,
        hidden: false,
        process: owner.map(|(process, _)| process),
        thread: owner.map(|(_, thread)| thread),
        properties: Vec::new(),
    }
}

/// The blocks of a trace, by their numbers. Empty where control flow was not recorded; [`BlockEntry::NONE`] is in place of what is
/// damaged.
///
/// # Errors
/// Where the trace can't be read.
pub fn blocks(trace: &Trace) -> Result<Vec<BlockEntry>, Error> {
    let mut all = Vec::new();
    if let Some(mut cursor) = trace.typed(BLOCKS, None) {
        while let Some(frame) = cursor.next_frame()? {
            all.resize(frame.first_index as usize, BlockEntry::NONE);
            all.extend(frame.bytes.chunks_exact(BlockEntry::BYTES).map(BlockEntry::from_bytes));
        }
    }
    Ok(all)
}

/// Bit of a page's place: a device answers there.
pub const PLACE_DEVICE: u64 = 1 << 63;

/// From access `index` on, the virtual page lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Index of the access among those of its thread.
    pub index: u64,
    /// Number of the virtual page.
    pub page: u64,
    /// Number of the physical page, with [`PLACE_DEVICE`].
    pub place: u64,
}

/// Bytes found in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// When they were found.
    pub cycle: u64,
    /// When all of memory was known before: they were written in between.
    pub since: u64,
    /// Where, physically.
    pub addr: u64,
    /// How many.
    pub len: u64,
    /// Where they are in the stream of bytes.
    pub at: u64,
}

/// A block was entered. Of an execution that was left early the thread's next entry tells: it comes before the block's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// When.
    pub cycle: u64,
    /// The block's number: its place in the stream of blocks.
    pub block: u32,
}

/// A basic block of code, or a part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// The address of its first instruction.
    pub ip: u64,
    /// Its instructions.
    pub instructions: u32,
    /// Their bytes.
    pub bytes: u32,
}

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskEntry {
    /// When.
    pub cycle: u64,
    /// Where the kernel holds it.
    pub address: u64,
    /// The process id.
    pub process: u32,
    /// The thread id.
    pub thread: u32,
    /// The process id of the process that made it.
    pub parent: u32,
    /// 0 goes on, 1 made, 2 runs another program, 3 ended.
    pub change: u8,
    /// Its name, padded with zeros.
    pub name: [u8; 16],
}

/// A point where all of memory is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEntry {
    /// When.
    pub cycle: u64,
    /// When that was, ns since the Unix epoch.
    pub time_ns: u64,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|half| half.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn put<const N: usize>(words: &[u64]) -> [u8; N] {
    let mut bytes = [0; N];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

impl PageEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 24] {
        put(&[self.index, self.page, self.place])
    }

    /// From 24 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { index: word(bytes, 0), page: word(bytes, 8), place: word(bytes, 16) }
    }
}

impl FoundEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 40] {
        put(&[self.cycle, self.since, self.addr, self.len, self.at])
    }

    /// From 40 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            cycle: word(bytes, 0),
            since: word(bytes, 8),
            addr: word(bytes, 16),
            len: word(bytes, 24),
            at: word(bytes, 32),
        }
    }
}

impl FlowEntry {
    /// How many bytes it has.
    pub const BYTES: usize = 12;

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.cycle.to_le_bytes());
        bytes[8..].copy_from_slice(&self.block.to_le_bytes());
        bytes
    }

    /// From 12 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { cycle: word(bytes, 0), block: half(bytes, 8) }
    }
}

impl BlockEntry {
    /// How many bytes it has.
    pub const BYTES: usize = 16;
    /// In place of one that can't be read.
    pub const NONE: Self = Self { ip: 0, instructions: 0, bytes: 0 };

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        put(&[self.ip, u64::from(self.instructions) | u64::from(self.bytes) << 32])
    }

    /// From 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { ip: word(bytes, 0), instructions: half(bytes, 8), bytes: half(bytes, 12) }
    }
}

impl SyncEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 16] {
        put(&[self.cycle, self.time_ns])
    }

    /// From 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { cycle: word(bytes, 0), time_ns: word(bytes, 8) }
    }
}

impl TaskEntry {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; 48] {
        let ids = u64::from(self.process) | u64::from(self.thread) << 32;
        let rest = u64::from(self.parent) | u64::from(self.change) << 32;
        put(&[self.cycle, self.address, ids, rest, word(&self.name, 0), word(&self.name, 8)])
    }

    /// From 48 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut name = [0; 16];
        if let Some(from) = bytes.get(32..48) {
            name.copy_from_slice(from);
        }
        Self {
            cycle: word(bytes, 0),
            address: word(bytes, 8),
            process: half(bytes, 16),
            thread: half(bytes, 20),
            parent: half(bytes, 24),
            change: bytes.get(28).copied().unwrap_or(0),
            name,
        }
    }

    /// Its name as text.
    pub fn name(&self) -> String {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let page = PageEntry { index: 1, page: 2, place: 3 | PLACE_DEVICE };
        assert_eq!(PageEntry::from_bytes(&page.to_bytes()), page);
        let found = FoundEntry { cycle: 1, since: 2, addr: 3, len: 4, at: 5 };
        assert_eq!(FoundEntry::from_bytes(&found.to_bytes()), found);
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"init");
        let task = TaskEntry { cycle: 1, address: 2, process: 3, thread: 4, parent: 5, change: 3, name };
        assert_eq!(TaskEntry::from_bytes(&task.to_bytes()), task);
        assert_eq!(task.name(), "init");
        let flow = FlowEntry { cycle: u64::MAX - 1, block: 7 };
        assert_eq!(FlowEntry::from_bytes(&flow.to_bytes()), flow);
        let block = BlockEntry { ip: u64::MAX - 5, instructions: 3, bytes: 11 };
        assert_eq!(BlockEntry::from_bytes(&block.to_bytes()), block);
        let sync = SyncEntry { cycle: 6, time_ns: 7 };
        assert_eq!(SyncEntry::from_bytes(&sync.to_bytes()), sync);
    }

    #[test]
    fn descriptions_are_consistent() {
        for row in ROWS {
            let description = description(row.0, None);
            let end =
                description.entry_type.fields.last().map_or(0, |field| field.offset + u16::from(field.bytes));
            assert!(u32::from(end) <= description.entry_type.entry_bytes, "{}", row.0);
        }
    }
}
