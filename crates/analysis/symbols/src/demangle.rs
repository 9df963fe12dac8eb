//! Names as programmers write them, demangled from C++ (Itanium), Rust legacy and v0.

use std::borrow::Cow;

/// The longest mangled name that is demangled: the work can grow faster than the length.
const MAX_MANGLED_BYTES: usize = 4096;

/// The demangled name, or the name itself where it is not mangled.
pub(crate) fn demangle(name: &str) -> Cow<'_, str> {
    if name.len() > MAX_MANGLED_BYTES {
        return Cow::Borrowed(name);
    }
    if (name.starts_with("_R") || is_legacy_rust(name))
        && let Ok(rust) = rustc_demangle::try_demangle(name)
    {
        return Cow::Owned(format!("{rust:#}"));
    }
    if name.starts_with("_Z") || name.starts_with("__Z") {
        // Parts that the optimiser split off: `_Z1fv.cold`.
        let (stem, suffix) = name.split_at(name.find('.').unwrap_or(name.len()));
        let options = cpp_demangle::DemangleOptions::new();
        if let Some(text) =
            cpp_demangle::Symbol::new(stem).ok().and_then(|s| s.demangle_with_options(&options).ok())
        {
            return Cow::Owned(if suffix.is_empty() { text } else { format!("{text} [{suffix}]") });
        }
    }
    Cow::Borrowed(name)
}

/// Legacy Rust names are C++ names whose last part is a hash: `17h` and 16 hexadecimal digits. Parts before it may have dots
/// (`alloc..vec..Vec`), and so may what the optimiser puts after it (`.llvm.123`).
fn is_legacy_rust(name: &str) -> bool {
    let Some((_, rest)) = name.strip_prefix("_ZN").and_then(|rest| rest.rsplit_once("17h")) else {
        return false;
    };
    let hash = rest.get(..16);
    let after = rest.get(16..).and_then(|after| after.strip_prefix('E'));
    hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
        && after.is_some_and(|after| after.is_empty() || after.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expect: &str) {
        assert_eq!(demangle(name), expect);
    }

    #[test]
    fn c_plus_plus() {
        check("_ZN3geo5Shape4areaEv", "geo::Shape::area()");
        check("_ZZ4nextvE7counter", "next()::counter");
        check("_ZN3geo5Shape4areaEv.cold", "geo::Shape::area() [.cold]");
        check("_ZN3geo12_GLOBAL__N_16hiddenE", "geo::(anonymous namespace)::hidden");
        check("_ZTV5Shape", "{vtable(Shape)}");
    }

    #[test]
    fn rust() {
        check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
        check(
            "_ZN63_$LT$u8$u20$as$u20$alloc..vec..spec_from_elem..SpecFromElem$GT$9from_elem17h5f885bdc6027773bE",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
        );
        check("_ZN4core3fmt5write17h0123456789abcdefE.llvm.123", "core::fmt::write");
        check("_RNvCs1234_7mycrate4main", "mycrate::main");
    }

    #[test]
    fn others_are_left_alone() {
        check("main", "main");
        check("_Zfoo", "_Zfoo");
        check("", "");
        let long = format!("_Z{}", "1a".repeat(5000));
        check(&long, &long);
    }
}
