//! Wrappers for functions that unwind the stack and must see the program's own return addresses:
//! these are restored before, and replaced again afterwards in the frames that survive.
//!
//! `longjmp` needs no wrapper: frames that it skips are recognised by their place. A cancelled thread unwinds through the C
//! library's own pointer to the unwinder, which no library can interpose: that function gets a probe (`probes::profile::attached`).

use crate::next::Next;
use probes::return_path;
use std::{
    arch::naked_asm,
    ffi::{c_int, c_void},
};

static RAISE: Next = Next::new(c"_Unwind_RaiseException");
static RESUME_OR_RETHROW: Next = Next::new(c"_Unwind_Resume_or_Rethrow");
static RESUME: Next = Next::new(c"_Unwind_Resume");
static FORCED: Next = Next::new(c"_Unwind_ForcedUnwind");
static BACKTRACE: Next = Next::new(c"_Unwind_Backtrace");
static BEGIN_CATCH: Next = Next::new(c"__cxa_begin_catch");
static PTHREAD_EXIT: Next = Next::new(c"pthread_exit");

/// Looks the symbols up that are there already.
pub(crate) fn bind() {
    for next in [&RAISE, &RESUME_OR_RETHROW, &RESUME, &FORCED, &BACKTRACE, &BEGIN_CATCH, &PTHREAD_EXIT] {
        next.get();
    }
}

extern "C" fn before(next: &'static Next, stack_pointer: usize) -> usize {
    return_path::restore(stack_pointer);
    next.bound()
}

extern "C" fn at_catch(next: &'static Next, stack_pointer: usize) -> usize {
    return_path::replace_again(stack_pointer);
    next.bound()
}

/// A function that calls `$first` and then goes on, with its own arguments and its caller's stack, to the next
/// definition of its symbol: no frame of this library is on the stack while it is unwound, it would not survive that.
macro_rules! pass_on {
    ($(#[$doc:meta])* $name:ident, $next:ident, $first:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name() {
            naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "lea rdi, [rip + {next}]",
                "lea rsi, [rsp + 24]",
                "call {first}",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                next = sym $next,
                first = sym $first,
            );
        }
    };
}

pass_on!(
    /// Throws an exception.
    _Unwind_RaiseException, RAISE, before
);
pass_on!(
    /// Throws an exception again.
    _Unwind_Resume_or_Rethrow, RESUME_OR_RETHROW, before
);
pass_on!(
    /// Goes on unwinding after a cleanup, which may have hit probes.
    _Unwind_Resume, RESUME, before
);
pass_on!(
    /// Unwinds without an exception.
    _Unwind_ForcedUnwind, FORCED, before
);
pass_on!(
    /// Ends a thread by unwinding it.
    pthread_exit, PTHREAD_EXIT, before
);
pass_on!(
    /// Enters a handler of an exception: the frames above it live on.
    __cxa_begin_catch, BEGIN_CATCH, at_catch
);

/// Walks the stack.
///
/// # Safety
/// As the unwinder's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _Unwind_Backtrace(visit: usize, argument: *mut c_void) -> c_int {
    let here = 0u8;
    return_path::restore(&raw const here as usize);
    // SAFETY: the next definition of the same symbol has this type.
    let next: extern "C" fn(usize, *mut c_void) -> c_int = unsafe { std::mem::transmute(BACKTRACE.bound()) };
    let result = next(visit, argument);
    return_path::replace_again(&raw const result as usize);
    result
}
