//! The tracer's state of a thread.

use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use buffers::Writer;
use tracee::frame::{AltStack, SigInfo, UContext};
use tracee::{sys, tls};

use crate::memory::pages::PAGE_BYTES;
use crate::state::process::PROCESS;
use crate::state::thread_calls::ThreadCalls;
use crate::state::thread_protection::ThreadProtection;
use crate::state::thread_signals::ThreadSignals;
use crate::state::thread_system_call::ThreadSystemCall;
use crate::state::thread_translation::ThreadTranslation;
use crate::state::thread_watch::{OwnStack, ThreadWatch};
use crate::state::thread_work::ThreadWork;
use crate::state::verify_window::VerifyWindow;

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

/// Stands for the context of a thread that waits in a system call which it makes in the gate.
pub(crate) const GATE_CALL: *mut UContext = core::ptr::without_provenance_mut(2 * align_of::<UContext>());

/// What assembly reads and writes of a thread, by these offsets.
#[repr(C)]
pub(crate) struct AssemblyWords {
    /// Where a redirected system call returns to.
    pub(crate) resume: u64,
    /// The same for vfork, whose child uses `resume` before the parent does.
    pub(crate) vfork_resume: u64,
    /// The return address of the call that leads to the next allocation, where that caller is of more interest than the
    /// allocator's; zero otherwise.
    pub(crate) site: u64,
    /// Which call that is, as `AllocationFunction` numbers them.
    pub(crate) site_function: u64,
}

const _: () = {
    assert!(offset_of!(TracedThread, words) == 0);
    assert!(offset_of!(AssemblyWords, resume) == 0);
    assert!(offset_of!(AssemblyWords, vfork_resume) == 8);
    assert!(offset_of!(AssemblyWords, site) == 16);
    assert!(offset_of!(AssemblyWords, site_function) == 24);
};

/// Mappings that a state has for as long as its thread may be followed.
#[derive(Clone, Copy)]
struct ThreadMemory {
    /// The signal stack, with the closed page below it.
    stack: u64,
    code: u64,
    table: u64,
    engine: u64,
}

impl ThreadMemory {
    const STACK_BYTES: u64 = HANDLER_STACK_BYTES as u64 + PAGE_BYTES;
    const ENGINE_BYTES: u64 = (size_of::<x86::CodeCache<'_>>() as u64).next_multiple_of(PAGE_BYTES);

    fn map() -> Option<Self> {
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        // One closed page below the stack: an overflow kills the program visibly instead of changing its memory.
        let stack = sys::map_anonymous(Self::STACK_BYTES, sys::PROT_NONE)? as u64;
        // SAFETY: a part of the mapping just made.
        if sys::failed(unsafe { sys::mprotect(stack + PAGE_BYTES, HANDLER_STACK_BYTES as u64, rw) }) {
            return None;
        }
        let code = sys::map_anonymous(CODE_BYTES as u64, rw | sys::PROT_EXEC)?;
        let table = sys::map_anonymous(TABLE_BYTES as u64, rw)?;
        // SAFETY: both mappings are fresh, of that length, and used for nothing else until they are unmapped, with the cache.
        let cache = unsafe { x86::CodeCache::new(code, CODE_BYTES, table, TABLE_BYTES) };
        let engine: *mut x86::CodeCache<'static> = sys::map_anonymous(Self::ENGINE_BYTES, rw)?.cast();
        // SAFETY: fresh memory of sufficient size and alignment.
        unsafe { engine.write(cache) };
        Some(Self { stack, code: code as u64, table: table as u64, engine: engine as u64 })
    }

    /// # Safety
    /// Nobody uses them.
    unsafe fn unmap(self) {
        for (start, len) in [
            (self.stack, Self::STACK_BYTES),
            (self.code, CODE_BYTES as u64),
            (self.table, TABLE_BYTES as u64),
            (self.engine, Self::ENGINE_BYTES),
        ] {
            // SAFETY: the caller's promise; mappings of ours.
            unsafe { sys::munmap(start, len) };
        }
    }

    fn handler_stack(self) -> AltStack {
        AltStack { sp: self.stack + PAGE_BYTES, flags: 0, size: HANDLER_STACK_BYTES as u64 }
    }

    fn engine(self) -> *mut x86::CodeCache<'static> {
        core::ptr::with_exposed_provenance_mut(self.engine as usize)
    }
}

/// One thread. Used by that thread alone, from its handlers (all signals blocked) or with `busy` set.
#[repr(C)]
pub(crate) struct TracedThread {
    pub(crate) words: AssemblyWords,
    /// The next one in the list of all.
    pub(crate) next: *mut TracedThread,
    pub(crate) tid: u32,
    /// Its process: pid, and number in the session.
    pub(crate) pid: u32,
    pub(crate) process: u32,
    /// Number in the session.
    pub(crate) number: u32,
    /// Not zero while code outside of handlers uses this structure; signals are put off.
    pub(crate) busy: u32,
    /// Its first moment is over, in which our code runs on the program's stack.
    pub(crate) settled: bool,
    /// The last order that this thread's records tell of.
    pub(crate) order: u64,
    pub(crate) writer: Writer,
    /// Executes single instructions of the program. Null in a state whose memory was given back.
    pub(crate) engine: *mut x86::CodeCache<'static>,
    memory: Option<ThreadMemory>,
    /// What a stub of the engine faulted with. Written by the nested handler, read by the step that it interrupted.
    pub(crate) nested: Option<SigInfo>,
    pub(crate) signals: ThreadSignals,
    pub(crate) system_call: ThreadSystemCall,
    pub(crate) calls: ThreadCalls,
    pub(crate) protection: ThreadProtection,
    pub(crate) watch: ThreadWatch,
    pub(crate) translation: ThreadTranslation,
    pub(crate) work: ThreadWork,
    /// What of it is compared with stepping.
    pub(crate) window: VerifyWindow,
    /// The context that it goes on with, while it waits to be let go (`stop::park`); null otherwise.
    pub(crate) parked: AtomicPtr<UContext>,
}

impl TracedThread {
    /// The calling thread's state; null in a thread that was never seen.
    #[inline]
    pub(crate) fn current() -> *mut TracedThread {
        let thread: *mut TracedThread = tls::get();
        if !(tls::by_gs() || PROCESS.has_strangers()) || thread.is_null() {
            return thread;
        }
        // A new thread has its creator's gs until it has one of its own; a vfork child is to have it. What runs natively with its
        // creator's thread pointer never has one.
        // SAFETY: states are never unmapped, and `tid` is read as whoever looks for dead threads does.
        let owner = unsafe { AtomicU32::from_ptr(&raw mut (*thread).tid) }.load(Ordering::Acquire);
        if owner == sys::gettid() || PROCESS.is_vfork_child() { thread } else { core::ptr::null_mut() }
    }

    /// Makes a state for a thread that is about to begin, reusing that of a dead thread where there is one.
    pub(crate) fn prepare() -> Option<*mut TracedThread> {
        Self::reuse(RESERVED).or_else(|| Self::make(RESERVED))
    }

    /// Makes a prepared state that of the calling thread.
    ///
    /// # Safety
    /// `thread` is null or from [`TracedThread::prepare`], and nobody else enters it.
    pub(crate) unsafe fn enter(thread: *mut TracedThread) -> Option<&'static mut TracedThread> {
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
        tls::set(thread as *mut TracedThread);
        Some(thread)
    }

    /// The states of all threads that there have been. Each may be in use by its thread.
    pub(crate) fn all() -> impl Iterator<Item = *mut TracedThread> {
        let some = |thread: *mut TracedThread| (!thread.is_null()).then_some(thread);
        let first = some(PROCESS.threads.load(Ordering::Acquire) as *mut TracedThread);
        // SAFETY: states are never unmapped, and `next` never changes once a state is in the list.
        core::iter::successors(first, move |&thread| some(unsafe { (*thread).next }))
    }

    /// What the threads did that have a state, or had one.
    pub(crate) fn all_work() -> impl Iterator<Item = &'static ThreadWork> {
        // SAFETY: states are never unmapped, and this of them is only written through atomics.
        Self::all().map(|thread| unsafe { &(*thread).work })
    }

    /// Pid and tid of whoever has a state.
    ///
    /// # Safety
    /// The state is from [`TracedThread::all`].
    pub(crate) unsafe fn owner(thread: *mut TracedThread) -> (u32, u32) {
        // SAFETY: states are never unmapped; both are only written through atomic views.
        unsafe {
            let tid = AtomicU32::from_ptr(&raw mut (*thread).tid).load(Ordering::Acquire);
            (AtomicU32::from_ptr(&raw mut (*thread).pid).load(Ordering::Relaxed), tid)
        }
    }

    fn reuse(tid: u32) -> Option<*mut TracedThread> {
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
                if unsafe { (*thread).reset() } {
                    return Some(thread);
                }
                owner.store(0, Ordering::Release);
                return None;
            }
        }
        None
    }

    /// Back to the beginning, but for the memory that it owns; that it has it.
    fn reset(&mut self) -> bool {
        self.busy = 0;
        self.settled = false;
        self.order = 0;
        self.writer = Writer::new();
        self.words.site = 0;
        self.signals = ThreadSignals::new(self.signals.handler_stack);
        self.system_call.calling = AtomicPtr::new(core::ptr::null_mut());
        self.calls = ThreadCalls::NEW;
        self.protection = ThreadProtection { gs_words: self.protection.gs_words, ..ThreadProtection::NEW };
        self.watch.stack = OwnStack::default();
        self.translation = ThreadTranslation::NONE;
        self.parked = AtomicPtr::new(core::ptr::null_mut());
        if self.memory.is_none()
            && let Some(memory) = ThreadMemory::map()
        {
            self.signals = ThreadSignals::new(memory.handler_stack());
            self.engine = memory.engine();
            self.memory = Some(memory);
        }
        self.memory.is_some()
    }

    /// Leaves nothing of it but itself, since states are never unmapped.
    ///
    /// # Safety
    /// Its thread was left, or is dead, and nothing of it is in use.
    pub(crate) unsafe fn give_memory_back(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.engine = core::ptr::null_mut();
            // SAFETY: the caller's promise.
            unsafe { memory.unmap() };
        }
    }

    fn make(tid: u32) -> Option<*mut TracedThread> {
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let own = (size_of::<TracedThread>() as u64).next_multiple_of(PAGE_BYTES);
        let memory = sys::map_anonymous(own, rw)?.cast::<TracedThread>();
        let mapped = ThreadMemory::map()?;
        let mut thread = TracedThread {
            words: AssemblyWords { resume: 0, vfork_resume: 0, site: 0, site_function: 0 },
            next: core::ptr::null_mut(),
            tid,
            pid: 0,
            process: 0,
            number: 0,
            busy: 0,
            settled: false,
            order: 0,
            writer: Writer::new(),
            engine: mapped.engine(),
            memory: Some(mapped),
            nested: None,
            signals: ThreadSignals::new(mapped.handler_stack()),
            system_call: ThreadSystemCall::new(),
            calls: ThreadCalls::NEW,
            protection: ThreadProtection::NEW,
            watch: ThreadWatch::new(),
            translation: ThreadTranslation::NONE,
            work: ThreadWork::default(),
            window: VerifyWindow::NONE,
            parked: AtomicPtr::new(core::ptr::null_mut()),
        };
        let mut head = PROCESS.threads.load(Ordering::Acquire);
        thread.next = head as *mut TracedThread;
        // SAFETY: fresh memory of sufficient size and alignment.
        unsafe { memory.write(thread) };
        while let Err(now) =
            PROCESS.threads.compare_exchange(head, memory as usize, Ordering::AcqRel, Ordering::Acquire)
        {
            head = now;
            // SAFETY: not in the list yet, so nobody else reads it.
            unsafe { (*memory).next = head as *mut TracedThread };
        }
        Some(memory)
    }

    /// Tells the kernel to use our stack for handlers of this thread.
    pub(crate) fn install_handler_stack(&self) {
        // SAFETY: the kernel reads the structure; the stack it names is ours.
        unsafe {
            sys::syscall(
                libc::SYS_sigaltstack as usize,
                [&raw const self.signals.handler_stack as usize, 0, 0, 0, 0, 0],
            );
        }
    }

    /// Whether the kernel would do so.
    pub(crate) fn can_watch_system_calls() -> bool {
        Self::watch_system_calls(true) && Self::watch_system_calls(false)
    }

    /// Hands every system call of this thread that is not made from our own code to our SIGSYS handler.
    pub(crate) fn watch_system_calls(on: bool) -> bool {
        let (start, end) = (PROCESS.text[0].load(Ordering::Relaxed), PROCESS.text[1].load(Ordering::Relaxed));
        let args = if on {
            [
                sys::PR_SET_SYSCALL_USER_DISPATCH,
                sys::PR_SYS_DISPATCH_ON,
                start as usize,
                (end - start) as usize,
                0,
                0,
            ]
        } else {
            [sys::PR_SET_SYSCALL_USER_DISPATCH, sys::PR_SYS_DISPATCH_OFF, 0, 0, 0, 0]
        };
        // SAFETY: changes how this thread's system calls are made; our code range stays allowed.
        !sys::failed(unsafe { sys::syscall(libc::SYS_prctl as usize, args) })
    }
}
