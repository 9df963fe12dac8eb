//! Waiting calls, under signals that come faster than the program makes progress.
//!
//! Natively, a call that is ready is completed whatever signals are pending: the kernel checks for signals only where
//! it would have to wait. We can't let a signal through there and still make the call, because the next signal would
//! come before the first instruction. So all signals are blocked for such a call, and if it does wait, a timer ends
//! it after a moment: with a signal that is never blocked, just as the earlier signals would have ended it at once.

use tracee::frame::{SigInfo, UContext};
use tracee::sys;

use crate::signal::actions::ACTIONS;
use crate::signal::stubs::{self, NOT_MADE, StubPlace};
use crate::state::thread::TracedThread;

/// What tells the timer's signals from the program's.
const VALUE: u64 = 0x6d65_6d74_6170_7761;
/// How long a call may wait before it is ended, and again if it had not begun.
const LIMIT_NS: i64 = 2_000_000;
/// Of a timer: its signal is for one thread.
const FOR_THREAD: i32 = 4;

/// The kernel's `sigevent`.
#[repr(C)]
struct TimerEvent {
    value: u64,
    signal: i32,
    notify: i32,
    tid: u32,
    rest: [u32; 11],
}

/// Limits the calling thread's next wait. Where there are no timers left it is not limited, and waits for other signals.
pub(crate) fn begin(thread: &mut TracedThread) {
    if thread.signals.wait_limit.is_some() {
        return;
    }
    let event = TimerEvent {
        value: VALUE,
        signal: libc::SIGTRAP,
        notify: FOR_THREAD,
        tid: sys::gettid(),
        rest: [0; 11],
    };
    let mut timer = 0i32;
    let part = libc::timespec { tv_sec: 0, tv_nsec: LIMIT_NS };
    let times = libc::itimerspec { it_interval: part, it_value: part };
    // SAFETY: the kernel reads the structures, and writes the number.
    unsafe {
        let args =
            [libc::CLOCK_MONOTONIC as usize, &raw const event as usize, &raw mut timer as usize, 0, 0, 0];
        if sys::failed(sys::syscall(libc::SYS_timer_create as usize, args)) {
            return;
        }
        let args = [timer as usize, 0, &raw const times as usize, 0, 0, 0];
        sys::syscall(libc::SYS_timer_settime as usize, args);
    }
    thread.signals.wait_limit = Some(timer);
}

/// The call is over.
pub(crate) fn end(thread: &mut TracedThread) {
    if let Some(timer) = thread.signals.wait_limit.take() {
        // SAFETY: our own timer. A signal of it that waits already finds no call any more.
        unsafe { sys::syscall(libc::SYS_timer_delete as usize, [timer as usize, 0, 0, 0, 0, 0]) };
    }
}

/// SIGTRAP of the timer: a call that waits is ended. `false`: somebody else's.
pub(crate) fn on_limit(thread: &TracedThread, info: &SigInfo, context: &mut UContext) -> bool {
    if info.code != libc::SI_TIMER || info.value() != VALUE {
        return false;
    }
    if thread.signals.wait_limit.is_none() {
        return true;
    }
    let regs = &mut context.gregs;
    // The call's number is in r12.
    let is_again = restarts(thread, regs.r12);
    match stubs::place(regs.rip) {
        Some(StubPlace::BeforeWait) => {
            regs.rip = if is_again { stubs::wait_again(regs.rip) } else { stubs::wait_interrupted(regs.rip) };
        }
        Some(StubPlace::AfterWait) if regs.rax as isize == -(sys::EINTR as isize) && is_again => {
            regs.rax = NOT_MADE as u64;
        }
        _ => {}
    }
    true
}

/// Calls that are made again after the handler of a signal with SA_RESTART (signal(7)); all others end with EINTR.
const RESTARTED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_ioctl,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_sendfile,
];

/// Whether a call is made again after the handlers of what waits.
fn restarts(thread: &TracedThread, number: u64) -> bool {
    let is_restarted = RESTARTED.iter().any(|&call| call as u64 == number);
    let Some(actions) = ACTIONS.try_lock() else { return is_restarted };
    let restarts = |signal: i32| {
        actions.get(signal as usize).is_some_and(|action| action.flags & libc::SA_RESTART as u64 != 0)
    };
    is_restarted && thread.signals.pending.iter().flatten().all(|pending| restarts(pending.signal))
}
