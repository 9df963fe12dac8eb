//! The libraries that go into traced programs, and functions by name.

mod bundle;

use std::path::{Path, PathBuf};

use buffers::{Breakpoint, BreakpointKind, MAX_BREAKPOINTS, MAX_PATH_BYTES};
use symbols::{Module, SearchPath};

use crate::Error;

const NAME: &str = "libmemtap_tracer.so";

/// Finds the tracer.
///
/// # Errors
/// As for [`find_library`].
pub(crate) fn find() -> Result<PathBuf, Error> {
    find_library(NAME)
}

/// Finds one of memtap's libraries by its file name: where `$MEMTAP_LIB_DIR` says, beside the program that this process runs,
/// where an installation puts it, or inside of the program, which then unpacks it.
///
/// # Errors
/// Where it is in none of these places, which are then named, or in one from which the loader can't preload it.
pub fn find_library(name: &str) -> Result<PathBuf, Error> {
    let own = own_program()?;
    let own = std::fs::canonicalize(&own).unwrap_or(own);
    let beside = own.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut places: Vec<PathBuf> =
        std::env::var_os("MEMTAP_LIB_DIR").map(PathBuf::from).into_iter().collect();
    places.extend([beside.clone(), beside.join("../lib/memtap"), beside.join("../lib")]);
    for place in &places {
        let candidate = place.join(name);
        if candidate.is_file() {
            return preloadable(&candidate);
        }
    }
    let mut looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    match bundle::unpack(name) {
        Some(Ok(path)) => return preloadable(&path),
        Some(Err(caches)) => looked.extend(caches),
        None => looked.push("memtap itself".to_owned()),
    }
    Err(Error::NoLibrary { name: name.to_owned(), looked: looked.join(", ") })
}

/// The path by which the loader preloads a library that is there.
fn preloadable(path: &Path) -> Result<PathBuf, Error> {
    let path = std::fs::canonicalize(path).map_err(Error::file(path, "can't be found"))?;
    if can_be_preloaded(&path) { Ok(path) } else { Err(Error::LibraryPath { path }) }
}

/// Whether the loader takes a path for one: LD_PRELOAD is a list with spaces and colons between its members, and knows no quotes.
fn can_be_preloaded(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':')
}

/// The file of the program that this process runs.
pub(crate) fn own_program() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(Error::system("the path of memtap itself can't be found"))
}

/// Whether the program has a function of that name.
pub(crate) fn has_function(program: &Path, name: &str) -> bool {
    breakpoint(program, name, BreakpointKind::Start).is_ok()
}

/// The functions that start and stop recording, from their names.
pub(crate) fn breakpoints(
    program: &Path,
    start: &[String],
    stop: &[String],
) -> Result<[Option<Breakpoint>; MAX_BREAKPOINTS], Error> {
    let mut list = [None; MAX_BREAKPOINTS];
    let start = start.iter().map(|name| (name, BreakpointKind::Start));
    let stop = stop.iter().map(|name| (name, BreakpointKind::Stop));
    let mut places = list.iter_mut();
    for (name, kind) in start.chain(stop) {
        let breakpoint = breakpoint(program, name, kind)?;
        *places.next().ok_or(Error::TooManyFunctions)? = Some(breakpoint);
    }
    Ok(list)
}

/// A function of the program as a breakpoint; its address relative to the module's first mapping.
fn breakpoint(program: &Path, name: &str, kind: BreakpointKind) -> Result<Breakpoint, Error> {
    let path = std::fs::canonicalize(program).map_err(Error::file(program, "can't be found"))?;
    let wrong = |source| Error::Symbols { path: path.clone(), source };
    let symbols = Module::open(&path, None, &SearchPath::default()).map_err(wrong)?;
    let found = symbols.find_function(name).map_err(wrong)?;
    let Some(symbol) = found.first() else {
        return Err(Error::NoFunction { path: path.clone(), name: name.to_owned() });
    };
    let mut module = [0; MAX_PATH_BYTES];
    let bytes = path.as_os_str().as_encoded_bytes();
    let Some(place) = module.get_mut(..bytes.len()) else { return Err(Error::PathTooLong(path.clone())) };
    place.copy_from_slice(bytes);
    Ok(Breakpoint { kind, address: symbols.mapped_offset(symbol.address), module })
}
