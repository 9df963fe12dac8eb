//! The format of a stream's entries: their size and their fields (docs/format.md, *Stream
//! description*). The types that memtap itself writes are in `stream_kind.rs`.

use crate::Guid;

/// What an encoder may expect of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRole {
    /// Nothing.
    Plain = 0,
    /// It grows from entry to entry: cycles, orders, times.
    Growing = 1,
    /// It is an address.
    Address = 2,
}

/// One field of an entry: a little-endian integer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Where in the entry, in bytes.
    pub offset: u16,
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// What it holds.
    pub role: FieldRole,
}

impl Field {
    /// Its value in an entry; 0 where the entry is too short to have it.
    pub fn get(&self, entry: &[u8]) -> u64 {
        let (start, len) = (usize::from(self.offset), usize::from(self.bytes));
        // Most fields can be read as a word, the rest of which is cut off.
        if let Some(word) = entry.get(start..).and_then(<[u8]>::first_chunk)
            && (1..=8).contains(&len)
        {
            return u64::from_le_bytes(*word) & u64::MAX >> (64 - 8 * len);
        }
        let mut value = [0; 8];
        if let (Some(bytes), Some(place)) = (entry.get(start..start + len), value.get_mut(..len)) {
            place.copy_from_slice(bytes);
        }
        u64::from_le_bytes(value)
    }
}

/// The type of a stream's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryType {
    /// Identifies the type.
    pub guid: Guid,
    /// Its name for people.
    pub name: String,
    /// Bytes of an entry, 1 to 4096.
    pub entry_bytes: u32,
    /// The fields, in the order of their offsets. Bytes that none covers are zero.
    pub fields: Vec<Field>,
}
