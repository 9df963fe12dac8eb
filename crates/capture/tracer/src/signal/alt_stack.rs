//! Signal stacks: the program's own, as the program sees it, and ours.

use tracee::frame::AltStack;
use tracee::sys;

use crate::memory::{program_memory, program_writes};
use crate::state::thread::TracedThread;
use crate::state::thread_signals::NO_ALT_STACK;

/// The stack is given up while a handler runs.
const SS_AUTODISARM: i32 = 1 << 31;
/// What a program begins with: the kernel keeps the flags of the one before it, which nearly always are none.
pub(crate) const AFTER_EXEC: AltStack = AltStack { sp: 0, flags: 0, size: 0 };

/// sigaltstack by the program.
///
/// # Safety
/// `old` is where the program asks for the former stack.
pub(crate) unsafe fn sigaltstack(thread: &mut TracedThread, new: u64, old: u64, rsp: u64) -> isize {
    let current = thread.signals.alt_stack;
    if new != 0 {
        let Some(wanted) = program_memory::value::<AltStack>(new) else { return -(sys::EFAULT as isize) };
        match changed(&current, wanted, rsp) {
            Ok(stack) => thread.signals.alt_stack = stack,
            Err(error) => return -(error as isize),
        }
    }
    if old != 0 {
        let mode = match current.size {
            0 => libc::SS_DISABLE,
            _ if is_on(&current, rsp) => libc::SS_ONSTACK,
            _ => 0,
        };
        let told = AltStack { flags: mode | current.flags & SS_AUTODISARM, ..current };
        // SAFETY: the caller's promise.
        if !unsafe { program_writes::set_value(old, &told) } {
            return -(sys::EFAULT as isize);
        }
    }
    0
}

/// What becomes of `current` where a program at `rsp` wants another one; or the error.
fn changed(current: &AltStack, wanted: AltStack, rsp: u64) -> Result<AltStack, i32> {
    if is_on(current, rsp) {
        return Err(sys::EPERM);
    }
    let mode = wanted.flags & !SS_AUTODISARM;
    if mode != 0 && mode != libc::SS_DISABLE && mode != libc::SS_ONSTACK {
        return Err(sys::EINVAL);
    }
    // That which is there may be wanted again, whatever its size.
    if wanted == *current {
        return Ok(wanted);
    }
    if mode == libc::SS_DISABLE {
        return Ok(AltStack { sp: 0, size: 0, ..wanted });
    }
    if wanted.size < libc::MINSIGSTKSZ as u64 { Err(sys::ENOMEM) } else { Ok(wanted) }
}

/// A handler returns: its frame has the stack from before, and the kernel ignores whether it can be had.
pub(crate) fn restore(thread: &mut TracedThread, saved: AltStack, rsp: u64) {
    if let Ok(stack) = changed(&thread.signals.alt_stack, saved, rsp) {
        thread.signals.alt_stack = stack;
    }
}

/// A handler begins.
pub(crate) fn disarm(thread: &mut TracedThread) {
    if thread.signals.alt_stack.flags & SS_AUTODISARM != 0 {
        thread.signals.alt_stack = NO_ALT_STACK;
    }
}

/// The end of the stack that a handler begins on that wants this one, where the program is at `rsp`; `None`: it goes on there.
pub(crate) fn begin_at(stack: &AltStack, rsp: u64) -> Option<u64> {
    (stack.size != 0 && !is_on(stack, rsp)).then(|| stack.sp.wrapping_add(stack.size))
}

/// Whether a program at `rsp` is on it. On one that is given up while a handler runs nobody is.
pub(crate) fn is_on(stack: &AltStack, rsp: u64) -> bool {
    stack.flags & SS_AUTODISARM == 0 && rsp > stack.sp && rsp - stack.sp <= stack.size
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
        let stack = AltStack { sp: 0x10_0000, flags: 0, size: 0x8000 };
        let with = |flags| AltStack { flags, ..stack };
        check(NO_ALT_STACK, stack, 0x20_0000, (0, stack));
        check(NO_ALT_STACK, with(SS_AUTODISARM), 0x20_0000, (0, with(SS_AUTODISARM)));
        check(NO_ALT_STACK, with(libc::SS_ONSTACK), 0x20_0000, (0, with(libc::SS_ONSTACK)));
        check(stack, with(libc::SS_DISABLE), 0x20_0000, (0, NO_ALT_STACK));
        check(NO_ALT_STACK, with(4), 0x20_0000, (-(sys::EINVAL as isize), NO_ALT_STACK));
        check(
            NO_ALT_STACK,
            AltStack { size: 2047, ..stack },
            0x20_0000,
            (-(sys::ENOMEM as isize), NO_ALT_STACK),
        );
        // A stack of no bytes is too small, unless it is the one that is there.
        check(NO_ALT_STACK, AFTER_EXEC, 0x20_0000, (-(sys::ENOMEM as isize), NO_ALT_STACK));
        check(AFTER_EXEC, AFTER_EXEC, 0x20_0000, (0, AFTER_EXEC));
        // The program runs on it.
        check(stack, NO_ALT_STACK, 0x10_8000, (-(sys::EPERM as isize), stack));
        check(stack, NO_ALT_STACK, 0x10_0000, (0, NO_ALT_STACK));
        check(with(SS_AUTODISARM), stack, 0x10_8000, (0, stack));
    }

    #[test]
    fn handlers_begin_and_return_as_with_the_kernel() {
        let stack = AltStack { sp: 0x10_0000, flags: SS_AUTODISARM, size: 0x8000 };
        let thread = TracedThread::prepare().expect("memory");
        // SAFETY: made here, and entered by nobody.
        let thread = unsafe { &mut *thread };
        thread.signals.alt_stack = stack;
        assert_eq!(begin_at(&stack, 0x20_0000), Some(0x10_8000));
        disarm(thread);
        assert_eq!((thread.signals.alt_stack, begin_at(&NO_ALT_STACK, 0x20_0000)), (NO_ALT_STACK, None));
        restore(thread, stack, 0x20_0000);
        assert_eq!(thread.signals.alt_stack, stack);
        restore(thread, AltStack { size: 1, ..stack }, 0x20_0000);
        assert_eq!(thread.signals.alt_stack, stack);
    }
}
