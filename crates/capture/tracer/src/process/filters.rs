//! System call filters that the program installs for itself (seccomp(2)).
//!
//! A filter sees the tracer's calls, too. Before it takes effect, it is evaluated for the calls that the tracer can't
//! do without. If it denies one of them, the tracer removes itself from the process, which continues natively (a gap),
//! and the kernel then installs the filter. A process with several threads can't do that, so the possible loss is
//! reported beforehand. If the filter denies a call that the tracer can do without, the tracer stops making that call.

use core::mem::offset_of;
use core::sync::atomic::Ordering;

use libc::sock_filter;
use memref::GapReason;
use tracee::frame::UContext;
use tracee::sys;
use tracee::text::Text;

use crate::emit::recorder;
use crate::memory::program_memory;
use crate::process::{filter_code, unrecorded};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;

/// What the program asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// read, write, exit and sigreturn alone; for the calling thread.
    Strict,
    /// A filter, a `struct sock_fprog` at an address.
    Filter(u64),
}

fn wanted(call: &SystemCall) -> Option<Wanted> {
    let [first, second, third, ..] = call.args;
    match call.number {
        libc::SYS_seccomp => match first as u32 {
            libc::SECCOMP_SET_MODE_STRICT => Some(Wanted::Strict),
            libc::SECCOMP_SET_MODE_FILTER => Some(Wanted::Filter(third as u64)),
            _ => None,
        },
        libc::SYS_prctl if first as i32 == libc::PR_SET_SECCOMP => match second as u32 {
            libc::SECCOMP_MODE_STRICT => Some(Wanted::Strict),
            libc::SECCOMP_MODE_FILTER => Some(Wanted::Filter(third as u64)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a call may change which calls are allowed: it is made where the program's context is at hand.
pub(crate) fn is_one(call: &SystemCall) -> bool {
    wanted(call).is_some()
}

/// The program is about to make such a call. `true`: the process goes on natively, from the call's instruction on.
pub(crate) fn before(thread: &mut TracedThread, context: &mut UContext, call: &SystemCall) -> bool {
    let denied = match wanted(call) {
        None => return false,
        Some(Wanted::Strict) => Some("mmap"),
        Some(Wanted::Filter(program)) => {
            let Some(filter) = Filter::at(program) else { return false };
            let denied = filter.denied();
            if denied.is_none() {
                filter.do_without();
            }
            denied
        }
    };
    let Some(denied) = denied else { return false };
    let mut why = Text::<256>::new();
    why.push(b" (it denies itself calls that memtap needs, such as ");
    why.push(denied.as_bytes());
    if unrecorded::is_possible() {
        why.push(b", and goes on without memtap)");
        // Where the call is.
        context.gregs.rip = call.ip;
        unrecorded::go_on_natively(thread, context, why.as_bytes());
        return true;
    }
    if !PROCESS.is_vfork_child() {
        why.push(b"; it has several threads, and may end by that)");
        unrecorded::tell(thread, GapReason::LostControl, call.ip, why.as_bytes());
    }
    false
}

/// A filter in the program's memory.
struct Filter {
    len: u16,
    start: u64,
}

/// A call that the tracer makes at any time, with arguments of its own.
type Need = (&'static str, libc::c_long, [u64; 6]);

const PAGE: u64 = 4096;
const ANONYMOUS: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const READ_EXECUTE: u64 = (libc::PROT_READ | libc::PROT_EXEC) as u64;

impl Filter {
    /// `None`: the kernel will refuse it.
    fn at(program: u64) -> Option<Self> {
        let len = program_memory::word_behind(program, offset_of!(libc::sock_fprog, len)) as u16;
        let start =
            program_memory::value_behind::<u64>(program, offset_of!(libc::sock_fprog, filter) as u64)?;
        (1..=libc::BPF_MAXINSNS as u16).contains(&len).then_some(Self { len, start })
    }

    fn instruction(&self, at: u32) -> Option<sock_filter> {
        let offset = u64::from(at) * size_of::<sock_filter>() as u64;
        (at < self.len.into()).then(|| program_memory::value(self.start.wrapping_add(offset)))?
    }

    /// What it says to a call of the tracer's; `None`: the kernel will refuse the filter.
    fn action(&self, number: libc::c_long, args: [u64; 6]) -> Option<u32> {
        // A filter may know from which code the program makes its calls. This is not it.
        let ip = PROCESS.text[0].load(Ordering::Relaxed);
        let action = filter_code::action(&filter_code::call(number, ip, args), |at| self.instruction(at))?;
        Some(action & libc::SECCOMP_RET_ACTION_FULL)
    }

    /// The first call that the tracer needs and would not get.
    fn denied(&self) -> Option<&'static str> {
        let word = PROCESS.text[0].load(Ordering::Relaxed);
        let needs: [Need; 12] = [
            ("mmap", libc::SYS_mmap, [0, PAGE, READ_WRITE, ANONYMOUS, u64::MAX, 0]),
            ("munmap", libc::SYS_munmap, [word, PAGE, 0, 0, 0, 0]),
            ("mprotect", libc::SYS_mprotect, [word, PAGE, READ_WRITE, 0, 0, 0]),
            ("mprotect", libc::SYS_mprotect, [word, PAGE, READ_EXECUTE, 0, 0, 0]),
            ("futex", libc::SYS_futex, [word, libc::FUTEX_WAIT as u64, 0, word, 0, 0]),
            ("futex", libc::SYS_futex, [word, libc::FUTEX_WAKE as u64, i32::MAX as u64, 0, 0, 0]),
            ("rt_sigprocmask", libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, word, word, 8, 0, 0]),
            ("rt_sigreturn", libc::SYS_rt_sigreturn, [0; 6]),
            ("getpid", libc::SYS_getpid, [0; 6]),
            ("gettid", libc::SYS_gettid, [0; 6]),
            ("clock_gettime", libc::SYS_clock_gettime, [libc::CLOCK_REALTIME as u64, word, 0, 0, 0, 0]),
            // By page protection alone.
            ("mremap", libc::SYS_mremap, [word, 0, PAGE, sys::MREMAP_MAYMOVE as u64, 0, 0]),
        ];
        let translate = PROCESS.settings().translate;
        needs
            .iter()
            .filter(|(_, number, _)| !(translate && *number == libc::SYS_mremap))
            .find(|&&(_, number, args)| self.action(number, args).is_some_and(|action| !is_allowed(action)))
            .map(|(name, ..)| *name)
    }

    /// What the tracer asks only where nothing comes of a refusal is not asked where that would be the program's end.
    fn do_without(&self) {
        let ends = |number, args| {
            let action = self.action(number, args);
            action.is_some_and(|action| !is_allowed(action) && action != libc::SECCOMP_RET_ERRNO)
        };
        let path = c"/proc/self/maps".as_ptr() as u64;
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
        if ends(libc::SYS_openat, [libc::AT_FDCWD as u64, path, flags, 0, 0, 0])
            || ends(libc::SYS_read, [3, path, PAGE, 0, 0, 0])
            || ends(libc::SYS_close, [3, 0, 0, 0, 0, 0])
        {
            sys::forbid_files();
        }
        if ends(libc::SYS_madvise, [PAGE, PAGE, libc::MADV_POPULATE_WRITE as u64, 0, 0, 0]) {
            sys::forbid_populating();
        }
        let recorder = PROCESS.pool().and_then(|pool| pool.control().recorder());
        if recorder.is_some_and(|pid| ends(libc::SYS_kill, [pid.into(), 0, 0, 0, 0, 0])) {
            recorder::ask_no_more();
        }
    }
}

fn is_allowed(action: u32) -> bool {
    matches!(action, libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG)
}
