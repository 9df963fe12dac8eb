//! Threads and processes: how they begin, become others, and end.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{GapReason, RegionKind, SyncFunction, SyncKind, VirtAddr};
use tracee::frame::UContext;
use tracee::text::Text;
use tracee::{sys, tls};

use crate::dispatch::{Call, is_own_link};
use crate::emit::next_order;
use crate::memory::{self, close_all, open_address};
use crate::program::{Verdict, judge};
use crate::sharing;
use crate::state::{Birth, Newborn, PROCESS, Thread};
use crate::translate;
use crate::{code_views, image, signals, start, watchpoints};

const CLONE_ARGS_BYTES: u64 = 88;
/// Bytes of `LD_PRELOAD=` and `MEMTAP_CHANNEL=` lines.
const VARIABLE_BYTES: usize = 8192;

impl Thread {
    /// Room that lasts until the next system call of this thread; null where there is no memory.
    pub(crate) fn scratch(&mut self, bytes: usize) -> *mut u8 {
        if self.scratch_len < bytes {
            let len = bytes.next_multiple_of(4096);
            let Some(memory) = sys::map_anonymous(len as u64, sys::PROT_READ | sys::PROT_WRITE) else {
                return core::ptr::null_mut();
            };
            if !self.scratch.is_null() {
                // SAFETY: used only within the system call for which it was asked.
                unsafe { sys::munmap(self.scratch as u64, self.scratch_len as u64) };
            }
            (self.scratch, self.scratch_len) = (memory, len);
        }
        self.scratch
    }
}

/// fork, vfork, clone and clone3. `None`: the program goes on in a redirected call.
pub(crate) fn clone(thread: &mut Thread, context: &mut UContext, call: &Call) -> Option<isize> {
    let (flags, stack, stack_len) = match call.number {
        libc::SYS_clone3 => {
            let args = open_address(call.args[0] as u64) as *const u64;
            // SAFETY: the program's clone_args: flags first, stack and its size as sixth and seventh word.
            let read = |word: usize| unsafe { args.add(word).read_unaligned() };
            let len = if (call.args[1] as u64) < CLONE_ARGS_BYTES - 32 { 0 } else { read(6) };
            (read(0), read(5).wrapping_add(len), len)
        }
        libc::SYS_clone => (call.args[0] as u64, call.args[1] as u64, 0),
        libc::SYS_vfork => ((libc::CLONE_VM | libc::CLONE_VFORK) as u64, 0, 0),
        _ => (0, 0, 0),
    };
    let has = |flag: i32| flags & flag as u64 != 0;
    if has(libc::CLONE_VM) && PROCESS.is_vfork_child() {
        // A vfork in a vfork child: as fork. It costs more and does the same.
        return fork(thread, context, libc::SIGCHLD as u64);
    }
    if !has(libc::CLONE_VM) {
        return match call.number {
            libc::SYS_clone3 => {
                fork_with(thread, context, call, open_address(call.args[0] as u64) as usize, stack)
            }
            libc::SYS_clone => fork_with(thread, context, call, call.args[0], stack),
            _ => fork(thread, context, libc::SIGCHLD as u64),
        };
    }
    let is_vfork = has(libc::CLONE_VFORK);
    if !is_vfork && !has(libc::CLONE_SETTLS) && !tls::by_gs() && !translate::tell_apart_by_gs(thread) {
        // A thread that shares its creator's thread pointer: nobody could tell the two apart.
        lose_control(thread, context.gregs.rip);
    }
    if stack != 0 {
        keep_open(stack.wrapping_sub(stack_len.max(1)));
    }
    let resume = translate::return_address(thread, context);
    thread.vfork_resume = resume;
    let created = if !is_vfork {
        sharing::begin();
        translate::begin_sharing(thread);
        let order = next_order();
        tell_create(thread, resume, order);
        order
    } else {
        0
    };
    if stack != 0 {
        let mut births = PROCESS.births.lock();
        let index = births
            .iter()
            .position(|birth| birth.rsp == stack)
            .or(births.iter().position(|birth| birth.rsp == 0));
        if let Some(place) = index.and_then(|index| births.get_mut(index)) {
            // An entry that is left from a call that failed has a state that can be used.
            let state = if place.thread.is_null() && !is_vfork {
                Thread::prepare().unwrap_or(core::ptr::null_mut())
            } else {
                place.thread
            };
            let kind = if is_vfork {
                Newborn::VforkChild
            } else if has(libc::CLONE_THREAD) {
                Newborn::Thread
            } else {
                Newborn::Sharer
            };
            let (virtual_mask, process) = (thread.virtual_mask, thread.process);
            *place = Birth { rsp: stack, resume, virtual_mask, thread: state, created, kind, process };
        }
    }
    if !is_vfork {
        PROCESS.live_threads.fetch_add(1, Ordering::Relaxed);
    }
    if call.number == libc::SYS_clone3 {
        context.gregs.rdi = open_address(context.gregs.rdi);
    }
    context.gregs.rip = signals::clone_entry();
    None
}

/// Records that a thread is being made; the new one names this order when it starts.
fn tell_create(thread: &mut Thread, ip: u64, order: u64) {
    let (kind, function) = (SyncKind::Create, SyncFunction::Thread);
    let (ip, object) = (VirtAddr(ip), VirtAddr(order));
    thread.emit(&Record::Sync { order, ip, kind, function, object, value: 0 });
}

/// A stack, and the thread control block on it, that the program took from traced memory: the kernel writes there.
fn keep_open(addr: u64) {
    let mut ranges = PROCESS.ranges.lock();
    let Some(range) = ranges.find(addr) else { return };
    ranges.update(range.start, range.end, |range| {
        range.kind = RegionKind::Stack;
        range.traced = false;
    });
    // SAFETY: gives the program the rights that it thinks it has.
    unsafe { sys::mprotect(range.start, range.end - range.start, range.prot) };
}

fn fork(thread: &mut Thread, context: &mut UContext, flags: u64) -> Option<isize> {
    let call = Call { number: libc::SYS_clone, args: [flags as usize, 0, 0, 0, 0, 0], ip: context.gregs.rip };
    fork_with(thread, context, &call, call.args[0], 0)
}

/// Makes a process with memory of its own, inside our handler: the child returns from the same handler.
fn fork_with(
    thread: &mut Thread,
    context: &mut UContext,
    call: &Call,
    first: usize,
    stack: u64,
) -> Option<isize> {
    if !memory::copy_for_child() {
        memory::drop_copy();
        return Some(-(sys::ENOMEM as isize));
    }
    let mut args = call.args;
    args[0] = first;
    if call.number == libc::SYS_clone {
        // The child comes up on our stack, as a copy; its own is set below.
        args[1] = 0;
        args[2] = open_address(args[2] as u64) as usize;
        args[3] = open_address(args[3] as u64) as usize;
    }
    let pool = PROCESS.pool();
    let control = pool.as_ref().map(|pool| pool.control());
    if let Some(control) = control {
        control.expect_child();
    }
    let ranges = PROCESS.ranges.lock();
    let actions = PROCESS.actions.lock();
    let births = PROCESS.births.lock();
    let breakpoints = PROCESS.breakpoints.lock();
    let engine = translate::ENGINE.lock();
    let views = code_views::hold();
    let watched = watchpoints::hold();
    // SAFETY: a new process with a copy of everything; the locks are held so that no other thread is in the middle of a
    // change that the child would inherit half made.
    let result = unsafe { sys::syscall(call.number as usize, args) };
    drop((ranges, actions, births, breakpoints, engine, views, watched));
    if result != 0 {
        if sys::failed(result)
            && let Some(control) = control
        {
            control.settle_child();
        }
        memory::drop_copy();
        return Some(result);
    }
    memory::take_copy();
    if stack != 0 {
        context.gregs.rsp = stack;
    }
    be_child(thread);
    if let Some(control) = control {
        control.settle_child();
    }
    Some(0)
}

/// In a forked child: a process of its own in the session.
fn be_child(thread: &mut Thread) {
    let parent = thread.process;
    PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
    for sharer in &PROCESS.sharers {
        sharer.store(0, Ordering::Relaxed);
    }
    thread.pid = sys::getpid();
    PROCESS.live_threads.store(1, Ordering::Relaxed);
    sharing::reset();
    thread.tid = sys::gettid();
    thread.writer.forget();
    thread.order = 0;
    thread.pending = [None; 32];
    thread.kept = [None; 6];
    if thread.flow.live().is_some() {
        translate::forget_definitions();
        translate::forget_work();
    }
    // The kernel switches the dispatch of system calls off in a child.
    let followed = PROCESS.settings().children && Thread::watch_system_calls(true);
    let number = if followed { PROCESS.pool().and_then(|pool| pool.control().next_process()) } else { None };
    let (Some(number), Some(pool)) = (number, PROCESS.pool()) else {
        thread.flow = translate::Flow::NONE;
        leave_alone();
        return;
    };
    PROCESS.number.store(number, Ordering::Relaxed);
    thread.process = number;
    thread.number = pool.control().next_thread();
    if thread.flow.live().is_some() {
        translate::begin_child(thread);
    }
    if let Some(slot) = pool.process(number) {
        slot.enter(sys::getpid(), Some(parent), sys::realtime_ns());
    }
    start::tell_program(thread);
    if thread.flow.live().is_some() {
        translate::tell_base(thread);
    }
}

/// The process goes on without us: its memory is open for good and its system calls are its own.
fn leave_alone() {
    PROCESS.recording.store(false, Ordering::Release);
    memory::give_back_all();
    PROCESS.pool.store(0, Ordering::Release);
    PROCESS.ready.store(false, Ordering::Release);
    Thread::watch_system_calls(false);
    signals::give_back();
}

/// Recording ends for the process, because the program does something that we can't follow.
fn lose_control(thread: &mut Thread, ip: u64) {
    thread.emit_gap(GapReason::LostControl, 1, ip, b"thread without its own thread pointer");
    PROCESS.recording.store(false, Ordering::Release);
    close_all(false);
}

/// The first moment of a thread, or of a vfork child: our trap in its way.
pub(crate) fn be_born(context: &mut UContext) {
    let gregs = &mut context.gregs;
    let birth = {
        let mut births = PROCESS.births.lock();
        let found = births.iter_mut().find(|birth| birth.rsp == gregs.rsp && birth.rsp != 0);
        found.map(|birth| core::mem::replace(birth, Birth::NONE))
    };
    let kind = birth.map_or(Newborn::VforkChild, |birth| birth.kind);
    match kind {
        Newborn::Thread => {}
        // Where there are too many, or they can't be told apart, it is taken for a vfork child.
        Newborn::Sharer => {
            let _ = tls::by_gs() && PROCESS.begin_sharer();
        }
        Newborn::VforkChild => PROCESS.end_sharer(sys::getpid()),
    }
    let current = Thread::current();
    if current.is_null() {
        let Some(birth) = birth else { return };
        gregs.rip = birth.resume;
        // SAFETY: made for this thread, and taken out of the table by it alone.
        match unsafe { Thread::enter(birth.thread) } {
            Some(thread) => {
                thread.process = birth.process;
                if kind == Newborn::Sharer {
                    enter_sharer(thread);
                }
                signals::start_thread(thread, birth.virtual_mask);
                translate::inherit(thread);
                Thread::watch_system_calls(true);
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
        let thread = unsafe { &mut *Thread::current() };
        context.stack = thread.handler_stack;
        thread.settled = true;
        return;
    }
    // A vfork child: memory, thread pointer and our state are the parent's, which waits.
    // SAFETY: the state of the waiting parent; nobody else uses it.
    let thread = unsafe { &mut *current };
    gregs.rip = birth.map_or(thread.vfork_resume, |birth| birth.resume);
    Thread::watch_system_calls(true);
    thread.install_handler_stack();
    context.stack = thread.handler_stack;
}

/// A process that shares the memory of this one: another one in the session, with the blocks that are defined here.
fn enter_sharer(thread: &mut Thread) {
    let Some(pool) = PROCESS.pool() else { return };
    if let Some(number) = pool.control().next_process()
        && let Some(slot) = pool.process(number)
    {
        slot.enter(sys::getpid(), Some(thread.process), sys::realtime_ns());
        thread.process = number;
    }
}

/// The end of such a process. `false`: it is another one.
fn exit_sharer(thread: &mut Thread, status: u8) -> bool {
    let pid = sys::getpid();
    if pid == PROCESS.pid.load(Ordering::Relaxed) || PROCESS.is_vfork_child() {
        return false;
    }
    thread.emit(&Record::ProcessEnd { status: Some(status) });
    thread.submit();
    translate::end_thread(thread);
    PROCESS.live_threads.fetch_sub(1, Ordering::Relaxed);
    true
}

/// exit: the thread's last records.
pub(crate) fn exit_thread(thread: &mut Thread, status: u8) {
    thread.calling.store(core::ptr::null_mut(), Ordering::Release);
    if PROCESS.is_vfork_child() {
        return;
    }
    thread.tell_thread(SyncKind::Exit, 0, tls::fs_base(), 0);
    thread.emit(&Record::ThreadEnd);
    if exit_sharer(thread, status) {
        return;
    }
    thread.submit();
    translate::end_thread(thread);
    PROCESS.live_threads.fetch_sub(1, Ordering::Relaxed);
}

/// exit_group: the process's last records. Other threads' buffers are taken by the recorder once the process is gone.
pub(crate) fn exit(thread: &mut Thread, status: u8) {
    // In a vfork child the state is its parent's, which goes on with it.
    thread.calling.store(core::ptr::null_mut(), Ordering::Release);
    if PROCESS.is_vfork_child() || exit_sharer(thread, status) {
        return;
    }
    translate::tell_work(thread);
    thread.emit(&Record::ProcessEnd { status: Some(status) });
    thread.submit();
}

/// execve and execveat. Returns only where they fail.
pub(crate) fn exec(thread: &mut Thread, context: &mut UContext, call: &Call) -> isize {
    let at = call.number == libc::SYS_execveat;
    let [a, b, c, d, e, _] = call.args.map(|arg| arg as u64);
    let (path, argv, envp) = if at { (b, c, d) } else { (a, b, c) };
    let path = if !at && is_own_link(path) { PROCESS.settings().image.as_ptr() as u64 } else { path };
    let follow = PROCESS.settings().children && PROCESS.ready.load(Ordering::Relaxed);
    let verdict = if !follow {
        Verdict::Untraced
    } else if at && (a as i32 != libc::AT_FDCWD || e != 0) {
        let mut name = Text::<1024>::new();
        crate::dispatch::path_of_descriptor(a as i32, &mut name);
        name.push(b"\0");
        // A path relative to an open directory is judged by nobody: most programs can be traced.
        if e as i32 & libc::AT_EMPTY_PATH != 0 {
            CStr::from_bytes_until_nul(name.as_bytes()).map_or(Verdict::Traceable, judge)
        } else {
            Verdict::Traceable
        }
    } else if memory::page(path) & memory::PAGE_VIEWED != 0 {
        // SAFETY: a viewed page is open to us; the string ends within the program's memory or the call fails anyway.
        judge(unsafe { CStr::from_ptr(open_address(path) as *const _) })
    } else if path == 0 {
        Verdict::Missing
    } else {
        // SAFETY: the program's own string.
        judge(unsafe { CStr::from_ptr(path as *const _) })
    };
    let carrier = image::carrier();
    let verdict = if verdict == Verdict::Static
        && (at || !PROCESS.settings().translate || carrier.as_bytes().is_empty())
    {
        Verdict::Untraced
    } else {
        verdict
    };
    let image = if verdict == Verdict::Static { open_address(path) } else { 0 };
    let traced = matches!(verdict, Verdict::Traceable | Verdict::Static);
    let Some((argv, envp)) = arguments(thread, argv, envp, traced, image) else {
        return -(sys::EFAULT as isize);
    };
    if verdict == Verdict::Untraced && follow && !PROCESS.is_vfork_child() {
        let name = Text::<1024>::new();
        thread.emit_gap(GapReason::UntracedProgram, 1, 0, name_of(path, name).as_bytes());
    } else if verdict == Verdict::Untraced && follow {
        thread.emit_gap(GapReason::UntracedProgram, 1, 0, name_of(path, Text::new()).as_bytes());
    }
    if !PROCESS.is_vfork_child() && verdict != Verdict::Missing {
        translate::tell_work(thread);
    }
    thread.submit();
    let mut args = call.args;
    if at {
        args[1] = open_address(path) as usize;
        args[2] = argv;
        args[3] = envp;
    } else {
        args[0] = if image == 0 { open_address(path) as usize } else { carrier.as_bytes().as_ptr() as usize };
        args[1] = argv;
        args[2] = envp;
    }
    // A mask outlives exec, and the new program must find the one that this one set.
    let real = sys::set_mask(context.mask | thread.virtual_mask);
    // As in `exit`.
    thread.calling.store(core::ptr::null_mut(), Ordering::Release);
    // SAFETY: the program's own call, its strings at open addresses.
    let result = unsafe { sys::syscall(call.number as usize, args) };
    sys::set_mask(real);
    result
}

fn name_of(path: u64, mut into: Text<1024>) -> Text<1024> {
    // SAFETY: only called where the path was readable.
    let len = unsafe { crate::dispatch::string_len(path) };
    for index in 0..len {
        // SAFETY: as above.
        into.push(&[unsafe { (open_address(path + index) as *const u8).read_volatile() }]);
    }
    into
}

/// Number of pointers before the null of a list.
fn count(list: u64) -> usize {
    let mut count = 0;
    // SAFETY: the program's list; a null list counts as empty, as the kernel has it.
    while list != 0 && unsafe { (open_address(list + count as u64 * 8) as *const u64).read_volatile() } != 0 {
        count += 1;
    }
    count
}

/// Copies of the two lists with open addresses, and our variables where the new program is to be traced; `image` is the
/// path of a static executable, or zero.
fn arguments(thread: &mut Thread, argv: u64, envp: u64, traced: bool, image: u64) -> Option<(usize, usize)> {
    let (args, variables) = (count(argv), count(envp));
    let bytes = (args + variables + 5) * 8;
    let room = thread.scratch(bytes + VARIABLE_BYTES);
    if room.is_null() {
        return None;
    }
    let list = room.cast::<u64>();
    // SAFETY: `room` holds both lists, their nulls, two more entries and the text behind them.
    unsafe {
        for index in 0..args {
            let pointer = (open_address(argv + index as u64 * 8) as *const u64).read();
            list.add(index).write(open_address(pointer));
        }
        list.add(args).write(0);
        let env = list.add(args + 1);
        let mut used = 0;
        let text = core::slice::from_raw_parts_mut(room.add(bytes), VARIABLE_BYTES);
        let mut preload = Text::<{ VARIABLE_BYTES / 2 }>::new();
        let settings = PROCESS.settings();
        let library = settings.library.get(..settings.library_len).unwrap_or(&[]);
        preload.push(b"LD_PRELOAD=");
        preload.push(library);
        for index in 0..variables {
            let pointer = (open_address(envp + index as u64 * 8) as *const u64).read();
            let variable = open_address(pointer);
            if let Some(value) = value_of(variable, b"LD_PRELOAD=").filter(|_| traced) {
                preload.push(b":");
                for offset in 0..crate::dispatch::string_len(value) {
                    preload.push(&[(open_address(value + offset) as *const u8).read()]);
                }
                continue;
            }
            env.add(used).write(variable);
            used += 1;
        }
        if traced {
            preload.push(b"\0");
            let mut channel = Text::<128>::new();
            channel.push(b"MEMTAP_CHANNEL=");
            channel.push(settings.channel.get(..settings.channel_len).unwrap_or(&[]));
            channel.push(b"\0");
            let (first, rest) = text.split_at_mut_checked(preload.as_bytes().len())?;
            first.copy_from_slice(preload.as_bytes());
            rest.get_mut(..channel.as_bytes().len())?.copy_from_slice(channel.as_bytes());
            env.add(used).write(first.as_ptr() as u64);
            env.add(used + 1).write(rest.as_ptr() as u64);
            used += 2;
            if image != 0 {
                let mut variable = Text::<{ VARIABLE_BYTES / 4 }>::new();
                variable.push(image::VARIABLE);
                for offset in 0..crate::dispatch::string_len(image) {
                    variable.push(&[(open_address(image + offset) as *const u8).read()]);
                }
                variable.push(b"\0");
                let third = rest.get_mut(channel.as_bytes().len()..)?.get_mut(..variable.as_bytes().len())?;
                third.copy_from_slice(variable.as_bytes());
                env.add(used).write(third.as_ptr() as u64);
                used += 1;
            }
        }
        env.add(used).write(0);
        Some((list as usize, env as usize))
    }
}

/// The address of a variable's value where it has that name.
unsafe fn value_of(variable: u64, name: &[u8]) -> Option<u64> {
    for (index, byte) in name.iter().enumerate() {
        // SAFETY: reads no further than the first difference, so not behind the terminating zero.
        if unsafe { (open_address(variable + index as u64) as *const u8).read() } != *byte {
            return None;
        }
    }
    Some(variable + name.len() as u64)
}
