//! Human-readable names: demangled, and matched against a glob.

use cpp_demangle::DemangleOptions;

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

/// Whether a glob matches the function with this symbol, by any of its names: the symbol, the demangled name, and of C++ that
/// name without the return type, and without the parameters as well. Of Rust's generic functions the last arguments may be left
/// out, too.
#[must_use]
pub fn matches_symbol(globs: &str, symbol: &str) -> bool {
    let is = |name: &str| matches(globs, name);
    if is(symbol) {
        return true;
    }
    let demangled = demangle(symbol);
    if demangled == symbol {
        return false;
    }
    if is(&demangled) {
        return true;
    }
    match cpp_demangle::Symbol::new(symbol) {
        Ok(name) if symbol.starts_with("_Z") && rustc_demangle::try_demangle(symbol).is_err() => {
            let without_type = DemangleOptions::new().no_return_type();
            [without_type, without_type.no_params()]
                .iter()
                .filter_map(|options| name.demangle_with_options(options).ok())
                .any(|name| is(&name))
        }
        _ => demangled.ends_with('>') && demangled.rfind("::<").is_some_and(|at| is(&demangled[..at])),
    }
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
    fn functions_match_by_any_of_their_names() {
        let check =
            |glob, symbol, expect| assert_eq!(matches_symbol(glob, symbol), expect, "{glob} {symbol}");
        // int app::maybe<int>(int)
        let maybe = "_ZN3app5maybeIiEEiT_";
        for glob in [maybe, "int app::maybe<int>(int)", "app::maybe<int>(int)", "app::maybe<int>", "app::*"] {
            check(glob, maybe, true);
        }
        check("maybe*", maybe, false);
        check("app::work", "_ZN3app4workEi", true);
        check("app::work(long)", "_ZN3app4workEi", false);
        // mycrate::pick::<i32>
        let pick = "_RINvCsbDqzXfLQacH_7mycrate4picklEB2_";
        assert_eq!(demangle(pick), "mycrate::pick::<i32>");
        for glob in ["mycrate::pick::<i32>", "mycrate::pick", "*pick"] {
            check(glob, pick, true);
        }
        check("main", "main", true);
        check("mai", "main", false);
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
