//! Deaths by signal: which signal ended the process, where, and whether it may have been our fault.
//!
//! The kernel ends a process without notice, so a thread reports what it knows before: about a fault that the program does not
//! handle, and about a signal that it sends to itself (abort). If the program might have survived without us, that is a gap.

use core::ffi::c_long;
use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{GapReason, VirtAddr};
use tracee::frame::SigInfo;
use tracee::sys;

use crate::events::unfinished;
use crate::memory::{code_views, program_memory};
use crate::registers::SEGV_ACCERR;
use crate::signal::actions::{ACTIONS, SIG_DFL};
use crate::signal::mask;
use crate::signal::stubs::SYSCALL_BYTES;
use crate::state::process::PROCESS;
use crate::state::thread::{GATE_CALL, NATIVE_CALL, TracedThread};

/// What a gap says of a fault of ours.
const IN_OUR_CODE: &[u8] = b"a signal ended it in code of memtap's; please report it";

/// The thread is about to end its process by a signal that came at that instruction.
pub(crate) fn tell(thread: &mut TracedThread, signal: i32, info: &SigInfo, ip: u64) {
    if PROCESS.pool().is_none() || PROCESS.is_vfork_child() {
        return;
    }
    let (mut ip, mut addr) = (ip, if info.code > 0 { info.addr } else { 0 });
    // A call that a filter answers with a signal is made in our code, for the program.
    if signal == libc::SIGSYS
        && PROCESS.owns_code(ip)
        && let Some(call) = call_under_way(thread)
    {
        (ip, addr) = (call, call);
    }
    if let Some(why) = may_be_ours(signal, info, ip) {
        thread.emit_gap(GapReason::LostControl, 1, ip, why);
    }
    emit(thread, signal, info.code, ip, addr);
}

/// The same of a fault in a handler of ours.
pub(crate) fn tell_of_handler(thread: &mut TracedThread, signal: i32, info: &SigInfo, ip: u64) {
    if PROCESS.pool().is_none() || PROCESS.is_vfork_child() {
        return;
    }
    thread.emit_gap(GapReason::LostControl, 1, ip, IN_OUR_CODE);
    emit(thread, signal, info.code, ip, info.addr);
}

/// The instruction of the call that the thread makes for the program in a handler.
fn call_under_way(thread: &TracedThread) -> Option<u64> {
    let context = thread.system_call.calling.load(Ordering::Relaxed);
    if context.is_null() || context == GATE_CALL || context == NATIVE_CALL {
        return None;
    }
    // SAFETY: the context of a handler that this thread has not left.
    Some(unsafe { (*context).gregs.rip }.wrapping_sub(SYSCALL_BYTES))
}

fn emit(thread: &mut TracedThread, signal: i32, code: i32, ip: u64, addr: u64) {
    unfinished::end(thread);
    thread.emit(&Record::Death { ip: VirtAddr(ip), addr: VirtAddr(addr), signal: signal as u8, code });
}

/// What we may have to do with it. No call is made to find out: a filter that ends the program may deny it, which would end here once more.
fn may_be_ours(signal: i32, info: &SigInfo, ip: u64) -> Option<&'static [u8]> {
    if info.code <= 0 {
        return None;
    }
    if signal == libc::SIGSYS && program_memory::is_filtered() {
        return Some(b"its filter of system calls ended it, and may have met a call of memtap's");
    }
    if PROCESS.owns_code(ip) || sys::is_own(ip, ip + 1) {
        return Some(IN_OUR_CODE);
    }
    let is_denied = signal == libc::SIGSEGV && info.code == SEGV_ACCERR;
    if is_denied && PROCESS.settings().translate && code_views::had_code(info.addr) {
        return Some(b"it ended by a write to a page with code, which memtap had closed; please report it");
    }
    None
}

/// The program is about to make a call: where that sends its own thread a signal that ends the process, it is told.
pub(crate) fn before_call(
    thread: &mut TracedThread,
    number: c_long,
    args: &[usize; 6],
    ip: u64,
    blocked: u64,
) {
    let [first, second, third, ..] = args.map(|arg| arg as u32);
    let (is_own, signal) = match number {
        libc::SYS_kill => (first == sys::getpid(), second),
        libc::SYS_tkill => (first == sys::gettid(), second),
        libc::SYS_tgkill => (second == sys::gettid(), third),
        _ => return,
    };
    if is_own && ends(signal as i32) && blocked & mask::bit(signal as i32) == 0 && !PROCESS.is_vfork_child() {
        emit(thread, signal as i32, libc::SI_TKILL, ip, 0);
    }
}

/// Whether a process ends by a signal that is sent to it.
fn ends(signal: i32) -> bool {
    let others = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGURG,
        libc::SIGWINCH,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ];
    if !(1..=64).contains(&signal) || others.contains(&signal) {
        return false;
    }
    signal == libc::SIGKILL
        || ACTIONS.lock().get(signal as usize).is_some_and(|action| action.handler == SIG_DFL)
}
