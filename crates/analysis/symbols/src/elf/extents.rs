//! Where functions begin and end according to the frame table for exceptions, which files without symbols also have.

use std::ops::Range;
use std::path::Path;

use elf::LinkAddr;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ReadRef};

use super::file::WithElf;

/// The functions of a file, in the order of their addresses.
#[derive(Debug, Default)]
pub(crate) struct FunctionExtents(Vec<Range<LinkAddr>>);

impl FunctionExtents {
    /// The function of an address.
    pub(crate) fn find(&self, address: LinkAddr) -> Option<Range<LinkAddr>> {
        let after = self.0.partition_point(|extent| extent.start <= address);
        self.0.get(after.checked_sub(1)?).filter(|extent| extent.contains(&address)).cloned()
    }
}

/// Reads them; what is damaged is left away.
pub(crate) struct ReadExtents;

impl WithElf for ReadExtents {
    type Extract = FunctionExtents;

    fn call<'data, R: ReadRef<'data>>(
        self,
        _: &Path,
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> FunctionExtents {
        let Some(section) = elf.section_by_name(".eh_frame") else { return FunctionExtents::default() };
        let Ok(bytes) = section.uncompressed_data() else { return FunctionExtents::default() };
        let text = elf.section_by_name(".text").map_or(0, |text| text.address());
        let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
        FunctionExtents(read(&bytes, &bases))
    }
}

fn read(bytes: &[u8], bases: &BaseAddresses) -> Vec<Range<LinkAddr>> {
    let table = EhFrame::new(bytes, LittleEndian);
    let mut all = Vec::new();
    let mut entries = table.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(entry) = partial.parse(EhFrame::cie_from_offset) {
            let start = LinkAddr(entry.initial_address());
            all.push(start..start.saturating_offset(entry.len()));
        }
    }
    all.sort_by_key(|extent| extent.start);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(extent: Range<u64>) -> Range<LinkAddr> {
        LinkAddr(extent.start)..LinkAddr(extent.end)
    }

    #[test]
    fn an_address_is_found_in_its_function_alone() {
        let extents = FunctionExtents([0x10..0x20, 0x20..0x30, 0x40..0x50].map(linked).to_vec());
        let check = |address, expect: Option<Range<u64>>| {
            assert_eq!(extents.find(LinkAddr(address)), expect.map(linked));
        };
        check(0x0f, None);
        check(0x10, Some(0x10..0x20));
        check(0x2f, Some(0x20..0x30));
        check(0x30, None);
        check(0x50, None);
    }

    #[test]
    fn damage_ends_the_table() {
        assert!(read(&[1, 2, 3], &BaseAddresses::default()).is_empty());
        assert!(read(&[0xff; 64], &BaseAddresses::default()).is_empty());
    }
}
