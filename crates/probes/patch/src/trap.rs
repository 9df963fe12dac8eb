//! The SIGTRAP handler: threads that run into a guard wait here until the patch is made.
//!
//! It recognises its own traps by the table of sites; every other trap goes to the handler that was installed before,
//! or to the default action. A patch that was started and forgotten is finished here, so no thread waits for ever.
//! It uses no libc function, no lock and no allocation, and where a trap was ours no system call either: the program may
//! have a filter of system calls that kills for returning from a handler ([`crate::resume`]).

use crate::{INT3, protocol::Progress, resume, site::Site, store, sys, table};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Rounds of waiting after which a trapped thread moves a started patch on itself.
const PATIENCE_ROUNDS: u32 = 64;

/// The previous handler's address and flags; written by [`ensure_installed`] before ours is in place.
static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicU64 = AtomicU64::new(0);
/// Traps that were waited out, since the start.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// How many times a thread ran into a guard.
#[must_use]
pub fn traps_waited() -> u64 {
    WAITED.load(Ordering::Relaxed)
}

/// Installs the handler unless it is in place; a handler that the program installed since is chained.
pub fn ensure_installed() {
    // SAFETY: all-zero is a valid sigaction; the calls read and write these locals only.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGTRAP, std::ptr::null(), &mut current) == 0
            && current.sa_sigaction == handler as *const () as usize
        {
            return;
        }
        PREVIOUS_FLAGS.store(current.sa_flags as u64, Ordering::Relaxed);
        PREVIOUS_HANDLER.store(current.sa_sigaction, Ordering::Release);
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler as *const () as usize;
        // Not deferred: leaving without the kernel leaves the mask as it is.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER;
        libc::sigemptyset(&mut ours.sa_mask);
        libc::sigaction(libc::SIGTRAP, &ours, std::ptr::null_mut());
    }
}

/// Puts the handler back that was there before, if ours is in place; no guard may stand in code.
pub fn give_back() {
    // SAFETY: all-zero is a valid sigaction; the calls read and write these locals only.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGTRAP, std::ptr::null(), &mut current) == 0
            && current.sa_sigaction == handler as *const () as usize
        {
            let mut previous: libc::sigaction = std::mem::zeroed();
            previous.sa_sigaction = PREVIOUS_HANDLER.load(Ordering::Acquire);
            previous.sa_flags = PREVIOUS_FLAGS.load(Ordering::Relaxed) as i32;
            libc::sigemptyset(&mut previous.sa_mask);
            libc::sigaction(libc::SIGTRAP, &previous, std::ptr::null_mut());
        }
    }
}

#[unsafe(link_section = "memtap_patch_text")]
unsafe extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a ucontext to a handler installed with SA_SIGINFO.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = &mut registers[libc::REG_RIP as usize];
    let addr = (*rip as usize).wrapping_sub(1);
    let Some(cell) = table::find(addr) else {
        // SAFETY: the arguments are those of the kernel.
        unsafe { chain(signal, info, context) };
        return;
    };
    if let Some(go_on) = wait_out(Site(cell)) {
        *rip = go_on as i64;
        // SAFETY: installed as it asks for; the locals are plain words.
        unsafe { resume::resume(context.cast()) };
    } else {
        // SAFETY: the arguments are those of the kernel.
        unsafe { chain(signal, info, context) };
    }
}

/// Waits until the guard is gone and says where to go on; `None`: the trap is not ours.
fn wait_out(site: Site) -> Option<usize> {
    let cell = site.0;
    let mut rounds = 0;
    // SAFETY: the thread just executed this byte; the code is mapped.
    let guard_stands = || unsafe { store::read(cell.addr(), 1) } as u8 == INT3;
    loop {
        if !guard_stands() {
            WAITED.fetch_add(1, Ordering::Relaxed);
            return Some(cell.addr());
        }
        // Patches may follow each other so fast that each look meets another one's guard.
        if cell.protocol().is_foreign(guard_stands) {
            return Some(cell.trap_target()).filter(|target| *target != 0);
        }
        rounds += 1;
        if rounds < PATIENCE_ROUNDS {
            core::hint::spin_loop();
        } else if cell.protocol().advance(cell) != Progress::Finished {
            sys::yield_now();
        }
    }
}

/// Hands a foreign trap to whoever handled SIGTRAP before.
///
/// # Safety
/// The arguments must be those of a signal delivery.
unsafe fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS_HANDLER.load(Ordering::Acquire);
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // A breakpoint trap cannot be ignored: the default action, with the status a parent expects.
        // SAFETY: resets one disposition and sends this thread one signal, delivered when the handler returns and with
        // it the mask.
        unsafe {
            let mask: sys::SignalSet = 1 << (signal - 1);
            let block = [libc::SIG_BLOCK as usize, &raw const mask as usize, 0, sys::SIGNAL_SET_BYTES, 0, 0];
            sys::syscall(libc::SYS_rt_sigprocmask, block);
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGTRAP, &default, std::ptr::null_mut());
            let (process, thread) =
                (sys::syscall(libc::SYS_getpid, [0; 6]), sys::syscall(libc::SYS_gettid, [0; 6]));
            sys::syscall(libc::SYS_tgkill, [process as usize, thread as usize, signal as usize, 0, 0, 0]);
        }
        return;
    }
    if PREVIOUS_FLAGS.load(Ordering::Relaxed) & libc::SA_SIGINFO as u64 != 0 {
        // SAFETY: installed with SA_SIGINFO, so it has this signature.
        let call: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(previous) };
        call(signal, info, context);
    } else {
        // SAFETY: installed without SA_SIGINFO, so it takes the signal alone.
        let call: extern "C" fn(i32) = unsafe { std::mem::transmute(previous) };
        call(signal);
    }
}
