//! ELF headers: of modules that are mapped, and of files.

use core::mem::MaybeUninit;

use libc::{ET_EXEC, Elf64_Ehdr, Elf64_Phdr};
use tracee::sys::Fd;

use crate::protect::pages::PAGE_BYTES;

/// What a 64-bit file begins with whose numbers are little-endian.
const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// Addresses of a module, from `start` to before `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModuleSpan {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl ModuleSpan {
    pub(crate) fn contains(&self, addr: u64) -> bool {
        (self.start..self.end).contains(&addr)
    }
}

/// The header that a file begins with; `None` where it is no 64-bit ELF file.
pub(crate) fn file_header(bytes: &[u8]) -> Option<Elf64_Ehdr> {
    let bytes = bytes.get(..size_of::<Elf64_Ehdr>())?;
    // SAFETY: as many bytes as the structure has; each content of it is one.
    bytes.starts_with(MAGIC).then(|| unsafe { bytes.as_ptr().cast::<Elf64_Ehdr>().read_unaligned() })
}

/// One of a file's program headers; `None` where the file ends before it does.
pub(crate) fn program_header(file: &Fd, header: &Elf64_Ehdr, index: u16) -> Option<Elf64_Phdr> {
    let mut bytes = [0u8; size_of::<Elf64_Phdr>()];
    let at = header.e_phoff.checked_add(u64::from(index) * u64::from(header.e_phentsize))?;
    let is_whole = file.read_at(&mut bytes, at) == bytes.len();
    // SAFETY: as many bytes as the structure has; each content of it is one.
    is_whole.then(|| unsafe { bytes.as_ptr().cast::<Elf64_Phdr>().read_unaligned() })
}

/// The rights that a segment's flags stand for, as mmap takes them.
pub(crate) fn rights_of(header: &Elf64_Phdr) -> i32 {
    [(libc::PF_R, libc::PROT_READ), (libc::PF_W, libc::PROT_WRITE), (libc::PF_X, libc::PROT_EXEC)]
        .iter()
        .fold(0, |prot, (flag, right)| if header.p_flags & flag != 0 { prot | right } else { prot })
}

/// The program headers of a mapped module, in its first page.
pub(crate) struct MappedHeaders {
    /// What the module's addresses have to be moved by.
    bias: u64,
    table: u64,
    stride: u64,
    count: u64,
}

impl MappedHeaders {
    /// Of the module that begins at `base`; `None` where there is none, or its headers are elsewhere.
    ///
    /// # Safety
    /// The first page of a file is mapped there and can be read.
    pub(crate) unsafe fn at(base: u64) -> Option<Self> {
        let mut header = MaybeUninit::<Elf64_Ehdr>::uninit();
        // SAFETY: the header is a part of the page; each content of it is one.
        let header = unsafe {
            core::ptr::copy_nonoverlapping(base as *const Elf64_Ehdr, header.as_mut_ptr(), 1);
            header.assume_init()
        };
        if !header.e_ident.starts_with(MAGIC.get(..4)?) {
            return None;
        }
        let table = base.checked_add(header.e_phoff)?;
        let (stride, count) = (u64::from(header.e_phentsize), u64::from(header.e_phnum));
        let is_there = stride >= size_of::<Elf64_Phdr>() as u64
            && table.checked_add(stride * count).is_some_and(|end| end <= base + PAGE_BYTES);
        // Addresses of an executable at a fixed place are absolute.
        let bias = if header.e_type == ET_EXEC { 0 } else { base };
        is_there.then_some(Self { bias, table, stride, count })
    }

    /// One after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Elf64_Phdr> + '_ {
        (0..self.count).map(|index| {
            // SAFETY: `at` has seen that the whole table lies in the page, which stays mapped.
            unsafe { ((self.table + index * self.stride) as *const Elf64_Phdr).read_unaligned() }
        })
    }

    /// Where a segment's first byte is in this process.
    pub(crate) fn start_of(&self, header: &Elf64_Phdr) -> u64 {
        self.bias.wrapping_add(header.p_vaddr)
    }
}

#[cfg(test)]
mod tests {
    use tracee::{maps, sys};

    use super::*;

    #[test]
    fn this_programs_headers_are_the_same_in_memory_and_in_its_file() {
        let file = sys::open_read(c"/proc/self/exe").unwrap();
        let mut head = [0; 64];
        assert_eq!(file.read(&mut head), 64);
        let header = file_header(&head).expect("an ELF file");
        let here = file_header as *const () as u64;
        let own = std::env::current_exe().unwrap();
        let mut base = None;
        maps::each(|mapping| {
            if mapping.offset == 0 && mapping.name == own.as_os_str().as_encoded_bytes() && base.is_none() {
                base = Some(mapping.start);
            }
        });
        // SAFETY: the first page of this program.
        let mapped = unsafe { MappedHeaders::at(base.expect("a mapping")) }.expect("headers");
        let key = |header: &Elf64_Phdr| (header.p_type, header.p_flags, header.p_vaddr, header.p_memsz);
        let in_file: Vec<_> =
            (0..header.e_phnum).map(|index| key(&program_header(&file, &header, index).unwrap())).collect();
        assert_eq!(mapped.iter().map(|header| key(&header)).collect::<Vec<_>>(), in_file);
        let code = mapped.iter().find(|header| {
            let start = mapped.start_of(header);
            header.p_type == libc::PT_LOAD && (start..start + header.p_memsz).contains(&here)
        });
        assert_eq!(rights_of(&code.expect("code")), libc::PROT_READ | libc::PROT_EXEC);
        assert!(program_header(&file, &Elf64_Ehdr { e_phoff: u64::MAX - 8, ..header }, 1).is_none());
        assert!(file_header(b"#!/bin/sh").is_none());
    }
}
