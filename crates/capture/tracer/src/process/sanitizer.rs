//! Programs built with sanitizers. The library of gcc's address sanitizer insists on being the first one loaded. It is therefore
//! put into the list before ours, by the recorder (`program`) for the first program, and here for those that it starts. A thread
//! sanitizer that is linked into the program starts after us, but its malloc replaces the C library's from the first call on.

use core::ffi::CStr;

use crate::calls::allocations;
use elf::{NeededLibrary, needed_library};
use tracee::sys;

/// What its name begins with.
const NAME: &[u8] = b"libasan.so";

/// Its library, where the program needs it.
pub(crate) fn needed_by(program: &CStr) -> Option<NeededLibrary> {
    let file = sys::open_read(program)?;
    needed_library(|at, bytes| file.read_at(bytes, at), NAME)
}

/// Has a thread sanitizer begin now: what we ask of the loader may allocate, in functions of the sanitizer's that can't before. Whether the
/// program has one that keeps a table of all its memory.
pub(crate) fn begin() -> bool {
    allocations::find_free();
    let find = |name: &CStr| {
        // SAFETY: a name that ends with a zero.
        let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!function.is_null()).then_some(function)
    };
    if let Some(function) = find(c"__tsan_init") {
        // SAFETY: the sanitizer's own entry point, which has no arguments, and does nothing the second time.
        unsafe { core::mem::transmute::<*mut core::ffi::c_void, unsafe extern "C" fn()>(function)() };
        return true;
    }
    [c"__asan_init", c"__msan_init", c"__hwasan_init_static"].into_iter().any(|name| find(name).is_some())
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
