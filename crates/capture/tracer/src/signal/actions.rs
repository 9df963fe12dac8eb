//! The program's signal actions, and what the kernel is told instead: every signal that the program handles comes to us.

use core::sync::atomic::{AtomicU64, Ordering};

use tracee::frame::{SigAction, SigInfo, UContext};
use tracee::lock::Lock;
use tracee::sys;

use crate::memory::{program_memory, program_writes};
use crate::signal::mask::{self, FAULTS, OURS};
use crate::signal::{stubs, waiting};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// The program's actions, as it sees them; index is the signal's number.
pub(crate) static ACTIONS: Lock<[SigAction; 65]> =
    Lock::new([SigAction { handler: 0, flags: 0, restorer: 0, mask: 0 }; 65]);

/// A handler, as the kernel calls it.
type SignalHandler = unsafe extern "C" fn(i32, &mut SigInfo, &mut UContext);

/// Who receives signals.
#[derive(Clone, Copy)]
pub(crate) struct Handlers {
    /// Faults of instructions, and what the tracer lives on.
    pub(crate) fault: SignalHandler,
    /// All others that the program handles.
    pub(crate) sent: SignalHandler,
}

/// Their addresses. Written by [`take_over`].
static FAULT_HANDLER: AtomicU64 = AtomicU64::new(0);
static SENT_HANDLER: AtomicU64 = AtomicU64::new(0);

pub(crate) const SIG_DFL: u64 = 0;
pub(crate) const SIG_IGN: u64 = 1;
pub(crate) const SA_RESTORER: u64 = 0x0400_0000;

pub(crate) fn set_real(signal: i32, action: &SigAction) -> isize {
    // SAFETY: the kernel reads the structure.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction as usize,
            [signal as usize, &raw const *action as usize, 0, 8, 0, 0],
        )
    }
}

/// What the kernel does with a signal.
fn real(signal: i32) -> SigAction {
    let mut action = SigAction::default();
    // SAFETY: the kernel writes the structure.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction as usize,
            [signal as usize, 0, &raw mut action as usize, 8, 0, 0],
        );
    }
    action
}

/// Lets the kernel do with a signal what it does without a handler.
pub(crate) fn reset(signal: i32) {
    leave_to_kernel(signal, SIG_DFL);
}

/// The kernel does what that says, `SIG_DFL` or `SIG_IGN`.
fn leave_to_kernel(signal: i32, handler: u64) {
    let action =
        SigAction { handler, restorer: stubs::restorer(), flags: SA_RESTORER, ..SigAction::default() };
    set_real(signal, &action);
}

/// The two signals that glibc has for itself.
const OF_GLIBC: [i32; 2] = [32, 33];

/// The recorder starts its program by posix_spawn, whose children ignore glibc's own signals. Those of a shell do not.
pub(crate) fn undo_spawn() {
    for signal in OF_GLIBC.into_iter().filter(|&signal| real(signal).handler == SIG_IGN) {
        reset(signal);
    }
}

/// Takes the signals that we live on, remembering what the program had for all signals.
pub(crate) fn take_over(handlers: Handlers) {
    FAULT_HANDLER.store(handlers.fault as *const () as u64, Ordering::Release);
    SENT_HANDLER.store(handlers.sent as *const () as u64, Ordering::Release);
    let mut actions = ACTIONS.lock();
    for signal in 1..=64 {
        let old = real(signal);
        if let Some(place) = actions.get_mut(signal as usize) {
            *place = old;
        }
        if is_fault(signal) || old.handler > SIG_IGN {
            set_real(signal, &told(signal, &old));
        }
    }
}

/// What waits while a handler of ours runs. A kick does, but for that of system calls, in which a thread may wait itself: it would be
/// taken for one in the gate where the handler came on top of it, and steps would begin in the handler.
pub(crate) fn handler_mask(signal: i32) -> u64 {
    let kicks = PROCESS.settings().translate && signal != libc::SIGSYS;
    !FAULTS | if kicks { mask::bit(libc::SIGTRAP) } else { 0 }
}

/// Calls who handles faults, as the kernel does.
///
/// # Safety
/// [`take_over`] was called. The context is one that the calling thread goes on with.
pub(crate) unsafe fn call_fault_handler(signal: i32, info: &mut SigInfo, context: &mut UContext) {
    // SAFETY: the address that `take_over` has left.
    unsafe {
        let handler: SignalHandler = core::mem::transmute(FAULT_HANDLER.load(Ordering::Acquire));
        handler(signal, info, context);
    }
}

/// What the kernel is told where a signal comes to us, with what of the program's action concerns the kernel.
fn handled(signal: i32, wanted: &SigAction) -> SigAction {
    let kept = wanted.flags & (libc::SA_RESTART | libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    let nested = if is_fault(signal) { libc::SA_NODEFER as u64 } else { 0 };
    SigAction {
        handler: address_of_handler(signal),
        flags: kept | nested | (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | SA_RESTORER,
        restorer: stubs::restorer(),
        mask: handler_mask(signal),
    }
}

/// What the kernel is told in the place of an action of the program. Faults come to us whatever it wants: we live on some; where one ends
/// the program we can tell where; and one that it ignores but blocks waits, and comes when a handler of ours unblocks it.
fn told(signal: i32, wanted: &SigAction) -> SigAction {
    if OURS & mask::bit(signal) != 0 || is_fault(signal) && wanted.handler <= SIG_IGN {
        handled(signal, &SigAction::default())
    } else if wanted.handler > SIG_IGN {
        handled(signal, wanted)
    } else {
        plain(wanted)
    }
}

/// An action without a handler, for the kernel to do.
fn plain(wanted: &SigAction) -> SigAction {
    SigAction { restorer: stubs::restorer(), flags: wanted.flags | SA_RESTORER, ..*wanted }
}

fn address_of_handler(signal: i32) -> u64 {
    let handler = if is_fault(signal) { &FAULT_HANDLER } else { &SENT_HANDLER };
    handler.load(Ordering::Acquire)
}

/// rt_sigaction by the program.
///
/// # Safety
/// `old` is where the program asks for the former action.
pub(crate) unsafe fn sigaction(
    thread: &mut TracedThread,
    signal: i32,
    new: u64,
    old: u64,
    size: usize,
) -> isize {
    if size != 8 {
        return -(sys::EINVAL as isize);
    }
    // The kernel reads the action before it looks at the signal.
    let wanted = match new {
        0 => None,
        new => match program_memory::value::<SigAction>(new) {
            None => return -(sys::EFAULT as isize),
            wanted => wanted,
        },
    };
    if !(1..=64).contains(&signal) || (new != 0 && (signal == libc::SIGKILL || signal == libc::SIGSTOP)) {
        return -(sys::EINVAL as isize);
    }
    let vfork_child = PROCESS.is_vfork_child();
    let mut actions = ACTIONS.lock();
    let Some(entry) = actions.get_mut(signal as usize) else { return -(sys::EINVAL as isize) };
    let former = *entry;
    if let Some(wanted) = wanted {
        // The table is the parent's too: a vfork child, which only prepares for exec, leaves it alone.
        if !vfork_child {
            *entry = wanted;
        }
        if OURS & mask::bit(signal) == 0 {
            let action = if vfork_child && wanted.handler <= SIG_IGN {
                // For the next program, which it is about to become.
                plain(&wanted)
            } else {
                told(signal, &wanted)
            };
            let result = set_real(signal, &action);
            if sys::failed(result) {
                return result;
            }
        }
    }
    drop(actions);
    if wanted.is_some_and(|wanted| wanted.handler == SIG_IGN) && !vfork_child {
        waiting::forget(thread, signal);
    }
    // SAFETY: the caller's promise.
    if old != 0 && !unsafe { program_writes::set_value(old, &former) } {
        return -(sys::EFAULT as isize);
    }
    0
}

/// Sets of signals, by what the program does with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActionSets {
    pub(crate) ignored: u64,
    pub(crate) handled: u64,
}

/// Which signals the program ignores, and which it handles.
pub(crate) fn sets() -> ActionSets {
    let mut sets = ActionSets::default();
    for (signal, action) in (0..).zip(ACTIONS.lock().iter()).skip(1) {
        match action.handler {
            SIG_DFL => {}
            SIG_IGN => sets.ignored |= mask::bit(signal),
            _ => sets.handled |= mask::bit(signal),
        }
    }
    sets
}

/// Whether the program ignores a signal.
pub(crate) fn ignores(signal: i32) -> bool {
    ACTIONS.lock().get(signal as usize).is_some_and(|action| action.handler == SIG_IGN)
}

/// Has the kernel ignore what the program ignores of the faults that come to us, so that the next program inherits it; of those that we
/// live on nothing where another thread may need them meanwhile. Returns which they are, for [`take_again`].
pub(crate) fn ignore_for_exec() -> u64 {
    let left = if PROCESS.has_handlers_alone() { FAULTS } else { FAULTS & !OURS };
    let actions = ACTIONS.lock();
    let is_ignored = |signal: &i32| {
        let action = actions.get(*signal as usize);
        left & mask::bit(*signal) != 0
            && action.is_some_and(|action| action.handler == SIG_IGN)
            // A child of vfork, whose table is its parent's, may have changed it for the next program.
            && real(*signal).handler == address_of_handler(*signal)
    };
    (1..=64).filter(is_ignored).fold(0, |ignored, signal| {
        leave_to_kernel(signal, SIG_IGN);
        ignored | mask::bit(signal)
    })
}

/// After an exec that failed.
pub(crate) fn take_again(ignored: u64) {
    for signal in (1..=64).filter(|signal| ignored & mask::bit(*signal) != 0) {
        set_real(signal, &handled(signal, &SigAction::default()));
    }
}

/// Undoes [`take_over`] for faults: the program is on its own.
pub(crate) fn give_back() {
    give_back_where(|signal, _| is_fault(signal));
}

/// Undoes [`take_over`] for all signals, each with what the program wants by now.
pub(crate) fn give_back_all() {
    give_back_where(|signal, action| is_fault(signal) || action.handler > SIG_IGN);
}

fn is_fault(signal: i32) -> bool {
    FAULTS & mask::bit(signal) != 0
}

fn give_back_where(is_ours: impl Fn(i32, &SigAction) -> bool) {
    let actions = ACTIONS.lock();
    for signal in 1..=64 {
        if let Some(action) = actions.get(signal as usize).filter(|action| is_ours(signal, action)) {
            set_real(signal, action);
        }
    }
}
