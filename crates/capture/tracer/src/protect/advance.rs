//! Progress under page protection when signals come faster than their handlers return. The
//! program would never advance, so its next instructions are executed here in the handler of a
//! signal, while that signal waits. If the program has reached a system call, that call is made.

use tracee::frame::{SigInfo, UContext};

use crate::memory::program_memory;
use crate::protect::burst::{self, Burst};
use crate::signal::stubs::SYSCALL_BYTES;
use crate::signal::{delivery, waiting};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_translation::SignalRun;

/// Bursts between two signals: twice as many each time, as long as they come so fast.
const MAX_DOUBLINGS: u32 = 6;

/// How a program went on that signals keep from going on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advance {
    /// It does not have to.
    NotNeeded,
    /// Some instructions were executed, and the signal was delivered.
    Done,
    /// It has come to a system call, which is to be made now; the context is as the call leaves it.
    AtCall,
}

/// A signal has come in code of the program.
pub(crate) fn advance(
    thread: &mut TracedThread,
    signal: i32,
    info: &SigInfo,
    context: &mut UContext,
) -> Advance {
    if PROCESS.settings().translate || thread.protection.step.active {
        return Advance::NotNeeded;
    }
    let flow = &mut thread.translation;
    if core::mem::take(&mut flow.resumed) != context.gregs.rip {
        flow.run = SignalRun::NONE;
        flow.doublings = 0;
        return Advance::NotNeeded;
    }
    if !flow.run.is_endless(signal, info) {
        return Advance::NotNeeded;
    }
    flow.run = SignalRun::NONE;
    let bursts = 1 << flow.doublings;
    flow.doublings = (flow.doublings + 1).min(MAX_DOUBLINGS);
    waiting::put_off(thread, signal, info);
    for _ in 0..bursts {
        if PROCESS.owns_code(context.gregs.rip) {
            break;
        }
        thread.nested = None;
        match burst::burst(thread, context) {
            Burst::Progress => {}
            Burst::NotEmulated if is_plain_call(context) => {
                context.gregs.rip += SYSCALL_BYTES;
                thread.translation.starved = true;
                return Advance::AtCall;
            }
            Burst::NotEmulated | Burst::Faulted(_) => break,
        }
    }
    // SAFETY: the context that the handler returns to.
    unsafe { delivery::deliver_pending(thread, context) };
    Advance::Done
}

/// Whether a system call comes next, of those that go on where they were made.
fn is_plain_call(context: &UContext) -> bool {
    const SYSCALL: [u8; SYSCALL_BYTES as usize] = [0x0f, 0x05];
    const OTHERS: [libc::c_long; 8] = [
        libc::SYS_rt_sigreturn,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_exit,
    ];
    let mut bytes = [0; SYSCALL.len()];
    let is_call = program_memory::read(context.gregs.rip, &mut bytes) && bytes == SYSCALL;
    is_call && !OTHERS.contains(&(context.gregs.rax as libc::c_long))
}
