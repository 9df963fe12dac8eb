//! Translated programs: the code cache of crate `translate`, inside this process.
//!
//! The program runs in the cache. Every way out of it is a signal - a trap of the cache, a system call (by dispatch), a
//! fault, the program's own signals, the end of a buffer - and every handler does the same: it finds the program's own
//! state ([`enter`]), does what the other half of this library does for native programs, and goes back to the cache at the
//! address that has become the next one ([`leave`]). So a program that is translated and one that is not take the same
//! paths through system calls, signals, threads and forks.
//!
//! malloc and its relatives are one event each here as well: while one runs, the thread is in code that does not record,
//! and its return leaves the cache.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use blocks::{MAX_DEFINITION_BYTES, MAX_VALUES, encode_definition};
use buffers::flow::{IN_GATE_AT, Live, RSP_AT, SPILLS_AT, STACK_AT, TARGET_AT};
use buffers::{BUFFER_BYTES, BUFFER_COUNT, Content, DefinitionWriter, FLOW_BYTES, Pool, Record};
use code_cache::{Checked, Defined, Engine, Exit, FS_SPILL, Mode, Place, Task, Trap, Untranslatable};
use memref::{AccessKind, AllocationFunction, AllocationKind, BlockKind, GapReason, MarkerKind, VirtAddr};
use tracee::frame::{Gregs, SigInfo, UContext};
use tracee::lock::Lock;
use tracee::text::Text;
use tracee::{sys, tls};
use x86::{Operand, Outcome, Refused};

use crate::code_views::{self, Stretches};
use crate::control::{self, registers};
use crate::emit::{as_thread, next_order, wait_for_free};
use crate::state::{PROCESS, Thread};
use crate::watchpoints::{self, Origin, Touched};
use crate::wrap_alloc::Event;
use crate::{breakpoint, image, memory, real, sharing, signals, translate_sync, verify};

const ARCH_SET_GS: usize = 0x1001;
const TRAP_FLAG: u64 = 1 << 8;
const DIRECTION_FLAG: u64 = 1 << 10;
/// si_code of a fault for want of a right.
pub(crate) const SEGV_ACCERR: i32 = 2;
/// si_code of a trap by the trap flag.
pub(crate) const TRAP_TRACE: i32 = 2;
/// Instructions that a thread executes in any case between two signals.
const PROGRESS: u32 = 32;
/// si_code of a signal that one of our threads sends to another: no other sender uses it.
const KICK: i32 = -0x6d74;
/// Not zero while the process is about to be left: threads wait where their own state is known.
static PARKING: AtomicU32 = AtomicU32::new(0);
/// How long a thread waits at most: whoever asked may have died.
const PARK_NS: u64 = 30_000_000_000;
const HOOKS: usize = 8;
const _: () = assert!(tls::GS_AT == buffers::flow::THREAD_AT);
/// Where buffers are mapped for the program's own recording: one every 128 KiB, so that what is behind each can't be
/// written.
const WINDOW_STRIDE: u64 = 2 * BUFFER_BYTES as u64;

static WINDOWS: AtomicU64 = AtomicU64::new(0);
/// There is a thread whose state is not behind its gs base.
static HAS_UNKNOWN: AtomicBool = AtomicBool::new(false);
static MAPPED: [AtomicBool; BUFFER_COUNT] = [const { AtomicBool::new(false) }; BUFFER_COUNT];
pub(crate) static ENGINE: Lock<Engine> = Lock::new(Engine::new());
static DEFINITIONS: Lock<DefinitionWriter> = Lock::new(DefinitionWriter::new());

/// What the tracer does in a process, counted.
#[derive(Clone, Copy)]
enum Work {
    Exits,
    Lookups,
    Traps,
    TranslationNs,
    Buffers,
    WaitNs,
}

static WORK: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

impl Work {
    fn add(self, count: u64) {
        if let Some(word) = WORK.get(self as usize) {
            word.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Tells what was counted, before the process ends or becomes another program.
pub(crate) fn tell_work(thread: &mut Thread) {
    if thread.flow.live().is_none() {
        return;
    }
    let ((blocks, bytes), cache) = {
        let engine = ENGINE.lock();
        (engine.translated(), engine.cache_bytes())
    };
    let mut tell = |name: &str, count: u64| {
        thread.emit(&Record::Counter { ip: VirtAddr(0), count, name: name.as_bytes() });
    };
    tell("blocks translated", blocks);
    tell("bytes of code translated", bytes);
    tell("bytes of the code cache", cache);
    let names = [
        "exits of the cache",
        "targets not found by look-up",
        "instructions left to the tracer",
        "nanoseconds of translating",
        "buffers",
        "nanoseconds of waiting for the recorder",
    ];
    for (name, word) in names.iter().zip(&WORK) {
        tell(name, word.load(Ordering::Relaxed));
    }
}

/// In a forked child: its own work begins.
pub(crate) fn forget_work() {
    for word in &WORK {
        word.store(0, Ordering::Relaxed);
    }
    ENGINE.lock().forget_counts();
}

/// A function that is one event, and runs.
#[derive(Clone, Copy)]
struct Hook {
    return_to: u64,
    /// The stack pointer behind its return.
    rsp: u64,
    /// What its return means; `None` where it is no event.
    event: Option<(AllocationKind, AllocationFunction)>,
    len: u64,
    old: u64,
    /// Where posix_memalign leaves the block.
    place: u64,
    /// Where there are watchpoints: what it does to a block at an address, and bytes of one of its items.
    stream: Option<(BlockKind, u64, u64)>,
}

impl Hook {
    const NONE: Self = Self { return_to: 0, rsp: 0, event: None, len: 0, old: 0, place: 0, stream: None };
}

/// Signals that came one after the other, each as soon as the handler of the last one returned.
#[derive(Clone, Copy)]
struct Run {
    /// Where in the cache the program would go on.
    at: u64,
    /// The first one and its timer, and how often it came.
    first: (i32, i32),
    count: u32,
}

impl Run {
    const NONE: Self = Self { at: 0, first: (0, 0), count: 0 };

    /// Whether one more shows that they come faster than handlers return. A signal that is not queued can be pending for the
    /// thread, for its process, and here: one that comes more often was sent meanwhile. Those that are queued come, as
    /// natively, before the program goes on, however many they are.
    fn is_endless(&mut self, signal: i32, info: &SigInfo) -> bool {
        const FIRST_QUEUED: i32 = 32;
        const SI_TIMER: i32 = -2;
        let of_timer = info.code == SI_TIMER;
        if signal >= FIRST_QUEUED && !of_timer {
            return false;
        }
        // A timer's number is in the place of an address.
        let key = (signal, if of_timer { info.addr as i32 } else { 0 });
        if self.count == 0 {
            self.first = key;
        }
        self.count += u32::from(self.first == key);
        self.count > 3
    }
}

/// What a thread is in the code cache.
pub(crate) struct Flow {
    /// Its words in shared memory; null where nothing is translated.
    live: *const Live,
    /// It runs in the cache.
    running: bool,
    /// The number of its next buffer.
    sequence: u32,
    /// Where in the cache the present system call was made.
    call: u64,
    /// It runs under the trap flag to the next instruction of the program, with signals waiting.
    stepping: bool,
    step_mask: u64,
    /// Where the program went on behind its last handler, and what came there instead of its next instruction.
    resumed: u64,
    run: Run,
    /// Instructions that it is still to execute with signals waiting.
    progress: u32,
    /// The next one stores the flags.
    stores_flags: bool,
    /// A system call was reached so, and did not begin because of a signal.
    starved: bool,
    interrupted: bool,
    /// It was kicked while it was at work in a handler of ours, at whose end it is to be looked after.
    kicked: bool,
    hooks: [Hook; HOOKS],
    depth: usize,
    /// Calls that synchronise and have not returned.
    pub(crate) calls: translate_sync::Calls,
    /// A function of ours that runs in the place of the program's call.
    own_call: Option<OwnCall>,
    /// Whether its thread-local variables are watched, and where its base of fs is then.
    locals: Option<u64>,
}

/// A function of ours that the program called, before it ran.
#[derive(Clone, Copy)]
struct OwnCall {
    /// The program's registers, at the real function.
    gregs: Gregs,
    silent: u32,
    allocating: u32,
}

impl Flow {
    pub(crate) const NONE: Self = Self {
        live: core::ptr::null(),
        running: false,
        sequence: 0,
        call: 0,
        stepping: false,
        kicked: false,
        step_mask: 0,
        resumed: 0,
        run: Run::NONE,
        progress: 0,
        stores_flags: false,
        starved: false,
        interrupted: false,
        hooks: [Hook::NONE; HOOKS],
        depth: 0,
        calls: translate_sync::Calls::NONE,
        own_call: None,
        locals: None,
    };

    pub(crate) fn live(&self) -> Option<&'static Live> {
        // SAFETY: null, or a slot of the pool, which stays mapped.
        unsafe { self.live.as_ref() }
    }

    /// Where the words are that its code shares with the recorder: the base of gs; zero: it has none.
    pub(crate) fn words_at(&self) -> u64 {
        self.live().map_or(0, |live| &raw const *live as u64)
    }

    /// Whether it is on its way to the next instruction of the program.
    pub(crate) fn is_stepping(&self) -> bool {
        self.stepping
    }

    /// Whether a sleep ends before it began, because signals come faster than the program gets anywhere.
    pub(crate) fn interrupts(&mut self, number: u64) -> bool {
        let sleeps = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_pause];
        self.interrupted = self.starved && sleeps.iter().any(|&sleep| sleep as u64 == number);
        self.interrupted
    }

    /// Whether the present system call was a sleep that ended so.
    pub(crate) fn take_interrupted(&mut self) -> bool {
        self.starved = false;
        core::mem::take(&mut self.interrupted)
    }

    /// Whether the thread runs in the cache.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }
}

/// Where a thread without a buffer writes: it faults there, and gets one.
fn nowhere() -> u64 {
    WINDOWS.load(Ordering::Relaxed) + BUFFER_BYTES as u64 + 4096
}

/// Memory, when recording of the process begins.
pub(crate) fn prepare(thread: &mut Thread) -> bool {
    let len = WINDOW_STRIDE * BUFFER_COUNT as u64;
    let Some(windows) = sys::map_anonymous(len, sys::PROT_NONE) else { return false };
    WINDOWS.store(windows as u64, Ordering::Relaxed);
    let settings = PROCESS.settings();
    let task = match settings.data {
        _ if settings.watches => match watchpoints::make_marks() {
            Some(marks) => Task::Check(marks),
            None => return false,
        },
        true => Task::Data,
        false => Task::Addresses,
    };
    let flow = if settings.flow { code_cache::Flow::Full } else { code_cache::Flow::Accesses };
    if !ENGINE.lock().prepare(task, flow) {
        return false;
    }
    begin_thread(thread)
}

/// The functions that are events: ours stand in front of them, or the program ran natively and calls them. The loader is asked.
pub(crate) fn find_functions(is_preloaded: bool) {
    entries::prepare(is_preloaded);
}

/// A thread of a process that is attached to goes on at `rip`: the address in the cache.
pub(crate) fn begin_running(thread: &mut Thread, rip: u64) -> u64 {
    thread.flow.running = true;
    if PROCESS.live_threads.load(Ordering::Relaxed) > 1 {
        begin_sharing(thread);
    }
    tell_base(thread);
    resume_address(thread, rip)
}

/// A thread of such a process goes on natively. Its state was found before.
pub(crate) fn end_running(thread: &mut Thread) {
    settle(thread);
    thread.submit();
    if let Some(live) = thread.flow.live() {
        live.release();
    }
    thread.flow = Flow::NONE;
}

/// Has all threads wait where their own state is known, or lets them go on.
pub(crate) fn set_parking(on: bool) {
    PARKING.store(on.into(), Ordering::Release);
    if !on {
        sys::futex_wake(PARKING.as_ptr());
    }
}

/// Waits with a context of the program's own as long as the process is about to be left.
fn park(thread: &mut Thread, context: &mut UContext) {
    let is_native =
        thread.busy == 0 && thread.flow.own_call.is_none() && !PROCESS.owns_code(context.gregs.rip);
    if PARKING.load(Ordering::Acquire) == 0 || !is_native || PROCESS.is_vfork_child() {
        return;
    }
    thread.parked.store(context, Ordering::Release);
    let begun = sys::realtime_ns();
    loop {
        let rest = PARK_NS.saturating_sub(sys::realtime_ns().saturating_sub(begun));
        if rest == 0 || PARKING.load(Ordering::Acquire) == 0 {
            break;
        }
        sys::futex_wait(PARKING.as_ptr(), 1, rest);
    }
    thread.parked.store(core::ptr::null_mut(), Ordering::Release);
}

/// Has a thread come to such a place, unless it makes a system call, behind which it looks by itself.
pub(crate) fn ask_to_park(other: &Thread) {
    if other.calling.load(Ordering::SeqCst).is_null() {
        kick(other.pid, other.tid);
    }
}

/// Forgets kicks that wait for the calling thread, which has SIGTRAP blocked; what somebody else sent stays pending.
pub(crate) fn forget_kicks(thread: &mut Thread) {
    let traps = signals::bit(libc::SIGTRAP);
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        let mut info = SigInfo::fault(libc::SIGTRAP, 0, 0);
        let args = [
            &raw const traps as usize,
            &raw mut info as usize,
            &raw const none as usize,
            size_of::<u64>(),
            0,
            0,
        ];
        // SAFETY: the kernel reads and writes the locals.
        if sys::failed(unsafe { sys::syscall(libc::SYS_rt_sigtimedwait as usize, args) }) {
            return;
        }
        if info.code != KICK {
            signals::put_off(thread, libc::SIGTRAP, &info);
        }
    }
}

/// Whether a stopped thread's own state can be found at an address outside of the tracer.
pub(crate) fn has_state_at(thread: &Thread, rip: u64) -> bool {
    let Some(engine) = ENGINE.try_lock() else { return false };
    let place = engine.place(rip);
    !thread.flow.live().is_some_and(Live::is_in_gate) && place != Place::Between && !is_unread(place)
}

/// Gives back all memory.
///
/// # Safety
/// No thread of the process is in the cache or at work in the tracer.
pub(crate) unsafe fn forget_all() {
    code_views::forget_all();
    // SAFETY: the caller's promise.
    unsafe { ENGINE.lock().clear() };
    forget_definitions();
    forget_work();
    let windows = WINDOWS.swap(0, Ordering::AcqRel);
    if windows != 0 {
        // SAFETY: only recording code writes there.
        unsafe { sys::munmap(windows, WINDOW_STRIDE * BUFFER_COUNT as u64) };
    }
    for mapped in &MAPPED {
        mapped.store(false, Ordering::Release);
    }
}

/// Gives the calling thread its words in shared memory.
pub(crate) fn begin_thread(thread: &mut Thread) -> bool {
    thread.flow = Flow::NONE;
    let Some(pool) = PROCESS.pool() else { return false };
    let live = pool.take_live(thread.process);
    let words = match live {
        Some(live) => &raw const *live,
        None => {
            pool.control().refuse();
            HAS_UNKNOWN.store(true, Ordering::Relaxed);
            // Where the pointer to a thread's state is behind gs, it needs a place all the same.
            let own = tls::by_gs().then(|| sys::map_anonymous(4096, sys::PROT_READ | sys::PROT_WRITE));
            let Some(words) = own.flatten() else { return false };
            words.cast::<Live>().cast_const()
        }
    };
    // SAFETY: a slot of the pool, or fresh memory of which every content is one.
    let words = unsafe { &*words };
    words.set_thread(&raw const *thread as u64);
    // SAFETY: gs is nobody's in 64-bit programs; a thread that uses it itself is not translated.
    unsafe {
        let args = [ARCH_SET_GS, &raw const *words as usize, 0, 0, 0, 0];
        sys::syscall(libc::SYS_arch_prctl as usize, args);
    }
    let Some(live) = live else { return false };
    live.forget(nowhere());
    live.set_spill(FS_SPILL, tls::fs_base());
    live.set_gate(memtap_gate as *const () as u64, gate_stack(thread));
    thread.flow.live = live;
    verify::arm(thread);
    true
}

/// arch_prctl by the program: the bases of fs and gs.
pub(crate) fn arch_prctl(thread: &mut Thread, what: u64, addr: u64) -> isize {
    const ARCH_SET_FS: u64 = 0x1002;
    const ARCH_GET_GS: u64 = 0x1004;
    if thread.flow.live().is_some() && what == ARCH_GET_GS && addr != 0 {
        let zero = 0u64;
        let local = [&raw const zero as usize, 8];
        let remote = [addr as usize, 8];
        let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
        // SAFETY: the kernel writes into the program's word, if it can be written.
        let written = unsafe { sys::syscall(libc::SYS_process_vm_writev as usize, args) };
        return if sys::failed(written) { -(libc::EFAULT as isize) } else { 0 };
    }
    if thread.flow.live().is_some() && what == ARCH_SET_GS as u64 {
        if addr == 0 {
            // As it is for the program.
            return 0;
        }
        if tls::by_gs() {
            return -(libc::EPERM as isize);
        }
        lose_thread(thread, b"sets its own gs base");
    }
    let args = [what as usize, addr as usize, 0, 0, 0, 0];
    // SAFETY: the program's own call; our pointer does not depend on the base that it changes.
    let result = unsafe { sys::syscall(libc::SYS_arch_prctl as usize, args) };
    if what == ARCH_SET_FS && thread.flow.live().is_some() {
        tell_base(thread);
    }
    result
}

/// A thread is about to be made that has the fs base of its creator: from now on threads are told apart by their gs base.
/// `false`: some have none.
pub(crate) fn tell_apart_by_gs(thread: &Thread) -> bool {
    if thread.flow.live().is_none() || HAS_UNKNOWN.load(Ordering::Relaxed) {
        return false;
    }
    tls::use_gs();
    true
}

/// The thread goes on natively, from its next instruction on.
fn lose_thread(thread: &mut Thread, why: &[u8]) {
    HAS_UNKNOWN.store(true, Ordering::Relaxed);
    settle(thread);
    thread.emit_gap(GapReason::LostControl, 1, 0, why);
    thread.submit();
    if let Some(live) = thread.flow.live() {
        live.release();
    }
    thread.writer.go_on(thread.flow.sequence);
    thread.flow = Flow::NONE;
}

/// In a new thread of a translated program, or a forked child, before it runs.
pub(crate) fn begin_child(thread: &mut Thread) {
    let running = thread.flow.running;
    let (hooks, depth, locals) = (thread.flow.hooks, thread.flow.depth, thread.flow.locals);
    thread.flow.running = begin_thread(thread) && running;
    (thread.flow.hooks, thread.flow.depth, thread.flow.locals) = (hooks, depth, locals);
}

/// In a forked child: definitions go into buffers of its own.
pub(crate) fn forget_definitions() {
    DEFINITIONS.lock().forget();
}

/// A thread ends.
pub(crate) fn end_thread(thread: &mut Thread) {
    if let Some(live) = thread.flow.live() {
        if let Some(base) = thread.flow.locals {
            watchpoints::end_locals(base);
        }
        thread.submit();
        live.release();
        thread.flow = Flow::NONE;
    }
}

/// A new thread of a translated program begins to run where its creator's code is.
pub(crate) fn inherit(thread: &mut Thread) {
    let Some(_) = PROCESS.settings().translate.then_some(()) else { return };
    begin_thread(thread);
    thread.flow.running = thread.flow.live().is_some();
    begin_sharing(thread);
    tell_base(thread);
    begin_locals(thread);
}

/// The thread is no longer alone: its locked instructions are brought into an order with those of others.
pub(crate) fn begin_sharing(thread: &Thread) {
    if let (Some(live), Some(pool)) = (thread.flow.live(), PROCESS.pool()) {
        live.set_order(pool.control().order_word() as *const _ as u64);
    }
}

/// Where the thread's own variables are, which its code does not say.
pub(crate) fn tell_base(thread: &mut Thread) {
    if let Some(live) = thread.flow.live() {
        live.set_spill(FS_SPILL, tls::fs_base());
    }
    thread.emit(&Record::ThreadBase { addr: VirtAddr(tls::fs_base()) });
}

/// Watches the thread-local variables of the calling thread.
pub(crate) fn begin_locals(thread: &mut Thread) {
    let base = tls::fs_base();
    if thread.flow.live().is_some() && watchpoints::begin_locals(base) {
        thread.flow.locals = Some(base);
    }
}

impl Thread {
    /// Its words in shared memory where it writes by them: what hits of watchpoints is written as native threads do.
    pub(crate) fn filled_live(&self) -> Option<&'static Live> {
        self.flow.live().filter(|_| !PROCESS.settings().watches)
    }

    /// Writes a record between the entries of the thread's own code.
    pub(crate) fn write_flow(&mut self, live: &Live, pool: &Pool, record: &Record<'_>) {
        while live.record(pool, record).is_err() {
            if !self.refill_flow(live, pool) {
                return;
            }
        }
    }

    /// The next buffer, mapped for the thread's own code; waits for the recorder where it is behind. `false` when it is
    /// gone: the thread then writes into a buffer that nobody reads.
    fn refill_flow(&mut self, live: &Live, pool: &Pool) -> bool {
        self.submit();
        let control = pool.control();
        let process = self.process;
        loop {
            if control.is_closed() {
                PROCESS.recording.store(false, Ordering::Release);
                return false;
            }
            let freed = control.freed_word().load(Ordering::Acquire);
            if let Some(buffer) = pool.take(process, self.number, self.tid, self.flow.sequence, Content::Flow)
            {
                self.flow.sequence = self.flow.sequence.wrapping_add(1);
                let base = window(buffer.index(), buffer.start() as u64);
                live.begin_buffer(buffer, base);
                Work::Buffers.add(1);
                return true;
            }
            let start = sys::realtime_ns();
            wait_for_free(control, freed);
            Work::WaitNs.add(sys::realtime_ns().saturating_sub(start));
        }
    }

    /// Hands over what a translated thread wrote.
    pub(crate) fn submit_flow(&mut self, live: &Live, pool: &Pool) -> bool {
        live.submit(pool, nowhere())
    }

    /// What the code that it runs does.
    fn mode(&self) -> Mode {
        if !PROCESS.is_recording() {
            Mode::Quiet
        } else if self.silent > 0 {
            Mode::Silent
        } else {
            Mode::Record
        }
    }

    /// Counts instructions that no entry of the thread's own code tells of.
    fn count(&mut self, count: u64) {
        if PROCESS.settings().watches {
            return;
        }
        let (Some(live), Some(pool)) = (self.flow.live(), PROCESS.pool()) else { return };
        while count > 0 && !live.add_instructions(&pool, count as i64) {
            if !self.refill_flow(live, &pool) {
                return;
            }
        }
    }
}

/// The address at which the program's own code reaches a buffer.
fn window(index: usize, start: u64) -> u64 {
    let at = WINDOWS.load(Ordering::Relaxed) + index as u64 * WINDOW_STRIDE;
    if let Some(mapped) = MAPPED.get(index)
        && !mapped.swap(true, Ordering::AcqRel)
    {
        let flags = sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED;
        const MADV_POPULATE_WRITE: usize = 23;
        // SAFETY: an old length of zero makes a second mapping of the buffer's shared pages, at a place that is reserved
        // for it. Touching its pages now is only a matter of speed.
        unsafe {
            sys::mremap(start, 0, FLOW_BYTES as u64, flags, at);
            let args = [at as usize, FLOW_BYTES, MADV_POPULATE_WRITE, 0, 0, 0];
            sys::syscall(libc::SYS_madvise as usize, args);
        }
    }
    at
}

/// What the cache needs of this process.
struct Around {
    mode: Mode,
}

impl code_cache::Environment for Around {
    fn read(&self, addr: u64, into: &mut [u8]) -> usize {
        // A page at a time: the second one may not exist.
        let first = (4096 - (addr & 4095)).min(into.len() as u64);
        // Before: what is written from now on is told.
        code_views::watch(addr, into.len() as u64);
        let mut done = 0;
        for part in [first, into.len() as u64 - first] {
            let Some(place) = into.get_mut(done as usize..(done + part) as usize) else { break };
            if !read(addr.wrapping_add(done), place) {
                break;
            }
            done += part;
        }
        done as usize
    }

    fn resolve(&self, addr: u64, mode: Mode) -> u64 {
        if PROCESS.owns_code(addr) { entries::resolve(addr, mode) } else { addr }
    }

    fn is_stop(&self, addr: u64) -> bool {
        self.is_own(addr) || breakpoint::is_at(addr)
    }

    fn is_own(&self, addr: u64) -> bool {
        PROCESS.owns_code(addr) || self.mode == Mode::Record && entries::is_real(addr)
    }

    fn define(&mut self, id: u32, block: Defined<'_>) -> bool {
        let Some(pool) = PROCESS.pool() else { return false };
        if self.mode != Mode::Record {
            return true;
        }
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let len = encode_definition(id, block.extent, block.values, block.accesses, &mut bytes);
        let bytes = bytes.get(..len).unwrap_or(&[]);
        let process = PROCESS.number.load(Ordering::Relaxed);
        let control = pool.control();
        loop {
            if control.is_closed() {
                return true;
            }
            let freed = control.freed_word().load(Ordering::Acquire);
            if DEFINITIONS.lock().write(&pool, process, bytes).is_ok() {
                return true;
            }
            wait_for_free(control, freed);
        }
    }
}

/// Code is forgotten where `find` says, if it is translated at all. Nobody translates between the two, and what it takes of the
/// heap is gone before a fork.
fn invalidate(find: impl FnOnce() -> Stretches) {
    if !PROCESS.settings().translate {
        return;
    }
    let mut engine = ENGINE.lock();
    for (start, end) in find() {
        engine.invalidate(start, end);
    }
}

/// Behind the last page of a range.
fn end_of(start: u64, len: u64) -> u64 {
    start.saturating_add(memory::whole_pages(len))
}

/// The program made a mapping at `start`. `fd`: -1 where there is no file.
pub(crate) fn on_map(start: u64, len: u64, prot: i32, shared: bool, fd: i32, offset: u64) {
    invalidate(|| code_views::mapped(start, end_of(start, len), prot, shared, fd, offset));
}

/// The program unmaps memory.
pub(crate) fn on_unmap(start: u64, len: u64) {
    invalidate(|| code_views::unmapped(start, end_of(start, len)));
}

/// The program changed the rights to memory.
pub(crate) fn on_protect(start: u64, len: u64, prot: i32) {
    invalidate(|| code_views::protected(start, end_of(start, len), prot));
}

/// Bytes have changed otherwise than by writing.
pub(crate) fn on_discard(start: u64, len: u64) {
    invalidate(|| code_views::changed(start, end_of(start, len)));
}

/// The program is about to move memory.
pub(crate) fn before_move(start: u64, len: u64) {
    invalidate(|| code_views::moving(start, end_of(start, len)));
}

/// It did; `keeps`: what is left behind stays mapped.
pub(crate) fn on_move(old: u64, old_len: u64, new: u64, new_len: u64, keeps: bool) {
    invalidate(|| code_views::moved((old, end_of(old, old_len)), (new, end_of(new, new_len)), keeps));
}

/// The program attached shared memory at an address.
pub(crate) fn on_attach(start: u64) {
    invalidate(|| code_views::attached(start));
}

/// The program detaches shared memory.
pub(crate) fn on_detach(start: u64) {
    invalidate(|| code_views::detached(start));
}

/// A page with code is about to be written, or was: the code is forgotten, and the page can be written. Whether the code that
/// writes may be among it; `None`: there is no such page.
fn open_code(start: u64, len: u64, rip: u64) -> Option<bool> {
    let mut engine = ENGINE.lock();
    let changed = code_views::open(start, start.saturating_add(len))?;
    for &(start, end) in &changed {
        engine.invalidate(start, end);
    }
    let Place::At { addr, .. } = engine.place(rip) else { return Some(false) };
    Some(changed.iter().any(|&(start, _)| addr.abs_diff(start) < 2 * 4096))
}

/// The program writes where it has code: that code is forgotten, and the write made. `false`: no such fault.
pub(crate) fn on_code_write(thread: &mut Thread, info: &SigInfo, context: &mut UContext) -> bool {
    if !PROCESS.settings().translate {
        return false;
    }
    let Some(is_own) = open_code(info.addr, 1, context.gregs.rip) else { return false };
    if is_own {
        // The code that writes may be what it changes: this one instruction is executed here, the next one looked at anew.
        enter(thread, context);
        let addr = context.gregs.rip;
        special(thread, context, addr, None);
    }
    true
}

/// The kernel, or the tracer, writes there for the program: code in such pages is forgotten. Returns whether there was any.
pub(crate) fn on_write_for_program(start: u64, len: u64) -> bool {
    open_code(start, len, 0).is_some()
}

/// Whether the program's own state could be found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// It is there now: the context is the program's.
    Native,
    /// There is more to do first.
    Between,
}

/// Whether a block's code is about to read what it stored.
fn is_unread(place: Place) -> bool {
    matches!(place, Place::At { record: code_cache::Record::Unread(..), .. })
}

/// Makes a context of the cache the program's own.
pub(crate) fn enter(thread: &mut Thread, context: &mut UContext) -> Entered {
    enter_as(thread, context, false)
}

/// As [`enter`], where the code faulted and can't go on.
pub(crate) fn enter_at_fault(thread: &mut Thread, context: &mut UContext) -> Entered {
    enter_as(thread, context, true)
}

fn enter_as(thread: &mut Thread, context: &mut UContext, is_fault: bool) -> Entered {
    let (Some(live), Some(pool)) = (thread.flow.live(), PROCESS.pool()) else { return Entered::Native };
    if is_in_gate(thread, context.gregs.rip) {
        return Entered::Between;
    }
    let rip = context.gregs.rip;
    let place = ENGINE.lock().place(rip);
    let (addr, executed, instructions, borrowed, aside, record, repeated) = match place {
        Place::Outside => {
            verify::closed(thread, context, rip, rip);
            thread.flow.call = 0;
            if thread.calling.load(Ordering::Relaxed) == signals::NATIVE_CALL {
                thread.calling.swap(core::ptr::null_mut(), Ordering::SeqCst);
            }
            return Entered::Native;
        }
        Place::Between => return Entered::Between,
        // The bytes that are not in the buffer yet would be lost.
        _ if is_unread(place) && !is_fault => return Entered::Between,
        Place::At { addr, executed, instructions, borrowed, aside, record, repeated } => {
            (addr, executed, instructions, borrowed, aside, record, repeated)
        }
    };
    thread.flow.call = context.gregs.rip;
    let regs = registers(context);
    if let Some(register) = borrowed {
        regs.set_number(register, live.spill(0));
    }
    for (index, register) in [0u8, 1, 2].into_iter().enumerate() {
        if aside & 1 << index != 0 {
            regs.set_number(register, live.spill(index + 1));
        }
    }
    match record {
        code_cache::Record::Done if executed < instructions => {
            // The buffer keeps room for this.
            let _ = live.cut(&pool, executed.into(), false);
        }
        code_cache::Record::Open(id, values) | code_cache::Record::Unread(id, values) => {
            let mut moved = false;
            if let Some(before) = repeated {
                let now = [regs.rsi, regs.rdi, regs.rcx];
                moved = live.open_value(&pool, before - 1) != regs.rcx;
                for (index, value) in now.into_iter().enumerate() {
                    live.set_open_value(&pool, before + index as u8, value);
                }
            }
            if executed > 0 || moved {
                live.close_block(&pool, id, values);
                let _ = live.cut(&pool, executed.into(), moved);
            }
        }
        code_cache::Record::Counted(counted) => {
            live.add_instructions(&pool, i64::from(executed) - i64::from(counted));
        }
        code_cache::Record::Quiet(counted) => {
            live.uncount_quiet(u64::from(counted).wrapping_sub(executed.into()));
        }
        code_cache::Record::Done | code_cache::Record::Uncounted | code_cache::Record::Trap => {}
    }
    context.gregs.rip = addr;
    verify::closed(thread, context, rip, addr);
    Entered::Native
}

/// Lets a context go on in the cache.
pub(crate) fn leave(thread: &mut Thread, context: &mut UContext) {
    if !thread.flow.running || thread.flow.own_call.is_some() || PROCESS.owns_code(context.gregs.rip) {
        return;
    }
    if let Some(code) = code_for(thread, context.gregs.rip, false) {
        context.gregs.rip = code;
        verify::resume(thread, context);
    }
}

/// Code for an address of the program; `None` where there can be none: the program goes on natively.
fn code_for(thread: &mut Thread, addr: u64, indirect: bool) -> Option<u64> {
    let mode = thread.mode();
    let mut around = Around { mode };
    let result = {
        let mut engine = ENGINE.lock();
        if engine.contains(addr) {
            return Some(addr);
        }
        let start = if engine.has(addr, mode) { None } else { Some(sys::realtime_ns()) };
        let result = if indirect {
            engine.code_for_indirect(addr, mode, &mut around)
        } else {
            engine.code(addr, mode, &mut around)
        };
        if let Some(start) = start {
            Work::TranslationNs.add(sys::realtime_ns().saturating_sub(start));
        }
        result
    };
    let unwatched = code_views::take_unwatched();
    if unwatched > 0 {
        thread.emit_gap(
            GapReason::LostControl,
            unwatched,
            addr,
            b"code that can't be kept from being written",
        );
    }
    match result {
        Ok(code) => Some(code),
        // Natively it faults there, as it should.
        Err(Untranslatable::Unreadable) => None,
        Err(Untranslatable::Full) => {
            thread.emit_gap(GapReason::LostControl, 1, addr, b"no room for translated code");
            None
        }
    }
}

/// The address in the cache to which a system call returns, where the program's own will not do.
pub(crate) fn return_address(thread: &mut Thread, context: &UContext) -> u64 {
    match thread.flow.call {
        // Made natively: by a thread that waited in it when the process was attached to.
        0 => resume_address(thread, context.gregs.rip),
        call if thread.flow.running => call,
        _ => context.gregs.rip,
    }
}

/// The address in the cache at which a program's context that the kernel restores goes on.
pub(crate) fn resume_address(thread: &mut Thread, addr: u64) -> u64 {
    if !thread.flow.running || PROCESS.owns_code(addr) {
        return addr;
    }
    let code = code_for(thread, addr, false).unwrap_or(addr);
    let flow = &mut thread.flow;
    flow.resumed = code;
    if flow.run.at != code {
        flow.run = Run { at: code, ..Run::NONE };
    }
    code
}

/// A fault at the end of a buffer: the next one, with what is written of the present block. `false`: no such fault.
pub(crate) fn on_buffer_end(thread: &mut Thread, info: &SigInfo, context: &mut UContext) -> bool {
    let windows = WINDOWS.load(Ordering::Relaxed);
    if windows == 0 || !(windows..windows + WINDOW_STRIDE * BUFFER_COUNT as u64).contains(&info.addr) {
        return false;
    }
    let (Some(live), Some(pool)) = (thread.flow.live(), PROCESS.pool()) else { return false };
    let Some(register) = ENGINE.lock().pointer(context.gregs.rip) else { return false };
    let mut carried = [0u64; MAX_VALUES];
    let count = (info.addr.saturating_sub(live.position()) / 8).min(carried.len() as u64) as usize;
    for (index, place) in carried.iter_mut().enumerate().take(count) {
        *place = live.open_value(&pool, index as u8);
    }
    if !thread.refill_flow(live, &pool) {
        // Nobody reads any more: the thread writes the same buffer again and again.
        let Some(base) = void(thread) else { return false };
        live.begin(u32::MAX, base);
        live.set_position(base + 8);
    } else {
        thread.note_order_now(&pool);
        verify::on_buffer(thread, context);
        live.carry(&pool, carried.get(..count).unwrap_or(&[]));
    }
    registers(context).set_number(register, live.position());
    true
}

/// Private memory in the place of a buffer.
fn void(thread: &mut Thread) -> Option<u64> {
    let _ = thread;
    let base = WINDOWS.load(Ordering::Relaxed) + (BUFFER_COUNT as u64 - 1) * WINDOW_STRIDE;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_FIXED;
    // SAFETY: the last window, which only threads use for which nobody reads any more.
    let result =
        unsafe { sys::mmap(base, FLOW_BYTES as u64, sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0) };
    (!sys::failed(result)).then_some(base)
}

/// The thread is to go on in code of another kind, or to wait to be left.
fn on_kick(thread: &mut Thread, context: &mut UContext) {
    if thread.flow.stepping {
        // At the end of its steps it is where it is to be.
        return;
    }
    if !thread.settled || signals::is_in_handler(thread, context) {
        thread.flow.kicked = true;
    } else if enter(thread, context) == Entered::Between {
        step(thread, context);
    } else {
        leave_or_park(thread, context);
    }
}

/// At the end of a handler that returns to the program or the cache: a kick that came while it ran. Steps end by themselves in the
/// same way.
pub(crate) fn end_handler(thread: &mut Thread, context: &mut UContext) {
    if thread.flow.kicked && !thread.flow.stepping {
        thread.flow.kicked = false;
        on_kick(thread, context);
    }
}

/// SIGTRAP of a translated program: a trap of the cache, a step, or a kick. `false`: none of them.
pub(crate) fn on_trap(thread: &mut Thread, info: &SigInfo, context: &mut UContext) -> bool {
    if thread.flow.live().is_none() {
        return false;
    }
    if take_over(thread, context) {
        return true;
    }
    if info.code == KICK {
        on_kick(thread, context);
        return true;
    }
    if info.code <= 0 {
        // Somebody has sent it.
        return false;
    }
    if verify::on_step(thread, info, context) {
        return true;
    }
    if thread.flow.stepping && is_in_gate(thread, context.gregs.rip) {
        // The code that was interrupted may hold the lock. The steps go on behind it, with the flags that it loads.
        if !is_behind_gate(context.gregs.rip) {
            context.gregs.rflags &= !TRAP_FLAG;
        }
        return true;
    }
    // A step that ends right behind the trap of another instruction has not executed that.
    let trap = if info.code == TRAP_TRACE { None } else { ENGINE.lock().trap(context.gregs.rip) };
    match trap {
        Some(Trap::Special(addr, native)) => {
            let stepped = core::mem::take(&mut thread.flow.stepping);
            if stepped {
                context.mask = thread.flow.step_mask;
                context.gregs.rflags &= !TRAP_FLAG;
            }
            verify::before_special(thread, context, addr);
            special(thread, context, addr, native);
            verify::after_special(thread, context);
            if stepped {
                step(thread, context);
                // Its own copy is executed before signals come, like any other instruction.
                if native != Some(context.gregs.rip) {
                    end_step(thread, context);
                }
            }
            true
        }
        None if thread.flow.stepping => {
            if !steps_further(thread, context) {
                end_step(thread, context);
            }
            true
        }
        None => false,
    }
}

/// The cache was left through its gate: where the program goes on.
fn on_exit(thread: &mut Thread, context: &mut UContext, exit: Exit) {
    let Some(live) = thread.flow.live() else { return };
    Work::Exits.add(1);
    match exit {
        Exit::Goto(target, mode, via) => {
            context.gregs.rip = target;
            if mode != thread.mode() {
                leave(thread, context);
            } else if let Some(code) = code_for(thread, target, false) {
                ENGINE.lock().set_link(via, code);
                context.gregs.rip = code;
                verify::resume(thread, context);
            }
        }
        Exit::Indirect(mode) => {
            Work::Lookups.add(1);
            let target = live.target();
            let regs = registers(context);
            (regs.rcx, regs.rdx) = (live.spill(2), live.spill(3));
            context.gregs.rip = target;
            if end_hook(thread, context) {
                leave(thread, context);
                return;
            }
            if mode == Mode::Record {
                translate_sync::returned(thread, context);
                // SAFETY: the top of the program's stack, where the caller has just left the return address.
                let return_to = || unsafe { (context.gregs.rsp as *const u64).read_unaligned() };
                let stop = translate_sync::runs(thread, context, return_to);
                if stop != 0 {
                    ENGINE.lock().intercept(stop, Mode::Record);
                }
            }
            if PROCESS.owns_code(target) && !entries::is_entry(target) {
                // main returns to us.
                thread.flow.running = false;
                return;
            }
            let indirect = mode == thread.mode();
            if let Some(code) = code_for(thread, target, indirect) {
                context.gregs.rip = code;
                verify::resume(thread, context);
            }
        }
        Exit::Own(addr) => {
            context.gregs.rip = addr;
            if entries::call(thread, context, addr) {
                leave(thread, context);
            }
        }
        Exit::Check(_) | Exit::Checked(..) => {}
    }
}

/// An instruction is about to access a marked line: goes on where it stands, or where hits go.
fn check(thread: &mut Thread, gregs: &mut Gregs, checked: &Checked) {
    thread.stepped.clear();
    for &(addr, len, kind) in checked.accesses() {
        thread.stepped.note(addr, len, kind, true);
    }
    if thread.stepped.is_empty() {
        gregs.rip = checked.resume;
    } else {
        thread.before = x86::Registers { rip: checked.addr, ..*control::as_registers(gregs) };
        gregs.rip = checked.hit;
    }
}

/// A fault in a function of ours that runs in the place of the program's call: the real function runs instead, and has its
/// own. `false`: no such fault.
pub(crate) fn leave_own_call(thread: &mut Thread, context: &mut UContext) -> bool {
    let (Some(call), Some(live)) = (thread.flow.own_call.take(), thread.flow.live()) else { return false };
    context.gregs = call.gregs;
    (thread.silent, thread.allocating, thread.busy) = (call.silent, call.allocating, 0);
    live.leave_gate();
    leave(thread, context);
    true
}

core::arch::global_asm!(
    ".globl memtap_gate",
    ".hidden memtap_gate",
    ".globl memtap_gate_loaded",
    ".hidden memtap_gate_loaded",
    ".globl memtap_gate_end",
    ".hidden memtap_gate_end",
    // The way out of the cache: the reason in eax, the program's rax in spill 1. On the thread's own signal stack, where a
    // signal's frame then comes below it; the program's registers in the order of `Gregs`, whose last word is the stack's.
    "memtap_gate:",
    "mov dword ptr gs:[{in_gate}], 1",
    "mov gs:[{rsp}], rsp",
    "mov rsp, gs:[{stack}]",
    "pushfq",
    "push 0",
    "push qword ptr gs:[{rsp}]",
    "push rcx",
    "push qword ptr gs:[{rax}]",
    "push rdx",
    "push rbx",
    "push rbp",
    "push rsi",
    "push rdi",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "cld",
    "mov rdi, rsp",
    "mov esi, eax",
    // Our code uses these and leaves their upper parts alone.
    "sub rsp, 256",
    "movups [rsp], xmm0",
    "movups [rsp + 16], xmm1",
    "movups [rsp + 32], xmm2",
    "movups [rsp + 48], xmm3",
    "movups [rsp + 64], xmm4",
    "movups [rsp + 80], xmm5",
    "movups [rsp + 96], xmm6",
    "movups [rsp + 112], xmm7",
    "movups [rsp + 128], xmm8",
    "movups [rsp + 144], xmm9",
    "movups [rsp + 160], xmm10",
    "movups [rsp + 176], xmm11",
    "movups [rsp + 192], xmm12",
    "movups [rsp + 208], xmm13",
    "movups [rsp + 224], xmm14",
    "movups [rsp + 240], xmm15",
    "call memtap_on_exit",
    "movups xmm0, [rsp]",
    "movups xmm1, [rsp + 16]",
    "movups xmm2, [rsp + 32]",
    "movups xmm3, [rsp + 48]",
    "movups xmm4, [rsp + 64]",
    "movups xmm5, [rsp + 80]",
    "movups xmm6, [rsp + 96]",
    "movups xmm7, [rsp + 112]",
    "movups xmm8, [rsp + 128]",
    "movups xmm9, [rsp + 144]",
    "movups xmm10, [rsp + 160]",
    "movups xmm11, [rsp + 176]",
    "movups xmm12, [rsp + 192]",
    "movups xmm13, [rsp + 208]",
    "movups xmm14, [rsp + 224]",
    "movups xmm15, [rsp + 240]",
    "add rsp, 256",
    "pop r8",
    "pop r9",
    "pop r10",
    "pop r11",
    "pop r12",
    "pop r13",
    "pop r14",
    "pop r15",
    "pop rdi",
    "pop rsi",
    "pop rbp",
    "pop rbx",
    "pop rdx",
    "pop rax",
    "pop rcx",
    "pop qword ptr gs:[{rsp}]",
    "pop qword ptr gs:[{target}]",
    "popfq",
    "memtap_gate_loaded:",
    "mov rsp, gs:[{rsp}]",
    "mov dword ptr gs:[{in_gate}], 0",
    "jmp qword ptr gs:[{target}]",
    "memtap_gate_end:",
    in_gate = const IN_GATE_AT,
    rsp = const RSP_AT,
    stack = const STACK_AT,
    rax = const SPILLS_AT + 8,
    target = const TARGET_AT,
);

unsafe extern "C" {
    fn memtap_gate();
    fn memtap_gate_loaded();
    fn memtap_gate_end();
}

/// Called by the gate.
///
/// # Safety
/// The gate's own registers, of a thread that runs in the cache.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_on_exit(gregs: &mut Gregs, reason: u32) {
    as_thread(|thread| {
        let Some(live) = thread.flow.live() else { return };
        let engine = ENGINE.lock();
        match engine.exit(reason) {
            Some(Exit::Check(number)) => {
                let regs = control::as_registers(gregs);
                let backwards = gregs.rflags & DIRECTION_FLAG != 0;
                let checked =
                    engine.checked(number, |number| regs.get(number), live.spill(FS_SPILL), backwards);
                drop(engine);
                if let Some(checked) = checked {
                    check(thread, gregs, &checked);
                }
            }
            Some(Exit::Checked(addr, behind)) => {
                drop(engine);
                gregs.rip = behind;
                let (before, mut touched) = (thread.before, thread.stepped.take());
                touched.tell(thread, addr, &Origin::Instruction(&before));
            }
            Some(exit) => {
                drop(engine);
                // SAFETY: a context is words, and zeros are a valid one.
                let mut context: UContext = unsafe { core::mem::zeroed() };
                context.gregs = *gregs;
                on_exit(thread, &mut context, exit);
                *gregs = context.gregs;
            }
            None => {}
        }
        // The gate loads the flags: whoever made it step meanwhile wants to see it go on stepping.
        let stepping = thread.flow.stepping || thread.verify.is_stepping();
        gregs.rflags = gregs.rflags & !TRAP_FLAG | if stepping { TRAP_FLAG } else { 0 };
    });
}

/// Whether the gate begins there.
pub(crate) fn is_gate(rip: u64) -> bool {
    rip == memtap_gate as *const () as u64
}

/// Whether the gate has loaded the program's flags.
fn is_behind_gate(rip: u64) -> bool {
    (memtap_gate_loaded as *const () as u64..memtap_gate_end as *const () as u64).contains(&rip)
}

/// Whether a thread is on its way through the gate.
pub(crate) fn is_in_gate(thread: &Thread, rip: u64) -> bool {
    let gate = memtap_gate as *const () as u64..memtap_gate_end as *const () as u64;
    gate.contains(&rip) || thread.flow.live().is_some_and(Live::is_in_gate)
}

/// An instruction that the cache does not execute.
fn special(thread: &mut Thread, context: &mut UContext, addr: u64, native: Option<u64>) {
    context.gregs.rip = addr;
    match breakpoint::kind_at(addr) {
        Some(buffers::BreakpointKind::Start) => control::start(thread, addr, MarkerKind::Start),
        Some(buffers::BreakpointKind::Stop) => control::stop(thread, addr),
        None => {}
    }
    Work::Traps.add(1);
    let state = signals::vector_state(context);
    let recorded = thread.mode() == Mode::Record;
    let watches = PROCESS.settings().watches;
    if recorded && !watches && !breakpoint::is_at(addr) {
        let mut name = Text::<32>::new();
        // SAFETY: the cache has read the instruction from there.
        unsafe { x86::mnemonic(addr, &mut name) };
        thread.emit(&Record::Counter { ip: VirtAddr(addr), count: 1, name: name.as_bytes() });
    }
    // SAFETY: the cache has read the instruction from there.
    let ordered = recorded && sharing::current().is_some() && unsafe { x86::is_locked(addr) };
    if ordered && let Some(pool) = PROCESS.pool() {
        thread.emit(&Record::Order { order: pool.control().next_own_order() });
    }
    let regs = registers(context);
    let engine = thread.engine;
    thread.nested = None;
    // SAFETY: the cache has read the instruction from there.
    let repeated = unsafe { x86::is_repeated(addr) };
    let mut held = Held {
        thread,
        ip: addr,
        recorded,
        watched: Touched::new(),
        before_it: *regs,
        repeated,
        list: [Making { addr: 0, len: 0, kind: AccessKind::Load, bytes: [0; MAX_LOOK], known: false }; HELD],
        count: 0,
        begun: 0,
    };
    let before = regs.rcx;
    // SAFETY: this thread's engine, which nobody else uses; the state is that of the signal frame; the accesses are the
    // program's own.
    let outcome = unsafe { (*engine).step(regs, state, &mut held) };
    match outcome {
        // Of a repeated instruction that was left at an element that can't be accessed those before it are done.
        Outcome::Again if held.begun > before.wrapping_sub(registers(context).rcx) => {}
        Outcome::Executed | Outcome::Again => held.tell(true),
        Outcome::Fault => {
            let own = thread.nested.take().unwrap_or(SigInfo::fault(libc::SIGSEGV, 1, 0));
            if own.code != SEGV_ACCERR || !on_write_for_program(own.addr, 1) {
                // SAFETY: the context that we return to.
                unsafe { signals::deliver(thread, own.signo, &own, context) };
            }
            verify::not_recorded(thread);
            leave(thread, context);
            return;
        }
        Outcome::NotEmulated(_) | Outcome::Refused => {
            held.count = 0;
            held.watched.clear();
            let regs = *registers(context);
            // SAFETY: the cache has read the instruction from there.
            unsafe { x86::accesses(&regs, tls::fs_base(), 0, |operand: Operand| held.hold(operand)) };
            held.tell(false);
            // Without a copy the program's own instruction runs, and its trap or fault comes back.
            context.gregs.rip = native.unwrap_or(addr);
        }
    }
    if let Some(live) = thread.flow.live().filter(|_| watches) {
        // It may have been the one that sets the base of fs.
        live.set_spill(FS_SPILL, tls::fs_base());
    }
    if recorded && outcome != Outcome::Again {
        if PROCESS.settings().flow {
            // SAFETY: the cache has read the instruction from there.
            let len = unsafe { x86::length(addr) };
            thread.emit(&Record::Executed { ip: VirtAddr(addr), len });
        }
        thread.count(1);
    }
    if ordered && let Some(pool) = PROCESS.pool() {
        thread.note_order_now(&pool);
    }
    if recorded {
        verify::executed(thread, context, outcome);
    } else {
        verify::not_recorded(thread);
    }
    if outcome == Outcome::Executed || outcome == Outcome::Again {
        leave(thread, context);
    }
}

/// Accesses that one instruction makes at most; a repeated one makes more, an element after the other.
const HELD: usize = 64;
/// Bytes that are recorded of each.
const MAX_LOOK: usize = 64;

/// An access that is being made.
#[derive(Clone, Copy)]
struct Making {
    addr: u64,
    len: u32,
    kind: AccessKind,
    bytes: [u8; MAX_LOOK],
    /// Those of a load were read.
    known: bool,
}

/// The accesses of one instruction, or of one element of a repeated one.
struct Held<'a> {
    thread: &'a mut Thread,
    ip: u64,
    recorded: bool,
    /// What of its accesses is watched, and the registers before the instruction.
    watched: Touched,
    before_it: x86::Registers,
    repeated: bool,
    list: [Making; HELD],
    count: usize,
    /// Elements of a repeated instruction that were begun.
    begun: u64,
}

impl Held<'_> {
    fn hold(&mut self, operand: Operand) {
        if PROCESS.settings().watches {
            self.begun += 1;
            if self.recorded {
                if self.watched.is_full() {
                    // A repeated string instruction: what came before is done.
                    self.tell_watched();
                }
                self.watched.note(operand.addr, operand.len.into(), operand.kind, true);
            }
            return;
        }
        if self.repeated && self.list.get(..self.count).is_some_and(is_element) {
            // Each element stores once, at its end: the one before is done.
            self.tell(true);
        }
        self.begun += u64::from(self.count == 0);
        let data = self.recorded && PROCESS.settings().data;
        if let Some(place) = self.list.get_mut(self.count) {
            let (addr, len, kind) = (operand.addr, operand.len, operand.kind);
            *place = Making { addr, len, kind, ..*place };
            place.known = data && kind == AccessKind::Load && look(place);
            self.count += 1;
        }
    }

    fn tell_watched(&mut self) {
        let origin = Origin::Instruction(&self.before_it);
        self.watched.tell(self.thread, self.ip, &origin);
    }

    /// Records what was held: it was made, or is about to be.
    fn tell(&mut self, made: bool) {
        if PROCESS.settings().watches {
            return self.tell_watched();
        }
        let count = core::mem::take(&mut self.count);
        let Some(pool) = PROCESS.pool().filter(|_| self.recorded) else { return };
        for making in self.list.iter_mut().take(count) {
            let (addr, len, kind) = (making.addr, making.len, making.kind);
            if !PROCESS.settings().data {
                self.thread.emit_access(&pool, self.ip, addr, len, kind);
                continue;
            }
            let known = match kind {
                // Memory that can only be written has no bytes that could be read beforehand.
                AccessKind::Load => making.known,
                AccessKind::Store | AccessKind::Modify => made && look(making),
                AccessKind::Prefetch => false,
            };
            let bytes = making.bytes.get(..len as usize).filter(|_| known).unwrap_or(&[]);
            let (ip, addr, size) = (VirtAddr(self.ip), VirtAddr(addr), len.min(u16::MAX.into()) as u16);
            self.thread.emit(&Record::Data { ip, addr, kind, size, bytes });
        }
    }
}

/// Whether the accesses that are held may be all of an element: a load alone may be followed by its store.
fn is_element(held: &[Making]) -> bool {
    held.len() == 2 || held.first().is_some_and(|making| making.kind != AccessKind::Load)
}

/// Reads what lies where an access is made. `false`: nothing can be read there, or it is too long.
fn look(making: &mut Making) -> bool {
    let len = making.len as usize;
    making.bytes.get_mut(..len).is_some_and(|place| read(making.addr, place))
}

/// Reads the program's memory. `false`: not all of it can be read.
pub(crate) fn read(addr: u64, into: &mut [u8]) -> bool {
    let local = [into.as_mut_ptr() as usize, into.len()];
    let remote = [addr as usize, into.len()];
    let args = [sys::gettid() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
    // SAFETY: the kernel writes at most the bytes of the slice, and says how much it could read.
    let read = unsafe { sys::syscall(libc::SYS_process_vm_readv as usize, args) };
    read as usize == into.len()
}

impl x86::Environment for Held<'_> {
    fn access(&mut self, operand: Operand) -> Result<u64, Refused> {
        self.hold(operand);
        Ok(operand.addr)
    }

    fn fs_base(&self) -> u64 {
        tls::fs_base()
    }

    fn gs_base(&self) -> u64 {
        0
    }
}

/// Lets the thread run to the next instruction of the program, with all signals waiting.
pub(crate) fn step(thread: &mut Thread, context: &mut UContext) {
    if !thread.flow.stepping {
        thread.flow.stepping = true;
        thread.flow.step_mask = context.mask;
        context.mask = !signals::OURS;
        let rip = context.gregs.rip;
        if is_in_gate(thread, rip) && !is_behind_gate(rip) {
            // The gate keeps the program's flags in the last word of its stack, and loads them at its end: the steps begin
            // there. Before it has kept them it will find that the thread steps.
            // SAFETY: a word of this thread's signal stack.
            unsafe { *((gate_stack(thread) - 8) as *mut u64) |= TRAP_FLAG };
        } else {
            context.gregs.rflags |= TRAP_FLAG;
        }
    }
}

/// A signal has come. Where signals come as fast as their handlers return, the program would never get anywhere: then it
/// executes a few instructions first, as between two signals natively.
pub(crate) fn holds_signals(
    thread: &mut Thread,
    signal: i32,
    info: &SigInfo,
    context: &mut UContext,
) -> bool {
    let rip = context.gregs.rip;
    let flow = &mut thread.flow;
    if !flow.running || flow.stepping {
        return false;
    }
    if core::mem::take(&mut flow.resumed) != rip {
        flow.run = Run::NONE;
        return false;
    }
    if !flow.run.is_endless(signal, info) || !ENGINE.lock().contains(rip) {
        return false;
    }
    thread.flow.run = Run::NONE;
    thread.flow.progress = PROGRESS;
    thread.flow.stores_flags = stores_flags(rip);
    step(thread, context);
    // Faults of these instructions are the program's.
    context.mask = !signals::FAULTS;
    true
}

/// The program makes a system call: outside of its handlers, it has got somewhere.
pub(crate) fn note_progress(thread: &mut Thread) {
    if thread.suspended.iter().all(|suspended| suspended.frame == 0) {
        thread.flow.run = Run::NONE;
    }
}

/// Whether the thread is to execute more before its signals come.
fn steps_further(thread: &mut Thread, context: &mut UContext) -> bool {
    if core::mem::take(&mut thread.flow.stores_flags) {
        // SAFETY: the second byte of the flags that the program has just pushed, and is not to see the trap flag in.
        unsafe { *((context.gregs.rsp + 1) as *mut u8) &= !((TRAP_FLAG >> 8) as u8) };
    }
    let rip = context.gregs.rip;
    let (front, inside) = {
        let engine = ENGINE.lock();
        (engine.front(rip), engine.contains(rip))
    };
    if thread.flow.progress == 0 || !inside {
        thread.flow.progress = 0;
        return false;
    }
    // A popf has taken it away.
    context.gregs.rflags |= TRAP_FLAG;
    if front.is_some_and(|front| front.is_instruction) {
        thread.flow.progress -= 1;
        thread.flow.stores_flags = thread.flow.progress > 0 && stores_flags(rip);
        return thread.flow.progress > 0;
    }
    true
}

/// Whether a pushf stands at an address of the cache.
fn stores_flags(rip: u64) -> bool {
    // SAFETY: two bytes of the cache: no block ends with an instruction of the program.
    matches!(unsafe { (rip as *const [u8; 2]).read() }, [0x9c, _] | [0x66, 0x9c])
}

/// Ends the steps before something that the tracer does for the program: signals that wait come behind it.
pub(crate) fn stop_steps(thread: &mut Thread, context: &mut UContext) {
    // A signal that the program sends to itself comes before the call returns.
    thread.flow.resumed = 0;
    if !thread.flow.stepping {
        return;
    }
    (thread.flow.stepping, thread.flow.stores_flags) = (false, false);
    thread.flow.starved = core::mem::take(&mut thread.flow.progress) > 0;
    context.mask = thread.flow.step_mask;
    if !thread.verify.is_stepping() {
        context.gregs.rflags &= !TRAP_FLAG;
    }
    signals::send_pending_again(thread);
}

/// The end of the stack that the gate uses.
fn gate_stack(thread: &Thread) -> u64 {
    (thread.handler_stack.sp + thread.handler_stack.size) & !63
}

/// Ends the steps where the program's own state can be found, and delivers what waited.
fn end_step(thread: &mut Thread, context: &mut UContext) {
    if enter(thread, context) == Entered::Between {
        return;
    }
    thread.flow.stepping = false;
    context.mask = thread.flow.step_mask;
    context.gregs.rflags &= !TRAP_FLAG;
    // SAFETY: the context that we return to.
    unsafe { signals::deliver_pending(thread, context) };
    leave_or_park(thread, context);
}

/// As [`leave`], from where a thread can be left.
pub(crate) fn leave_or_park(thread: &mut Thread, context: &mut UContext) {
    park(thread, context);
    leave(thread, context);
}

/// Interrupts a thread wherever it is.
fn kick(pid: u32, tid: u32) {
    let info = SigInfo::fault(libc::SIGTRAP, KICK, 0);
    let args = [pid as usize, tid as usize, libc::SIGTRAP as usize, &raw const info as usize, 0, 0];
    // SAFETY: the kernel reads the structure; a thread that is gone is an error.
    unsafe { sys::syscall(libc::SYS_rt_tgsigqueueinfo as usize, args) };
}

/// Tells the other threads that recording was switched: each goes on in code of the new kind.
pub(crate) fn kick_others(thread: &Thread) {
    if !PROCESS.settings().translate {
        return;
    }
    fence(Ordering::SeqCst);
    for other in Thread::all() {
        // One that makes a system call goes on in the right code when it is done; a signal would end its call.
        // SAFETY: from the list; what is read is atomic.
        let ((pid, tid), calls) =
            unsafe { (Thread::owner(other), !(*other).calling.load(Ordering::SeqCst).is_null()) };
        if core::ptr::eq(other, thread) || tid == u32::MAX || calls {
            continue;
        }
        kick(pid, tid);
    }
}

core::arch::global_asm!(
    ".globl memtap_take_over",
    ".hidden memtap_take_over",
    ".globl memtap_take_over_trap",
    ".hidden memtap_take_over_trap",
    // memtap_take_over(argc, argv, envp, main): runs main in the cache.
    "memtap_take_over:",
    "int3",
    "memtap_take_over_trap:",
    "ud2",
);

unsafe extern "C" {
    fn memtap_take_over_trap();
    pub(crate) fn memtap_take_over(
        argc: core::ffi::c_int,
        argv: *mut *mut core::ffi::c_char,
        envp: *mut *mut core::ffi::c_char,
        main: usize,
    ) -> core::ffi::c_int;
}

/// From our own call of main into the cache.
fn take_over(thread: &mut Thread, context: &mut UContext) -> bool {
    if context.gregs.rip != memtap_take_over_trap as *const () as u64 {
        return false;
    }
    thread.flow.running = true;
    tell_base(thread);
    context.gregs.rip = context.gregs.rcx;
    if let Some((entry, stack)) = image::entry() {
        context.gregs = Gregs { rip: entry, rsp: stack, ..context.gregs };
        (context.gregs.rdx, context.gregs.rbp) = (0, 0);
    }
    leave(thread, context);
    true
}

/// The return of a function that is one event.
fn end_hook(thread: &mut Thread, context: &mut UContext) -> bool {
    let Some(hook) = thread.flow.depth.checked_sub(1).and_then(|top| thread.flow.hooks.get(top).copied())
    else {
        return false;
    };
    if hook.return_to != context.gregs.rip || hook.rsp != context.gregs.rsp {
        return false;
    }
    thread.flow.depth -= 1;
    thread.silent = thread.silent.saturating_sub(1);
    settle(thread);
    let block = context.gregs.rax;
    if let Some((kind, addr, size)) = hook.stream {
        let mut touched = thread.streamed.take();
        if PROCESS.is_recording() && thread.silent == 0 {
            thread.before = x86::Registers { rip: hook.return_to.wrapping_sub(1), ..*registers(context) };
            let (dst, src) = if kind == BlockKind::Fill { (addr, 0) } else { (0, addr) };
            let range = (dst, src, block.wrapping_mul(size));
            let ip = real::call_site(hook.return_to);
            watchpoints::block(thread, &mut touched, ip, kind, range, &Origin::Call);
        }
    }
    let Some((kind, function)) = hook.event else { return true };
    if !PROCESS.is_recording() || thread.silent > 0 {
        return true;
    }
    let addr = match hook.place {
        0 => block,
        // SAFETY: the function succeeded, so the block's address is there.
        place if block == 0 => unsafe { (place as *const u64).read() },
        _ => 0,
    };
    // Drawn after the call: whoever freed this memory before has drawn already.
    let event = Event {
        kind,
        function,
        order: next_order(),
        addr,
        len: hook.len as usize,
        old: hook.old,
        return_to: hook.return_to,
    };
    if addr != 0 {
        event.tell_as(thread);
    } else if kind == AllocationKind::Realloc && hook.len == 0 && hook.old != 0 {
        Event { kind: AllocationKind::Free, addr: hook.old, old: 0, ..event }.tell_as(thread);
    }
    true
}

/// Counts what was executed without being recorded.
fn settle(thread: &mut Thread) {
    if let Some(live) = thread.flow.live() {
        let count = live.take_quiet();
        if PROCESS.is_recording() {
            thread.count(count);
        }
    }
}

/// Recording begins: what was executed before does not count.
pub(crate) fn forget_quiet(thread: &Thread) {
    if let Some(live) = thread.flow.live() {
        live.take_quiet();
    }
}

/// The functions that ours stand in front of, as translated code sees them.
mod entries {
    use super::*;
    use crate::calls::entry_points;
    use crate::translate_sync::Action;

    /// What a call of one means.
    #[derive(Clone, Copy)]
    enum Kind {
        /// Nothing: the real one runs.
        Plain,
        /// It is an event, that many of its arguments telling what it does.
        Allocator(AllocationKind, AllocationFunction),
        /// It leaves a note for the event that it leads to.
        Note(u8),
        /// It orders threads.
        Sync(Action),
        /// Recording on, off, and a named point.
        Control(u8),
        /// Where there are watchpoints: it reads or writes a block, as one access; this function does it. Whether it writes.
        Block(unsafe extern "C" fn(), bool),
        /// The same, where it may wait: the real one runs, and what it did is told when it returns.
        Stream(BlockKind),
    }

    #[derive(Clone, Copy)]
    struct Entry {
        addr: u64,
        real: u64,
        kind: Kind,
        name: &'static CStr,
    }

    const MAX: usize = 384;

    struct Table(UnsafeCell<([Entry; MAX], usize)>);

    // SAFETY: written by the constructor, before there is another thread, and by `resolve` under the engine's lock.
    unsafe impl Sync for Table {}

    /// Block operations that write nothing.
    const READERS: &[&CStr] = &[
        c"strlen",
        c"strnlen",
        c"strcmp",
        c"strncmp",
        c"strcasecmp",
        c"strncasecmp",
        c"memcmp",
        c"bcmp",
        c"memchr",
        c"memrchr",
        c"rawmemchr",
        c"__rawmemchr",
        c"strchr",
        c"index",
        c"strrchr",
        c"rindex",
        c"strchrnul",
        c"wcslen",
        c"wcscmp",
        c"wcsncmp",
        c"wmemcmp",
        c"wmemchr",
    ];
    /// What a function means where there are watchpoints.
    fn watched_kind(name: &CStr, implementation: unsafe extern "C" fn()) -> Kind {
        match name.to_bytes() {
            b"fread" | b"fread_unlocked" => return Kind::Stream(BlockKind::Fill),
            b"fwrite" | b"fwrite_unlocked" => return Kind::Stream(BlockKind::Fetch),
            _ => {}
        }
        match kind_of(name) {
            Kind::Plain => Kind::Block(implementation, !READERS.contains(&name)),
            Kind::Sync(_) => Kind::Plain,
            kind => kind,
        }
    }

    static TABLE: Table =
        Table(UnsafeCell::new(([Entry { addr: 0, real: 0, kind: Kind::Plain, name: c"" }; MAX], 0)));

    /// The first and behind the last of the real functions that are entries themselves.
    static REAL: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

    fn kind_of(name: &CStr) -> Kind {
        use AllocationFunction as F;
        use AllocationKind as K;
        match name.to_bytes() {
            b"malloc" => Kind::Allocator(K::Malloc, F::Malloc),
            b"calloc" => Kind::Allocator(K::Calloc, F::Calloc),
            b"realloc" => Kind::Allocator(K::Realloc, F::Realloc),
            b"reallocarray" => Kind::Allocator(K::Realloc, F::Reallocarray),
            b"free" => Kind::Allocator(K::Free, F::Free),
            b"posix_memalign" => Kind::Allocator(K::Malloc, F::PosixMemalign),
            b"aligned_alloc" => Kind::Allocator(K::Malloc, F::AlignedAlloc),
            b"memalign" => Kind::Allocator(K::Malloc, F::Memalign),
            b"valloc" | b"pvalloc" => Kind::Allocator(K::Malloc, F::Valloc),
            b"memtap_start" => Kind::Control(0),
            b"memtap_stop" => Kind::Control(1),
            b"memtap_mark" => Kind::Control(2),
            _ => translate_sync::action(name).map_or(Kind::Plain, Kind::Sync),
        }
    }

    fn list() -> &'static [Entry] {
        // SAFETY: see `Sync`; entries are only ever completed by a word.
        let table = unsafe { &*TABLE.0.get() };
        table.0.get(..table.1).unwrap_or(&[])
    }

    /// Finds the real functions, where the program calls ours; in a process that was attached to it calls the real ones, and
    /// those are entries themselves.
    pub(super) fn prepare(is_preloaded: bool) {
        // Only there: opening may allocate, and ours are not known yet.
        let program = (!is_preloaded).then(real::Program::open);
        if is_preloaded {
            // The loader frees its message for a name that it did not find: free must be known before that.
            // SAFETY: freeing nothing.
            unsafe { crate::wrap_alloc::memtap_free(core::ptr::null_mut(), 0, 0, 0, 0, 0) };
        }
        // SAFETY: see `Sync`.
        let table = unsafe { &mut *TABLE.0.get() };
        table.1 = 0;
        let watches = PROCESS.settings().watches;
        let own = entry_points::ENTRIES.iter().zip(entry_points::IMPLEMENTATIONS).map(
            |(&name, &implementation)| {
                (name, if watches { watched_kind(name, implementation) } else { kind_of(name) })
            },
        );
        let direct = entry_points::DIRECT
            .iter()
            .map(|&name| (name, if watches { Kind::Plain } else { kind_of(name) }));
        let plain = own.chain(direct);
        let notes = entry_points::NOTES.iter().map(|&(name, code)| (name, Kind::Note(code)));
        let (mut from, mut until) = (u64::MAX, 0);
        for (name, kind) in plain.chain(notes) {
            let addr =
                program.as_ref().map_or_else(|| real::first(name), |program| program.function(name)) as u64;
            // The program has its own; or, where it was attached to, nobody has it but us.
            if addr == 0 || PROCESS.owns_code(addr) != is_preloaded {
                continue;
            }
            let real = match (is_preloaded, kind) {
                (true, Kind::Control(_)) => 0,
                (true, _) => real::look_up(name) as u64,
                (false, Kind::Plain | Kind::Control(_)) => continue,
                (false, _) => addr,
            };
            if real == addr {
                (from, until) = (from.min(addr), until.max(addr + 1));
            }
            if let Some(place) = table.0.get_mut(table.1) {
                *place = Entry { addr, real, kind, name };
                table.1 += 1;
            }
        }
        if let Some(program) = &program {
            // The program does not want to be told of names that were not found.
            program.forget_error();
        }
        REAL[0].store(from, Ordering::Relaxed);
        REAL[1].store(until, Ordering::Relaxed);
    }

    /// Whether the function at `addr` is an entry itself.
    pub(super) fn is_real(addr: u64) -> bool {
        let (from, until) = (REAL[0].load(Ordering::Relaxed), REAL[1].load(Ordering::Relaxed));
        (from..until).contains(&addr) && find(addr).is_some_and(|entry| entry.real == addr)
    }

    fn find(addr: u64) -> Option<&'static Entry> {
        list().iter().find(|entry| entry.addr == addr)
    }

    pub(super) fn is_entry(addr: u64) -> bool {
        find(addr).is_some()
    }

    /// The real function's address, asked for again where its library was not there at start-up.
    fn real_of(entry: &Entry) -> u64 {
        if entry.real != 0 {
            return entry.real;
        }
        real::look_up(entry.name) as u64
    }

    /// Where a call of the function at `addr` goes without us.
    pub(super) fn resolve(addr: u64, mode: Mode) -> u64 {
        let Some(entry) = find(addr) else { return addr };
        let plain = match entry.kind {
            Kind::Plain => true,
            Kind::Control(_) => false,
            Kind::Block(_, writes) => mode != Mode::Record || !writes && !watchpoints::are_reads(),
            Kind::Stream(kind) => {
                mode != Mode::Record || kind == BlockKind::Fetch && !watchpoints::are_reads()
            }
            Kind::Allocator(..) | Kind::Note(_) | Kind::Sync(_) => mode != Mode::Record,
        };
        match real_of(entry) {
            real if plain && real != 0 => real,
            _ => addr,
        }
    }

    fn word(addr: u64) -> u64 {
        // SAFETY: the top of the program's stack, which it has just pushed.
        unsafe { (addr as *const u64).read_unaligned() }
    }

    /// The program calls a function of ours, or one that is an entry itself. `false`: the context says where in the cache it
    /// goes on, or that it goes on natively.
    pub(super) fn call(thread: &mut Thread, context: &mut UContext, addr: u64) -> bool {
        let Some(entry) = find(addr) else { return true };
        let regs = context.gregs;
        let return_to = word(regs.rsp);
        match entry.kind {
            Kind::Control(what) => {
                context.gregs.rip = return_to;
                context.gregs.rsp += 8;
                let site = real::call_site(return_to);
                match what {
                    0 => control::start(thread, site, MarkerKind::Start),
                    1 => control::stop(thread, site),
                    _ => {
                        let mut name = Text::<256>::new();
                        if regs.rdi != 0 {
                            // SAFETY: the program's own string.
                            name.push(unsafe { CStr::from_ptr(regs.rdi as *const _) }.to_bytes());
                        }
                        let order = next_order();
                        let kind = MarkerKind::Mark;
                        thread.emit(&Record::Marker {
                            order,
                            ip: VirtAddr(site),
                            kind,
                            name: name.as_bytes(),
                        });
                    }
                }
                return true;
            }
            Kind::Note(code) => {
                // One form of operator new calls another: the note of the program's own call stays.
                if return_to.abs_diff(real_of(entry)) > 1 << 20 {
                    thread.site = return_to;
                    thread.site_function = code.into();
                }
            }
            Kind::Allocator(kind, function) => hook(thread, context, kind, function, return_to),
            Kind::Sync(action) if thread.mode() == Mode::Record => {
                for stop in translate_sync::call(thread, context, action, return_to) {
                    if stop != 0 {
                        ENGINE.lock().intercept(stop, Mode::Record);
                    }
                }
            }
            Kind::Block(function, _) if thread.mode() == Mode::Record => {
                // SAFETY: one of ours, which gets the program's arguments; the thread runs in the cache.
                unsafe { call_in_place(thread, context, function, real_of(entry), return_to) };
                return true;
            }
            Kind::Stream(kind) if thread.mode() == Mode::Record => stream(thread, &regs, kind, return_to),
            Kind::Block(..) | Kind::Stream(_) | Kind::Sync(_) | Kind::Plain => {}
        }
        context.gregs.rip = real_of(entry);
        if context.gregs.rip == 0 {
            sys::complain(b"memtap: no library has a function named ");
            sys::complain(entry.name.to_bytes());
            sys::complain(b"; the program can't go on\n");
            sys::exit_group(127);
        }
        if entry.real != entry.addr || thread.mode() != Mode::Record {
            return true;
        }
        let code = ENGINE.lock().code_behind(addr, Mode::Record, &mut Around { mode: Mode::Record });
        match code {
            Ok(code) => context.gregs.rip = code,
            Err(_) => thread.emit_gap(GapReason::LostControl, 1, addr, b"no room for translated code"),
        }
        false
    }

    /// Runs a function of ours as the one that the program calls: it returns to the program.
    ///
    /// # Safety
    /// The function is an implementation of an entry point, and the context is that of a call of it.
    unsafe fn call_in_place(
        thread: *mut Thread,
        context: &mut UContext,
        function: unsafe extern "C" fn(),
        real: u64,
        return_to: u64,
    ) {
        type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;
        let regs = context.gregs;
        // SAFETY: the caller's thread. It is used by the function, too, which finds it by itself: not while we do.
        unsafe {
            let (silent, allocating) = ((*thread).silent, (*thread).allocating);
            (*thread).before = *control::registers(context);
            // The address of a call's last byte, with the stack as it was before.
            (*thread).before.rip = return_to.wrapping_sub(1);
            (*thread).before.rsp = regs.rsp + 8;
            let call = OwnCall { gregs: Gregs { rip: real, ..regs }, silent, allocating };
            (*thread).flow.own_call = Some(call);
            core::sync::atomic::compiler_fence(Ordering::SeqCst);
            let function: Function = core::mem::transmute(function);
            let result = function(regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, return_to);
            core::sync::atomic::compiler_fence(Ordering::SeqCst);
            (*thread).flow.own_call = None;
            (context.gregs.rax, context.gregs.rip, context.gregs.rsp) = (result, return_to, regs.rsp + 8);
        }
    }

    /// The program reads or writes items of a stream. One call at a time is told as a whole: one that a signal's handler makes
    /// meanwhile is told by its accesses.
    fn stream(thread: &mut Thread, regs: &Gregs, kind: BlockKind, return_to: u64) {
        leave_lost(thread, regs.rsp);
        if thread.flow.hooks.iter().take(thread.flow.depth).any(|hook| hook.stream.is_some()) {
            return;
        }
        let (addr, size) = (regs.rdi, regs.rsi);
        thread.streamed.clear();
        if kind == BlockKind::Fill {
            thread.streamed.note_write(addr, size.saturating_mul(regs.rdx) as usize);
        }
        let stream = Some((kind, addr, size));
        push(thread, Hook { return_to, rsp: regs.rsp + 8, stream, ..Hook::NONE });
    }

    /// Forgets calls whose frames are gone: they were left by a longjmp.
    fn leave_lost(thread: &mut Thread, rsp: u64) {
        while thread.flow.depth > 0
            && thread.flow.hooks.get(thread.flow.depth - 1).is_some_and(|hook| hook.rsp <= rsp)
        {
            thread.flow.depth -= 1;
        }
    }

    /// The call that begins leaves the cache when it returns, and does not record until then.
    fn push(thread: &mut Thread, hook: Hook) {
        let depth = thread.flow.depth;
        if let Some(place) = thread.flow.hooks.get_mut(depth) {
            *place = hook;
            thread.flow.depth += 1;
            thread.silent += 1;
            ENGINE.lock().intercept(hook.return_to, Mode::Silent);
        }
    }

    fn hook(
        thread: &mut Thread,
        context: &UContext,
        kind: AllocationKind,
        function: AllocationFunction,
        return_to: u64,
    ) {
        let regs = context.gregs;
        if thread.mode() != Mode::Record {
            return;
        }
        leave_lost(thread, regs.rsp);
        let (len, old, place) = match (kind, function) {
            (AllocationKind::Calloc, _) => (regs.rdi.wrapping_mul(regs.rsi), 0, 0),
            (AllocationKind::Realloc, AllocationFunction::Reallocarray) => {
                (regs.rsi.wrapping_mul(regs.rdx), regs.rdi, 0)
            }
            (AllocationKind::Realloc, _) => (regs.rsi, regs.rdi, 0),
            (_, AllocationFunction::PosixMemalign) => (regs.rdx, 0, regs.rdi),
            (_, AllocationFunction::AlignedAlloc | AllocationFunction::Memalign) => (regs.rsi, 0, 0),
            _ => (regs.rdi, 0, 0),
        };
        let mut event = Some((kind, function));
        if kind == AllocationKind::Free {
            event = None;
            if regs.rdi != 0 {
                // Drawn before the call: as soon as the block is free, another thread may get it.
                let order = next_order();
                Event { kind, function, order, addr: regs.rdi, len: 0, old: 0, return_to }.tell_as(thread);
            } else {
                thread.site = 0;
            }
        }
        push(thread, Hook { return_to, rsp: regs.rsp + 8, event, len, old, place, stream: None });
    }
}
