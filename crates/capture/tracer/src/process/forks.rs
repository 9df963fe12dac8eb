//! Forks: child processes with memory of their own.

use core::sync::atomic::Ordering;

use buffers::{Record, Refusal};
use memref::{SyncFunction, SyncKind, VirtAddr};
use tracee::frame::UContext;
use tracee::{alloc, sys};

use crate::emit::recorder;
use crate::memory::ranges::RANGES;
use crate::memory::{code_ranges, code_views, pages, program_memory};
use crate::process::{identity, namespaces, surroundings};
use crate::protect::{fork_copy, sharing};
use crate::recording::breakpoint::BREAKPOINTS;
use crate::signal::actions::{self, ACTIONS};
use crate::state::births::BIRTHS;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_translation::ThreadTranslation;
use crate::syscall::call::SystemCall;
use crate::syscall::limits;
use crate::translate::engine::{self, ENGINE};
use crate::translate::{process, sync, translated_thread};
use crate::watch::{hits, watchpoints};

pub(crate) fn fork(thread: &mut TracedThread, context: &mut UContext, flags: u64) -> Option<isize> {
    let call =
        SystemCall { number: libc::SYS_clone, args: [flags as usize, 0, 0, 0, 0, 0], ip: context.gregs.rip };
    fork_with(thread, context, &call, call.args[0], 0)
}

/// Makes a process with memory of its own, inside our handler: the child returns from the same handler.
pub(crate) fn fork_with(
    thread: &mut TracedThread,
    context: &mut UContext,
    call: &SystemCall,
    first: usize,
    stack: u64,
) -> Option<isize> {
    let flags = match call.number {
        libc::SYS_clone3 => program_memory::word(call.args[0] as u64),
        _ => call.args[0] as u64,
    };
    surroundings::before_unshare(flags);
    if !fork_copy::copy_for_child() {
        fork_copy::drop_copy();
        return Some(-(sys::ENOMEM as isize));
    }
    // The child names this order when it starts, as a thread does.
    let created = recorder::next_order();
    let ip = VirtAddr(context.gregs.rip);
    tell(thread, SyncKind::Create, created, ip, created);
    let mut args = call.args;
    args[0] = first;
    if call.number == libc::SYS_clone {
        // The child comes up on our stack, as a copy; its own is set below.
        args[1] = 0;
        args[2] = pages::open_address(args[2] as u64) as usize;
        args[3] = pages::open_address(args[3] as u64) as usize;
    }
    let pool = PROCESS.pool();
    let control = pool.as_ref().map(|pool| pool.control());
    if let Some(control) = control {
        control.expect_child();
    }
    let ranges = RANGES.lock();
    let actions = ACTIONS.lock();
    let births = BIRTHS.lock();
    // In the order of who translates: the engine asks for breakpoints, views and ranges of code.
    let engine = ENGINE.lock();
    let breakpoints = BREAKPOINTS.lock();
    let views = code_views::hold();
    let code = code_ranges::hold();
    let watched = watchpoints::hold();
    let bodies = sync::hold();
    // Last: whoever holds one of the others may allocate.
    let heap = alloc::hold();
    // SAFETY: a new process with a copy of everything; the locks are held so that no other thread is in the middle of a
    // change that the child would inherit half made.
    let result = unsafe { sys::syscall(call.number as usize, args) };
    drop((heap, bodies, watched, code, views, breakpoints, engine, births, actions, ranges));
    if result != 0 {
        if sys::failed(result)
            && let Some(control) = control
        {
            control.settle_child();
        }
        fork_copy::drop_copy();
        return Some(result);
    }
    fork_copy::take_copy();
    if stack != 0 {
        context.gregs.rsp = stack;
    }
    namespaces::be_child(flags);
    limits::be_child();
    if be_child(thread) {
        tell(thread, SyncKind::Start, recorder::next_order(), ip, created);
    }
    if let Some(control) = control {
        control.settle_child();
    }
    Some(0)
}

/// Records that a process is made, or begins: who called the fork is known in the child from that.
fn tell(thread: &mut TracedThread, kind: SyncKind, order: u64, ip: VirtAddr, created: u64) {
    let (function, object) = (SyncFunction::Thread, VirtAddr(created));
    thread.emit(&Record::Sync { order, ip, kind, function, object, value: 0 });
}

/// In a forked child: a process of its own in the session. False where it is not recorded.
fn be_child(thread: &mut TracedThread) -> bool {
    let parent = thread.process;
    PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
    for sharer in &PROCESS.sharers {
        sharer.store(0, Ordering::Relaxed);
    }
    thread.pid = sys::getpid();
    PROCESS.live_threads.store(1, Ordering::Relaxed);
    sharing::reset();
    hits::be_child();
    thread.tid = sys::gettid();
    thread.writer.forget();
    thread.order = 0;
    thread.signals.forget_waiting();
    if thread.translation.live().is_some() {
        engine::forget_definitions();
        process::forget_work();
    }
    let is_wanted = PROCESS.settings().children;
    let number = if is_wanted { PROCESS.pool().and_then(|pool| pool.control().next_process()) } else { None };
    // The kernel switches the dispatch of system calls off in a child.
    let is_watched = number.is_some() && TracedThread::watch_system_calls(true);
    if !is_watched
        && let (Some(number), Some(pool)) = (number, PROCESS.pool())
        && let Some(slot) = pool.process(number)
    {
        slot.enter(&namespaces::arrival_of_child(parent));
        slot.refuse(Refusal::NoDispatch);
    }
    let (Some(number), Some(pool), true) = (number, PROCESS.pool(), is_watched) else {
        thread.translation = ThreadTranslation::NONE;
        leave_alone();
        return false;
    };
    PROCESS.number.store(number, Ordering::Relaxed);
    thread.process = number;
    thread.number = pool.control().next_thread();
    if thread.translation.live().is_some() {
        translated_thread::begin_child(thread);
    }
    if let Some(slot) = pool.process(number) {
        slot.enter(&namespaces::arrival_of_child(parent));
    }
    identity::tell_program(thread);
    if thread.translation.live().is_some() {
        translated_thread::tell_base(thread);
    }
    true
}

/// The process goes on without us: its memory is open for good and its system calls are its own.
fn leave_alone() {
    PROCESS.recording.store(false, Ordering::Release);
    fork_copy::give_back_all();
    PROCESS.pool.store(0, Ordering::Release);
    PROCESS.ready.store(false, Ordering::Release);
    TracedThread::watch_system_calls(false);
    actions::give_back();
}

#[cfg(test)]
mod tests {
    use buffers::{Content, Pool, ProcessState};

    use super::*;
    use crate::state::settings::Settings;
    use crate::testing;

    /// Forks, in a process that is recorded with these settings. Asks in the child whether all is as it should be: there nothing is
    /// allocated, as nothing of the runner's threads is there. Gives the child's id.
    fn forked(
        settings: Settings,
        is_as_expected: impl FnOnce(&TracedThread) -> bool,
    ) -> (&'static mut TracedThread, Pool, u32) {
        let (thread, pool) = testing::recorded(settings);
        PROCESS.ready.store(true, Ordering::Relaxed);
        // Calls of the test itself are not the program's.
        let mut own = settings;
        identity::find_library(&mut own);
        let mut context = testing::context();
        let result = fork(thread, &mut context, libc::SIGCHLD as u64).expect("the call returns");
        if result == 0 {
            let is_own = PROCESS.pid.load(Ordering::Relaxed) == sys::getpid() && thread.tid == sys::gettid();
            let is_alone = PROCESS.live_threads.load(Ordering::Relaxed) == 1;
            let is_as_expected = is_own && is_alone && is_as_expected(thread);
            thread.submit();
            sys::exit_group(i32::from(!is_as_expected));
        }
        assert!(result > 0, "{result}");
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        let ended = unsafe { libc::waitpid(result as i32, &raw mut status, 0) };
        assert_eq!((ended, status), (result as i32, 0));
        // Whoever waits for the session's end waits for no more children.
        assert!(!pool.control().expects_children());
        (thread, pool, result as u32)
    }

    /// The objects of what is told of threads and processes in the buffers of a process.
    fn told(pool: &Pool, process: u32) -> Vec<(SyncKind, u64)> {
        let mut all = Vec::new();
        let mut bytes = Box::new([0; buffers::BUFFER_BYTES]);
        for buffer in pool.buffers() {
            let header = buffer.header();
            if header.process() == process && header.content() == Content::Flow {
                let filled = buffer.read(&mut bytes);
                for record in testing::records(bytes[..filled].as_chunks().0) {
                    if let Record::Sync { kind, object, .. } = record {
                        all.push((kind, object.0));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn a_child_is_a_process_of_its_own_that_names_its_creation() {
        if !testing::is_alone(a_child_is_a_process_of_its_own_that_names_its_creation) {
            return;
        }
        let (thread, pool, child) = forked(testing::TRANSLATED, |thread| {
            let is_recorded = thread.translation.live().is_some() && PROCESS.is_recording();
            (thread.process, thread.number) == (1, 1) && is_recorded
        });
        thread.submit();
        let slot = pool.process(1).expect("its slot");
        assert_eq!((slot.parent(), slot.own_pid(), slot.state()), (Some(0), child, ProcessState::Live));
        let created = told(&pool, 0);
        let [(SyncKind::Create, order)] = created[..] else { panic!("{created:?}") };
        assert_eq!(told(&pool, 1), [(SyncKind::Start, order)]);
        // In the parent nothing has changed.
        assert_eq!((thread.process, thread.number), (0, 0));
    }

    #[test]
    fn a_child_that_is_not_wanted_goes_on_without_us() {
        if !testing::is_alone(a_child_that_is_not_wanted_goes_on_without_us) {
            return;
        }
        let settings = Settings { children: false, ..testing::TRANSLATED };
        let (thread, pool, _) = forked(settings, |thread| {
            let is_left = PROCESS.pool().is_none() && !PROCESS.ready.load(Ordering::Relaxed);
            is_left && !PROCESS.is_recording() && thread.translation.live().is_none()
        });
        assert_eq!(pool.control().processes(), 1);
        assert!(thread.translation.live().is_some() && PROCESS.is_recording() && PROCESS.pool().is_some());
    }
}
