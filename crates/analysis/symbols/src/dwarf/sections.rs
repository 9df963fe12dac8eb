//! The debug sections of one file, in memory.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use gimli::{Dwarf, DwarfSections, EndianArcSlice, EndianSlice, LittleEndian, SectionId, UnitSectionOffset};
use object::{Endianness, Object, ObjectSection, ReadRef, read::elf::ElfFile64};

use super::frame_rows::FrameRows;
use crate::{
    Error,
    elf::{ElfSource, WithElf},
};

/// A view of the sections for one pass.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
/// Sections that can be kept beside what was read from them.
pub(crate) type SharedSlice = EndianArcSlice<LittleEndian>;

/// All sections, decompressed.
#[derive(Debug)]
pub(crate) struct Sections {
    bytes: DwarfSections<Arc<[u8]>>,
    /// Where each unit begins in `.debug_info`, sorted.
    units: Vec<usize>,
    pub(super) frame_rows: FrameRows,
    /// The file they are in.
    path: PathBuf,
    /// The first damage that was met. Reading goes on after it, with what can be read.
    damage: OnceLock<Arc<Error>>,
}

struct Load;

impl WithElf for Load {
    /// With the first section that can't be decompressed, and why.
    type Extract = (DwarfSections<Arc<[u8]>>, FrameRows, Option<String>);

    fn call<'data, R: ReadRef<'data>>(
        self,
        _path: &Path,
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> Self::Extract {
        let mut damage = None;
        let sections = DwarfSections::load(|id: SectionId| {
            // A section that can't be decompressed is read as if it were absent.
            let bytes = elf.section_by_name(id.name()).and_then(|section| {
                let failed = |why| {
                    damage.get_or_insert_with(|| format!("{}: {why}", id.name()));
                };
                section.uncompressed_data().map_err(failed).ok()
            });
            Ok::<_, gimli::Error>(bytes.map_or_else(Arc::default, Arc::from))
        });
        let frame_rows = elf.section_by_name(".eh_frame").and_then(|section| {
            let bytes = section.uncompressed_data().ok()?;
            Some(FrameRows::new(Arc::from(bytes), section.address()))
        });
        (sections.unwrap_or_default(), frame_rows.unwrap_or_default(), damage)
    }
}

impl Sections {
    pub(crate) fn load(source: &ElfSource, path: &Path) -> Result<Self, Error> {
        let (bytes, frame_rows, damage) = source.with(path, Load)?;
        let mut sections =
            Self { bytes, units: Vec::new(), frame_rows, path: path.to_owned(), damage: OnceLock::new() };
        if let Some(damage) = damage {
            sections.note_damage(&damage);
        }
        let mut units = Vec::new();
        let dwarf = sections.dwarf();
        let mut headers = dwarf.units();
        // What follows a damaged header can't be found; what comes before it is kept.
        loop {
            match headers.next() {
                Ok(Some(header)) => {
                    if let UnitSectionOffset::DebugInfoOffset(offset) = header.offset() {
                        units.push(offset.0);
                    }
                }
                Ok(None) => break,
                Err(damage) => {
                    sections.note_damage(&damage);
                    break;
                }
            }
        }
        sections.units = units;
        Ok(sections)
    }

    /// Remembers the first damage, so that whoever reads the names is told.
    pub(crate) fn note_damage(&self, reason: &dyn Display) {
        let error = || Arc::new(Error::Dwarf { path: self.path.clone(), reason: reason.to_string() });
        self.damage.get_or_init(error);
    }

    /// The first damage that was met so far.
    pub(crate) fn damage(&self) -> Option<&Arc<Error>> {
        self.damage.get()
    }

    pub(crate) fn dwarf(&self) -> Dwarf<Slice<'_>> {
        self.bytes.borrow(|bytes| EndianSlice::new(bytes, LittleEndian))
    }

    pub(crate) fn shared(&self) -> Dwarf<SharedSlice> {
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
