//! The data that each thread owns: its shadow stack, its records, its call paths.
//!
//! A state is mapped on a thread's first hit, without the program's allocator, and only its thread writes it.
//! A thread that ends leaves its state, with all counts, to the next one. Readers see the words as they are.

use crate::{
    ProbeId,
    mask_copies::MaskCopies,
    probe_table,
    profile::{costs, paths::Paths, record::Records, timeline::Timeline},
    shadow::ShadowStack,
    thread_counts::ThreadCounts,
    thread_words::{ThreadWords, words},
};
use patch::{arena, maps, sys};
use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering},
};

/// The state of one thread.
pub struct ThreadState {
    /// The state made before this one; written once.
    next: AtomicPtr<ThreadState>,
    /// Whether a living thread owns it.
    owned: AtomicBool,
    /// Which thread owns or owned it last.
    pub tid: AtomicU32,
    /// Where its owner's [`words`] are; written by the owner.
    words: AtomicUsize,
    /// The bounds of the thread's own stack: only frames inside are paired with their returns.
    pub stack: Range<usize>,
    /// Frames under way.
    pub shadow: ShadowStack,
    /// Entries seen, by function.
    pub counts: ThreadCounts,
    /// Measured calls and histograms, by function.
    pub records: Records,
    /// The tree of call paths.
    pub paths: Paths,
    /// When the thread began that owns it, and how long those were there that owned it before.
    began_ticks: u64,
    earlier_ticks: u64,
    /// The latest calls, for the timeline.
    pub timeline: Timeline,
    /// What handlers took, and the way to them. Written by its thread.
    pub handler_ticks: u64,
    /// Sets of signals that its calls were given instead of the program's.
    pub mask_copies: MaskCopies,
}

static FIRST: AtomicPtr<ThreadState> = AtomicPtr::new(std::ptr::null_mut());
/// The pthread key whose destructor gives the state back, plus one; 0: not made.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Has `leave` called with the state of each thread that ends, as a destructor of the C library. Once a process.
pub(crate) fn notice_ends(leave: unsafe extern "C" fn(*mut libc::c_void)) {
    if KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut key = 0;
    // SAFETY: the destructor gets the value that `adopt` stored, a leaked state.
    if unsafe { libc::pthread_key_create(&mut key, Some(leave)) } == 0 {
        KEY.store(key + 1, Ordering::Release);
    }
}

/// All states.
pub fn all() -> impl Iterator<Item = &'static ThreadState> {
    let mut next = FIRST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: states are never freed. The owner may write while this reads; counts are read as single words.
        let state = unsafe { next.as_ref() }?;
        next = state.next.load(Ordering::Acquire);
        Some(state)
    })
}

/// The states of the threads that live.
pub(crate) fn owned() -> impl Iterator<Item = &'static ThreadState> {
    all().filter(|s| s.owned.load(Ordering::Acquire))
}

/// The threads that have a state and have not ended as far as the C library knows.
pub fn owners() -> impl Iterator<Item = u32> {
    owned().map(|s| s.tid.load(Ordering::Relaxed))
}

/// The state of this thread, if it has one.
#[inline]
#[must_use]
pub fn existing() -> Option<&'static mut ThreadState> {
    // SAFETY: this thread's own word is null or its own state; the guard keeps handlers of one thread apart.
    unsafe { (*words()).state.cast::<ThreadState>().as_mut() }
}

/// Counts a hit of a probe whose calls do not come through a thunk; `false`: this thread has no words yet.
pub(crate) fn count(id: ProbeId) -> bool {
    let Some(thread) = existing() else { return false };
    if let Some((function, _)) = probe_table::function_of(id.0) {
        thread.counts.count(function);
    }
    true
}

/// What handlers took, of all threads, in ticks.
pub(crate) fn handlers_timed() -> u64 {
    // SAFETY: states are never freed; the owner may write while a single word is read.
    all().map(|state| unsafe { (&raw const state.handler_ticks).read_volatile() }).sum()
}

/// Entries of a function that all threads counted.
pub fn counted(function: u32) -> u64 {
    all().map(|state| state.counts.of(function)).sum()
}

impl ThreadState {
    /// Notes what a handler took that began at `start_ticks`, with the way to it and back.
    #[inline]
    pub(crate) fn note_handler(&mut self, start_ticks: u64) {
        self.handler_ticks += sys::ticks().saturating_sub(start_ticks) + costs::known().trampoline_ticks;
    }

    /// What probes took of this thread so far: handlers by the clock, the rest at its cost on this machine.
    #[inline]
    #[must_use]
    pub fn probes_ticks(&self) -> u64 {
        self.handler_ticks + costs::known().of(self.counts.seen())
    }

    /// How long its owners were there.
    #[must_use]
    pub fn present_ticks(&self, now_ticks: u64) -> u64 {
        let is_owned = self.owned.load(Ordering::Acquire);
        self.earlier_ticks + if is_owned { now_ticks.saturating_sub(self.began_ticks) } else { 0 }
    }

    /// Leaves the state to the next thread that needs one. To be called by its owner, last.
    pub(crate) fn give_back(&mut self) {
        self.earlier_ticks = self.present_ticks(sys::ticks());
        self.owned.store(false, Ordering::Release);
    }

    /// Forgets the calls under way.
    pub(crate) fn forget_calls(&mut self) {
        while let Some(frame) = self.shadow.pop() {
            // SAFETY: this state's record, which nobody else writes.
            unsafe {
                let record = self.records.get(frame.function);
                (*record).open = (*record).open.saturating_sub(1);
            }
        }
        self.shadow.clear();
    }

    /// Sets the counts to nothing, where no thread of its hits probes.
    fn clear_counts(&mut self) {
        self.counts.clear(probe_table::function_count());
        self.records.clear();
        self.paths.clear();
        self.timeline.clear();
        self.handler_ticks = 0;
        (self.began_ticks, self.earlier_ticks) = (sys::ticks(), 0);
    }
}

/// The state of this thread, made on its first hit; `None` when memory is out.
#[inline]
pub fn current() -> Option<&'static mut ThreadState> {
    match existing() {
        Some(state) => Some(state),
        None => adopt(),
    }
}

#[cold]
fn adopt() -> Option<&'static mut ThreadState> {
    let reused =
        all().find(|s| s.owned.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    let state: *mut ThreadState = match reused {
        Some(state) => std::ptr::from_ref(state).cast_mut(),
        None => {
            let fresh = arena::map_anonymous(size_of::<ThreadState>())? as *mut ThreadState;
            // SAFETY: fresh memory of that size; each part maps its own.
            unsafe {
                fresh.write(ThreadState {
                    next: AtomicPtr::new(std::ptr::null_mut()),
                    owned: AtomicBool::new(true),
                    tid: AtomicU32::new(0),
                    words: AtomicUsize::new(0),
                    stack: 0..0,
                    shadow: ShadowStack::new()?,
                    counts: ThreadCounts::new()?,
                    records: Records::new()?,
                    paths: Paths::new()?,
                    began_ticks: 0,
                    earlier_ticks: 0,
                    timeline: Timeline::new()?,
                    handler_ticks: 0,
                    mask_copies: MaskCopies::new(),
                });
            }
            let mut first = FIRST.load(Ordering::Acquire);
            loop {
                // SAFETY: not yet published.
                unsafe { (*fresh).next.store(first, Ordering::Relaxed) };
                match FIRST.compare_exchange(first, fresh, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => break fresh,
                    Err(other) => first = other,
                }
            }
        }
    };
    // SAFETY: owned by this thread from here on; gettid has no arguments.
    unsafe {
        let tid = sys::syscall(libc::SYS_gettid, [0; 6]) as u32;
        (*state).tid.store(tid, Ordering::Relaxed);
        (*state).words.store(words() as usize, Ordering::Relaxed);
        (*state).stack = own_stack(&raw const tid as usize, tid);
        (*state).forget_calls();
        (*state).began_ticks = sys::ticks();
        (*words()).state = state.cast();
        (*words()).counts = (*state).counts.first();
        let key = KEY.load(Ordering::Acquire);
        if key != 0 {
            libc::pthread_setspecific(key - 1, state.cast());
        }
        Some(&mut *state)
    }
}

/// The bounds of the stack that `sp` lies on. The main thread's grows: its usual limit is assumed.
fn own_stack(sp: usize, tid: u32) -> Range<usize> {
    // SAFETY: getpid has no arguments.
    let pid = unsafe { sys::syscall(libc::SYS_getpid, [0; 6]) } as u32;
    match maps::find(sp) {
        Some(m) if pid == tid => m.start.min(m.end.saturating_sub(8 << 20))..m.end,
        Some(m) => m.start..m.end,
        None => 0..0,
    }
}

/// Whether any thread is inside a handler. Only an answer while all threads are stopped.
#[must_use]
pub fn any_in_handler() -> bool {
    all().any(|state| {
        let words = state.words.load(Ordering::Relaxed) as *const ThreadWords;
        // SAFETY: an owned state's words belong to a thread that lives: it gives the state back before it ends.
        state.owned.load(Ordering::Acquire) && !words.is_null() && unsafe { (*words).guard } != 0
    })
}

/// Sets all counts to nothing, where no thread writes them.
pub fn clear_counts() {
    for state in all() {
        let state = std::ptr::from_ref(state).cast_mut();
        // SAFETY: no probe is on, so no handler writes.
        unsafe {
            (*state).clear_counts();
            ((*state).shadow.unfinished, (*state).shadow.too_deep, (*state).shadow.foreign) = (0, 0, 0);
        }
    }
}

/// To be called in the child of a fork, by its only thread: the states of the others are free, all counts start anew.
pub fn after_fork() {
    let mine = existing().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    for state in all() {
        let state = std::ptr::from_ref(state).cast_mut();
        // SAFETY: the child has one thread, this one.
        unsafe {
            if state != mine {
                (*state).forget_calls();
                (*state).owned.store(false, Ordering::Release);
            }
            (*state).clear_counts();
        }
    }
}
