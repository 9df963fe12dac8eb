//! ELF files: segments, sections, symbols and procedure linkage entries.
//!
//! What is read here is read when a file is opened; debug information is not, and neither is the frame table (`extents`).

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
