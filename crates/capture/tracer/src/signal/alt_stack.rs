//! Signal stacks: the program's own, as it sees it, and ours.

use tracee::frame::AltStack;
use tracee::sys;

use crate::state::thread::TracedThread;

/// sigaltstack by the program.
///
/// # Safety
/// As for [`sigaction`].
pub(crate) unsafe fn sigaltstack(thread: &mut TracedThread, new: u64, old: u64, rsp: u64) -> isize {
    let current = thread.signals.alt_stack;
    let on_it = is_on(&current, rsp);
    if new != 0 {
        // SAFETY: the caller vouches for the address.
        let wanted = unsafe { (new as *const AltStack).read_unaligned() };
        let mode = wanted.flags & !(1 << 31);
        if on_it {
            return -(sys::EPERM as isize);
        }
        if mode != 0 && mode != libc::SS_DISABLE && mode != libc::SS_ONSTACK {
            return -(sys::EINVAL as isize);
        }
        if mode == libc::SS_DISABLE {
            thread.signals.alt_stack = AltStack { sp: 0, flags: libc::SS_DISABLE, size: 0 };
        } else if wanted.size < libc::MINSIGSTKSZ as u64 {
            return -(sys::ENOMEM as isize);
        } else {
            thread.signals.alt_stack = AltStack { flags: wanted.flags & 1 << 31, ..wanted };
        }
    }
    if old != 0 {
        let flags = current.flags | if on_it { libc::SS_ONSTACK } else { 0 };
        // SAFETY: the caller vouches for the address.
        unsafe { (old as *mut AltStack).write_unaligned(AltStack { flags, ..current }) };
    }
    0
}

pub(crate) fn is_on(stack: &AltStack, rsp: u64) -> bool {
    stack.flags & libc::SS_DISABLE == 0 && rsp > stack.sp && rsp - stack.sp <= stack.size
}

/// In a new thread or child: what signals mean to it.
pub(crate) fn start_thread(thread: &mut TracedThread, virtual_mask: u64) {
    thread.signals.virtual_mask = virtual_mask;
    thread.install_handler_stack();
}
