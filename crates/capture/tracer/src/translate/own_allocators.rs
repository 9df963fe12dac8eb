//! The allocator functions that a program brings itself: linked into it, or as a library that replaces the
//! C library's. They are found in the file's symbol tables, once, before the program's first instruction.

use elf::function_symbols;
use memref::AllocationFunction;
use tracee::text::Text;
use tracee::{maps, sys};

use crate::calls::allocators::{self, AllocatorCall, Named};
use crate::memory::pages;
use crate::module_headers::segment_of_file;

/// A file that is mapped.
struct Module {
    /// With a zero at its end.
    path: Text<1024>,
    base: u64,
}

/// The file that is mapped at an address.
fn module_at(addr: u64) -> Option<Module> {
    let mut first = 0;
    let mut found = None;
    let mut name = Text::<1024>::new();
    maps::each(|mapping| {
        if found.is_some() || !mapping.name.starts_with(b"/") {
            return;
        }
        if mapping.offset == 0 && name.as_bytes() != mapping.name {
            name = Text::new();
            name.push(mapping.name);
            first = mapping.start;
        }
        if (mapping.start..mapping.end).contains(&addr) && name.as_bytes() == mapping.name {
            let mut path = Text::new();
            path.push(mapping.name);
            path.push(b"\0");
            found = Some(Module { path, base: first });
        }
    });
    found
}

/// Whether two functions are of one file.
pub(crate) fn are_of_one_file(left: u64, right: u64) -> bool {
    match (module_at(left), module_at(right)) {
        (Some(left), Some(right)) => left.base == right.base,
        _ => false,
    }
}

/// What is told of a file's functions.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    /// An event.
    Allocator(AllocatorCall),
    /// An operator of C++ that calls one.
    Operator(AllocationFunction),
    /// Where the C++ library leaves an operator without a block.
    Raises,
}

/// Calls `each` with the addresses of the allocator's functions in the file that is mapped at `addr`. In a file that is the whole program,
/// C library and all (`is_static`), operators of C++ are those of the C++ library unless the names tell of an allocator that has some.
pub(crate) fn find(addr: u64, is_static: bool, mut each: impl FnMut(u64, Function)) -> Option<()> {
    let module = module_at(addr)?;
    let path = core::ffi::CStr::from_bytes_until_nul(module.path.as_bytes()).ok()?;
    let file = sys::open_read(path)?;
    let len = u64::try_from(sys::status(file.0)?.st_size).ok().filter(|&len| len > 0)?;
    let mut head = [0; elf::ElfHeader::BYTES];
    let head_len = file.read_at(&mut head, 0);
    let header = elf::ElfHeader::parse(head.get(..head_len)?).ok()?;
    let first = (0..header.segment_count)
        .filter_map(|index| segment_of_file(&file, &header, index))
        .find(|segment| segment.kind == libc::PT_LOAD)?;
    let bias =
        if header.is_fixed { 0 } else { module.base.wrapping_sub(pages::start_of_page(first.start.0)) };
    // SAFETY: a mapping of its own, of a file that is only read.
    let at = unsafe { sys::mmap(0, len, sys::PROT_READ, sys::MAP_PRIVATE, file.0, 0) };
    if sys::failed(at) {
        return None;
    }
    // SAFETY: mapped just now, and not unmapped before the end of this function.
    let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, len as usize) };
    let named = || {
        function_symbols(bytes).filter_map(|symbol| {
            let named = allocators::named(symbol.name, symbol.is_local)?;
            Some((symbol.start.placed(bias), symbol.name, named))
        })
    };
    let (mut has_malloc, mut has_free, mut has_operators, mut has_default) = (false, false, false, false);
    for (_, name, named) in named() {
        match named {
            Named::Plain(_) => {
                has_malloc |= name == b"malloc";
                has_free |= name == b"free";
                // jemalloc.
                has_operators |= name == b"mallocx";
            }
            Named::Own(call) => has_operators |= call.function == AllocationFunction::New,
            Named::RustDefault => has_default = true,
            _ => {}
        }
    }
    let is_allocator = has_malloc && has_free;
    let has_operators = has_operators || is_allocator && !is_static;
    for (start, _, named) in named() {
        let function = match named {
            Named::Plain(call) if is_allocator => Function::Allocator(call),
            Named::Own(call) => Function::Allocator(call),
            Named::Above(call) if !has_default => Function::Allocator(call),
            Named::Operator(function) if has_operators => {
                Function::Allocator(allocators::of_operator(function))
            }
            Named::Operator(function) if is_static => Function::Operator(function),
            Named::Raises => Function::Raises,
            _ => continue,
        };
        each(start, function);
    }
    // SAFETY: nothing is kept of it.
    unsafe { sys::munmap(at as u64, len) };
    Some(())
}
