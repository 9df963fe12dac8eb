//! Helpers for the tests of several rooms: a thread's state and a context for
//! exclusive use, and a separate process for tests that change process-wide state.

use core::sync::atomic::{AtomicU64, Ordering};
use std::any::type_name;
use std::process::Command;

use buffers::flow::{Entries, Entry, Live};
use buffers::{POOL_BYTES, Pool, Record, Records};
use tracee::frame::UContext;
use tracee::sys;

use crate::memory::pages::PAGE_BYTES;
use crate::state::process::PROCESS;
use crate::state::settings::Settings;
use crate::state::thread::TracedThread;
use crate::translate::process;

/// Settings of a program that is translated.
pub(crate) const TRANSLATED: Settings = Settings { translate: true, ..Settings::NONE };

/// Whether the calling test is in a process of its own, where it may change what belongs to the whole process. Elsewhere it is run once
/// more in such a process, and must pass there.
pub(crate) fn is_alone<Test: Fn()>(_: Test) -> bool {
    const ALONE: &str = "MEMTAP_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    // The runner leaves out the crate's name.
    let (_, name) = type_name::<Test>().split_once("::").expect("a path");
    let own = std::env::current_exe().unwrap();
    let outcome = Command::new(own).args(["--exact", name]).env(ALONE, "1").output().unwrap();
    let said =
        [outcome.stdout, outcome.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(outcome.status.success() && said.contains("1 passed"), "{}: {said}", outcome.status);
    false
}

/// A state that no thread has entered.
pub(crate) fn thread() -> &'static mut TracedThread {
    let thread = TracedThread::prepare().expect("memory");
    // SAFETY: made here, and entered by nobody.
    unsafe { &mut *thread }
}

/// A context of zeros.
pub(crate) fn context() -> UContext {
    // SAFETY: a context is words, and zeros are a valid one.
    unsafe { core::mem::zeroed() }
}

/// Words as a translated thread has them, of no pool.
pub(crate) fn live() -> &'static Live {
    // SAFETY: atomic words, which may all be zero.
    Box::leak(Box::new(unsafe { core::mem::zeroed() }))
}

/// Sets one of them, as code of the cache does.
pub(crate) fn set_word(live: &Live, at: u32, value: u64) {
    // SAFETY: the place of an aligned word of it, and all its words are atomics.
    let word = unsafe { &*(&raw const *live).cast::<AtomicU64>().byte_add(at as usize) };
    word.store(value, Ordering::Relaxed);
}

/// Code of a program: it can be executed, and not be written. What follows the page can't be read.
pub(crate) fn code(bytes: &[u8]) -> u64 {
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
    // SAFETY: new mappings, of which the first page is written and keeps its rights for ever.
    unsafe {
        let at = sys::mmap(0, 2 * PAGE_BYTES, sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0);
        assert!(!sys::failed(at) && bytes.len() as u64 <= PAGE_BYTES);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
        sys::mprotect(at as u64, PAGE_BYTES, sys::PROT_READ | sys::PROT_EXEC);
        sys::mprotect(at as u64 + PAGE_BYTES, PAGE_BYTES, sys::PROT_NONE);
        at as u64
    }
}

/// Makes the process one that is recorded with these settings, and gives it a translated thread. For a test that is alone.
pub(crate) fn recorded(settings: Settings) -> (&'static mut TracedThread, Pool) {
    let flags = sys::MAP_SHARED | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    // SAFETY: a new mapping replaces nothing.
    let base = unsafe { sys::mmap(0, POOL_BYTES as u64, sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0) };
    assert!(!sys::failed(base));
    // SAFETY: fresh zeros of that size, which stay mapped.
    let pool = unsafe { Pool::new(base as *mut u8) };
    pool.control().init(0);
    // SAFETY: the test is alone, and nobody reads the settings meanwhile.
    unsafe { *PROCESS.settings.get() = settings };
    PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
    PROCESS.number.store(pool.control().next_process().expect("the first"), Ordering::Relaxed);
    PROCESS.pool.store(base as usize, Ordering::Release);
    PROCESS.recording.store(true, Ordering::Release);
    let thread = thread();
    thread.number = pool.control().next_thread();
    thread.process = PROCESS.number.load(Ordering::Relaxed);
    (thread.pid, thread.tid) = (sys::getpid(), sys::gettid());
    assert!(process::prepare(thread));
    (thread, pool)
}

/// What a translated thread has written into its present buffer.
pub(crate) fn written(thread: &TracedThread, pool: &Pool) -> Vec<[u8; 8]> {
    let live = thread.translation.live().expect("it is translated");
    live.look(pool, |words| words.to_vec()).unwrap_or_default()
}

/// The records among entries that have no blocks.
pub(crate) fn records(words: &[[u8; 8]]) -> Vec<Record<'_>> {
    let mut entries = Entries::new(words);
    let mut all = Vec::new();
    while let Some(entry) = entries.next_entry() {
        if let Entry::Record(bytes) = entry {
            all.extend(Records::new(bytes).map(|record| record.expect("a record")));
        }
    }
    assert!(!entries.are_broken());
    all
}
