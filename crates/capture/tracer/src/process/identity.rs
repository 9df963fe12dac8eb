//! Which program the process runs, and where this library is mapped in it.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU64, Ordering};

use buffers::{MAX_NAME_BYTES, Record};
use memref::VirtAddr;
use tracee::maps;

use crate::process::image;
use crate::state::process::PROCESS;
use crate::state::settings::Settings;
use crate::state::thread::TracedThread;

/// Finds where this library is, and its path.
pub(crate) fn find_library(settings: &mut Settings) {
    let here = find_library as *const () as u64;
    maps::each(|mapping| {
        if (mapping.start..mapping.end).contains(&here) {
            PROCESS.text[0].store(mapping.start, Ordering::Relaxed);
            PROCESS.text[1].store(mapping.end, Ordering::Relaxed);
            if let Some(place) = settings.library.get_mut(..mapping.name.len()) {
                place.copy_from_slice(mapping.name);
                settings.library_len = mapping.name.len();
            }
        }
    });
}

/// Where the command line is, and its bytes: written once, by the constructor. A program may change it later.
static ARGUMENTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// # Safety
/// The arguments as the kernel laid them out: one string after the other.
pub(crate) unsafe fn note_arguments(argc: c_int, argv: *mut *mut c_char) {
    let Some(last) = usize::try_from(argc).ok().and_then(|count| count.checked_sub(1)) else { return };
    // SAFETY: the caller's promise.
    let (start, len) = unsafe {
        let (start, last) = (argv.read(), argv.add(last).read());
        (start as u64, last as u64 + CStr::from_ptr(last).count_bytes() as u64 + 1 - start as u64)
    };
    ARGUMENTS[0].store(start, Ordering::Relaxed);
    ARGUMENTS[1].store(len, Ordering::Relaxed);
}

/// Tells what the process runs. The recorder may ask the kernel too late: a program can be over in a millisecond.
pub(crate) fn tell_program(thread: &mut TracedThread) {
    let path = image::program();
    if !path.as_bytes().is_empty() {
        thread.emit(&Record::Program { name: path.as_bytes() });
    }
    let [addr, len] = [&ARGUMENTS[0], &ARGUMENTS[1]].map(|word| word.load(Ordering::Relaxed));
    if len > 0 {
        // SAFETY: on the initial stack, which stays mapped and is never protected.
        let bytes = unsafe { core::slice::from_raw_parts(addr as *const u8, len as usize) };
        for name in bytes.chunks(MAX_NAME_BYTES) {
            thread.emit(&Record::Arguments { addr: VirtAddr(name.as_ptr() as u64), name });
        }
    }
}
