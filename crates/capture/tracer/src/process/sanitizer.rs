//! Programs that are built with gcc's address sanitizer: its library insists on being the loader's first. So it is put into the list
//! before this one, by the recorder (`program`) for the first program, and here for those that it starts.

use core::ffi::CStr;

use elf::{NeededLibrary, needed_library};
use tracee::sys;

/// What its name begins with.
const NAME: &[u8] = b"libasan.so";

/// Its library, where the program needs it.
pub(crate) fn needed_by(program: &CStr) -> Option<NeededLibrary> {
    let file = sys::open_read(program)?;
    needed_library(|at, bytes| file.read_at(bytes, at), NAME)
}

/// Whether it is the first of a list of libraries.
pub(crate) fn is_first(list: &[u8]) -> bool {
    let first = list.split(|&byte| byte == b':').next().unwrap_or(&[]);
    let name = first.rsplit(|&byte| byte == b'/').next().unwrap_or(first);
    name.starts_with(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_list_counts() {
        assert!(is_first(b"libasan.so.8:/x/libmemtap_tracer.so"));
        assert!(is_first(b"/usr/lib/libasan.so.6"));
        assert!(!is_first(b"/x/libmemtap_tracer.so:libasan.so.8"));
        assert!(!is_first(b"") && !is_first(b"/libasan.so/libother.so"));
    }
}
