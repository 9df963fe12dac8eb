//! The list of watchpoints that the recorder leaves in a file for a process. Its entries are five words long.
//!
//! The first word holds the kind of the entry (bits 0..8), the accesses that are meant (bit 8: loads, bit 9:
//! stores), and [`ABSOLUTE`]. The others are an address, a length in bytes, a number, and the number of the
//! expression. Addresses are relative to the program's own module, unless the kind or the flag says otherwise.

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 40;
/// A range of addresses as they are.
pub const KIND_ADDRESS: u64 = 0;
/// A range of a module.
pub const KIND_MODULE: u64 = 1;
/// Blocks that code in a range allocates: the one of that number, or all with zero.
pub const KIND_SITE: u64 = 2;
/// Nothing that is watched: which hits count. The bits are the choices that there are; address and length are the value and
/// the thread that hits must have.
pub const KIND_CHOICES: u64 = 3;
/// In every thread at that offset of the template of the module that begins at the number; zero: of the program's own.
pub const KIND_LOCAL: u64 = 4;
/// The address is not relative to the program's own module.
pub const ABSOLUTE: u64 = 1 << 16;
/// The process stops at a hit.
pub const CHOICE_STOP: u64 = 1;
/// Hits must leave a value.
pub const CHOICE_VALUE: u64 = 2;
/// Hits must be of a thread.
pub const CHOICE_THREAD: u64 = 4;
