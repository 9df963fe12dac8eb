//! What an ELF file declares in its headers: whether it is a program for this
//! processor, its segments, its build id, and the functions that it names.
//!
//! Bytes in, numbers out: reading the file, or finding it mapped, is left to the users of this crate, which run inside a traced process
//! as well as outside. Nothing is allocated, nothing panics, and no field is trusted: a place named in the headers may lie outside of
//! the file. Everything else about sections, symbols and relocations is left to the crate `object`, which only readers of names need.
//!
//! Start with [`ElfHeader::parse`].
#![no_std]
#![forbid(unsafe_code)]

mod bytes;
mod functions;
mod header;
mod link_addr;
mod loader;
mod needed;
mod notes;
mod segment;

pub use functions::{FunctionSymbol, function_symbols};
pub use header::{ElfHeader, ElfRefusal};
pub use link_addr::LinkAddr;
pub use loader::{LOADER_BYTES, is_of_other_library};
pub use needed::{NeededLibrary, needed_library};
pub use notes::build_id;
pub use segment::SegmentHeader;
