//! Names as programmers write them: C++ (Itanium), Rust legacy and v0.

use std::borrow::Cow;

/// The longest mangled name that is demangled: the work can grow faster than the length.
const MAX_MANGLED_BYTES: usize = 4096;

/// The demangled name, or the name itself where it is not mangled.
pub(crate) fn demangle(name: &str) -> Cow<'_, str> {
    if name.len() > MAX_MANGLED_BYTES {
        return Cow::Borrowed(name);
    }
    // Legacy Rust names are valid C++ names too: Rust first.
    if name.starts_with("_R") || name.starts_with("_ZN") {
        if let Ok(rust) = rustc_demangle::try_demangle(name) {
            return Cow::Owned(format!("{rust:#}"));
        }
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
        check("_ZTV5Shape", "{vtable(Shape)}");
    }

    #[test]
    fn rust() {
        check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
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
