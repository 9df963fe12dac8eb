//! The debug sections of one file, in memory.

use std::{path::Path, sync::Arc};

use gimli::{Dwarf, DwarfSections, EndianArcSlice, EndianSlice, LittleEndian, SectionId, UnitSectionOffset};
use object::{Endianness, Object, ObjectSection, ReadRef, read::elf::ElfFile64};

use crate::{
    Error,
    elf::{Source, WithElf},
};

/// A view of the sections for one pass.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
/// Sections that can be kept beside what was read from them.
pub(crate) type Shared = EndianArcSlice<LittleEndian>;

/// All sections, decompressed.
#[derive(Debug)]
pub(crate) struct Sections {
    bytes: DwarfSections<Arc<[u8]>>,
    /// Where each unit begins in `.debug_info`, sorted.
    units: Vec<usize>,
}

struct Load;

impl WithElf for Load {
    type Output = Result<DwarfSections<Arc<[u8]>>, gimli::Error>;

    fn call<'data, R: ReadRef<'data>>(
        self,
        _path: &Path,
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> Self::Output {
        DwarfSections::load(|id: SectionId| {
            // A section that can't be decompressed is as good as absent.
            let section = elf.section_by_name(id.name());
            Ok(section
                .and_then(|section| section.uncompressed_data().ok())
                .map_or_else(Arc::default, Arc::from))
        })
    }
}

impl Sections {
    pub(crate) fn load(source: &Source, path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Dwarf { path: path.to_owned(), source };
        let bytes = source.with(path, Load)?.map_err(failed)?;
        let mut sections = Self { bytes, units: Vec::new() };
        let mut units = Vec::new();
        let dwarf = sections.dwarf();
        let mut headers = dwarf.units();
        // What follows a damaged header can't be found; what comes before it is kept.
        while let Ok(Some(header)) = headers.next() {
            if let UnitSectionOffset::DebugInfoOffset(offset) = header.offset() {
                units.push(offset.0);
            }
        }
        sections.units = units;
        Ok(sections)
    }

    pub(crate) fn dwarf(&self) -> Dwarf<Slice<'_>> {
        self.bytes.borrow(|bytes| EndianSlice::new(bytes, LittleEndian))
    }

    pub(crate) fn shared(&self) -> Dwarf<Shared> {
        self.bytes.borrow(|bytes| EndianArcSlice::new(Arc::clone(bytes), LittleEndian))
    }

    pub(crate) fn units(&self) -> &[usize] {
        &self.units
    }

    /// The unit that holds an entry: where it begins.
    pub(crate) fn unit_of(&self, entry: usize) -> Option<usize> {
        let after = self.units.partition_point(|start| *start <= entry);
        self.units.get(after.checked_sub(1)?).copied()
    }
}
