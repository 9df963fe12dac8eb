//! The tracer's library, and functions by name.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use buffers::{Breakpoint, BreakpointKind, MAX_PATH_BYTES};
use symbols::{Module, SearchPath};

const NAME: &str = "libmemtap_tracer.so";

/// Finds the tracer: where $MEMTAP_LIB_DIR says, beside this program, or where an installation puts it.
pub fn find() -> Result<PathBuf> {
    find_named(NAME)
}

/// Finds a tracer by its library's name.
pub(crate) fn find_named(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of memtap itself can't be found")?;
    let own = std::fs::canonicalize(&own).unwrap_or(own);
    let beside = own.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut places: Vec<PathBuf> =
        std::env::var_os("MEMTAP_LIB_DIR").map(PathBuf::from).into_iter().collect();
    places.extend([beside.clone(), beside.join("../lib/memtap"), beside.join("../lib")]);
    for place in &places {
        let candidate = place.join(name);
        if candidate.is_file() {
            return std::fs::canonicalize(&candidate)
                .with_context(|| format!("{}: can't be found", candidate.display()));
        }
    }
    let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    bail!("{name}: not found in {}; build the whole workspace or set MEMTAP_LIB_DIR", looked.join(", "))
}

/// A function of the program as a breakpoint; its address relative to the module's first mapping.
pub(crate) fn breakpoint(program: &Path, name: &str, kind: BreakpointKind) -> Result<Breakpoint> {
    let path =
        std::fs::canonicalize(program).with_context(|| format!("{}: can't be found", program.display()))?;
    let shown = path.display();
    let symbols = Module::open(&path, None, &SearchPath::default()).with_context(|| shown.to_string())?;
    let found = symbols.find_function(name).with_context(|| shown.to_string())?;
    let Some(symbol) = found.first() else { bail!("{shown}: has no function named {name}") };
    let first = if symbols.is_fixed() { symbols.extent().0 } else { 0 };
    let mut module = [0; MAX_PATH_BYTES];
    let path = path.as_os_str().as_encoded_bytes();
    let Some(place) = module.get_mut(..path.len()) else { bail!("{shown}: the path is too long") };
    place.copy_from_slice(path);
    Ok(Breakpoint { kind, address: symbol.address.wrapping_sub(first), module })
}
