//! Whether a file's code asks an allocator for the actual size of a block.

use std::path::Path;

use object::elf::DT_SONAME;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadRef};

use super::file::WithElf;

/// Asks whether some symbol, its own or one that it imports, is `malloc_usable_size` or its like. Libraries that have it as
/// allocators are none that ask.
pub(crate) struct AsksUsableSize;

impl WithElf for AsksUsableSize {
    type Extract = bool;

    fn call<'data, R: ReadRef<'data>>(self, _: &Path, elf: &ElfFile64<'data, Endianness, R>) -> bool {
        let is_malloc = |name: &[u8]| name == b"malloc";
        let mut exported = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
        if is_library(elf) && exported.any(|symbol| symbol.name_bytes().is_ok_and(is_malloc)) {
            return false;
        }
        let asks = |name: &[u8]| name.windows(NAME.len()).any(|part| part == NAME);
        elf.dynamic_symbols().chain(elf.symbols()).any(|symbol| symbol.name_bytes().is_ok_and(asks))
    }
}

/// What glibc, jemalloc, mimalloc and tcmalloc have in their names for it.
const NAME: &[u8] = b"usable_size";

/// Whether it has a name for the loader, as libraries have and programs don't.
fn is_library<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, Endianness, R>) -> bool {
    let Some(dynamic) = elf.section_by_name(".dynamic").and_then(|section| section.data().ok()) else {
        return false;
    };
    let tag = |entry: &[u8]| entry.get(..8).and_then(|tag| tag.try_into().ok()).map(u64::from_le_bytes);
    dynamic.chunks_exact(16).any(|entry| tag(entry) == Some(DT_SONAME.into()))
}
