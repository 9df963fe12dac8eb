//! Keeps SIGTRAP deliverable: a thread that blocks it is killed by an `int3`, which may be a probe or
//! the guard of a straddler. These functions pass on the program's request without SIGTRAP, and keep
//! its handler installed. Functions that return a mask or an action return what the program requested.
//!
//! Direct system calls of the program are not seen. In an attached process,
//! the C library's functions get probes instead (`probes::profile`).

use crate::next::Next;
use libc::{c_int, sigset_t};
use probes::{mask_copies::TRAP, thread, thread_words::words};
use std::arch::naked_asm;

static SIGPROCMASK: Next = Next::new(c"sigprocmask");
static PTHREAD_SIGMASK: Next = Next::new(c"pthread_sigmask");
static SIGACTION: Next = Next::new(c"sigaction");
static SIGNAL: Next = Next::new(c"signal");
static SIGSUSPEND: Next = Next::new(c"sigsuspend");
static PPOLL: Next = Next::new(c"ppoll");
static PSELECT: Next = Next::new(c"pselect");
static EPOLL_PWAIT: Next = Next::new(c"epoll_pwait");
static EPOLL_PWAIT2: Next = Next::new(c"epoll_pwait2");
static PPOLL_CHK: Next = Next::new(c"__ppoll_chk");

/// Those that a program may call where nothing can be looked up any more.
const ALL: [&Next; 10] = [
    &SIGPROCMASK,
    &PTHREAD_SIGMASK,
    &SIGACTION,
    &SIGNAL,
    &SIGSUSPEND,
    &PPOLL,
    &PPOLL_CHK,
    &PSELECT,
    &EPOLL_PWAIT,
    &EPOLL_PWAIT2,
];

/// Looks the symbols up, and takes back what the process inherited as blocked.
pub(crate) fn bind() {
    for next in ALL {
        next.get();
    }
    // SAFETY: an empty set is a valid one, and both outlive the calls.
    unsafe {
        let mut inherited = std::mem::zeroed();
        change(&PTHREAD_SIGMASK, libc::SIG_BLOCK, std::ptr::null(), &raw mut inherited);
        if *first_word(&raw mut inherited) & TRAP != 0 {
            change(&PTHREAD_SIGMASK, libc::SIG_SETMASK, &raw const inherited, std::ptr::null_mut());
        }
    }
}

/// The word of a set that the kernel knows.
fn first_word(set: *mut sigset_t) -> *mut u64 {
    set.cast()
}

/// A set without SIGTRAP; the pointer to it lives as long as `room`.
///
/// # Safety
/// `set` must be null or a set.
unsafe fn without_trap(set: *const sigset_t, room: &mut sigset_t) -> *const sigset_t {
    if set.is_null() {
        return set;
    }
    // SAFETY: the caller vouches for the set; its first word is all that the kernel knows.
    unsafe { *first_word(room) = *first_word(set.cast_mut()) & !TRAP };
    room
}

fn empty() -> sigset_t {
    // SAFETY: all zero is the empty set.
    unsafe { std::mem::zeroed() }
}

/// Changes the thread's mask, but for SIGTRAP, of which it notes what it was asked for.
///
/// # Safety
/// As `sigprocmask`, which `next` must be or have the type of.
unsafe fn change(next: &'static Next, how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    type Change = extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
    let mut room = empty();
    // SAFETY: the next definition of the same symbol has this type; the caller vouches for the sets, which are looked at
    // after the call accepted them or, the first, as it would.
    unsafe {
        let is_asked = !set.is_null() && *first_word(set.cast_mut()) & TRAP != 0;
        let next: Change = std::mem::transmute(next.bound());
        let status = next(how, without_trap(set, &mut room), old);
        if status != 0 {
            return status;
        }
        let blocks = &mut (*words()).blocks_trap;
        let was_asked = *blocks;
        if !set.is_null() {
            *blocks = match how {
                libc::SIG_BLOCK => was_asked || is_asked,
                libc::SIG_UNBLOCK => was_asked && !is_asked,
                _ => is_asked,
            };
        }
        if was_asked && !old.is_null() {
            *first_word(old) |= TRAP;
        }
        status
    }
}

/// Changes the process's mask.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's promises are the same.
    unsafe { change(&SIGPROCMASK, how, set, old) }
}

/// Changes the thread's mask.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's promises are the same.
    unsafe { change(&PTHREAD_SIGMASK, how, set, old) }
}

/// Installs a handler, which runs with its mask blocked.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    type Install = extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    // SAFETY: the next definition of the same symbol has this type; the caller vouches for the actions.
    unsafe {
        if signal == libc::SIGTRAP && patch::trap::exchange(action, old) {
            return 0;
        }
        let next: Install = std::mem::transmute(SIGACTION.bound());
        let Some(mut action) = action.as_ref().copied() else { return next(signal, action, old) };
        *first_word(&raw mut action.sa_mask) &= !TRAP;
        next(signal, &raw const action, old)
    }
}

/// Installs a handler.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    type Install = extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;
    // SAFETY: the next definition of the same symbol has this type; all zero is a valid action.
    unsafe {
        let (mut new, mut old): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        if signal == libc::SIGTRAP && patch::trap::exchange(&raw const new, &raw mut old) {
            return old.sa_sigaction;
        }
        let next: Install = std::mem::transmute(SIGNAL.bound());
        next(signal, handler)
    }
}

/// The set that `slot` points to becomes one without SIGTRAP; where to go on.
///
/// # Safety
/// `slot` must hold null or a set.
unsafe extern "C" fn before(next: &'static Next, slot: *mut usize) -> usize {
    // SAFETY: the caller vouches for it; the kernel reads one word of a set.
    unsafe {
        let set = *slot as *const u64;
        if !set.is_null()
            && *set & TRAP != 0
            && let Some(thread) = thread::current()
            && let Some(copy) = thread.mask_copies.without_trap(&[*set], 0)
        {
            *slot = copy;
        }
    }
    next.bound()
}

/// A function that waits with the mask that its argument in one register points to, which lies at `[rsp + $slot]` when all that
/// have arguments are kept: no frame of this library is on the stack while it waits, and may be cancelled.
macro_rules! wait_with {
    ($name:ident, $next:ident, $slot:literal) => {
        /// Waits.
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
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                "lea rdi, [rip + {next}]",
                "lea rsi, [rsp + {slot}]",
                "call {before}",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                slot = const $slot,
                next = sym $next,
                before = sym before,
            );
        }
    };
}

wait_with!(sigsuspend, SIGSUSPEND, 48);
wait_with!(ppoll, PPOLL, 24);
wait_with!(__ppoll_chk, PPOLL_CHK, 24);
wait_with!(pselect, PSELECT, 8);
wait_with!(epoll_pwait, EPOLL_PWAIT, 16);
wait_with!(epoll_pwait2, EPOLL_PWAIT2, 16);
