//! Kicks: a thread interrupts another one wherever it is, so that it continues in code of another kind, or waits to be detached from.

use core::sync::atomic::{Ordering, fence};

use tracee::frame::SigInfo;
use tracee::sys;

use crate::signal::{mask, waiting};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// si_code of a signal that one of our threads sends to another: no other sender uses it.
pub(crate) const KICK: i32 = -0x6d74;

/// Interrupts a thread wherever it is.
fn kick(pid: u32, tid: u32) {
    let info = SigInfo::fault(libc::SIGTRAP, KICK, 0);
    let args = [pid as usize, tid as usize, libc::SIGTRAP as usize, &raw const info as usize, 0, 0];
    // SAFETY: the kernel reads the structure; a thread that is gone is an error.
    unsafe { sys::syscall(libc::SYS_rt_tgsigqueueinfo as usize, args) };
}

/// The calling thread looks after itself as one that was kicked.
pub(crate) fn kick_self() {
    kick(sys::getpid(), sys::gettid());
}

/// Tells the other threads that recording was switched: each goes on in code of the new kind.
pub(crate) fn kick_others(thread: &TracedThread) {
    if !PROCESS.settings().translate {
        return;
    }
    fence(Ordering::SeqCst);
    for other in TracedThread::all() {
        // One that makes a system call goes on in the right code when it is done; a signal would end its call.
        // SAFETY: from the list; what is read is atomic.
        let ((pid, tid), calls) = unsafe {
            (TracedThread::owner(other), !(*other).system_call.calling.load(Ordering::SeqCst).is_null())
        };
        if core::ptr::eq(other, thread) || tid == u32::MAX || calls {
            continue;
        }
        kick(pid, tid);
    }
}

/// Has a thread come to a place where it can wait to be left, unless it makes a system call: after that it looks by itself.
pub(crate) fn ask_to_park(other: &TracedThread) {
    if other.system_call.calling.load(Ordering::SeqCst).is_null() {
        kick(other.pid, other.tid);
    }
}

/// Forgets kicks that wait for the calling thread, which has SIGTRAP blocked; what somebody else sent stays pending.
pub(crate) fn forget_kicks(thread: &mut TracedThread) {
    let traps = mask::bit(libc::SIGTRAP);
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        let mut info = SigInfo::fault(libc::SIGTRAP, 0, 0);
        let args = [
            &raw const traps as usize,
            &raw mut info as usize,
            &raw const none as usize,
            size_of::<u64>(),
            0,
            0,
        ];
        // SAFETY: the kernel reads and writes the locals.
        if sys::failed(unsafe { sys::syscall(libc::SYS_rt_sigtimedwait as usize, args) }) {
            return;
        }
        if info.code != KICK {
            waiting::put_off(thread, libc::SIGTRAP, &info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kicks_are_forgotten_and_other_traps_are_put_off() {
        let thread = TracedThread::prepare().expect("memory");
        // SAFETY: made here, and entered by nobody.
        let thread = unsafe { &mut *thread };
        let before = sys::set_mask(mask::bit(libc::SIGTRAP));
        kick_self();
        forget_kicks(thread);
        assert!(!thread.signals.are_pending());
        let info = SigInfo::fault(libc::SIGTRAP, -1, 0);
        let args = [
            sys::getpid() as usize,
            sys::gettid() as usize,
            libc::SIGTRAP as usize,
            &raw const info as usize,
            0,
            0,
        ];
        // SAFETY: the kernel reads the structure.
        unsafe { sys::syscall(libc::SYS_rt_tgsigqueueinfo as usize, args) };
        forget_kicks(thread);
        assert!(thread.signals.are_pending());
        sys::set_mask(before);
    }
}
