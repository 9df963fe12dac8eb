//! Functions of the C library that load only the bytes they were asked for, although they
//! load whole vectors. If they load bytes behind a block, their caller asked for them.
//!
//! The list has only variants that were tested, each with the copies of all lengths in the corpus. Not in it are the variants
//! for SSSE3, which load aligned vectors that begin before the source, and comparisons for AVX2, which load a whole vector.

use memref::VirtAddr;
use rustc_hash::FxHashMap;
use symbols::{CodeId, CodeName, Resolver};

use crate::Owner;

/// Copying, and the processors' features that a variant is for.
const COPIES: [&str; 3] = ["__memmove_", "__memcpy_", "__mempcpy_"];
const COPY_VARIANTS: [&str; 4] = ["avx512_unaligned", "evex_unaligned", "avx_unaligned", "sse2_unaligned"];
/// Comparing: under a mask, where the others load a whole vector.
const COMPARES: [&str; 1] = ["__memcmp_evex_movbe"];

/// Knows their instructions.
#[derive(Debug, Default)]
pub(super) struct ExactLoads {
    known: FxHashMap<CodeId, bool>,
}

impl ExactLoads {
    /// Whether the instruction there is one of such a function.
    pub(super) fn is_one(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> bool {
        let code = resolver.resolve_code(ip);
        if let Some(known) = self.known.get(&code) {
            return *known;
        }
        let is_one = resolver.code_name(ip).is_some_and(|name| is_exact(&name));
        self.known.insert(code, is_one);
        is_one
    }
}

fn is_exact(name: &CodeName) -> bool {
    c_library_function(name).is_some_and(is_exact_function)
}

/// The function, if it is one of the C library's.
pub(super) fn c_library_function(name: &CodeName) -> Option<&str> {
    let module = name.module.as_deref()?;
    name.function.as_deref().filter(|_| Owner::of_module(module) == Owner::CLibrary)
}

fn is_exact_function(function: &str) -> bool {
    is_exact_copy(function) || COMPARES.iter().any(|known| function.starts_with(known))
}

/// Whether such a function of the C library copies.
pub(super) fn is_exact_copy(function: &str) -> bool {
    let variant = COPIES.iter().find_map(|stem| function.strip_prefix(stem));
    variant.is_some_and(|variant| COPY_VARIANTS.iter().any(|known| variant.starts_with(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_that_load_more_are_none() {
        for (function, expect) in [
            ("__memmove_evex_unaligned_erms", true),
            ("__memmove_avx_unaligned_erms_rtm", true),
            ("__memcpy_sse2_unaligned", true),
            ("__memmove_ssse3", false),
            ("__memmove_chk", false),
            ("__memcmp_avx2_movbe_rtm", false),
            ("__memcmp_evex_movbe", true),
            ("__memcmp_sse2", false),
            ("__memcmp_sse4_1", false),
            ("__memset_avx2_unaligned", false),
        ] {
            assert_eq!(is_exact_function(function), expect, "{function}");
        }
    }
}
