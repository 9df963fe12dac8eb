//! The places of a module's thread-local variables.

use core::ffi::{c_int, c_void};

struct Search {
    /// The module's first address; zero: the program.
    base: u64,
    place: Option<u64>,
    seen: usize,
}

/// Where the calling thread has the block of a module that begins at `base` (zero: the program's own). `None` where the
/// module has none, or the thread has not got it yet. Before the program runs: the loader is asked.
pub(crate) fn block_of(base: u64) -> Option<u64> {
    let mut search = Search { base, place: None, seen: 0 };
    // SAFETY: `look` is called with what is passed here, before this returns.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast::<c_void>()) };
    search.place.filter(|&place| place != 0)
}

/// # Safety
/// Called by the loader with a module and the search.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a module that is there, and what `block_of` gave it, which is a search.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    search.seen += 1;
    // The program comes first.
    let is_it = if search.base == 0 { search.seen == 1 } else { info.dlpi_addr == search.base };
    if is_it {
        search.place = Some(info.dlpi_tls_data as u64);
    }
    c_int::from(is_it)
}
