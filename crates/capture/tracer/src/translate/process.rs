//! Translation of a process: how it is prepared, and how it ends.

use core::sync::atomic::Ordering;

use buffers::{BUFFER_COUNT, Record};
use code_cache::Task;
use memref::VirtAddr;
use tracee::sys;

use crate::emit::thread_buffers::{MAPPED, WINDOW_STRIDE, WINDOWS};
use crate::emit::work::WORK;
use crate::memory::{code_ranges, code_views, program_writes};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_work::ThreadWork;
use crate::translate::engine::{self, ENGINE};
use crate::translate::{code_changes, entry_table, translated_thread};
use crate::watch::watchpoints;

/// Memory, when recording of the process begins.
pub(crate) fn prepare(thread: &mut TracedThread) -> bool {
    program_writes::set_opener(code_changes::can_write_again);
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
    translated_thread::begin_thread(thread)
}

/// The functions that are events: ours take their place, or the program ran natively and calls them. The loader is asked.
pub(crate) fn find_functions(is_preloaded: bool) {
    entry_table::prepare(is_preloaded);
}

/// Tells what was counted, before the process ends or becomes another program.
pub(crate) fn tell_work(thread: &mut TracedThread) {
    if thread.translation.live().is_none() {
        return;
    }
    let (translated, cache) = {
        let engine = ENGINE.lock();
        (engine.translated(), engine.cache_bytes())
    };
    let mut tell = |name: &str, count: u64| {
        thread.emit(&Record::Counter { ip: VirtAddr(0), count, name: name.as_bytes() });
    };
    tell("blocks translated", translated.blocks);
    tell("bytes of code translated", translated.program_bytes);
    tell("bytes of the code cache", cache);
    let sum = |count: fn(&ThreadWork) -> u64| TracedThread::all_work().map(count).sum();
    tell("exits of the cache", sum(|work| work.exits.get()));
    tell("targets not found by look-up", sum(|work| work.lookups.get()));
    let names = [
        "instructions left to the tracer",
        "nanoseconds of translating",
        "buffers",
        "nanoseconds of waiting for the recorder",
        "long paths",
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
    TracedThread::all_work().for_each(ThreadWork::forget);
    ENGINE.lock().forget_counts();
}

/// Gives back all memory.
///
/// # Safety
/// No thread of the process is in the cache or at work in the tracer.
pub(crate) unsafe fn forget_all() {
    code_views::forget_all();
    code_ranges::forget_all();
    // SAFETY: the caller's promise.
    unsafe { ENGINE.lock().clear() };
    engine::forget_definitions();
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
