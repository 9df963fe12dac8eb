//! Signal stacks: the program's own, as it sees it, and ours.

use tracee::frame::AltStack;
use tracee::sys;

use crate::state::thread::TracedThread;
use crate::syscall::{program_memory, program_writes};

/// The stack is given up while a handler runs on it.
pub(crate) const SS_AUTODISARM: i32 = 1 << 31;

/// sigaltstack by the program.
///
/// # Safety
/// `old` is where the program asks for the former stack.
pub(crate) unsafe fn sigaltstack(thread: &mut TracedThread, new: u64, old: u64, rsp: u64) -> isize {
    let current = thread.signals.alt_stack;
    let on_it = is_on(&current, rsp);
    if new != 0 {
        let Some(wanted) = program_memory::value::<AltStack>(new) else { return -(sys::EFAULT as isize) };
        let mode = wanted.flags & !SS_AUTODISARM;
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
            thread.signals.alt_stack = AltStack { flags: wanted.flags & SS_AUTODISARM, ..wanted };
        }
    }
    if old != 0 {
        let flags = current.flags | if on_it { libc::SS_ONSTACK } else { 0 };
        // SAFETY: the caller's promise.
        if !unsafe { program_writes::set_value(old, &AltStack { flags, ..current }) } {
            return -(sys::EFAULT as isize);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The program has the first stack, asks for the second at a stack pointer, and gets that result and stack.
    fn check(before: AltStack, wanted: AltStack, rsp: u64, expect: (isize, AltStack)) {
        let thread = TracedThread::prepare().expect("memory");
        // SAFETY: made here, and entered by nobody.
        let thread = unsafe { &mut *thread };
        thread.signals.alt_stack = before;
        let mut old = AltStack::default();
        // SAFETY: two locals.
        let result = unsafe { sigaltstack(thread, &raw const wanted as u64, &raw mut old as u64, rsp) };
        assert_eq!((result, thread.signals.alt_stack), expect, "{wanted:?}");
        if result == 0 {
            assert_eq!((old.sp, old.size), (before.sp, before.size));
        }
    }

    #[test]
    fn stacks_are_taken_and_refused_as_by_the_kernel() {
        let none = AltStack { sp: 0, flags: libc::SS_DISABLE, size: 0 };
        let stack = AltStack { sp: 0x10_0000, flags: 0, size: 0x8000 };
        let autodisarm = AltStack { flags: SS_AUTODISARM, ..stack };
        check(none, stack, 0x20_0000, (0, stack));
        check(none, autodisarm, 0x20_0000, (0, autodisarm));
        check(none, AltStack { flags: libc::SS_ONSTACK, ..stack }, 0x20_0000, (0, stack));
        check(stack, none, 0x20_0000, (0, none));
        check(none, AltStack { flags: 4, ..stack }, 0x20_0000, (-(sys::EINVAL as isize), none));
        check(none, AltStack { size: 2047, ..stack }, 0x20_0000, (-(sys::ENOMEM as isize), none));
        // The program runs on it.
        check(stack, none, 0x10_8000, (-(sys::EPERM as isize), stack));
        check(stack, none, 0x10_0000, (0, none));
    }
}
