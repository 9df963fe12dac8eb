//! Attaching to a running process, and detaching from it. The recorder stops its threads and
//! calls the functions here on them, on a stack reserved for that purpose (`buffers::attach`).
//!
//! To attach, every thread gets a state of its own and continues in the cache at its current instruction. A thread that
//! waits in the kernel keeps waiting there, and joins when its system call is restarted or at its next one. To detach, every
//! thread gets the registers that it would have natively: from its place in the cache, or from the handler in which it waits
//! in a system call, which the kernel then restarts. Nothing of the tracer runs afterwards; the library stays mapped.

use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering;

use crate::router::signals;
use crate::state::thread::NATIVE_CALL;

use buffers::attach::{
    BEGIN_WORDS, ENTER_WORDS, Enter, LEAVE_WORDS, Leave, READY_WORDS, RECORDED_AT, RECORDER_AT, Ready,
    Status, is_restart,
};
use buffers::{Arrival, Config, Pool};
use memref::MarkerKind;
use tracee::frame::{AltStack, UContext, fpstate_bytes};
use tracee::lock::Lock;
use tracee::{sys, tls};

use crate::memory::program_memory;
use crate::process::connect::{self, Answer};
use crate::process::{give_back, identity, namespaces, regions};
use crate::recording::{breakpoint, control};
use crate::signal::mask::OURS;
use crate::signal::stubs::{self, StubPlace};
use crate::signal::{actions, alt_stack, rseq, waiting};
use crate::start::attach_words;
use crate::state::process::PROCESS;
use crate::state::settings::Settings;
use crate::state::thread::TracedThread;
use crate::stop::{kick, park};
use crate::translate::{context, process, translated_thread};

/// What was agreed with the recorder, until it is used.
static AGREED: Lock<Option<(Pool, Config, Settings)>> = Lock::new(None);

/// Reaches the recorder, and finds the functions that are events. On a thread that may call the loader.
///
/// # Safety
/// `channel` is a terminated string.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_attach_open(channel: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(channel) }.to_bytes();
    open(name) as u64
}

fn open(name: &[u8]) -> Status {
    if PROCESS.ready.load(Ordering::Acquire) {
        return Status::Full;
    }
    let Some(Answer { pool, config, .. }) = connect::connect(name, None) else { return Status::NoRecorder };
    if !pool.control().is_valid() {
        return Status::Version;
    }
    let mut channel = [0; 64];
    let Some(place) = channel.get_mut(..name.len()) else { return Status::Version };
    place.copy_from_slice(name);
    let mut settings = Settings::new(&config, channel, name.len());
    settings.attached = true;
    identity::find_library(&mut settings);
    if !TracedThread::watch_system_calls(true) || !TracedThread::watch_system_calls(false) {
        return Status::NoDispatch;
    }
    rseq::find();
    process::find_functions(false);
    if !attach_words::make_stack() {
        return Status::NoMemory;
    }
    *AGREED.lock() = Some((pool, config, settings));
    Status::Done
}

/// Takes the process over, all threads being stopped. `list` has [`BEGIN_WORDS`] words for each.
///
/// # Safety
/// `list` has that many entries.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_attach_begin(list: *const [u64; BEGIN_WORDS], count: usize) -> u64 {
    // SAFETY: the caller's promise.
    begin(unsafe { core::slice::from_raw_parts(list, count) }) as u64
}

fn begin(threads: &[[u64; BEGIN_WORDS]]) -> Status {
    let Some((pool, config, settings)) = AGREED.lock().take() else { return Status::NotRecorded };
    let Some(process) = pool.control().next_process() else { return Status::Full };
    // SAFETY: all other threads are stopped, and none of them uses any of this.
    unsafe { *PROCESS.settings.get() = settings };
    PROCESS.pool.store(pool.span().0 as usize, Ordering::Release);
    PROCESS.number.store(process, Ordering::Relaxed);
    PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
    PROCESS.live_threads.store(threads.len() as u32, Ordering::Relaxed);
    if let Some(slot) = pool.process(process) {
        slot.enter(&Arrival {
            pid: config.pid,
            own_pid: sys::getpid(),
            parent: None,
            announcement: None,
            start_ns: sys::realtime_ns(),
        });
        namespaces::note_own(config.pid);
        program_memory::note_filter();
    }
    attach_words::note_recorder(pool.control().recorder().unwrap_or(0));
    // SAFETY: prepared here and entered at once.
    let Some(thread) = TracedThread::prepare().and_then(|thread| unsafe { TracedThread::enter(thread) })
    else {
        return Status::NoMemory;
    };
    if !process::prepare(thread) {
        return Status::NoMemory;
    }
    actions::take_over(signals::HANDLERS);
    identity::tell_program(thread);
    regions::follow_mappings(thread, Some(threads));
    PROCESS.ready.store(true, Ordering::Release);
    breakpoint::plant(&config.breakpoints);
    if config.at_main {
        control::start(thread, 0, MarkerKind::Start);
    }
    Status::Done
}

/// Makes the calling thread, which is stopped, one that goes on in the cache.
///
/// # Safety
/// `words` are those of [`Enter`], of this thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_attach_enter(words: *mut [u64; ENTER_WORDS]) -> u64 {
    // SAFETY: the caller's promise.
    let words = unsafe { &mut *words };
    let mut request = Enter::from_words(*words);
    let status = enter(&mut request);
    *words = request.words();
    status as u64
}

fn enter(request: &mut Enter) -> Status {
    let known = TracedThread::current();
    let thread = if known.is_null() {
        // SAFETY: prepared here and entered at once.
        let Some(thread) = TracedThread::prepare().and_then(|thread| unsafe { TracedThread::enter(thread) })
        else {
            return Status::NoMemory;
        };
        if !translated_thread::begin_thread(thread) {
            return Status::NoMemory;
        }
        thread
    } else {
        // SAFETY: the state of this thread, which began the process.
        unsafe { &mut *known }
    };
    request.rip = rseq::aborted(request.rip);
    thread.signals.rseq_len = rseq::forget();
    thread.settled = true;
    thread.signals.virtual_mask = request.mask & OURS;
    request.mask &= !OURS;
    let mut old = AltStack::default();
    // SAFETY: the kernel reads and writes the structures; the stack that the first one names is this state's.
    unsafe {
        let new = &raw const thread.signals.handler_stack as usize;
        sys::syscall(libc::SYS_sigaltstack as usize, [new, &raw mut old as usize, 0, 0, 0, 0]);
    }
    thread.signals.alt_stack = old;
    if request.waits == 0 {
        request.rip = translated_thread::begin_running(thread, request.rip);
    } else {
        thread.system_call.calling.store(NATIVE_CALL, Ordering::Release);
        translated_thread::begin_running(thread, 0);
    }
    if TracedThread::watch_system_calls(true) { Status::Done } else { Status::NoDispatch }
}

/// Says for each thread of the list whether it can leave just now. All are stopped.
///
/// # Safety
/// `list` has that many entries.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_attach_ready(list: *mut [u64; READY_WORDS], count: usize) -> u64 {
    // SAFETY: the caller's promise.
    let list = unsafe { core::slice::from_raw_parts_mut(list, count) };
    if !PROCESS.ready.load(Ordering::Acquire) {
        return Status::NotRecorded as u64;
    }
    park::set_parking(true);
    let is_shared = PROCESS.has_sharer();
    for words in list {
        let mut asked = Ready::from_words(*words);
        let is_ready = match find(asked.tid as u32, asked.gs_base) {
            Some(thread) => {
                let is_ready = !is_shared && is_ready(thread, &asked);
                if !is_ready {
                    kick::ask_to_park(thread);
                }
                is_ready
            }
            // Newly made, and on its way to a state; or one that nobody follows.
            None => !PROCESS.owns_code(asked.rip) && asked.gs_base == 0,
        };
        asked.is_ready = is_ready.into();
        *words = asked.words();
    }
    Status::Done as u64
}

/// The state of a thread, which is stopped. States of dead ones may have the same number: the kernel gives it again.
fn find(tid: u32, gs_base: u64) -> Option<&'static TracedThread> {
    // SAFETY: states are never unmapped, and the threads are stopped.
    TracedThread::all().map(|thread| unsafe { (TracedThread::owner(thread).1, &*thread) }).find_map(
        |(owner, thread)| (owner == tid && thread.translation.words_at() == gs_base).then_some(thread),
    )
}

fn is_ready(thread: &TracedThread, asked: &Ready) -> bool {
    if !thread.parked.load(Ordering::Acquire).is_null() {
        return true;
    }
    if thread.busy != 0 || thread.translation.is_stepping() {
        return false;
    }
    if waits(thread, asked.rip, asked.rax, asked.orig_rax).is_some() {
        return true;
    }
    // In a handler of ours, be it in a function of the C library that our code calls, such as memcpy.
    if !thread.settled || alt_stack::is_on(&thread.signals.handler_stack, asked.rsp) {
        return false;
    }
    // SAFETY: this state's engine; only asked where its code is.
    if PROCESS.owns_code(asked.rip) || unsafe { (*thread.engine).contains(asked.rip) } {
        return false;
    }
    context::has_state_at(thread, asked.rip)
}

/// How far a thread is that makes a system call for the program in which it may wait: after it, if the stop interrupted it.
fn waits(thread: &TracedThread, rip: u64, rax: u64, orig_rax: u64) -> Option<StubPlace> {
    if thread.system_call.calling.load(Ordering::Acquire).is_null() {
        return None;
    }
    let is_interrupted = orig_rax as i64 >= 0 && is_restart(rax);
    stubs::place(rip).filter(|&place| match place {
        StubPlace::BeforeWait => true,
        StubPlace::AfterWait => is_interrupted,
        _ => false,
    })
}

/// The process is not left after all: threads that wait for it go on.
#[unsafe(no_mangle)]
extern "C" fn memtap_attach_stay() -> u64 {
    park::set_parking(false);
    Status::Done as u64
}

/// Makes the calling thread, which is stopped and ready, one that the tracer knows nothing of.
///
/// # Safety
/// `words` are those of [`Leave`], of this thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_attach_leave(words: *mut [u64; LEAVE_WORDS]) -> u64 {
    // SAFETY: the caller's promise.
    let words = unsafe { &mut *words };
    let mut request = Leave::from_words(*words);
    let current = TracedThread::current();
    if !current.is_null() {
        // SAFETY: the state of this thread, which is not at work in the tracer.
        unsafe { leave(&mut *current, &mut request) };
    }
    *words = request.words();
    Status::Done as u64
}

/// # Safety
/// The request holds the thread's registers, and [`is_ready`] said that it is.
unsafe fn leave(thread: &mut TracedThread, request: &mut Leave) {
    // SAFETY: a context is words, and zeros are a valid one.
    let mut context: UContext = unsafe { core::mem::zeroed() };
    context.gregs = x86::Registers::from_words(request.registers);
    let (rip, rax) = (context.gregs.rip, context.gregs.rax);
    let waits = waits(thread, rip, rax, request.orig_rax);
    let parked = thread.parked.load(Ordering::Acquire);
    let handled = if parked.is_null() { thread.system_call.calling.load(Ordering::Acquire) } else { parked };
    if parked.is_null() && waits.is_none() {
        context::enter(thread, &mut context);
    } else {
        // SAFETY: the context of the handler in which the thread waits.
        let native = unsafe { &*handled };
        context.gregs = native.gregs;
        request.mask = native.mask;
        // SAFETY: the kernel wrote it.
        request.state = [native.fpstate, unsafe { fpstate_bytes(native.fpstate) }];
        request.orig_rax = u64::MAX;
        match waits {
            Some(StubPlace::BeforeWait) => context.gregs.rip = context.gregs.rip.wrapping_sub(2),
            Some(StubPlace::AfterWait) => {
                request.orig_rax = context.gregs.rax;
                context.gregs.rax = rax;
            }
            // It is parked.
            _ => {}
        }
    }
    request.registers = *context.gregs.words();
    request.mask |= thread.signals.virtual_mask;
    request.kept = waiting::take_all_kept(thread);
    if request.is_first != 0 {
        process::tell_work(thread);
    }
    translated_thread::end_running(thread);
    TracedThread::watch_system_calls(false);
    // SAFETY: the kernel reads the structure; gs was nobody's.
    unsafe {
        let stack = &raw const thread.signals.alt_stack as usize;
        sys::syscall(libc::SYS_sigaltstack as usize, [stack, 0, 0, 0, 0, 0]);
        sys::syscall(libc::SYS_arch_prctl as usize, [sys::ARCH_SET_GS, 0, 0, 0, 0, 0]);
    }
    rseq::restore(core::mem::take(&mut thread.signals.rseq_len));
    tls::set(core::ptr::null_mut::<TracedThread>());
    kick::forget_kicks(thread);
    waiting::send_pending_again(thread);
    thread.system_call.calling.store(core::ptr::null_mut(), Ordering::Release);
    thread.parked.store(core::ptr::null_mut(), Ordering::Release);
    thread.tid = 0;
}

/// Gives back what is the process's, when all threads have left.
#[unsafe(no_mangle)]
extern "C" fn memtap_attach_finish() -> u64 {
    let Some(pool) = PROCESS.pool() else { return Status::NotRecorded as u64 };
    park::set_parking(false);
    actions::give_back_all();
    // SAFETY: all threads have left.
    unsafe { give_back::give_back() };
    for thread in TracedThread::all() {
        // SAFETY: all threads have left.
        unsafe { (*thread).give_memory_back() };
    }
    let (base, len) = pool.span();
    // SAFETY: nothing of the tracer runs any more.
    unsafe { sys::munmap(base as u64, len as u64) };
    attach_words::set_word(RECORDED_AT, 0);
    attach_words::set_word(RECORDER_AT, 0);
    Status::Done as u64
}
