//! Start and end of the library in a process, and its behaviour on forks.

use probes::profile::{attached, dump, epoch, helper, pass, settings::Settings, window};
use std::sync::{
    MutexGuard,
    atomic::{AtomicBool, Ordering},
};

/// Runs before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

static RUNNING: AtomicBool = AtomicBool::new(false);

extern "C" fn start() {
    let Some(settings) = Settings::from_env() else { return };
    RUNNING.store(true, Ordering::Relaxed);
    probes::provider::instrument::set_hooks(
        crate::hooks::__cyg_profile_func_enter as *const () as usize,
        crate::hooks::__cyg_profile_func_exit as *const () as usize,
    );
    crate::unwind::bind();
    crate::masks::bind();
    // Registered first, so run last: after the program's own exit handlers.
    register();
    probes::profile::start(settings);
}

/// Whether the library was preloaded and profiles.
pub(crate) fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// Has the end of the process and its forks noticed.
pub(crate) fn register() {
    // SAFETY: functions without arguments that live as long as the process.
    unsafe {
        libc::atexit(finish);
        libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child));
    }
}

extern "C" fn finish() {
    if is_profiling() {
        attached::children::write_last();
    }
}

/// Whether there is a profile to write: preloaded, or attached to and not yet left.
fn is_profiling() -> bool {
    is_running() || attached::is_profiling()
}

/// Writes the profile where the program ends without running exit handlers.
///
/// # Safety
/// As the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _exit(status: i32) -> ! {
    if RUNNING.load(Ordering::Relaxed) {
        helper::write_profile();
    }
    loop {
        // SAFETY: ends the process; nothing runs after it.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// The pass that is held across a fork; touched by the forking thread only.
struct Held(std::cell::UnsafeCell<Option<MutexGuard<'static, ()>>>);
// SAFETY: libc runs the three handlers of one fork in one thread, and forks one at a time.
unsafe impl Sync for Held {}
static HELD: Held = Held(std::cell::UnsafeCell::new(None));

extern "C" fn before_fork() {
    let guard = pass::hold();
    // SAFETY: the forking thread alone runs the handlers.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn after_fork_in_parent() {
    // SAFETY: the forking thread alone runs the handlers.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn after_fork_in_child() {
    // SAFETY: the child has this one thread.
    drop(unsafe { (*HELD.0.get()).take() });
    patch::pages::after_fork();
    patch::trap::after_fork();
    patch::barrier::register();
    probes::thread::after_fork();
    window::restart();
    // Forked while someone attaches to the parent, before any probe was made: the child is nobody's.
    if attached::STATE.load(Ordering::Relaxed) == attached::STARTING {
        attached::STATE.store(attached::IDLE, Ordering::Relaxed);
    }
    if !is_profiling() {
        return;
    }
    attached::children::join();
    helper::note_start();
    dump::note_start();
    probes::thread_words::muted(|| epoch::start(None));
}
