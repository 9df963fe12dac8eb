//! What the tracer knows of a thread.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use buffers::Writer;
use tracee::frame::{AltStack, SigInfo, UContext};
use tracee::{sys, tls};

use crate::calls::thread::Once;
use crate::protect::thread::SingleStep;
use crate::signal::thread::{Pending, Suspended};
use crate::state::process::PROCESS;
use crate::translate::state::Flow;
use crate::translate::verify_window::Window;
use crate::watch::touched::Touched;

/// Bytes of a thread's signal stack. A frame with AMX state takes 11 KiB, faults nest twice, and an unoptimised build of
/// the decoder is deep. What is not used costs no memory.
pub(crate) const HANDLER_STACK_BYTES: usize = 256 << 10;

/// Bytes of a thread's instruction stubs.
pub(crate) const CODE_BYTES: usize = 512 << 10;

/// Bytes of a thread's table of decoded instructions.
pub(crate) const TABLE_BYTES: usize = 1 << 20;

/// The thread id of a state whose thread has not begun.
const RESERVED: u32 = u32::MAX;

/// Stands for the context of a thread that waits in a system call which it made before the process was attached to.
pub(crate) const NATIVE_CALL: *mut UContext = core::ptr::dangling_mut();

/// One thread. Used by that thread alone, from its handlers (all signals blocked) or with `busy` set.
#[repr(C)]
pub(crate) struct Thread {
    /// Where a redirected system call returns to. At offset 0: read by assembly.
    pub(crate) resume: u64,
    /// The same for vfork, whose child uses `resume` before the parent does. At offset 8.
    pub(crate) vfork_resume: u64,
    /// The return address of the call that leads to the next allocation, where that caller is of more interest than the
    /// allocator's; zero otherwise. At offset 16: written by assembly, as the next.
    pub(crate) site: u64,
    /// Which call that is, as `AllocationFunction` numbers them. At offset 24.
    pub(crate) site_function: u64,
    /// The next one in the list of all.
    pub(crate) next: *mut Thread,
    pub(crate) tid: u32,
    /// Its process: pid, and number in the session.
    pub(crate) pid: u32,
    pub(crate) process: u32,
    /// Number in the session.
    pub(crate) number: u32,
    /// Not zero while code outside of handlers uses this structure; signals are put off.
    pub(crate) busy: u32,
    /// Not zero inside calls whose accesses are not recorded.
    pub(crate) silent: u32,
    /// Not zero inside the functions of the allocator that are interposed.
    pub(crate) allocating: u32,
    /// Bursts in a row that found one access only.
    pub(crate) lone_bursts: u32,
    /// The last order that this thread's records tell of.
    pub(crate) order: u64,
    pub(crate) writer: Writer,
    /// Blocked by the program, but never really blocked: SIGSEGV, SIGTRAP, SIGSYS. Bit n-1 is signal n.
    pub(crate) virtual_mask: u64,
    /// The program's own signal stack, as it sees it.
    pub(crate) alt_stack: AltStack,
    /// Ours.
    pub(crate) handler_stack: AltStack,
    pub(crate) pending: [Option<Pending>; 32],
    /// Signals that came and are in `virtual_mask`.
    pub(crate) kept: [Option<Pending>; 6],
    /// The mask that the present system call waits with, where it sets one, up to the first handler that it leads to.
    pub(crate) wait_mask: Option<u64>,
    /// The mask to set when `busy` ends: signals that came meanwhile have blocked all others.
    pub(crate) held_mask: Option<u64>,
    pub(crate) suspended: [Suspended; 16],
    pub(crate) step: SingleStep,
    /// What of its memory is watched.
    pub(crate) stepped: Touched,
    /// What a call that reads from a stream is about to write of what is watched.
    pub(crate) streamed: Touched,
    /// The registers before that instruction, or before the present system call: for the stack of a hit.
    pub(crate) before: x86::Registers,
    /// The thread's own stack, for hits of watchpoints: zeros as long as nobody has looked.
    pub(crate) stack: (u64, u64),
    /// What a stub of ours faulted with. Written by the nested handler, read by the step that it interrupted.
    pub(crate) nested: Option<SigInfo>,
    /// Executes single instructions of the program.
    pub(crate) engine: *mut x86::CodeCache<'static>,
    /// The routine that a call of pthread_once is for.
    pub(crate) once: Once,
    /// The OpenMP team that the thread works in; zero outside of parallel regions.
    pub(crate) team: u64,
    /// Room for the arguments of exec.
    pub(crate) scratch: *mut u8,
    pub(crate) scratch_len: usize,
    /// What it is in the code cache.
    pub(crate) flow: Flow,
    /// Its first moment is over, in which our code runs on the program's stack.
    pub(crate) settled: bool,
    /// The context behind the system call that it makes for the program just now; null otherwise. Written by the thread, read
    /// by whoever would interrupt it.
    pub(crate) calling: AtomicPtr<UContext>,
    /// The context that it goes on with, while it waits to be let go (`translate::park`); null otherwise.
    pub(crate) parked: AtomicPtr<UContext>,
    /// What of it is compared with stepping.
    pub(crate) verify: Window,
    /// Length of the area of restartable sequences that was taken back from the kernel; zero: there was none.
    pub(crate) rseq_len: u32,
}

impl Thread {
    /// The calling thread's state; null in a thread that was never seen.
    #[inline]
    pub(crate) fn current() -> *mut Thread {
        let thread: *mut Thread = tls::get();
        if !tls::by_gs() || thread.is_null() {
            return thread;
        }
        // A new thread has its creator's gs until it has one of its own; a vfork child is to have it.
        // SAFETY: states are never unmapped, and `tid` is read as whoever looks for dead threads does.
        let owner = unsafe { AtomicU32::from_ptr(&raw mut (*thread).tid) }.load(Ordering::Acquire);
        if owner == sys::gettid() || PROCESS.is_vfork_child() { thread } else { core::ptr::null_mut() }
    }

    /// Makes a state for a thread that is about to begin, reusing that of a dead thread where there is one.
    pub(crate) fn prepare() -> Option<*mut Thread> {
        Self::reuse(RESERVED).or_else(|| Self::make(RESERVED))
    }

    /// Makes a prepared state that of the calling thread.
    ///
    /// # Safety
    /// `thread` is null or from [`Thread::prepare`], and nobody else enters it.
    pub(crate) unsafe fn enter(thread: *mut Thread) -> Option<&'static mut Thread> {
        if thread.is_null() {
            return None;
        }
        // SAFETY: states are never unmapped; whoever looks for dead threads reads these through atomic views too.
        unsafe {
            AtomicU32::from_ptr(&raw mut (*thread).pid).store(sys::getpid(), Ordering::Relaxed);
            AtomicU32::from_ptr(&raw mut (*thread).tid).store(sys::gettid(), Ordering::Release);
        }
        // SAFETY: reserved for this thread: nobody else uses it.
        let thread = unsafe { &mut *thread };
        thread.process = PROCESS.number.load(Ordering::Relaxed);
        thread.number = PROCESS.pool().map_or(u32::MAX, |pool| pool.control().next_thread());
        tls::set(thread as *mut Thread);
        Some(thread)
    }

    /// The states of all threads that there have been. Each may be in use by its thread.
    pub(crate) fn all() -> impl Iterator<Item = *mut Thread> {
        let some = |thread: *mut Thread| (!thread.is_null()).then_some(thread);
        let first = some(PROCESS.threads.load(Ordering::Acquire) as *mut Thread);
        // SAFETY: states are never unmapped, and `next` never changes once a state is in the list.
        core::iter::successors(first, move |&thread| some(unsafe { (*thread).next }))
    }

    /// Pid and tid of whoever has a state.
    ///
    /// # Safety
    /// The state is from [`Thread::all`].
    pub(crate) unsafe fn owner(thread: *mut Thread) -> (u32, u32) {
        // SAFETY: states are never unmapped; both are only written through atomic views.
        unsafe {
            let tid = AtomicU32::from_ptr(&raw mut (*thread).tid).load(Ordering::Acquire);
            (AtomicU32::from_ptr(&raw mut (*thread).pid).load(Ordering::Relaxed), tid)
        }
    }

    fn reuse(tid: u32) -> Option<*mut Thread> {
        for thread in Self::all() {
            // SAFETY: from the list.
            let (pid, old) = unsafe { Self::owner(thread) };
            // SAFETY: states are never unmapped; `tid` is only written by who claims it, through such a view.
            let owner = unsafe { AtomicU32::from_ptr(&raw mut (*thread).tid) };
            let args = [pid as usize, old as usize, 0, 0, 0, 0];
            // States of a process that this one is a fork of are nobody's.
            // SAFETY: tgkill with signal 0 only asks whether the thread exists.
            let alive = old == RESERVED
                || PROCESS.is_own(pid) && unsafe { sys::syscall(libc::SYS_tgkill as usize, args) } == 0;
            if !alive && owner.compare_exchange(old, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // SAFETY: claimed: the former owner is dead and nobody else can claim it now.
                unsafe { (*thread).reset() };
                return Some(thread);
            }
        }
        None
    }

    /// Back to the beginning, but for the memory that it owns.
    fn reset(&mut self) {
        self.busy = 0;
        self.silent = 0;
        self.allocating = 0;
        self.lone_bursts = 0;
        self.order = 0;
        self.writer = Writer::new();
        self.virtual_mask = 0;
        self.alt_stack = AltStack { sp: 0, flags: libc::SS_DISABLE, size: 0 };
        self.pending = [None; 32];
        self.kept = [None; 6];
        self.wait_mask = None;
        self.held_mask = None;
        self.suspended = [Suspended::NONE; 16];
        self.step = SingleStep { active: false, program_traps: false, mask: 0, opened: [0; 4] };
        self.stack = (0, 0);
        self.site = 0;
        self.flow = Flow::NONE;
        self.settled = false;
        self.calling = AtomicPtr::new(core::ptr::null_mut());
        self.parked = AtomicPtr::new(core::ptr::null_mut());
        self.rseq_len = 0;
        self.once = Once::NONE;
        self.team = 0;
    }

    fn make(tid: u32) -> Option<*mut Thread> {
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let own = (size_of::<Thread>() as u64).next_multiple_of(4096);
        let memory = sys::map_anonymous(own, rw)?.cast::<Thread>();
        // One closed page below the stack: an overflow kills the program visibly instead of changing its memory.
        let stack = sys::map_anonymous(HANDLER_STACK_BYTES as u64 + 4096, sys::PROT_NONE)? as u64 + 4096;
        // SAFETY: a part of the mapping just made.
        if sys::failed(unsafe { sys::mprotect(stack, HANDLER_STACK_BYTES as u64, rw) }) {
            return None;
        }
        let code = sys::map_anonymous(CODE_BYTES as u64, rw | sys::PROT_EXEC)?;
        let table = sys::map_anonymous(TABLE_BYTES as u64, rw)?;
        // SAFETY: both mappings are fresh, of that length, and used for nothing else for as long as the process lives.
        let cache = unsafe { x86::CodeCache::new(code, CODE_BYTES, table, TABLE_BYTES) };
        let engine: *mut x86::CodeCache<'static> =
            sys::map_anonymous((size_of::<x86::CodeCache<'_>>() as u64).next_multiple_of(4096), rw)?.cast();
        // SAFETY: fresh memory of sufficient size and alignment.
        unsafe { engine.write(cache) };
        let mut thread = Thread {
            resume: 0,
            vfork_resume: 0,
            site: 0,
            site_function: 0,
            next: core::ptr::null_mut(),
            tid,
            pid: 0,
            process: 0,
            number: 0,
            busy: 0,
            silent: 0,
            allocating: 0,
            lone_bursts: 0,
            order: 0,
            writer: Writer::new(),
            virtual_mask: 0,
            alt_stack: AltStack { sp: 0, flags: libc::SS_DISABLE, size: 0 },
            handler_stack: AltStack { sp: stack, flags: 0, size: HANDLER_STACK_BYTES as u64 },
            pending: [None; 32],
            kept: [None; 6],
            wait_mask: None,
            held_mask: None,
            suspended: [Suspended::NONE; 16],
            step: SingleStep { active: false, program_traps: false, mask: 0, opened: [0; 4] },
            stepped: Touched::new(),
            streamed: Touched::new(),
            before: x86::Registers::default(),
            stack: (0, 0),
            nested: None,
            engine,
            once: Once::NONE,
            team: 0,
            scratch: core::ptr::null_mut(),
            scratch_len: 0,
            flow: Flow::NONE,
            settled: false,
            calling: AtomicPtr::new(core::ptr::null_mut()),
            parked: AtomicPtr::new(core::ptr::null_mut()),
            verify: Window::NONE,
            rseq_len: 0,
        };
        let mut head = PROCESS.threads.load(Ordering::Acquire);
        thread.next = head as *mut Thread;
        // SAFETY: fresh memory of sufficient size and alignment.
        unsafe { memory.write(thread) };
        while let Err(now) =
            PROCESS.threads.compare_exchange(head, memory as usize, Ordering::AcqRel, Ordering::Acquire)
        {
            head = now;
            // SAFETY: not in the list yet, so nobody else reads it.
            unsafe { (*memory).next = head as *mut Thread };
        }
        Some(memory)
    }

    /// Tells the kernel to use our stack for handlers of this thread.
    pub(crate) fn install_handler_stack(&self) {
        // SAFETY: the kernel reads the structure; the stack it names is ours.
        unsafe {
            sys::syscall(
                libc::SYS_sigaltstack as usize,
                [&raw const self.handler_stack as usize, 0, 0, 0, 0, 0],
            );
        }
    }

    /// Hands every system call of this thread that is not made from our own code to our SIGSYS handler.
    pub(crate) fn watch_system_calls(on: bool) -> bool {
        const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
        let (start, end) = (PROCESS.text[0].load(Ordering::Relaxed), PROCESS.text[1].load(Ordering::Relaxed));
        let args = if on {
            [PR_SET_SYSCALL_USER_DISPATCH, 1, start as usize, (end - start) as usize, 0, 0]
        } else {
            [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]
        };
        // SAFETY: changes how this thread's system calls are made; our code range stays allowed.
        !sys::failed(unsafe { sys::syscall(libc::SYS_prctl as usize, args) })
    }
}
