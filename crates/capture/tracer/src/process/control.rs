//! Recording on and off.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use buffers::Record;
use memref::{MarkerKind, VirtAddr};
use tracee::frame::{Gregs, UContext};

use crate::emit::{as_thread, next_order};
use crate::memory::{close_all, open_address};
use crate::real::{Real, call_site};
use crate::state::{PROCESS, Thread};
use crate::{breakpoint, image, translate};

fn mark(thread: &mut Thread, ip: u64, kind: MarkerKind, name: &[u8]) {
    thread.emit(&Record::Marker { order: next_order(), ip: VirtAddr(ip), kind, name });
}

/// Closes all traced memory: from here on accesses are recorded.
pub(crate) fn start(thread: &mut Thread, ip: u64, kind: MarkerKind) {
    if PROCESS.ready.load(Ordering::Acquire) && !PROCESS.is_recording() {
        mark(thread, ip, kind, b"");
        translate::forget_quiet(thread);
        PROCESS.recording.store(true, Ordering::Release);
        close_all(true);
        translate::kick_others(thread);
    }
}

/// Opens it again.
pub(crate) fn stop(thread: &mut Thread, ip: u64) {
    if PROCESS.is_recording() {
        close_all(false);
        PROCESS.recording.store(false, Ordering::Release);
        mark(thread, ip, MarkerKind::Stop, b"");
        translate::kick_others(thread);
    }
}

/// `memtap_start()` of the program.
#[unsafe(no_mangle)]
extern "C" fn memtap_on_start(_: u64, _: u64, _: u64, _: u64, _: u64, return_to: u64) {
    as_thread(|thread| start(thread, call_site(return_to), MarkerKind::Start));
}

/// `memtap_stop()` of the program.
#[unsafe(no_mangle)]
extern "C" fn memtap_on_stop(_: u64, _: u64, _: u64, _: u64, _: u64, return_to: u64) {
    as_thread(|thread| stop(thread, call_site(return_to)));
}

/// `memtap_mark(name)` of the program.
///
/// # Safety
/// `name` is null or a terminated string.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_on_mark(name: *const c_char, _: u64, _: u64, _: u64, _: u64, return_to: u64) {
    as_thread(|thread| {
        let name = open_address(name as u64) as *const c_char;
        let name = if name.is_null() {
            &[]
        } else {
            // SAFETY: the caller's promise, at an address that is open.
            unsafe { CStr::from_ptr(name) }.to_bytes()
        };
        mark(thread, call_site(return_to), MarkerKind::Mark, name);
    });
}

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
    if PROCESS.settings().at_main && !(image::entry().is_some() && breakpoint::some_start()) {
        as_thread(|thread| start(thread, address as u64, MarkerKind::Start));
    }
    if PROCESS.settings().translate && PROCESS.ready.load(Ordering::Relaxed) {
        // SAFETY: runs main with these arguments, as below.
        let status = unsafe { translate::memtap_take_over(argc, argv, envp, address) };
        as_thread(|thread| stop(thread, address as u64));
        return status;
    }
    // SAFETY: the address is that of the program's main.
    let status = unsafe {
        let main: Main = core::mem::transmute(address);
        main(argc, argv, envp)
    };
    as_thread(|thread| stop(thread, address as u64));
    status
}

/// The program's registers, as the engine has them: both are the kernel's order.
pub(crate) fn registers(context: &mut UContext) -> &mut x86::Registers {
    const _: () = assert!(size_of::<Gregs>() == size_of::<x86::Registers>());
    // SAFETY: both types are 18 words in the same order, see their definitions.
    unsafe { &mut *(&raw mut context.gregs).cast() }
}

/// As above.
pub(crate) fn as_registers(gregs: &Gregs) -> &x86::Registers {
    // SAFETY: as above.
    unsafe { &*(&raw const *gregs).cast() }
}
