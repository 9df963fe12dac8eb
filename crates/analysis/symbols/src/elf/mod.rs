//! ELF files: segments, sections, symbols and procedure linkage entries.
//!
//! All of this is read when a file is opened, except the frame table (`extents`). Debug information is not read here.

mod extents;
mod file;
mod plt;
mod section;
mod symbol;
mod usable;

pub(crate) use extents::{FunctionExtents, ReadExtents};
pub(crate) use file::{ElfFacts, ElfSource, ReadBuildId, ReadFacts, ReadSlots, WithElf, section_at};
pub use section::{FilePlace, Section, SectionKind, Segment};
pub(crate) use symbol::SymbolTable;
pub use symbol::{Symbol, SymbolKind};
pub(crate) use usable::AsksUsableSize;
