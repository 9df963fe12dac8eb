//! Functions of allocators, by name: the C library's, C++'s operators, those of allocators that programs are
//! linked with (jemalloc, mimalloc, tcmalloc and others, under their own names or with prefixes), and Rust's.
//!
//! Finding these functions, and handling calls of them, is left to `translate::entry_table` and `translate::entry_calls`.

use memref::{AllocationFunction, AllocationKind};

use crate::calls::entry_points::NOTES;

/// How many bytes a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes {
    None,
    /// As its argument of that number says.
    Argument(u8),
    /// So many of so many.
    Product(u8, u8),
}

/// What a call of an allocator's function means, and which of its arguments says what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocatorCall {
    pub(crate) kind: AllocationKind,
    pub(crate) function: AllocationFunction,
    pub(crate) len: Bytes,
    /// The block that is released, or replaced.
    pub(crate) block: Option<u8>,
    /// Where the block's address is left, if the function does not return it.
    pub(crate) place: Option<u8>,
    /// jemalloc's flags.
    pub(crate) flags: Option<u8>,
    /// It stands above allocators: what it does itself is the program's.
    pub(crate) is_above: bool,
}

/// The flag of jemalloc's that asks for zeros.
pub(crate) const ZEROED: u64 = 0x40;

impl AllocatorCall {
    const fn new(kind: AllocationKind, function: AllocationFunction, len: Bytes) -> Self {
        Self { kind, function, len, block: None, place: None, flags: None, is_above: false }
    }

    const fn malloc(len: u8) -> Self {
        Self::new(AllocationKind::Malloc, AllocationFunction::Malloc, Bytes::Argument(len))
    }

    const fn calloc(len: Bytes) -> Self {
        Self::new(AllocationKind::Calloc, AllocationFunction::Calloc, len)
    }

    const fn realloc(len: Bytes) -> Self {
        let call = Self::new(AllocationKind::Realloc, AllocationFunction::Realloc, len);
        Self { block: Some(0), ..call }
    }

    const fn free(function: AllocationFunction) -> Self {
        Self { block: Some(0), ..Self::new(AllocationKind::Free, function, Bytes::None) }
    }

    const fn as_function(self, function: AllocationFunction) -> Self {
        Self { function, ..self }
    }

    const fn with_flags(self, argument: u8) -> Self {
        Self { flags: Some(argument), ..self }
    }

    /// The same, where another argument comes first.
    fn after_one(self) -> Self {
        let next = |argument: u8| argument + 1;
        let len = match self.len {
            Bytes::None => Bytes::None,
            Bytes::Argument(argument) => Bytes::Argument(next(argument)),
            Bytes::Product(count, size) => Bytes::Product(next(count), next(size)),
        };
        Self { len, block: self.block.map(next), place: self.place.map(next), ..self }
    }
}

/// A function of the C library, or of one that stands in for it.
pub(crate) fn of_library(name: &[u8]) -> Option<AllocatorCall> {
    use AllocationFunction as F;
    type Call = AllocatorCall;
    Some(match name {
        b"malloc" => Call::malloc(0),
        b"valloc" | b"pvalloc" => Call::malloc(0).as_function(F::Valloc),
        b"calloc" => Call::calloc(Bytes::Product(0, 1)),
        b"realloc" => Call::realloc(Bytes::Argument(1)),
        b"reallocarray" => Call::realloc(Bytes::Product(1, 2)).as_function(F::Reallocarray),
        b"free" | b"cfree" | b"free_sized" | b"free_aligned_sized" => Call::free(F::Free),
        b"aligned_alloc" => Call::malloc(1).as_function(F::AlignedAlloc),
        b"memalign" => Call::malloc(1).as_function(F::Memalign),
        b"posix_memalign" => {
            AllocatorCall { place: Some(0), ..Call::malloc(2).as_function(F::PosixMemalign) }
        }
        _ => return None,
    })
}

/// jemalloc's own ones.
fn of_jemalloc(name: &[u8]) -> Option<AllocatorCall> {
    Some(match name {
        b"mallocx" => AllocatorCall::malloc(0).with_flags(1),
        b"rallocx" => AllocatorCall::realloc(Bytes::Argument(1)).with_flags(2),
        b"dallocx" | b"sdallocx" => AllocatorCall::free(AllocationFunction::Free),
        _ => return None,
    })
}

/// tcmalloc's operators.
fn of_tcmalloc(name: &[u8]) -> Option<AllocatorCall> {
    use AllocationFunction as F;
    Some(match name {
        _ if name.starts_with(b"newarray") => AllocatorCall::malloc(0).as_function(F::NewArray),
        _ if name.starts_with(b"new") => AllocatorCall::malloc(0).as_function(F::New),
        _ if name.starts_with(b"deletearray") => AllocatorCall::free(F::DeleteArray),
        _ if name.starts_with(b"delete") => AllocatorCall::free(F::Delete),
        _ => return None,
    })
}

/// mimalloc's own ones.
fn of_mimalloc(name: &[u8]) -> Option<AllocatorCall> {
    use AllocationFunction as F;
    type Call = AllocatorCall;
    if let Some(name) = name.strip_prefix(b"heap_") {
        // Their first argument is the heap.
        return of_library(name).or_else(|| of_mimalloc(name)).map(AllocatorCall::after_one);
    }
    Some(match name {
        b"malloc_small" | b"malloc_aligned" => Call::malloc(0),
        b"mallocn" => Call::new(AllocationKind::Malloc, F::Malloc, Bytes::Product(0, 1)),
        b"zalloc" | b"zalloc_small" | b"zalloc_aligned" => Call::calloc(Bytes::Argument(0)),
        b"calloc_aligned" => Call::calloc(Bytes::Product(0, 1)),
        b"reallocf" | b"rezalloc" | b"realloc_aligned" | b"rezalloc_aligned" | b"new_realloc" => {
            Call::realloc(Bytes::Argument(1))
        }
        b"reallocn" | b"recalloc" | b"recalloc_aligned" | b"new_reallocn" => {
            Call::realloc(Bytes::Product(1, 2))
        }
        b"free_size" | b"free_aligned" | b"free_size_aligned" => Call::free(F::Free),
        b"new" | b"new_nothrow" | b"new_aligned" | b"new_aligned_nothrow" => {
            Call::malloc(0).as_function(F::New)
        }
        b"new_n" => Call::new(AllocationKind::Malloc, F::New, Bytes::Product(0, 1)),
        _ => return None,
    })
}

/// Rust's, which stand above whatever the program has for its allocator.
fn of_rust(name: &[u8]) -> Option<AllocatorCall> {
    let call = match name {
        b"__rust_alloc" => AllocatorCall::malloc(0),
        b"__rust_alloc_zeroed" => AllocatorCall::calloc(Bytes::Argument(0)),
        b"__rust_realloc" => AllocatorCall::realloc(Bytes::Argument(3)),
        b"__rust_dealloc" => AllocatorCall::free(AllocationFunction::Free),
        _ => return None,
    };
    Some(AllocatorCall { is_above: true, ..call })
}

/// The function of an operator of C++.
pub(crate) fn operator(name: &[u8]) -> Option<AllocationFunction> {
    // Quickly: programs have many functions.
    let is_one = matches!(name, [b'_', b'Z', b'n' | b'd', b'w' | b'a' | b'l', ..]);
    let (_, code) = NOTES.iter().filter(|_| is_one).find(|(known, _)| known.to_bytes() == name)?;
    AllocationFunction::from_code(*code)
}

/// Whether a function is an operator of C++.
pub(crate) fn is_operator(function: AllocationFunction) -> bool {
    use AllocationFunction::{Delete, DeleteArray, New, NewArray};
    matches!(function, New | NewArray | Delete | DeleteArray)
}

/// What an operator of C++ means that is its allocator's own.
pub(crate) fn of_operator(function: AllocationFunction) -> AllocatorCall {
    match function {
        AllocationFunction::Delete | AllocationFunction::DeleteArray => AllocatorCall::free(function),
        _ => AllocatorCall::malloc(0).as_function(function),
    }
}

/// What a name in a program's own file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// One of the C library's names: only if the file has all that an allocator needs.
    Plain(AllocatorCall),
    /// An allocator's function under a name of its own.
    Own(AllocatorCall),
    /// Above the allocator.
    Above(AllocatorCall),
    /// An operator of C++.
    Operator(AllocationFunction),
    /// Rust's own way to the C library's allocator: nothing stands above it then.
    RustDefault,
    /// The C++ library gives up an allocation.
    Raises,
}

/// What goes before the C library's names in other allocators.
const PREFIXES: &[&[u8]] = &[b"__libc_", b"je_", b"_rjem_", b"mi_", b"tc_", b"rp", b"dl", b"scalable_"];
/// What goes before the name of a function of the Rust compiler's, and its length.
const RUST: &[u8] = b"___rustc";

/// What a function of that name is.
pub(crate) fn named(name: &[u8], is_local: bool) -> Option<Named> {
    let first = *name.first()?;
    if !is_local && let Some(call) = of_library(name).or_else(|| of_jemalloc(name)) {
        return Some(Named::Plain(call));
    }
    if !matches!(first, b'_' | b'j' | b'm' | b't' | b'r' | b'd' | b's') {
        return None;
    }
    for prefix in PREFIXES {
        let Some(rest) = name.strip_prefix(*prefix) else { continue };
        let special = match *prefix {
            b"je_" | b"_rjem_" => of_jemalloc(rest),
            b"mi_" => of_mimalloc(rest),
            b"tc_" => of_tcmalloc(rest),
            _ => None,
        };
        if let Some(call) = of_library(rest).or(special) {
            // The C library's own allocator has its names twice.
            return Some(if *prefix == b"__libc_" { Named::Plain(call) } else { Named::Own(call) });
        }
    }
    match name {
        b"_Unwind_RaiseException" | b"__cxa_allocate_exception" => return Some(Named::Raises),
        _ => {}
    }
    if let Some(function) = operator(name) {
        return Some(Named::Operator(function));
    }
    // Mangled names of today, and plain ones of before.
    let rust = if name.starts_with(b"_R") {
        let at = name.windows(RUST.len()).position(|part| part == RUST)?;
        let rest = name.get(at + RUST.len()..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest.get(digits..)?
    } else {
        name
    };
    // An underscore parts a name that begins with one from its length.
    let rust = if rust.starts_with(b"___") { rust.get(1..)? } else { rust };
    if rust == b"__rdl_alloc" {
        return Some(Named::RustDefault);
    }
    of_rust(rust).map(Named::Above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expect: Option<(&str, Bytes, Option<u8>)>) {
        let call = match named(name.as_bytes(), false) {
            Some(Named::Plain(call) | Named::Own(call) | Named::Above(call)) => {
                Some((call.function.name(), call.len, call.block))
            }
            _ => None,
        };
        assert_eq!(call, expect, "{name}");
    }

    #[test]
    fn functions_of_allocators_are_known_by_their_names() {
        use Bytes::{Argument, None as Nothing, Product};
        check("malloc", Some(("malloc", Argument(0), None)));
        check("je_calloc", Some(("calloc", Product(0, 1), None)));
        check("_rjem_sdallocx", Some(("free", Nothing, Some(0))));
        check("mi_heap_realloc", Some(("realloc", Argument(2), Some(1))));
        check("mi_heap_zalloc_aligned", Some(("calloc", Argument(1), None)));
        check("mi_realloc_aligned", Some(("realloc", Argument(1), Some(0))));
        check("tc_newarray_nothrow", Some(("operator new[]", Argument(0), None)));
        check("tc_deletearray_sized", Some(("operator delete[]", Nothing, Some(0))));
        check("_RNvCsfLfy6EI15iL_7___rustc14___rust_realloc", Some(("realloc", Argument(3), Some(0))));
        check("__rust_alloc_zeroed", Some(("calloc", Argument(0), None)));
        for other in
            ["mallocs", "je_arena_malloc", "mi_free_all", "tc_malloc_size", "freedom", "", "_", "rptr"]
        {
            check(other, None);
        }
    }

    #[test]
    fn names_of_the_c_library_count_only_where_others_can_call_them() {
        assert_eq!(named(b"free", true), None);
        assert!(matches!(named(b"_rjem_malloc", true), Some(Named::Own(_))));
        assert_eq!(named(b"_Znam", false), Some(Named::Operator(AllocationFunction::NewArray)));
        assert_eq!(named(b"_ZdlPvm", false), Some(Named::Operator(AllocationFunction::Delete)));
        assert_eq!(named(b"_RNvCsfLfy6EI15iL_7___rustc11___rdl_alloc", true), Some(Named::RustDefault));
    }
}
