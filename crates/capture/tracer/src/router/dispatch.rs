//! The program's system calls: each one that is not made in the gate (`direct`) comes
//! here as SIGSYS, and is made for the program with pointers that the kernel can follow.

use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{BlockKind, GapReason, VirtAddr};
use tracee::frame::{AltStack, SigAction, SigInfo, UContext};
use tracee::sys;

use crate::memory::{pages, program_memory, program_writes};
use crate::process::{debugger, exec, filters, surroundings, threads};
use crate::protect::views;
use crate::router::{direct, own_status};
use crate::signal::stubs::{self, NOT_MADE};
use crate::signal::{actions, alt_stack, deaths, delivery, rseq, wait_limit, waiting};
use crate::state::births;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::syscall::call::SystemCall;
use crate::syscall::scratch::Scratch;
use crate::syscall::table::{self, Arg, Manner, SignalSet};
use crate::syscall::{code_writes, paths};
use crate::translate::code_changes::{self, MappingChange};
use crate::translate::{context, stepping, translated_thread};

const ERROR_UNKNOWN: isize = -(sys::ENOSYS as isize);

/// What the kernel's calls about signals exchange.
const ACTION_BYTES: u64 = size_of::<SigAction>() as u64;
const MASK_BYTES: u64 = size_of::<SignalSet>() as u64;
const ALTSTACK_BYTES: u64 = size_of::<AltStack>() as u64;

/// How often code that is kept from being written is opened for one call.
const MAX_OPENINGS: u32 = 32;

/// Who makes a call.
pub(super) enum Maker {
    /// A handler, which blocks all signals; the program's mask.
    Handler(u64),
    /// The gate, where the mask is the program's.
    Gate,
}

impl Maker {
    /// Makes a call that may wait, and that signals may interrupt.
    pub(super) fn wait(&self, thread: &mut TracedThread, number: libc::c_long, args: &[usize; 6]) -> isize {
        match *self {
            Self::Handler(mask) => stubs::wait(number as usize, args, mask),
            Self::Gate => direct::wait(thread, number, args),
        }
    }
}

/// Makes the system call that a context has just come to.
///
/// # Safety
/// `context` is that of a SIGSYS which system call dispatch raised.
pub(crate) unsafe fn on_system_call(thread: &mut TracedThread, context: &mut UContext) {
    let gregs = context.gregs;
    // The instruction leaves these in two registers.
    context.gregs.rcx = gregs.rip;
    context.gregs.r11 = gregs.rflags;
    let call = SystemCall::of(&gregs, gregs.rip);
    let SystemCall { number, args, .. } = call;
    if number == libc::SYS_futex {
        thread.tell_futex(call.ip, &args, None);
    }
    if PROCESS.is_watched() {
        thread.watch.before = context.gregs;
    }
    if number != libc::SYS_rt_sigreturn {
        stepping::note_progress(thread, number);
    }
    thread.system_call.calling.store(context, Ordering::Release);
    // SAFETY: our caller's promise; the program vouches for its own arguments as it would to the kernel.
    let result = unsafe { call.make(thread, context) };
    // Before it is looked what kind of code comes next: see `kick::kick_others`.
    thread.system_call.calling.swap(core::ptr::null_mut(), Ordering::SeqCst);
    wait_limit::end(thread);
    if thread.translation.take_interrupted() {
        call.tell_rest();
    }
    let Some(result) = result else { return };
    if number == libc::SYS_futex {
        thread.tell_futex(call.ip, &args, Some(result));
    }
    if result == NOT_MADE {
        context.gregs.rip = call.ip;
        context.gregs.rax = number as u64;
    } else {
        context.gregs.rax = result as u64;
    }
    // SAFETY: the context that the handler of SIGSYS returns to.
    unsafe { delivery::deliver_pending(thread, context) };
    thread.signals.wait_mask = None;
}

impl SystemCall {
    /// Makes it. `None`: the context says how to go on.
    unsafe fn make(&self, thread: &mut TracedThread, context: &mut UContext) -> Option<isize> {
        let [a, b, c, d, ..] = self.args.map(|arg| arg as u64);
        // SAFETY: each call gets the program's own arguments, pointers replaced by addresses of the same memory.
        unsafe {
            if let Some(result) = self.memory_call(thread) {
                return Some(result);
            }
            match self.number {
                libc::SYS_rt_sigreturn => {
                    delivery::sigreturn(thread, context, context::resume_address);
                    None
                }
                libc::SYS_rt_sigaction => {
                    thread.before_signals(self.number, self.ip, &self.args);
                    let result = actions::sigaction(thread, a as i32, b, c, d as usize);
                    Some(self.exchanged(thread, result, b, c, ACTION_BYTES))
                }
                libc::SYS_rt_sigprocmask => {
                    let result = waiting::sigprocmask(thread, context, a as i32, b, c, d as usize);
                    Some(self.exchanged(thread, result, b, c, MASK_BYTES))
                }
                libc::SYS_sigaltstack => {
                    let rsp = context.gregs.rsp;
                    let result = alt_stack::sigaltstack(thread, a, b, rsp);
                    Some(self.exchanged(thread, result, a, b, ALTSTACK_BYTES))
                }
                libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
                    threads::clone(thread, context, self)
                }
                libc::SYS_execve | libc::SYS_execveat => Some(exec::exec(thread, context, self)),
                libc::SYS_exit => {
                    threads::exit_thread(thread, a as u8);
                    context.gregs.rip = stubs::redirect_entry();
                    None
                }
                libc::SYS_exit_group => {
                    threads::exit(thread, a as u8);
                    sys::exit_group(a as i32)
                }
                libc::SYS_shmat => Some(self.shmat(thread)),
                libc::SYS_shmdt => {
                    code_changes::on_mapping(MappingChange::Detached { start: a });
                    Some(sys::syscall(self.number as usize, self.args))
                }
                libc::SYS_remap_file_pages => Some(sys::syscall(self.number as usize, self.args)),
                libc::SYS_pkey_mprotect => {
                    Some(self.protected(sys::syscall(self.number as usize, self.args)))
                }
                libc::SYS_rt_sigpending => {
                    let result = self.make_described(thread, &Maker::Handler(context.mask));
                    let kept = waiting::kept(thread) | waiting::put_off_blocked(thread, context.mask);
                    if result == 0 && kept != 0 {
                        // The kernel has just written a mask there.
                        program_writes::set_value(a, &(program_memory::word(a) | kept));
                    }
                    Some(result)
                }
                libc::SYS_rt_sigtimedwait => Some(self.sigtimedwait(thread, context)),
                // Of what is the tracer's only what is used is locked, and so of the program's what it touches.
                libc::SYS_mlockall => {
                    let flags = self.args[0] | libc::MCL_ONFAULT as usize;
                    Some(sys::syscall(self.number as usize, [flags, 0, 0, 0, 0, 0]))
                }
                // Shared rings would carry pointers that nobody sees. Programs fall back to plain calls.
                libc::SYS_io_uring_setup => {
                    let name = b"calls of io_uring_setup refused (the program uses plain calls)";
                    thread.emit(&Record::Counter { ip: VirtAddr(0), count: 1, name });
                    Some(ERROR_UNKNOWN)
                }
                libc::SYS_rseq if PROCESS.settings().attached => Some(rseq::register(thread, &self.args)),
                // The kernel restarts sequences by native addresses, and ends programs whose sequences lie on closed pages.
                // Programs have another way where there is no rseq.
                libc::SYS_rseq => Some(rseq::pretend(thread, &self.args)),
                libc::SYS_ptrace if a == u64::from(libc::PTRACE_TRACEME) => {
                    Some(debugger::trace_me(thread, context))
                }
                libc::SYS_seccomp | libc::SYS_prctl if filters::before(thread, context, self) => {
                    Some(NOT_MADE)
                }
                // A second dispatcher.
                libc::SYS_prctl if a as usize == sys::PR_SET_SYSCALL_USER_DISPATCH => {
                    Some(-(sys::EINVAL as isize))
                }
                libc::SYS_arch_prctl => {
                    let result = translated_thread::arch_prctl(thread, a, b);
                    if result == 0 && translated_thread::gets_base(a) {
                        self.block(thread, BlockKind::Fill, b, size_of::<u64>() as u64);
                    }
                    Some(result)
                }
                libc::SYS_readlink if paths::is_own_link(a) => Some(paths::read_own_link(b, c)),
                libc::SYS_readlinkat if paths::is_own_link(b) => Some(paths::read_own_link(c, d)),
                libc::SYS_ioctl if !table::is_flat_ioctl(b as usize) && pages::is_viewed(c, 1) => {
                    Some(self.make_open(thread, &Maker::Handler(context.mask)))
                }
                libc::SYS_ioctl => {
                    let mut args = self.args;
                    args[2] = pages::open_address(c) as usize;
                    Some(stubs::wait(self.number as usize, &args, context.mask))
                }
                _ => {
                    let blocked = context.mask | thread.signals.virtual_mask;
                    deaths::before_call(thread, self.number, &self.args, self.ip, blocked);
                    if self.sends_trap_to_thread() {
                        births::wait_for_all();
                    }
                    Some(self.make_described(thread, &Maker::Handler(context.mask)))
                }
            }
        }
    }

    /// Makes a call that changes memory's mappings, or the limits of that; `None` where it is another one.
    ///
    /// # Safety
    /// As [`Self::make_described`].
    pub(super) unsafe fn memory_call(&self, thread: &mut TracedThread) -> Option<isize> {
        let [a, b, c, ..] = self.args.map(|arg| arg as u64);
        if let Some(result) = self.limited_call(thread) {
            return Some(result);
        }
        // SAFETY: the program's own arguments.
        unsafe {
            match self.number {
                libc::SYS_mmap => Some(self.mmap(thread)),
                libc::SYS_munmap => Some(self.munmap(thread)),
                libc::SYS_mremap => Some(self.mremap(thread)),
                libc::SYS_brk => Some(self.brk(thread)),
                libc::SYS_mprotect => Some(self.protected(views::protect(a, b, c as i32))),
                libc::SYS_madvise
                    if matches!(c as i32, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE)
                        && pages::is_page_start(a) =>
                {
                    let result = views::discard(a, b, c as i32);
                    code_changes::on_mapping(MappingChange::Discarded { start: a, len: b });
                    Some(result)
                }
                libc::SYS_madvise => Some(sys::syscall(self.number as usize, self.args)),
                _ => None,
            }
        }
    }

    /// Whether it sends SIGTRAP to one thread.
    fn sends_trap_to_thread(&self) -> bool {
        let signal = match self.number {
            libc::SYS_tkill => self.args[1],
            libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => self.args[2],
            _ => return false,
        };
        signal as i32 == libc::SIGTRAP
    }

    /// A sleep that was interrupted as soon as it began: all of it remains.
    fn tell_rest(&self) {
        let (wanted, rest) = match self.number {
            libc::SYS_nanosleep => (self.args[0], self.args[1]),
            libc::SYS_clock_nanosleep if self.args[1] as i32 & libc::TIMER_ABSTIME == 0 => {
                (self.args[2], self.args[3])
            }
            _ => return,
        };
        if rest == 0 {
            return;
        }
        if let Some(time) = program_memory::value::<[u64; 2]>(wanted as u64) {
            // SAFETY: where the kernel would have written the rest.
            unsafe { program_writes::set_value(rest as u64, &time) };
        }
    }

    /// A wait for signals, some of which may be here already (`waiting::kept`).
    unsafe fn sigtimedwait(&self, thread: &mut TracedThread, context: &mut UContext) -> isize {
        let [set, info, _, size, ..] = self.args.map(|arg| arg as u64);
        let put_off = waiting::put_off_blocked(thread, context.mask);
        if (waiting::kept(thread) | put_off) != 0 && size == MASK_BYTES {
            let Some(set) = program_memory::value(set) else { return -(sys::EFAULT as isize) };
            let kept = waiting::take_kept(thread, set);
            if let Some(kept) = kept.or_else(|| waiting::take_put_off(thread, set & put_off)) {
                if info != 0 {
                    // SAFETY: the program's own structure, which the kernel would write.
                    if !unsafe { program_writes::set_value(info, &kept.info) } {
                        return -(sys::EFAULT as isize);
                    }
                    self.block(thread, BlockKind::Fill, info, size_of::<SigInfo>() as u64);
                }
                thread.take_signal(self.ip, kept.signal, &kept.info);
                return kept.signal as isize;
            }
        }
        // SAFETY: the caller vouches for the call as the program would to the kernel.
        let result = unsafe { self.make_described(thread, &Maker::Handler(context.mask)) };
        thread.take_waited_signal(self.ip, &self.args, result);
        result
    }

    /// A call whose pointers the table knows.
    pub(super) unsafe fn make_described(&self, thread: &mut TracedThread, maker: &Maker) -> isize {
        surroundings::before(self.number, &self.args);
        thread.before_signals(self.number, self.ip, &self.args);
        let (manner, kinds) = table::describe(self.number);
        // Where code is translated, memory is open at any time.
        if manner == Manner::Open && !PROCESS.settings().translate {
            // SAFETY: the caller vouches for the call as the program would to the kernel.
            return unsafe { self.make_open(thread, maker) };
        }
        let mut args = self.args;
        let mut scratch = Scratch::new(thread);
        for (index, kind) in kinds.iter().enumerate() {
            let Some(arg) = args.get_mut(index) else { break };
            if *kind == Arg::Value || *arg == 0 {
                continue;
            }
            // SAFETY: the program's pointers, followed as the kernel would, through the open view.
            let opened = unsafe { scratch.translate(*kind, *arg as u64, &self.args) };
            // What is wrong with the others the kernel says.
            *arg = opened.unwrap_or_else(|| pages::open_address(*arg as u64)) as usize;
        }
        thread.signals.wait_mask = scratch.mask;
        if let Some(mask) = scratch.mask
            && waiting::kept(thread) & !mask != 0
        {
            waiting::put_off_kept(thread, mask);
            return -(libc::EINTR as isize);
        }
        self.open_code(&kinds);
        // A bad pointer must be an error of the call, not a fault of ours: `translate` reads only viewed memory, and
        // leaves other pointers to the kernel.
        let call = |thread: &mut TracedThread| match manner {
            // SAFETY: the caller vouches for the call as the program would to the kernel.
            Manner::Quick => unsafe { sys::syscall(self.number as usize, args) },
            _ => maker.wait(thread, self.number, &args),
        };
        thread.before_descriptors(self.number, self.ip, &self.args);
        let mut result = call(thread);
        // Written through pointers that the table does not show, such as lists of buffers: the call had no effect.
        // (Another thread may execute it, and close it again.)
        for _ in 0..MAX_OPENINGS {
            if result != -(sys::EFAULT as isize) || !code_changes::on_write_for_program(0, u64::MAX) {
                break;
            }
            result = call(thread);
        }
        if !scratch.copy_back() && !sys::failed(result) {
            result = -(sys::EFAULT as isize);
        }
        if result != NOT_MADE {
            code_writes::after(self, result);
            own_status::after(self, thread, maker, result);
            thread.after_descriptors(self.number, self.ip, &self.args, result);
        }
        if PROCESS.is_recording() && result != NOT_MADE && thread.calls.silent == 0 {
            for (index, kind) in kinds.iter().enumerate() {
                let Some(&arg) = self.args.get(index) else { break };
                if *kind != Arg::Value && arg != 0 {
                    self.log(thread, *kind, arg as u64, result);
                }
            }
        }
        thread.leave_descriptors();
        result
    }

    /// Code that the program can write is kept from being written: the kernel may, where the call says so.
    fn open_code(&self, kinds: &[Arg; 6]) {
        if !PROCESS.settings().translate {
            return;
        }
        for (index, kind) in kinds.iter().enumerate() {
            let arg = |index: usize| self.args.get(index).map_or(0, |&arg| arg as u64);
            let len = match *kind {
                Arg::OutBytes(len) | Arg::Both(len) => len.into(),
                // Its length is the next argument.
                Arg::OutResult => arg(index + 1),
                _ => continue,
            };
            code_changes::on_write_for_program(arg(index), len);
        }
    }

    /// A call with pointers that we can't find: all memory is open while it runs.
    unsafe fn make_open(&self, thread: &mut TracedThread, maker: &Maker) -> isize {
        let recording = PROCESS.recording.swap(false, Ordering::AcqRel);
        views::close_all(false);
        let result = maker.wait(thread, self.number, &self.args);
        if recording {
            PROCESS.recording.store(true, Ordering::Release);
            views::close_all(true);
            if PROCESS.is_threaded() {
                thread.emit_gap(GapReason::OpenForSyscall, 1, self.ip, b"");
            }
        }
        result
    }
}
