//! ELF headers as a tracer needs them: of mapped modules, and of files read by raw system calls.

use elf::{ElfHeader, SegmentHeader};
use tracee::sys::Fd;

use crate::memory::pages::PAGE_BYTES;

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

/// The header of one of a file's segments; `None` where the file ends before it does.
pub(crate) fn segment_of_file(file: &Fd, header: &ElfHeader, index: u16) -> Option<SegmentHeader> {
    let mut bytes = [0u8; SegmentHeader::BYTES];
    let is_whole = file.read_at(&mut bytes, header.segment_at(index)?) == bytes.len();
    SegmentHeader::parse(&bytes).filter(|_| is_whole)
}

/// The segments of a mapped module, by the headers in its first page.
pub(crate) struct MappedHeaders {
    /// What the module's addresses have to be moved by.
    bias: u64,
    header: ElfHeader,
    page: &'static [u8],
}

impl MappedHeaders {
    /// Of the module that begins at `base`; `None` where there is none, or its headers are elsewhere.
    ///
    /// # Safety
    /// The first page of a file is mapped there, can be read, and stays there as long as the headers are used.
    pub(crate) unsafe fn at(base: u64) -> Option<Self> {
        // SAFETY: the caller's promise.
        let page = unsafe { core::slice::from_raw_parts(base as *const u8, PAGE_BYTES as usize) };
        let header = ElfHeader::parse(page).ok()?;
        // Addresses of an executable at a fixed place are absolute.
        let bias = if header.is_fixed { 0 } else { base };
        let headers = Self { bias, header, page };
        (headers.iter().count() == usize::from(header.segment_count)).then_some(headers)
    }

    /// One after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SegmentHeader> + '_ {
        (0..self.header.segment_count).map_while(|index| {
            let at = usize::try_from(self.header.segment_at(index)?).ok()?;
            SegmentHeader::parse(self.page.get(at..)?)
        })
    }

    /// Where a segment's first byte is in this process.
    pub(crate) fn start_of(&self, segment: &SegmentHeader) -> u64 {
        segment.start.placed(self.bias)
    }
}

#[cfg(test)]
mod tests {
    use tracee::{maps, sys};

    use super::*;

    #[test]
    fn this_programs_headers_are_the_same_in_memory_and_in_its_file() {
        let file = sys::open_read(c"/proc/self/exe").unwrap();
        let mut head = [0; ElfHeader::BYTES];
        assert_eq!(file.read(&mut head), head.len());
        let header = ElfHeader::parse(&head).expect("an ELF file");
        let here = segment_of_file as *const () as u64;
        let own = std::env::current_exe().unwrap();
        let mut base = None;
        maps::each(|mapping| {
            if mapping.offset == 0 && mapping.name == own.as_os_str().as_encoded_bytes() && base.is_none() {
                base = Some(mapping.start);
            }
        });
        // SAFETY: the first page of this program.
        let mapped = unsafe { MappedHeaders::at(base.expect("a mapping")) }.expect("headers");
        let in_file: Vec<_> =
            (0..header.segment_count).map(|index| segment_of_file(&file, &header, index).unwrap()).collect();
        assert_eq!(mapped.iter().collect::<Vec<_>>(), in_file);
        let code = mapped.iter().find(|segment| {
            let start = mapped.start_of(segment);
            segment.kind == libc::PT_LOAD && (start..start + segment.memory_bytes).contains(&here)
        });
        assert_eq!(code.expect("code").protection(), libc::PROT_READ | libc::PROT_EXEC);
        let beyond = ElfHeader { segments_at: 1 << 40, ..header };
        assert!(segment_of_file(&file, &beyond, 0).is_none());
    }
}
