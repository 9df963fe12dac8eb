//! Translation of a process: how it is set up, and how it ends.

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use buffers::Pool;
    use tracee::maps;

    use super::*;
    use crate::emit::work::Work;
    use crate::testing;

    /// What is told of the work, by name.
    fn told(thread: &mut TracedThread, pool: &Pool) -> BTreeMap<String, u64> {
        let before = testing::written(thread, pool).len();
        tell_work(thread);
        let words = testing::written(thread, pool);
        let counts = testing::records(&words[before..]).into_iter().filter_map(|record| match record {
            Record::Counter { count, name, .. } => Some((String::from_utf8_lossy(name).into_owned(), count)),
            _ => None,
        });
        counts.collect()
    }

    #[test]
    fn work_is_told_by_its_name_and_forgotten_in_a_child() {
        if !testing::is_alone(work_is_told_by_its_name_and_forgotten_in_a_child) {
            return;
        }
        let (thread, pool) = testing::recorded(testing::TRANSLATED);
        // From here on all goes into one buffer, which is counted.
        thread.emit(&Record::ThreadBase { addr: VirtAddr(0) });
        // mov rax, [rdi]; ret
        let addr = testing::code(&[0x48, 0x8b, 0x07, 0xc3]);
        engine::code_for(thread, addr, false).expect("it is code");
        Work::Traps.add(2);
        Work::TranslationNs.add(3);
        Work::WaitNs.add(5);
        Work::Paths.add(7);
        // Of all threads, and also of one that has nothing to tell itself.
        testing::thread().work.exits.add(11);
        thread.work.exits.add(13);
        thread.work.lookups.add(17);
        let mut counts = told(thread, &pool);
        let cache = counts.remove("bytes of the code cache").expect("it is told");
        assert!(cache > 0);
        let expect = [
            ("blocks translated", 1),
            ("buffers", 1),
            ("bytes of code translated", 4),
            ("exits of the cache", 24),
            ("instructions left to the tracer", 2),
            ("long paths", 7),
            ("nanoseconds of translating", 3),
            ("nanoseconds of waiting for the recorder", 5),
            ("targets not found by look-up", 17),
        ];
        let expect: BTreeMap<String, u64> = expect.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(counts, expect);
        forget_work();
        let mut counts = told(thread, &pool);
        // The code is still there.
        assert_eq!(counts.remove("bytes of the code cache"), Some(cache));
        assert_eq!((counts.len(), counts.values().sum::<u64>()), (9, 0));
        // One that runs natively has nothing to tell.
        let other = testing::thread();
        tell_work(other);
        assert!(!other.writer.submit(&pool));
    }

    #[test]
    fn a_process_that_was_left_can_be_translated_again() {
        if !testing::is_alone(a_process_that_was_left_can_be_translated_again) {
            return;
        }
        let (thread, _) = testing::recorded(testing::TRANSLATED);
        let addr = testing::code(&[0xc3]);
        let is_mapped = |addr: u64| {
            let mut is_there = false;
            assert!(maps::each(|mapping| is_there |= (mapping.start..mapping.end).contains(&addr)));
            is_there
        };
        for _ in 0..2 {
            let code = engine::code_for(thread, addr, false).expect("it is code");
            // The code for the address is new: of what was forgotten nothing is known.
            assert!(ENGINE.lock().contains(code));
            thread.emit(&Record::ThreadBase { addr: VirtAddr(0) });
            let windows = WINDOWS.load(Ordering::Relaxed);
            assert!(is_mapped(windows) && is_mapped(code));
            assert!(MAPPED.iter().any(|mapped| mapped.load(Ordering::Relaxed)));
            translated_thread::end_running(thread);
            // SAFETY: nobody is in the cache.
            unsafe { forget_all() };
            assert!(!is_mapped(windows) && !is_mapped(code) && !ENGINE.lock().contains(code));
            assert!(MAPPED.iter().all(|mapped| !mapped.load(Ordering::Relaxed)));
            assert_eq!(WINDOWS.load(Ordering::Relaxed), 0);
            assert!(prepare(thread));
        }
    }
}
