//! Functions of the program that start and stop recording, by name.

use std::path::Path;

use buffers::{Breakpoint, BreakpointKind, MAX_BREAKPOINTS, MAX_PATH_BYTES};
use symbols::{Module, SearchPath};

use crate::Error;

/// Whether the program has a function of that name.
pub(crate) fn has_function(program: &Path, name: &str) -> bool {
    breakpoint(program, name, BreakpointKind::Start).is_ok()
}

/// The functions that start and stop recording, from their names.
pub(crate) fn find(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in_own_program(
        start: &[&str],
        stop: &[&str],
    ) -> Result<[Option<Breakpoint>; MAX_BREAKPOINTS], Error> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        find(&std::env::current_exe().expect("a test knows its own path"), &owned(start), &owned(stop))
    }

    #[test]
    fn functions_that_start_come_before_those_that_stop() {
        let list = find_in_own_program(&["main"], &["main"]).expect("each program has it");
        let found: Vec<&Breakpoint> = list.iter().flatten().collect();
        let [start, stop] = found.as_slice() else { panic!("{} breakpoints", found.len()) };
        assert!(matches!((start.kind, stop.kind), (BreakpointKind::Start, BreakpointKind::Stop)));
        assert!(start.address != 0 && start.address == stop.address);
        let program = std::env::current_exe().and_then(std::fs::canonicalize).expect("it is a file");
        let bytes = program.as_os_str().as_encoded_bytes();
        assert_eq!(start.module.split_at(bytes.len()).0, bytes);
        assert_eq!(start.module[bytes.len()], 0);
    }

    #[test]
    fn a_function_that_is_not_there_is_refused() {
        let error = find_in_own_program(&["main"], &["nothing_is_called_so"]).unwrap_err();
        assert!(matches!(error, Error::Symbols { .. } | Error::NoFunction { .. }), "{error:?}");
    }

    #[test]
    fn one_more_function_than_fits_is_refused() {
        let names = ["main"; MAX_BREAKPOINTS + 1];
        assert!(find_in_own_program(&names[1..], &[]).is_ok());
        assert!(matches!(find_in_own_program(&names[1..], &names[..1]), Err(Error::TooManyFunctions)));
    }
}
