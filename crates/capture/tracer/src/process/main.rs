//! The program's main: recording begins with its first instruction, and ends when it returns.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use memref::MarkerKind;

use crate::calls::real::Real;
use crate::recording::{breakpoint, control};
use crate::signal::busy;
use crate::state::process::PROCESS;
use crate::translate::traps;

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// The program's main, as its start-up code named it.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Called by assembly: keeps the program's main and returns the real `__libc_start_main`.
#[unsafe(no_mangle)]
extern "C" fn memtap_take_main(main: usize) -> usize {
    static REAL: Real = Real::new(c"__libc_start_main");
    MAIN.store(main, Ordering::Relaxed);
    REAL.address()
}

/// Runs the program's main, recording from its first instruction to its return.
///
/// # Safety
/// Called by the C library with main's arguments.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_main(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    let address = MAIN.load(Ordering::Relaxed);
    // Where this main stands for a static executable, its own main is a breakpoint, if it has one.
    if PROCESS.settings().at_main && !(PROCESS.image_entry().is_some() && breakpoint::some_start()) {
        busy::as_thread(|thread| control::start(thread, address as u64, MarkerKind::Start));
    }
    if PROCESS.settings().translate && PROCESS.ready.load(Ordering::Relaxed) {
        // SAFETY: runs the program's main with the arguments that the C library has for it.
        let status = unsafe { traps::memtap_take_over(argc, argv, envp, address) };
        busy::as_thread(|thread| control::stop(thread, address as u64));
        return status;
    }
    // SAFETY: the address is that of the program's main.
    let status = unsafe {
        let main: Main = core::mem::transmute(address);
        main(argc, argv, envp)
    };
    busy::as_thread(|thread| control::stop(thread, address as u64));
    status
}
