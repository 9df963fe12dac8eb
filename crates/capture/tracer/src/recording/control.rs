//! Switches recording on and off.

use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{MarkerKind, VirtAddr};

use crate::emit::{recorder, thread_buffers};
use crate::events::call_site::call_site;
use crate::memory::pages;
use crate::protect::views;
use crate::signal::busy;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::stop::kick;

fn mark(thread: &mut TracedThread, ip: u64, kind: MarkerKind, name: &[u8]) {
    thread.emit(&Record::Marker { order: recorder::next_order(), ip: VirtAddr(ip), kind, name });
}

/// Closes all traced memory: from here on accesses are recorded.
pub(crate) fn start(thread: &mut TracedThread, ip: u64, kind: MarkerKind) {
    if PROCESS.ready.load(Ordering::Acquire) && !PROCESS.is_recording() {
        mark(thread, ip, kind, b"");
        thread_buffers::forget_quiet(thread);
        PROCESS.recording.store(true, Ordering::Release);
        views::close_all(true);
        kick::kick_others(thread);
    }
}

/// Opens it again.
pub(crate) fn stop(thread: &mut TracedThread, ip: u64) {
    if PROCESS.is_recording() {
        views::close_all(false);
        PROCESS.recording.store(false, Ordering::Release);
        mark(thread, ip, MarkerKind::Stop, b"");
        kick::kick_others(thread);
    }
}

/// `memtap_start()` of the program.
#[unsafe(no_mangle)]
extern "C" fn memtap_on_start(_: u64, _: u64, _: u64, _: u64, _: u64, return_to: u64) {
    busy::as_thread(|thread| start(thread, call_site(return_to), MarkerKind::Start));
}

/// `memtap_stop()` of the program.
#[unsafe(no_mangle)]
extern "C" fn memtap_on_stop(_: u64, _: u64, _: u64, _: u64, _: u64, return_to: u64) {
    busy::as_thread(|thread| stop(thread, call_site(return_to)));
}

/// `memtap_mark(name)` of the program.
///
/// # Safety
/// `name` is null or a terminated string.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_on_mark(name: *const c_char, _: u64, _: u64, _: u64, _: u64, return_to: u64) {
    busy::as_thread(|thread| {
        let name = pages::open_address(name as u64) as *const c_char;
        let name = if name.is_null() {
            &[]
        } else {
            // SAFETY: the caller's promise, at an address that is open.
            unsafe { CStr::from_ptr(name) }.to_bytes()
        };
        mark(thread, call_site(return_to), MarkerKind::Mark, name);
    });
}
