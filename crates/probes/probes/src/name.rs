//! Names for people: demangled, and matched against a glob.

/// The name as written in the source, for C++ (Itanium) and Rust (legacy and v0); other names as they are.
#[must_use]
pub fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

/// Whether `text` matches `glob`, where `*` stands for any run of characters and `?` for one. Several globs may be
/// joined by commas.
#[must_use]
pub fn matches(globs: &str, text: &str) -> bool {
    globs.split(',').any(|glob| matches_one(glob.as_bytes(), text.as_bytes()))
}

fn matches_one(glob: &[u8], text: &[u8]) -> bool {
    let (mut g, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, t));
                g += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                g += 1;
                t += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                g = at + 1;
                t = from + 1;
            }
        }
    }
    glob[g..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled() {
        assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangle("main"), "main");
    }

    #[test]
    fn globs_match() {
        let check = |glob, text, expect| assert_eq!(matches(glob, text), expect, "{glob} {text}");
        check("*", "", true);
        check("f*o", "foo", true);
        check("f*o", "fob", false);
        check("*sort*", "quicksort_inner", true);
        check("a?c", "abc", true);
        check("main,work*", "worker", true);
        check("", "x", false);
    }
}
