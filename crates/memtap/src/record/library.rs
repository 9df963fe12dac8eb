//! The tracer's library, and functions by name.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::{Object, ObjectKind, ObjectSegment, ObjectSymbol, SymbolKind};
use segment::{Breakpoint, BreakpointKind, MAX_PATH_BYTES};

const NAME: &str = "libmemtap_protect.so";

/// Finds the tracer: where $MEMTAP_LIB_DIR says, beside this program, or where an installation puts it.
pub(crate) fn find() -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of memtap itself can't be found")?;
    let own = std::fs::canonicalize(&own).unwrap_or(own);
    let beside = own.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut places: Vec<PathBuf> =
        std::env::var_os("MEMTAP_LIB_DIR").map(PathBuf::from).into_iter().collect();
    places.extend([beside.clone(), beside.join("../lib/memtap"), beside.join("../lib")]);
    for place in &places {
        let candidate = place.join(NAME);
        if candidate.is_file() {
            return std::fs::canonicalize(&candidate)
                .with_context(|| format!("{}: can't be found", candidate.display()));
        }
    }
    let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    bail!("{NAME}: not found in {}; build the whole workspace or set MEMTAP_LIB_DIR", looked.join(", "))
}

/// A function of the program as a breakpoint; its address relative to the module's first mapping.
pub(crate) fn breakpoint(program: &Path, name: &str, kind: BreakpointKind) -> Result<Breakpoint> {
    let path =
        std::fs::canonicalize(program).with_context(|| format!("{}: can't be found", program.display()))?;
    let shown = path.display();
    let bytes = std::fs::read(&path).with_context(|| format!("{shown}: can't be read"))?;
    let file = object::File::parse(&*bytes)
        .with_context(|| format!("{shown}: has no symbols to look {name} up in"))?;
    let functions = || {
        file.symbols()
            .chain(file.dynamic_symbols())
            .filter(|s| s.kind() == SymbolKind::Text && s.is_definition())
    };
    let found = functions()
        .find(|symbol| symbol.name() == Ok(name) || demangled(symbol.name().unwrap_or("")) == name);
    let Some(symbol) = found else {
        let mut near: Vec<(usize, String)> = functions()
            .filter_map(|symbol| symbol.name().ok().map(demangled))
            .map(|other| (distance(name, &other), other))
            .filter(|(distance, _)| *distance <= 3)
            .collect();
        near.sort();
        near.dedup();
        let near: Vec<String> = near.into_iter().take(3).map(|(_, name)| name).collect();
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
        bail!("{shown}: has no function named {name} (is it stripped?){hint}");
    };
    let first = if file.kind() == ObjectKind::Executable {
        file.segments().map(|segment| segment.address()).min().unwrap_or(0)
    } else {
        0
    };
    let mut module = [0; MAX_PATH_BYTES];
    let path = path.as_os_str().as_encoded_bytes();
    let Some(place) = module.get_mut(..path.len()) else { bail!("{shown}: the path is too long") };
    place.copy_from_slice(path);
    Ok(Breakpoint { kind, address: symbol.address().wrapping_sub(first), module })
}

/// A name as people write it.
fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let Ok(symbol) = cpp_demangle::Symbol::new(name) else { return name.to_owned() };
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    symbol.demangle_with_options(&options).unwrap_or_else(|_| name.to_owned())
}

/// How many characters differ (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_changed_characters() {
        assert_eq!(distance("main", "main"), 0);
        assert_eq!(distance("mian", "main"), 2);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn names_are_shown_as_people_write_them() {
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar");
        assert_eq!(demangled("plain"), "plain");
    }
}
