//! Signals order threads: what a thread did before it sent a signal comes before the handler that runs for it, and before what follows a
//! wait that the signal ended (sigwait, a signalfd). The same holds for what came before the handler was set, and before the timer was set.
//!
//! Sending releases, before the call; a handler and a wait acquire. The synchronisation object is
//! the signal's number, whoever the signal is for: a race may be missed where threads send the same
//! signal to each other for different reasons, but none is invented. All timers are one object.

use core::mem::offset_of;

use memref::{SyncFunction, SyncKind};
use tracee::frame::SigInfo;
use tracee::sys;

use crate::events::descriptors::{Sort, is_looked_at, object};
use crate::memory::program_memory;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// Bytes that the kernel writes of each signal that is read from a signalfd.
const READ_SIGNAL_BYTES: u64 = size_of::<libc::signalfd_siginfo>() as u64;
/// Signals of one read that are looked at.
const MOST_READ: u64 = 64;
/// What stands for all timers, in a signal's place.
const TIMERS: u64 = 0;

fn is_followed() -> bool {
    is_looked_at() && !PROCESS.is_vfork_child()
}

impl TracedThread {
    fn tell_signal(&mut self, kind: SyncKind, ip: u64, signal: u64) {
        self.tell_object(SyncFunction::Signal, kind, ip, object(Sort::Signal, signal, 0));
    }

    /// A call is about to be made: what it sends is given up.
    #[inline]
    pub(crate) fn before_signals(&mut self, number: libc::c_long, ip: u64, args: &[usize; 6]) {
        let signal = match number {
            libc::SYS_kill | libc::SYS_tkill | libc::SYS_rt_sigqueueinfo | libc::SYS_pidfd_send_signal => {
                args[1] as u32 as u64
            }
            libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => args[2] as u32 as u64,
            libc::SYS_rt_sigaction if args[1] != 0 => args[0] as u32 as u64,
            libc::SYS_timer_settime | libc::SYS_setitimer | libc::SYS_alarm => TIMERS,
            _ => return,
        };
        if is_followed() {
            self.tell_signal(SyncKind::Release, ip, signal);
        }
    }

    /// A signal ended a wait, or its handler is about to run.
    pub(crate) fn take_signal(&mut self, ip: u64, signal: i32, info: &SigInfo) {
        if !is_followed() {
            return;
        }
        self.tell_signal(SyncKind::Acquire, ip, signal as u32 as u64);
        if matches!(info.code, libc::SI_TIMER | libc::SI_KERNEL) {
            self.tell_signal(SyncKind::Acquire, ip, TIMERS);
        }
    }

    /// A wait for signals was made by the kernel.
    pub(crate) fn take_waited_signal(&mut self, ip: u64, args: &[usize; 6], result: isize) {
        if sys::failed(result) {
            return;
        }
        let unknown = SigInfo::fault(result as i32, libc::SI_TIMER, 0);
        // Who did not ask for more than its number may have been waiting for a timer.
        let told = if args[1] == 0 { None } else { program_memory::value::<SigInfo>(args[1] as u64) };
        self.take_signal(ip, result as i32, &told.unwrap_or(unknown));
    }

    /// So many bytes were read there from a signalfd.
    pub(super) fn take_read_signals(&mut self, ip: u64, at: u64, bytes: u64) {
        for index in 0..MOST_READ.min(bytes / READ_SIGNAL_BYTES) {
            let place = at.wrapping_add(index * READ_SIGNAL_BYTES);
            let half = |offset: usize| program_memory::word_behind(place, offset) as i32;
            let signal = half(offset_of!(libc::signalfd_siginfo, ssi_signo));
            let code = half(offset_of!(libc::signalfd_siginfo, ssi_code));
            self.take_signal(ip, signal, &SigInfo::fault(signal, code, 0));
        }
    }
}
