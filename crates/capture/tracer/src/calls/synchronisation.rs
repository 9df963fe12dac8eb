//! Synchronisation: calls that order threads become events of a separate stream.
//!
//! A call that releases something draws its order before the real function runs; one that acquires something draws it after.
//! So an acquire has a higher order than the release that it saw. These calls are recognised by the C library's names for
//! them; the accesses that they make are recorded as any other. Creation and end of threads are handled in `process`.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{SyncFunction, SyncKind, VirtAddr};

use crate::calls::real::real;
use crate::emit::recorder;
use crate::events::call_site::call_site;
use crate::memory::pages;
use crate::signal::busy;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_calls::OnceRoutine;

/// An object that stands for all unnamed critical sections.
pub(crate) const CRITICAL: u64 = 1;

/// And all atomic sections that the compiler could not do with an instruction.
pub(crate) const ATOMIC: u64 = 2;

/// Teams are told apart by an order, shifted up; these are added.
pub(crate) const TEAM_BARRIER: u64 = 0;
pub(crate) const TEAM_FORK: u64 = 1;
pub(crate) const TEAM_TASKS: u64 = 2;
pub(crate) const TEAM_DONE: u64 = 3;
pub(crate) const TEAM_ORDERED: u64 = 4;
pub(crate) const TEAM_SHIFT: u32 = 3;

/// Whether a call of this thread is an event: whether recording is on or off, for what happens while it is off still
/// orders what is recorded before and after; but not inside another call that is one.
fn is_followed() -> bool {
    let thread = TracedThread::current();
    // SAFETY: this thread's own state.
    PROCESS.ready.load(Ordering::Relaxed) && !thread.is_null() && unsafe { (*thread).calls.silent == 0 }
}

/// Records an event of the calling thread; its order is drawn now.
fn tell(kind: SyncKind, function: SyncFunction, object: u64, return_to: u64) {
    if is_followed() {
        busy::as_thread(|thread| {
            let ip = VirtAddr(call_site(return_to));
            let object = VirtAddr(object);
            thread.emit(&Record::Sync {
                order: recorder::next_order(),
                ip,
                kind,
                function,
                object,
                value: 0,
            });
        });
    }
}

macro_rules! wrap {
    // What gives up: the event comes first.
    ($($symbol:ident = $name:literal ($($arg:ident),*; $($unused:ident)*) $function:ident gives $kind:ident;)*) => {
        $(
            /// # Safety
            /// As the C library's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $symbol($($arg: usize,)* $($unused: usize,)* return_to: u64) -> c_int {
                real!(fn real_call($($arg: usize),*) -> c_int = $name);
                tell(SyncKind::$kind, SyncFunction::$function, first!($($arg)*) as u64, return_to);
                // SAFETY: the program's own call.
                unsafe { real_call($($arg),*) }
            }
        )*
    };
    // What takes up: the event comes after a call that succeeded, as `$good` says.
    ($($symbol:ident = $name:literal ($($arg:ident),*; $($unused:ident)*) $function:ident takes $kind:ident if $good:expr;)*) => {
        $(
            /// # Safety
            /// As the C library's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $symbol($($arg: usize,)* $($unused: usize,)* return_to: u64) -> c_int {
                real!(fn real_call($($arg: usize),*) -> c_int = $name);
                // SAFETY: the program's own call.
                let result = unsafe { real_call($($arg),*) };
                let good: fn(c_int) -> bool = $good;
                if good(result) {
                    tell(SyncKind::$kind, SyncFunction::$function, first!($($arg)*) as u64, return_to);
                }
                result
            }
        )*
    };
    // Waiting for a condition: gives up the lock, takes up what was signalled, then the lock.
    ($($symbol:ident = $name:literal ($($arg:ident),*; $($unused:ident)*) waits;)*) => {
        $(
            /// # Safety
            /// As the C library's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $symbol(
                condition: usize, lock: usize, $($arg: usize,)* $($unused: usize,)* return_to: u64,
            ) -> c_int {
                real!(fn real_call(condition: usize, lock: usize $(, $arg: usize)*) -> c_int = $name);
                tell(SyncKind::Unlock, SyncFunction::Condition, lock as u64, return_to);
                // SAFETY: the program's own call.
                let result = unsafe { real_call(condition, lock $(, $arg)*) };
                if result == 0 {
                    tell(SyncKind::Acquire, SyncFunction::Condition, condition as u64, return_to);
                }
                tell(SyncKind::Lock, SyncFunction::Condition, lock as u64, return_to);
                result
            }
        )*
    };
}

macro_rules! first {
    ($first:ident $($rest:ident)*) => {
        $first
    };
}

const fn is_zero(result: c_int) -> bool {
    result == 0
}

/// EOWNERDEAD: a robust mutex is locked all the same.
const fn is_locked(result: c_int) -> bool {
    matches!(result, 0 | libc::EOWNERDEAD)
}

wrap! {
    memtap_pthread_mutex_unlock = c"pthread_mutex_unlock" (lock; _b _c _d _e) Mutex gives Unlock;
    memtap_pthread_rwlock_unlock = c"pthread_rwlock_unlock" (lock; _b _c _d _e) RwLock gives Unlock;
    memtap_pthread_spin_unlock = c"pthread_spin_unlock" (lock; _b _c _d _e) Spin gives Unlock;
    memtap_pthread_cond_signal = c"pthread_cond_signal" (condition; _b _c _d _e) Condition gives Release;
    memtap_pthread_cond_broadcast = c"pthread_cond_broadcast" (condition; _b _c _d _e) Condition gives Release;
    memtap_sem_post = c"sem_post" (semaphore; _b _c _d _e) Semaphore gives Release;
    memtap_mtx_unlock = c"mtx_unlock" (lock; _b _c _d _e) Mutex gives Unlock;
    memtap_cnd_signal = c"cnd_signal" (condition; _b _c _d _e) Condition gives Release;
    memtap_cnd_broadcast = c"cnd_broadcast" (condition; _b _c _d _e) Condition gives Release;
    memtap_cxa_guard_release = c"__cxa_guard_release" (guard; _b _c _d _e) Guard gives Release;
    memtap_omp_unset_lock = c"omp_unset_lock" (lock; _b _c _d _e) OpenMp gives Unlock;
    memtap_omp_unset_nest_lock = c"omp_unset_nest_lock" (lock; _b _c _d _e) OpenMp gives Unlock;
    memtap_gomp_critical_name_end = c"GOMP_critical_name_end" (lock; _b _c _d _e) OpenMp gives Unlock;
}

wrap! {
    memtap_pthread_mutex_lock = c"pthread_mutex_lock" (lock; _b _c _d _e) Mutex takes Lock if is_locked;
    memtap_pthread_mutex_trylock = c"pthread_mutex_trylock" (lock; _b _c _d _e) Mutex takes Lock if is_locked;
    memtap_pthread_mutex_timedlock = c"pthread_mutex_timedlock" (lock, time; _c _d _e) Mutex takes Lock if is_locked;
    memtap_pthread_mutex_clocklock = c"pthread_mutex_clocklock" (lock, clock, time; _d _e) Mutex takes Lock if is_locked;
    memtap_pthread_rwlock_rdlock = c"pthread_rwlock_rdlock" (lock; _b _c _d _e) RwLock takes LockShared if is_zero;
    memtap_pthread_rwlock_tryrdlock = c"pthread_rwlock_tryrdlock" (lock; _b _c _d _e) RwLock takes LockShared if is_zero;
    memtap_pthread_rwlock_timedrdlock = c"pthread_rwlock_timedrdlock" (lock, time; _c _d _e) RwLock takes LockShared if is_zero;
    memtap_pthread_rwlock_clockrdlock = c"pthread_rwlock_clockrdlock" (lock, clock, time; _d _e) RwLock takes LockShared if is_zero;
    memtap_pthread_rwlock_wrlock = c"pthread_rwlock_wrlock" (lock; _b _c _d _e) RwLock takes Lock if is_zero;
    memtap_pthread_rwlock_trywrlock = c"pthread_rwlock_trywrlock" (lock; _b _c _d _e) RwLock takes Lock if is_zero;
    memtap_pthread_rwlock_timedwrlock = c"pthread_rwlock_timedwrlock" (lock, time; _c _d _e) RwLock takes Lock if is_zero;
    memtap_pthread_rwlock_clockwrlock = c"pthread_rwlock_clockwrlock" (lock, clock, time; _d _e) RwLock takes Lock if is_zero;
    memtap_pthread_spin_lock = c"pthread_spin_lock" (lock; _b _c _d _e) Spin takes Lock if is_zero;
    memtap_pthread_spin_trylock = c"pthread_spin_trylock" (lock; _b _c _d _e) Spin takes Lock if is_zero;
    memtap_pthread_join = c"pthread_join" (thread, result; _c _d _e) Thread takes Join if is_zero;
    memtap_pthread_tryjoin_np = c"pthread_tryjoin_np" (thread, result; _c _d _e) Thread takes Join if is_zero;
    memtap_pthread_timedjoin_np = c"pthread_timedjoin_np" (thread, result, time; _d _e) Thread takes Join if is_zero;
    memtap_pthread_clockjoin_np = c"pthread_clockjoin_np" (thread, result, clock, time; _e) Thread takes Join if is_zero;
    memtap_sem_wait = c"sem_wait" (semaphore; _b _c _d _e) Semaphore takes Acquire if is_zero;
    memtap_sem_trywait = c"sem_trywait" (semaphore; _b _c _d _e) Semaphore takes Acquire if is_zero;
    memtap_sem_timedwait = c"sem_timedwait" (semaphore, time; _c _d _e) Semaphore takes Acquire if is_zero;
    memtap_sem_clockwait = c"sem_clockwait" (semaphore, clock, time; _d _e) Semaphore takes Acquire if is_zero;
    memtap_mtx_lock = c"mtx_lock" (lock; _b _c _d _e) Mutex takes Lock if is_zero;
    memtap_mtx_trylock = c"mtx_trylock" (lock; _b _c _d _e) Mutex takes Lock if is_zero;
    memtap_mtx_timedlock = c"mtx_timedlock" (lock, time; _c _d _e) Mutex takes Lock if is_zero;
    memtap_thrd_join = c"thrd_join" (thread, result; _c _d _e) Thread takes Join if is_zero;
    // 1: the caller is to construct the variable; 0: it is constructed.
    memtap_cxa_guard_acquire = c"__cxa_guard_acquire" (guard; _b _c _d _e) Guard takes Acquire if |_| true;
    memtap_omp_set_lock = c"omp_set_lock" (lock; _b _c _d _e) OpenMp takes Lock if |_| true;
    memtap_omp_test_lock = c"omp_test_lock" (lock; _b _c _d _e) OpenMp takes Lock if |result| result != 0;
    memtap_omp_set_nest_lock = c"omp_set_nest_lock" (lock; _b _c _d _e) OpenMp takes Lock if |_| true;
    memtap_omp_test_nest_lock = c"omp_test_nest_lock" (lock; _b _c _d _e) OpenMp takes Lock if |result| result != 0;
    memtap_gomp_critical_name_start = c"GOMP_critical_name_start" (lock; _b _c _d _e) OpenMp takes Lock if |_| true;
}

wrap! {
    memtap_pthread_cond_wait = c"pthread_cond_wait" (; _c _d _e) waits;
    memtap_pthread_cond_timedwait = c"pthread_cond_timedwait" (time; _d _e) waits;
    memtap_pthread_cond_clockwait = c"pthread_cond_clockwait" (clock, time; _e) waits;
    memtap_cnd_wait = c"cnd_wait" (; _c _d _e) waits;
    memtap_cnd_timedwait = c"cnd_timedwait" (time; _d _e) waits;
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_pthread_barrier_wait(
    barrier: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _e: usize,
    return_to: u64,
) -> c_int {
    real!(fn real_call(barrier: usize) -> c_int = c"pthread_barrier_wait");
    tell(SyncKind::Arrive, SyncFunction::Barrier, barrier as u64, return_to);
    // SAFETY: the program's own call.
    let result = unsafe { real_call(barrier) };
    tell(SyncKind::Depart, SyncFunction::Barrier, barrier as u64, return_to);
    result
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_pthread_once(
    control: usize,
    routine: usize,
    _c: usize,
    _d: usize,
    _e: usize,
    return_to: u64,
) -> c_int {
    real!(fn real_call(control: usize, routine: usize) -> c_int = c"pthread_once");
    let once = OnceRoutine { control: control as u64, routine, return_to };
    let outer = busy::as_thread(|thread| core::mem::replace(&mut thread.calls.once, once));
    let routine = if outer.is_some() { run_once as *const () as usize } else { routine };
    // SAFETY: the program's own call; our routine calls the program's.
    let result = unsafe { real_call(control, routine) };
    if let Some(outer) = outer {
        busy::as_thread(|thread| thread.calls.once = outer);
    }
    tell(SyncKind::Acquire, SyncFunction::Once, control as u64, return_to);
    result
}

/// What `pthread_once` runs: the program's routine, and the release that the other callers acquire.
unsafe extern "C" fn run_once() {
    let Some(once) = busy::as_thread(|thread| thread.calls.once) else { return };
    // SAFETY: the routine that the program gave.
    unsafe { core::mem::transmute::<usize, extern "C" fn()>(once.routine)() };
    tell(SyncKind::Release, SyncFunction::Once, once.control, once.return_to);
}

/// The calling thread's team: an order that stands for the parallel region that it is in; zero outside.
fn team() -> u64 {
    busy::as_thread(|thread| thread.calls.team).unwrap_or(0)
}

fn omp(kind: SyncKind, object: u64, return_to: u64) {
    tell(kind, SyncFunction::OpenMp, object, return_to);
}

/// What a thread of a team runs.
#[repr(C)]
struct Body {
    function: usize,
    data: usize,
    team: u64,
    return_to: u64,
}

/// # Safety
/// Called by the OpenMP library with the body that a wrapper below gave it.
unsafe extern "C" fn run_body(body: *const Body) {
    // SAFETY: the body lives on the stack of the thread that made the region, until all of the team are done.
    let body = unsafe { &*body };
    let outer = busy::as_thread(|thread| core::mem::replace(&mut thread.calls.team, body.team));
    omp(SyncKind::Acquire, body.team + TEAM_FORK, body.return_to);
    // SAFETY: the compiler's function for the region.
    unsafe { core::mem::transmute::<usize, extern "C" fn(usize)>(body.function)(body.data) };
    omp(SyncKind::Release, body.team + TEAM_DONE, body.return_to);
    if let Some(outer) = outer {
        busy::as_thread(|thread| thread.calls.team = outer);
    }
}

macro_rules! regions {
    ($($symbol:ident = $name:literal;)*) => {
        $(
            /// # Safety
            /// As the OpenMP library's function. It is called with eight words, whichever of them it has.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments)]
            unsafe extern "C" fn $symbol(
                function: usize, data: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize,
            ) -> usize {
                real!(fn real_call(
                    function: usize, data: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize
                ) -> usize = $name);
                if !is_followed() {
                    // SAFETY: the program's own call.
                    return unsafe { real_call(function, data, c, d, e, f, g, h) };
                }
                let team = recorder::next_order() << TEAM_SHIFT;
                // The region is named by the first instruction of its function.
                let body = Body { function, data, team, return_to: function as u64 };
                omp(SyncKind::Release, team + TEAM_FORK, function as u64);
                // SAFETY: the program's own call; our function calls the program's with its data.
                let result = unsafe {
                    real_call(run_body as *const () as usize, &raw const body as usize, c, d, e, f, g, h)
                };
                omp(SyncKind::Acquire, team + TEAM_DONE, function as u64);
                result
            }
        )*
    };
}

regions! {
    memtap_gomp_parallel = c"GOMP_parallel";
    memtap_gomp_parallel_reductions = c"GOMP_parallel_reductions";
    memtap_gomp_parallel_sections = c"GOMP_parallel_sections";
    memtap_gomp_parallel_loop_static = c"GOMP_parallel_loop_static";
    memtap_gomp_parallel_loop_dynamic = c"GOMP_parallel_loop_dynamic";
    memtap_gomp_parallel_loop_guided = c"GOMP_parallel_loop_guided";
    memtap_gomp_parallel_loop_runtime = c"GOMP_parallel_loop_runtime";
    memtap_gomp_parallel_loop_nonmonotonic_dynamic = c"GOMP_parallel_loop_nonmonotonic_dynamic";
    memtap_gomp_parallel_loop_nonmonotonic_guided = c"GOMP_parallel_loop_nonmonotonic_guided";
    memtap_gomp_parallel_loop_nonmonotonic_runtime = c"GOMP_parallel_loop_nonmonotonic_runtime";
    memtap_gomp_parallel_loop_maybe_nonmonotonic_runtime = c"GOMP_parallel_loop_maybe_nonmonotonic_runtime";
}

/// Functions that are called without arguments: what orders threads before them, and what does after them.
macro_rules! calls {
    ($($symbol:ident = $name:literal [$($before:ident $released:expr),*] [$($after:ident $acquired:expr),*];)*) => {
        $(
            /// # Safety
            /// As the OpenMP library's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $symbol(_a: usize, _b: usize, _c: usize, _d: usize, _e: usize, return_to: u64) -> usize {
                real!(fn real_call() -> usize = $name);
                $(omp(SyncKind::$before, $released, return_to);)*
                // SAFETY: the program's own call.
                let result = unsafe { real_call() };
                $(omp(SyncKind::$after, $acquired, return_to);)*
                result
            }
        )*
    };
}

/// Tasks run inside barriers: who has passed one knows what they did.
macro_rules! barriers {
    ($($symbol:ident = $name:literal;)*) => {
        calls! {
            $($symbol = $name
                [Arrive team() + TEAM_BARRIER]
                [Depart team() + TEAM_BARRIER, Acquire team() + TEAM_DONE];)*
        }
    };
}

barriers! {
    memtap_gomp_barrier = c"GOMP_barrier";
    memtap_gomp_barrier_cancel = c"GOMP_barrier_cancel";
    memtap_gomp_loop_end = c"GOMP_loop_end";
    memtap_gomp_loop_end_cancel = c"GOMP_loop_end_cancel";
    memtap_gomp_sections_end = c"GOMP_sections_end";
    memtap_gomp_sections_end_cancel = c"GOMP_sections_end_cancel";
}

calls! {
    memtap_gomp_critical_start = c"GOMP_critical_start" [] [Lock CRITICAL];
    memtap_gomp_critical_end = c"GOMP_critical_end" [Unlock CRITICAL] [];
    memtap_gomp_atomic_start = c"GOMP_atomic_start" [] [Lock ATOMIC];
    memtap_gomp_atomic_end = c"GOMP_atomic_end" [Unlock ATOMIC] [];
    memtap_gomp_ordered_start = c"GOMP_ordered_start" [] [Acquire team() + TEAM_ORDERED];
    memtap_gomp_ordered_end = c"GOMP_ordered_end" [Release team() + TEAM_ORDERED] [];
    memtap_gomp_taskwait = c"GOMP_taskwait" [] [Acquire team() + TEAM_DONE];
    memtap_gomp_taskgroup_end = c"GOMP_taskgroup_end" [] [Acquire team() + TEAM_DONE];
}

/// The value that one thread of a team hands to the others: a barrier at whose end it is there.
///
/// # Safety
/// As the OpenMP library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_gomp_single_copy_start(
    _a: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _e: usize,
    return_to: u64,
) -> *mut c_void {
    real!(fn real_call() -> *mut c_void = c"GOMP_single_copy_start");
    // SAFETY: the program's own call.
    let result = unsafe { real_call() };
    if !result.is_null() {
        omp(SyncKind::Acquire, team() + TEAM_FORK, return_to);
    }
    result
}

/// # Safety
/// As the OpenMP library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_gomp_single_copy_end(
    data: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _e: usize,
    return_to: u64,
) -> c_int {
    real!(fn real_call(data: usize) -> c_int = c"GOMP_single_copy_end");
    omp(SyncKind::Release, team() + TEAM_FORK, return_to);
    // SAFETY: the program's own call.
    unsafe { real_call(data) }
}

/// Before the data of a task: which function, and how its data are copied.
#[repr(C)]
#[derive(Clone, Copy)]
struct TaskHead {
    function: usize,
    copy: usize,
    data: usize,
    team: u64,
    offset: usize,
}

const TASK_HEAD_BYTES: usize = size_of::<TaskHead>().next_multiple_of(16);

/// # Safety
/// Called by the OpenMP library with data that begin with a head.
unsafe extern "C" fn run_task(head: *const TaskHead) {
    // SAFETY: the head lies before the data, see `memtap_gomp_task`; our own code uses the open view of them.
    let task = unsafe { *(pages::open_address(head as u64) as *const TaskHead) };
    let outer = busy::as_thread(|thread| core::mem::replace(&mut thread.calls.team, task.team));
    omp(SyncKind::Acquire, task.team + TEAM_TASKS, task.function as u64);
    // SAFETY: the compiler's function for the task, and its data.
    unsafe {
        core::mem::transmute::<usize, extern "C" fn(usize)>(task.function)(head as usize + task.offset);
    }
    omp(SyncKind::Release, task.team + TEAM_DONE, task.function as u64);
    if let Some(outer) = outer {
        busy::as_thread(|thread| thread.calls.team = outer);
    }
}

/// Copies a head and the data after it.
///
/// # Safety
/// Called by the OpenMP library, with room for both at `to`.
unsafe extern "C" fn copy_task(to: *mut TaskHead, from: *const TaskHead) {
    // SAFETY: the library's promise; `copy` is the compiler's function for the data.
    unsafe {
        let head = *from;
        (pages::open_address(to as u64) as *mut TaskHead).write(head);
        core::mem::transmute::<usize, extern "C" fn(usize, usize)>(head.copy)(
            to as usize + head.offset,
            head.data,
        );
    }
}

/// Copies the bytes of data that need no function for that.
///
/// # Safety
/// As `copy_task`; the head's `copy` is the number of bytes.
unsafe extern "C" fn copy_task_bytes(to: *mut TaskHead, from: *const TaskHead) {
    // SAFETY: both lie in the task's own memory, head and data; our own code uses the open views of both.
    unsafe {
        let head = *from;
        (pages::open_address(to as u64) as *mut TaskHead).write(head);
        let data = pages::open_address(head.data as u64) as *const u8;
        let place = pages::open_address(to as u64 + head.offset as u64) as *mut u8;
        core::ptr::copy_nonoverlapping(data, place, head.copy);
    }
}

/// A task: its data get a head that says which function it really is.
///
/// # Safety
/// As the OpenMP library's function.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn memtap_gomp_task(
    function: usize,
    data: usize,
    copy: usize,
    bytes: usize,
    align: usize,
    condition: usize,
    flags: usize,
    depend: usize,
    priority: usize,
    detach: usize,
) {
    real!(fn real_call(
        function: usize, data: usize, copy: usize, bytes: usize, align: usize, condition: usize, flags: usize,
        depend: usize, priority: usize, detach: usize
    ) = c"GOMP_task");
    if !is_followed() {
        // SAFETY: the program's own call.
        unsafe { real_call(function, data, copy, bytes, align, condition, flags, depend, priority, detach) };
        return;
    }
    let align = align.max(16);
    let offset = TASK_HEAD_BYTES.next_multiple_of(align);
    let team = team();
    omp(SyncKind::Release, team + TEAM_TASKS, function as u64);
    let (head_copy, how) =
        if copy == 0 { (bytes, copy_task_bytes as *const ()) } else { (copy, copy_task as *const ()) };
    let head = TaskHead { function, copy: head_copy, data, team, offset };
    // SAFETY: the program's own call with functions that lead to its own; the copy happens before the call returns.
    unsafe {
        real_call(
            run_task as *const () as usize,
            &raw const head as usize,
            how as usize,
            bytes + offset,
            align,
            condition,
            flags,
            depend,
            priority,
            detach,
        );
    }
}

impl TracedThread {
    /// A futex call, before and after it is made: waking gives up what waiting takes up.
    pub(crate) fn tell_futex(&mut self, ip: u64, args: &[usize; 6], result: Option<isize>) {
        let operation = args[1] as c_int & libc::FUTEX_CMD_MASK;
        let kind = match (operation, result) {
            (libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET, Some(0)) => SyncKind::Acquire,
            (
                libc::FUTEX_WAKE
                | libc::FUTEX_WAKE_BITSET
                | libc::FUTEX_WAKE_OP
                | libc::FUTEX_REQUEUE
                | libc::FUTEX_CMP_REQUEUE,
                None,
            ) => SyncKind::Release,
            _ => return,
        };
        if self.calls.silent == 0 {
            let (function, object) = (SyncFunction::Futex, VirtAddr(args[0] as u64));
            self.emit(&Record::Sync {
                order: recorder::next_order(),
                ip: VirtAddr(ip),
                kind,
                function,
                object,
                value: 0,
            });
        }
    }

    /// Records an event about threads, from inside a handler. Returns its order.
    pub(crate) fn tell_thread(&mut self, kind: SyncKind, ip: u64, object: u64, value: u64) -> u64 {
        let order = recorder::next_order();
        let object = VirtAddr(object);
        let function = SyncFunction::Thread;
        self.emit(&Record::Sync { order, ip: VirtAddr(ip), kind, function, object, value });
        order
    }
}
