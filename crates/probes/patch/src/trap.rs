//! The SIGTRAP handler: threads that run into a guard wait here until the patch is done.
//!
//! It recognises its own traps by the table of sites; every other trap goes to the previously installed handler,
//! or to the default action. While it is installed, SIGTRAP actions that the program sets are recorded but not
//! put into effect ([`exchange`]): the children of Python's `subprocess`, which share its code, reset every
//! action to the default. A patch that was started and forgotten is finished here, so no thread waits for ever.
//!
//! It uses no libc function, no lock and no allocation. Where the trap was ours, it uses no system call either:
//! the program may have a system call filter that kills it for returning from a handler ([`crate::resume`]).

use crate::{INT3, protocol::Progress, resume, site::Site, store, sys, table};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Rounds of waiting after which a trapped thread moves a started patch on itself.
const PATIENCE_ROUNDS: u32 = 64;

/// What the program has SIGTRAP do: the handler, which is written last, its flags and what it blocks.
static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicU64 = AtomicU64::new(0);
static PREVIOUS_MASK: AtomicU64 = AtomicU64::new(0);
/// The process that it is for: a child that shares the memory until it executes a program sets its own.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The kernel's flag of an action that says where its handler returns to.
const SA_RESTORER: u64 = 0x0400_0000;
/// Traps that were waited out, since the start.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// How many times a thread ran into a guard.
#[must_use]
pub fn traps_waited() -> u64 {
    WAITED.load(Ordering::Relaxed)
}

/// What the C library is told for `action`.
fn told(action: &sys::Action) -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction, whose set begins with the kernel's word.
    unsafe {
        let mut told: libc::sigaction = std::mem::zeroed();
        told.sa_sigaction = action.handler;
        told.sa_flags = action.flags as i32;
        *(&raw mut told.sa_mask).cast::<sys::SignalSet>() = action.mask;
        told
    }
}

fn note(action: &sys::Action) {
    PREVIOUS_FLAGS.store(action.flags, Ordering::Relaxed);
    PREVIOUS_MASK.store(action.mask, Ordering::Relaxed);
    PREVIOUS_HANDLER.store(action.handler, Ordering::Release);
}

fn noted() -> sys::Action {
    sys::Action {
        handler: PREVIOUS_HANDLER.load(Ordering::Acquire),
        flags: PREVIOUS_FLAGS.load(Ordering::Relaxed),
        mask: PREVIOUS_MASK.load(Ordering::Relaxed),
        restorer: 0,
    }
}

fn installed() -> Option<sys::Action> {
    sys::action(libc::SIGTRAP as u32, None)
}

fn is_ours(action: &sys::Action) -> bool {
    action.handler == handler as *const () as usize
}

/// Installs the handler unless it is in place; a handler that the program installed since is chained.
pub fn ensure_installed() {
    let Some(current) = installed().filter(|current| !is_ours(current)) else { return };
    note(&current);
    OWNER.store(sys::process(), Ordering::Relaxed);
    let ours = told(&sys::Action {
        handler: handler as *const () as usize,
        // Not deferred: leaving without the kernel leaves the mask as it is.
        flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER) as u64,
        ..Default::default()
    });
    // SAFETY: the call reads the local only.
    unsafe { libc::sigaction(libc::SIGTRAP, &raw const ours, std::ptr::null_mut()) };
}

/// To be called in the child of a fork.
pub fn after_fork() {
    OWNER.store(sys::process(), Ordering::Relaxed);
}

/// Puts the handler back that was there before, if ours is in place; no guard may stand in code.
pub fn give_back() {
    if let Some(current) = installed().filter(is_ours) {
        // The C library's function may be one that asks us; where handlers return to is the same for all.
        let flags = noted().flags | current.flags & SA_RESTORER;
        let previous = sys::Action { flags, restorer: current.restorer, ..noted() };
        sys::action(libc::SIGTRAP as u32, Some(&previous));
    }
}

/// Does what the program asks of `sigaction(SIGTRAP, …)`, to what the handler hands foreign traps to; `false`: the handler is
/// not in place, nothing was done. A child that shares its parent's memory sets nothing: what it executes begins with the default.
/// Whoever was told of our handler, just before this function was asked, may put it back: that changes nothing either.
///
/// # Safety
/// Both must be null or actions.
pub unsafe fn exchange(new: *const libc::sigaction, old: *mut libc::sigaction) -> bool {
    if !installed().is_some_and(|current| is_ours(&current)) {
        return false;
    }
    let before = noted();
    // SAFETY: the caller vouches for both; a set begins with the kernel's word.
    unsafe {
        if let Some(new) = new.as_ref()
            && new.sa_sigaction != handler as *const () as usize
            && OWNER.load(Ordering::Relaxed) == sys::process()
        {
            note(&sys::Action {
                handler: new.sa_sigaction,
                flags: new.sa_flags as u64,
                mask: *(&raw const new.sa_mask).cast::<sys::SignalSet>(),
                restorer: 0,
            });
        }
        if let Some(old) = old.as_mut() {
            *old = told(&before);
        }
    }
    true
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
    // SAFETY: the kernel passes what it tells of the signal; one that somebody sent has no positive code.
    if previous == libc::SIG_IGN && unsafe { (*info).si_code } <= 0 {
        return;
    }
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // A breakpoint trap cannot be ignored: the default action, with the status a parent expects.
        // SAFETY: resets one disposition and sends this thread one signal, delivered when the handler returns and with
        // it the mask.
        unsafe {
            let mask: sys::SignalSet = 1 << (signal - 1);
            let block = [libc::SIG_BLOCK as usize, &raw const mask as usize, 0, sys::SIGNAL_SET_BYTES, 0, 0];
            sys::syscall(libc::SYS_rt_sigprocmask, block);
            sys::action(signal as u32, Some(&sys::Action::default()));
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
