//! Programs that a debugger starts.
//!
//! A debugger (gdb, strace, ltrace) that is itself recorded stops the program that it starts at each signal, sets
//! breakpoints in its code and reads its registers. In a traced program it would not find what it expects. So the
//! program that it starts runs without memtap, and is a gap: from its exec on, or from the point where it asks to
//! be traced (PTRACE_TRACEME). From then on our own signals, such as the fault at the end of a buffer, would be
//! stops for the debugger; in code where the debugger does not expect any, the program would wait for ever.

use core::str;
use core::sync::atomic::{AtomicU32, Ordering};

use buffers::Record;
use memref::VirtAddr;
use proc_files::TaskStatus;
use tracee::frame::UContext;
use tracee::sys;

use crate::process::unrecorded;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// What is said of such a program.
pub(crate) const WHY: &str = "it runs under a debugger";
/// And of one that asks to be traced, after its name.
const ASKS: &[u8] = b" (it asks to be traced by PTRACE_TRACEME, and goes on without memtap)";

/// Room for the first part of the file, in which the number is.
const STATUS_BYTES: usize = 512;

/// The program asks to be traced by its parent, in a system call. One that has several threads is told that it can't be: only the
/// calling one would be traced, and all the others go on with handlers that belong to all.
pub(crate) fn trace_me(thread: &mut TracedThread, context: &mut UContext) -> isize {
    if PROCESS.is_vfork_child() {
        // Its memory, and all that is ours in it, is its parent's, which waits: it could not look at a stop.
        if tracer_of_caller() != Some(0) {
            return ask();
        }
        VFORK_CHILD.store(sys::getpid(), Ordering::Relaxed);
        return 0;
    }
    if PROCESS.is_threaded() || PROCESS.has_sharer() {
        let name = b"calls of ptrace(PTRACE_TRACEME) refused (the program has several threads)";
        thread.emit(&Record::Counter { ip: VirtAddr(0), count: 1, name });
        return -(sys::EPERM as isize);
    }
    let result = ask();
    if result == 0 {
        unrecorded::go_on_natively(thread, context, ASKS);
    }
    result
}

/// A child of vfork that has asked to be traced, by its own number: that waits for its exec.
static VFORK_CHILD: AtomicU32 = AtomicU32::new(0);

/// Whether the calling process is to ask when it executes a program.
pub(crate) fn has_put_off() -> bool {
    VFORK_CHILD.load(Ordering::Relaxed) == sys::getpid()
}

/// The calling process executes a program next.
pub(crate) fn before_exec() {
    if has_put_off() {
        VFORK_CHILD.store(0, Ordering::Relaxed);
        ask();
    }
}

fn ask() -> isize {
    // SAFETY: no pointers.
    unsafe { sys::syscall(libc::SYS_ptrace as usize, [libc::PTRACE_TRACEME as usize, 0, 0, 0, 0, 0]) }
}

/// Whether a process of this recording traces the calling thread. Somebody else who does, such as whoever debugs the tracer, can't be told
/// from the program's surroundings.
pub(crate) fn is_recorded() -> bool {
    let Some(pid) = tracer_of_caller().filter(|&pid| pid != 0) else { return false };
    let Some(pool) = PROCESS.pool() else { return false };
    (0..pool.control().processes()).filter_map(|number| pool.process(number)).any(|slot| slot.pid() == pid)
}

/// The process that traces the calling thread; zero: none does.
fn tracer_of_caller() -> Option<u32> {
    let mut bytes = [0; STATUS_BYTES];
    let len = sys::open_read(c"/proc/thread-self/status")?.read(&mut bytes);
    let bytes = bytes.get(..len)?;
    // A name may be cut off at the end of what was read, or be no text.
    let start = bytes.iter().position(|&byte| byte == b'\n')?;
    let text = str::from_utf8(bytes.get(start + 1..)?).ok()?;
    TaskStatus(text).field("TracerPid").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_traces_a_test() {
        assert_eq!(tracer_of_caller(), Some(0));
        assert!(!is_recorded());
    }
}
