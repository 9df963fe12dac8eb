//! What a stream's entries look like: their size and their fields (docs/format.md, *Stream description*). Which types memtap
//! itself writes is said in `stream_kind.rs`.

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
        let start = usize::from(self.offset);
        let mut value = [0; 8];
        if let (Some(bytes), Some(place)) =
            (entry.get(start..start + usize::from(self.bytes)), value.get_mut(..usize::from(self.bytes)))
        {
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
