//! The end: the process is left as it was, but for the library.

use super::{IDLE, STATE, STOPPED, STOPPING};
use crate::{
    ProbeId, module,
    profile::{dump, pass, unwinder::is_watch},
    provider::pun,
    registry, thread, thread_end,
};
use patch::{near, pages, trap};
use std::{sync::atomic::Ordering, time::Duration};

/// Whether the process that attached has gone, or asks for the end.
pub(in crate::profile) fn is_over(controller: u32) -> bool {
    // SAFETY: signal 0 asks whether the process is there.
    let gone = unsafe { libc::kill(controller as i32, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    gone || STATE.load(Ordering::Acquire) == STOPPING
}

/// Switches everything off and writes the profile. Called by the epoch thread, which then ends.
pub(in crate::profile) fn switch_off() {
    {
        let _pass = pass::hold();
        let all: Vec<ProbeId> =
            (0..registry::probe_count()).map(ProbeId).filter(|id| !is_watch(*id)).collect();
        // A probe that another thread is switching off just now is refused: again.
        for _ in 0..100 {
            let on: Vec<ProbeId> = all.iter().copied().filter(|id| registry::is_active(*id)).collect();
            if on.is_empty() {
                break;
            }
            module::with_loader_locked(|_| {
                module::refresh();
                registry::switch_all(&on, false);
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        all.iter().for_each(|id| registry::silence(*id));
    }
    // A controller that died took its directory along, maybe.
    if STATE.load(Ordering::Acquire) == STOPPING {
        dump::write();
    }
    STATE.store(STOPPED, Ordering::Release);
}

/// Puts back the return addresses that are still replaced, the unwinder, the SIGTRAP handler and the rights of code
/// pages. `program_counters` are those of all threads. `false`: some thread is in the middle of a hit; let them run and
/// ask again.
///
/// # Safety
/// All other threads must be stopped, and stay so during the call.
pub unsafe fn settle(program_counters: &[usize]) -> bool {
    if STATE.load(Ordering::Acquire) != STOPPED {
        return false;
    }
    if thread::any_in_handler() || program_counters.iter().any(|pc| is_inside(*pc)) {
        return false;
    }
    // SAFETY: the caller stopped all threads, and none is in a handler.
    unsafe { thread_end::restore_all() };
    for id in (0..registry::probe_count()).map(ProbeId).filter(|id| is_watch(*id)) {
        let _ = registry::switch(id, false);
    }
    trap::give_back();
    pages::seal(true);
    STATE.store(IDLE, Ordering::Release);
    true
}

/// Whether `addr` belongs to this library, or to code that it made.
fn is_inside(addr: usize) -> bool {
    let own = module::place(patch::CodeAddr(settle as *const () as usize)).module;
    let at = module::place(patch::CodeAddr(addr)).module;
    at == own && own != u32::MAX || near::contains(addr) || pun::contains(addr)
}
