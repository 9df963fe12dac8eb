//! Threads: how they begin and end.

use core::mem::offset_of;
use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{GapReason, RegionKind, SyncFunction, SyncKind, VirtAddr};
use tracee::frame::{AltStack, UContext};
use tracee::{sys, tls};

use crate::emit::recorder;
use crate::memory::ranges::RANGES;
use crate::memory::{pages, program_memory};
use crate::process::{forks, namespaces};
use crate::protect::{gs_words, sharing, views};
use crate::signal::{actions, alt_stack, stubs};
use crate::state::births::{BIRTH_STACKS, BIRTHS, Birth, Newborn};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;
use crate::translate::{context, process, translated_thread};

const PAGE_BYTES: usize = 4096;
/// Below the stack pointer, what belongs to whoever is interrupted.
const RED_ZONE_BYTES: u64 = 128;

/// fork, vfork, clone and clone3. `None`: the program goes on in a redirected call.
pub(crate) fn clone(thread: &mut TracedThread, context: &mut UContext, call: &SystemCall) -> Option<isize> {
    let (flags, stack, stack_len) = match call.number {
        libc::SYS_clone3 => {
            // The structure's first version: the kernel takes none that is shorter.
            if call.args[1] < size_of::<[u64; 8]>() {
                return Some(-(sys::EINVAL as isize));
            }
            // Nor one that is longer than a page.
            if call.args[1] > PAGE_BYTES {
                return Some(-(libc::E2BIG as isize));
            }
            let Some(args) = program_memory::value::<[u64; 8]>(call.args[0] as u64) else {
                return Some(-(sys::EFAULT as isize));
            };
            let [flags, stack, len] = [
                offset_of!(libc::clone_args, flags),
                offset_of!(libc::clone_args, stack),
                offset_of!(libc::clone_args, stack_size),
            ]
            .map(|at| args.get(at / size_of::<u64>()).copied().unwrap_or(0));
            (flags, stack.wrapping_add(len), len)
        }
        libc::SYS_clone => (call.args[0] as u64, call.args[1] as u64, 0),
        libc::SYS_vfork => ((libc::CLONE_VM | libc::CLONE_VFORK) as u64, 0, 0),
        _ => (0, 0, 0),
    };
    let has = |flag: i32| flags & flag as u64 != 0;
    if has(libc::CLONE_VM) && PROCESS.is_vfork_child() {
        // A vfork in a vfork child: as fork. It costs more and does the same.
        return forks::fork(thread, context, libc::SIGCHLD as u64);
    }
    if !has(libc::CLONE_VM) {
        return match call.number {
            libc::SYS_clone3 => forks::fork_with(
                thread,
                context,
                call,
                pages::open_address(call.args[0] as u64) as usize,
                stack,
            ),
            libc::SYS_clone => forks::fork_with(thread, context, call, call.args[0], stack),
            _ => forks::fork(thread, context, libc::SIGCHLD as u64),
        };
    }
    let is_vfork = has(libc::CLONE_VFORK);
    thread.system_call.is_lent |= is_vfork;
    // With its creator's thread pointer.
    let is_alike = !is_vfork && !has(libc::CLONE_SETTLS);
    let is_stranger = is_alike && !tls::by_gs() && !tell_apart(thread);
    if is_stranger {
        meet_stranger(thread, context.gregs.rip);
    }
    if stack != 0 {
        keep_open(stack.wrapping_sub(stack_len.max(1)));
    }
    thread.words.vfork_resume = context::return_address(thread, context);
    let resume = if is_stranger { context.gregs.rip } else { thread.words.vfork_resume };
    let created = if !is_vfork && !is_stranger {
        sharing::begin();
        translated_thread::begin_sharing(thread);
        let order = recorder::next_order();
        tell_create(thread, resume, order);
        order
    } else {
        0
    };
    if stack != 0 {
        let mut births = BIRTHS.lock();
        let index = births
            .iter()
            .position(|birth| birth.rsp == stack)
            .or(births.iter().position(|birth| birth.rsp == 0));
        let stacks = index.and_then(|index| BIRTH_STACKS.get(index));
        if let Some((place, stacks)) = index.and_then(|index| births.get_mut(index)).zip(stacks) {
            // An entry that is left from a call that failed has a state that can be used.
            let mut state = if place.thread.is_null() && !is_vfork && !is_stranger {
                TracedThread::prepare().unwrap_or(core::ptr::null_mut())
            } else {
                place.thread
            };
            if is_told_by_gs() && !gs_words::prepare(state) {
                state = core::ptr::null_mut();
            }
            let kind = if is_stranger {
                Newborn::Stranger { shares_handlers: has(libc::CLONE_SIGHAND) }
            } else if is_vfork {
                Newborn::VforkChild
            } else if has(libc::CLONE_THREAD) {
                Newborn::Thread
            } else {
                Newborn::Sharer
            };
            let (virtual_mask, process) = (thread.signals.virtual_mask, thread.process);
            // SAFETY: null, or prepared: nobody uses it before the new thread does.
            let trap_rsp =
                unsafe { state.as_ref() }.map_or(0, |state| trap_stack(&state.signals.handler_stack));
            match trap_rsp {
                0 => stacks.clear(),
                _ => stacks.set(stack, trap_rsp),
            }
            *place =
                Birth { rsp: stack, trap_rsp, resume, virtual_mask, thread: state, created, kind, process };
        }
    }
    if !is_vfork && !is_stranger {
        PROCESS.live_threads.fetch_add(1, Ordering::Relaxed);
    }
    if call.number == libc::SYS_clone3 {
        context.gregs.rdi = pages::open_address(context.gregs.rdi);
    }
    context.gregs.rip = stubs::clone_entry();
    None
}

/// Where the trap of a new thread finds its stack: at the top of that of its handlers, below a red zone.
fn trap_stack(stack: &AltStack) -> u64 {
    (stack.sp + stack.size - RED_ZONE_BYTES) & !63
}

/// Records that a thread is being made; the new one names this order when it starts.
fn tell_create(thread: &mut TracedThread, ip: u64, order: u64) {
    let (kind, function) = (SyncKind::Create, SyncFunction::Thread);
    let (ip, object) = (VirtAddr(ip), VirtAddr(order));
    thread.emit(&Record::Sync { order, ip, kind, function, object, value: 0 });
}

/// A stack, and the thread control block on it, that the program took from traced memory: the kernel writes there.
fn keep_open(addr: u64) {
    let mut ranges = RANGES.lock();
    let Some(range) = ranges.find(addr) else { return };
    ranges.update(range.start, range.end, |range| {
        range.kind = RegionKind::Stack;
        range.traced = false;
    });
    // SAFETY: gives the program the rights that it thinks it has.
    unsafe { sys::mprotect(range.start, range.end - range.start, range.prot) };
}

/// A thread is about to be made that has its creator's thread pointer. Whether the two can be told apart.
fn tell_apart(thread: &mut TracedThread) -> bool {
    if PROCESS.settings().translate {
        translated_thread::tell_apart_by_gs(thread)
    } else {
        gs_words::tell_apart(thread)
    }
}

/// Whether threads have pages of their own for that.
fn is_told_by_gs() -> bool {
    tls::by_gs() && !PROCESS.settings().translate
}

/// What is about to be made can't be told from its creator: it runs natively. By page protection all memory must be open for it, for good.
fn meet_stranger(thread: &mut TracedThread, ip: u64) {
    PROCESS.strangers.store(true, Ordering::Release);
    if PROCESS.settings().translate {
        let why =
            b"a process with its creator's thread pointer and memory (clone with CLONE_VM): it runs natively";
        thread.emit_gap(GapReason::LostControl, 1, ip, why);
        return;
    }
    let why = b"a process with its creator's thread pointer and memory (clone with CLONE_VM): both run natively from there on";
    thread.emit_gap(GapReason::LostControl, 1, ip, why);
    PROCESS.recording.store(false, Ordering::Release);
    views::close_all(false);
}

/// The first moment of what runs natively: it is left at once.
fn leave_stranger(context: &mut UContext, birth: &Birth, shares_handlers: bool) {
    context.gregs.rip = birth.resume;
    context.mask |= birth.virtual_mask;
    // So that it is not taken for a child of vfork.
    let _ = PROCESS.begin_sharer();
    if !shares_handlers {
        actions::give_back_all();
    }
}

/// The first moment of a thread, or of a vfork child: our trap in its way.
pub(crate) fn be_born(context: &mut UContext) {
    let gregs = &mut context.gregs;
    let birth = {
        let mut births = BIRTHS.lock();
        let is_it = |birth: &&mut Birth| birth.rsp != 0 && [birth.rsp, birth.trap_rsp].contains(&gregs.rsp);
        let found = births.iter_mut().zip(&BIRTH_STACKS).find(|(birth, _)| is_it(birth));
        found.map(|(birth, stacks)| {
            stacks.clear();
            core::mem::replace(birth, Birth::NONE)
        })
    };
    if let Some(birth) = &birth {
        gregs.rsp = birth.rsp;
        // The call left the flags there, and the way to the trap has changed them.
        gregs.rflags = gregs.r11;
    }
    let kind = birth.map_or(Newborn::VforkChild, |birth| birth.kind);
    match kind {
        Newborn::Thread => {}
        Newborn::Stranger { shares_handlers } => {
            return leave_stranger(context, birth.as_ref().unwrap_or(&Birth::NONE), shares_handlers);
        }
        // Where there are too many, or they can't be told apart, it is taken for a vfork child.
        Newborn::Sharer => {
            let _ = tls::by_gs() && PROCESS.begin_sharer();
        }
        Newborn::VforkChild => PROCESS.end_sharer(sys::getpid()),
    }
    let current = TracedThread::current();
    if current.is_null() {
        let Some(birth) = birth else { return };
        gregs.rip = birth.resume;
        // SAFETY: made for this thread, and taken out of the table by it alone.
        match unsafe { TracedThread::enter(birth.thread) } {
            Some(thread) => {
                if is_told_by_gs() {
                    gs_words::begin(thread);
                }
                thread.process = birth.process;
                if kind == Newborn::Sharer {
                    enter_sharer(thread);
                }
                alt_stack::start_thread(thread, birth.virtual_mask);
                translated_thread::inherit(thread);
                TracedThread::watch_system_calls(true);
                if birth.created != 0 {
                    thread.tell_thread(SyncKind::Start, birth.resume, birth.created, tls::fs_base());
                }
            }
            None => {
                // No memory for our state: the program would not get far either.
                sys::complain(b"memtap: no memory for the state of a new thread; the program ends\n");
                sys::exit_group(1);
            }
        }
        // The return from this handler sets the signal stack of the context.
        // SAFETY: not null, `enter` has just set it.
        let thread = unsafe { &mut *TracedThread::current() };
        context.stack = thread.signals.handler_stack;
        thread.settled = true;
        return;
    }
    // A vfork child: memory, thread pointer and our state are the parent's, which waits.
    // SAFETY: the state of the waiting parent; nobody else uses it.
    let thread = unsafe { &mut *current };
    gregs.rip = birth.map_or(thread.words.vfork_resume, |birth| birth.resume);
    TracedThread::watch_system_calls(true);
    thread.install_handler_stack();
    context.stack = thread.signals.handler_stack;
}

/// A process that shares the memory of this one: another one in the session, with the blocks that are defined here.
fn enter_sharer(thread: &mut TracedThread) {
    let Some(pool) = PROCESS.pool() else { return };
    if let Some(number) = pool.control().next_process()
        && let Some(slot) = pool.process(number)
    {
        slot.enter(&namespaces::arrival_of_child(thread.process));
        thread.process = number;
    }
}

/// The end of such a process. `false`: it is another one.
fn exit_sharer(thread: &mut TracedThread, status: u8) -> bool {
    let pid = sys::getpid();
    if pid == PROCESS.pid.load(Ordering::Relaxed) || PROCESS.is_vfork_child() {
        return false;
    }
    thread.emit(&Record::ProcessEnd { status: Some(status) });
    thread.submit();
    translated_thread::end_thread(thread);
    PROCESS.live_threads.fetch_sub(1, Ordering::Relaxed);
    true
}

/// exit: the thread's last records.
pub(crate) fn exit_thread(thread: &mut TracedThread, status: u8) {
    thread.system_call.calling.store(core::ptr::null_mut(), Ordering::Release);
    if PROCESS.is_vfork_child() {
        return;
    }
    thread.tell_thread(SyncKind::Exit, 0, tls::fs_base(), 0);
    thread.emit(&Record::ThreadEnd);
    if exit_sharer(thread, status) {
        return;
    }
    thread.submit();
    translated_thread::end_thread(thread);
    PROCESS.live_threads.fetch_sub(1, Ordering::Relaxed);
}

/// exit_group: the process's last records. Other threads' buffers are taken by the recorder once the process is gone.
pub(crate) fn exit(thread: &mut TracedThread, status: u8) {
    // In a vfork child the state is its parent's, which goes on with it.
    thread.system_call.calling.store(core::ptr::null_mut(), Ordering::Release);
    if PROCESS.is_vfork_child() || exit_sharer(thread, status) {
        return;
    }
    process::tell_work(thread);
    thread.emit(&Record::ProcessEnd { status: Some(status) });
    thread.submit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_trap_of_a_new_thread_has_a_stack_with_a_red_zone() {
        // Neither end is aligned.
        let stack = AltStack { sp: 0x10_0010, flags: 0, size: 0x8038 };
        let at = trap_stack(&stack);
        assert!(at.is_multiple_of(64) && alt_stack::is_on(&stack, at - 8));
        let end = stack.sp + stack.size;
        assert!((RED_ZONE_BYTES..RED_ZONE_BYTES + 64).contains(&(end - at)));
    }

    #[test]
    fn clone3_refuses_structures_of_a_wrong_size() {
        let thread = testing::thread();
        let mut context = testing::context();
        let structure = [0u64; 8];
        let mut clone3 = |bytes| {
            let args = [structure.as_ptr() as usize, bytes, 0, 0, 0, 0];
            clone(thread, &mut context, &SystemCall { number: libc::SYS_clone3, args, ip: 0 })
        };
        assert_eq!(clone3(63), Some(-(libc::EINVAL as isize)));
        assert_eq!(clone3(4097), Some(-(libc::E2BIG as isize)));
    }

    #[test]
    fn what_is_born_is_found_by_either_of_its_stacks() {
        if !testing::is_alone(what_is_born_is_found_by_either_of_its_stacks) {
            return;
        }
        // Nobody has handlers or a state yet: all of them run natively.
        let kind = Newborn::Stranger { shares_handlers: true };
        let birth =
            |rsp, trap_rsp, resume| Birth { rsp, trap_rsp, resume, virtual_mask: 4, kind, ..Birth::NONE };
        let born = [birth(0x1000, 0, 1), birth(0x2000, 0x2f00, 2), birth(0x3000, 0x3f00, 3)];
        for (place, birth) in BIRTHS.lock().iter_mut().zip(born) {
            *place = birth;
        }
        let come = |rsp| {
            let mut context = testing::context();
            // The call has left the flags in r11.
            context.gregs =
                x86::Registers { rsp, rip: 7, r11: 0x202, rflags: 0x246, ..x86::Registers::default() };
            context.mask = 1;
            be_born(&mut context);
            let left = BIRTHS.lock().iter().filter(|birth| birth.rsp != 0).count();
            let x86::Registers { rip, rsp, rflags, .. } = context.gregs;
            ([rip, rsp, rflags, context.mask], left)
        };
        assert_eq!(come(0x2f00), ([2, 0x2000, 0x202, 5], 2));
        // The call with which it was announced is over.
        assert_eq!(come(0x2f00), ([7, 0x2f00, 0x246, 1], 2));
        assert_eq!(come(0x3000), ([3, 0x3000, 0x202, 5], 1));
        assert_eq!(come(0x1000), ([1, 0x1000, 0x202, 5], 0));
        // A free place is nobody's.
        assert_eq!(come(0), ([7, 0, 0x246, 1], 0));
    }

    #[test]
    fn the_end_of_a_thread_is_told_by_itself() {
        if !testing::is_alone(the_end_of_a_thread_is_told_by_itself) {
            return;
        }
        let (thread, pool) = testing::recorded(testing::TRANSLATED);
        PROCESS.live_threads.store(2, Ordering::Relaxed);
        // A child of vfork has its parent's state, and the parent goes on with it.
        let own = PROCESS.pid.swap(u32::MAX, Ordering::Relaxed);
        exit_thread(thread, 0);
        assert!(thread.translation.live().is_some() && testing::written(thread, &pool).is_empty());
        assert_eq!(PROCESS.live_threads.load(Ordering::Relaxed), 2);
        PROCESS.pid.store(own, Ordering::Relaxed);
        let live = thread.translation.live().expect("it is translated");
        thread.emit(&Record::ThreadBase { addr: VirtAddr(0) });
        let buffer = pool.buffer(live.buffer() as usize).expect("it has one");
        exit_thread(thread, 0);
        assert_eq!(PROCESS.live_threads.load(Ordering::Relaxed), 1);
        assert_eq!(live.owner(), None);
        // It is handed over.
        assert_eq!(buffer.header().state(), buffers::BufferState::Submitted);
        let mut bytes = Box::new([0; buffers::BUFFER_BYTES]);
        let filled = buffer.read(&mut bytes);
        let records = testing::records(bytes[..filled].as_chunks().0);
        let is_exit = |record: &Record<'_>| matches!(record, Record::Sync { kind: SyncKind::Exit, .. });
        assert_eq!(records.last(), Some(&Record::ThreadEnd));
        assert_eq!(records.iter().filter(|record| is_exit(record)).count(), 1);
    }
}
