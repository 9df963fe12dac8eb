//! Synchronisation of translated programs: the events of `calls::synchronisation`, where the real functions run in the cache.
//!
//! A call of one of them leaves the cache, reports what it releases, and continues in the real function. Its return
//! leaves the cache as well and reports what it acquired. Functions that the program passes in to be run - bodies
//! of OpenMP's regions and tasks, routines of pthread_once - are noted: a branch to one leaves the cache, too.

use core::ffi::CStr;

use buffers::Record;
use memref::{SyncFunction, SyncKind, VirtAddr};
use tracee::lock::{Guard, Lock};

use crate::events::call_site::call_site;

use crate::calls::synchronisation::{
    ATOMIC, CRITICAL, TEAM_BARRIER, TEAM_DONE, TEAM_FORK, TEAM_ORDERED, TEAM_SHIFT, TEAM_TASKS,
};
use crate::emit::recorder;
use crate::state::thread::TracedThread;
use crate::state::thread_translation::{After, Good, OpenCall, PENDING};

/// Functions that are noted at the same time.
const BODIES: usize = 512;

/// What a call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It gives its first argument up.
    Gives(SyncKind, SyncFunction),
    /// It takes its first argument up.
    Takes(SyncKind, SyncFunction, Good),
    /// It waits for a condition, giving the lock up meanwhile.
    Waits,
    Barrier,
    Once,
    /// OpenMP: a region, a barrier of its team, a task.
    Region,
    TeamBarrier,
    Task,
    /// The value that one thread hands to all.
    CopyStart,
    CopyEnd,
    /// About an object of its own, or of the team.
    Enters(SyncKind, u64, bool),
    Leaves(SyncKind, u64, bool),
}

/// What a function of that name means, if it synchronises.
pub(crate) fn action(name: &CStr) -> Option<Action> {
    use SyncFunction as F;
    use SyncKind as K;
    let takes = |kind, function, good| Action::Takes(kind, function, good);
    Some(match name.to_bytes() {
        b"pthread_mutex_unlock" | b"mtx_unlock" => Action::Gives(K::Unlock, F::Mutex),
        b"pthread_rwlock_unlock" => Action::Gives(K::Unlock, F::RwLock),
        b"pthread_spin_unlock" => Action::Gives(K::Unlock, F::Spin),
        b"pthread_cond_signal" | b"pthread_cond_broadcast" | b"cnd_signal" | b"cnd_broadcast" => {
            Action::Gives(K::Release, F::Condition)
        }
        b"sem_post" => Action::Gives(K::Release, F::Semaphore),
        b"__cxa_guard_release" => Action::Gives(K::Release, F::Guard),
        b"omp_unset_lock" | b"omp_unset_nest_lock" | b"GOMP_critical_name_end" => {
            Action::Gives(K::Unlock, F::OpenMp)
        }
        b"pthread_mutex_lock"
        | b"pthread_mutex_trylock"
        | b"pthread_mutex_timedlock"
        | b"pthread_mutex_clocklock" => takes(K::Lock, F::Mutex, Good::Locked),
        b"pthread_rwlock_rdlock"
        | b"pthread_rwlock_tryrdlock"
        | b"pthread_rwlock_timedrdlock"
        | b"pthread_rwlock_clockrdlock" => takes(K::LockShared, F::RwLock, Good::Zero),
        b"pthread_rwlock_wrlock"
        | b"pthread_rwlock_trywrlock"
        | b"pthread_rwlock_timedwrlock"
        | b"pthread_rwlock_clockwrlock" => takes(K::Lock, F::RwLock, Good::Zero),
        b"pthread_spin_lock" | b"pthread_spin_trylock" => takes(K::Lock, F::Spin, Good::Zero),
        b"pthread_join"
        | b"pthread_tryjoin_np"
        | b"pthread_timedjoin_np"
        | b"pthread_clockjoin_np"
        | b"thrd_join" => takes(K::Join, F::Thread, Good::Zero),
        b"sem_wait" | b"sem_trywait" | b"sem_timedwait" | b"sem_clockwait" => {
            takes(K::Acquire, F::Semaphore, Good::Zero)
        }
        b"mtx_lock" | b"mtx_trylock" | b"mtx_timedlock" => takes(K::Lock, F::Mutex, Good::Zero),
        b"__cxa_guard_acquire" => takes(K::Acquire, F::Guard, Good::Always),
        b"omp_set_lock" | b"omp_set_nest_lock" | b"GOMP_critical_name_start" => {
            takes(K::Lock, F::OpenMp, Good::Always)
        }
        b"omp_test_lock" | b"omp_test_nest_lock" => takes(K::Lock, F::OpenMp, Good::NotZero),
        b"pthread_cond_wait"
        | b"pthread_cond_timedwait"
        | b"pthread_cond_clockwait"
        | b"cnd_wait"
        | b"cnd_timedwait" => Action::Waits,
        b"pthread_barrier_wait" => Action::Barrier,
        b"pthread_once" => Action::Once,
        b"GOMP_barrier"
        | b"GOMP_barrier_cancel"
        | b"GOMP_loop_end"
        | b"GOMP_loop_end_cancel"
        | b"GOMP_sections_end"
        | b"GOMP_sections_end_cancel" => Action::TeamBarrier,
        b"GOMP_critical_start" => Action::Enters(K::Lock, CRITICAL, false),
        b"GOMP_critical_end" => Action::Leaves(K::Unlock, CRITICAL, false),
        b"GOMP_atomic_start" => Action::Enters(K::Lock, ATOMIC, false),
        b"GOMP_atomic_end" => Action::Leaves(K::Unlock, ATOMIC, false),
        b"GOMP_ordered_start" => Action::Enters(K::Acquire, TEAM_ORDERED, true),
        b"GOMP_ordered_end" => Action::Leaves(K::Release, TEAM_ORDERED, true),
        b"GOMP_taskwait" | b"GOMP_taskgroup_end" => Action::Enters(K::Acquire, TEAM_DONE, true),
        b"GOMP_single_copy_start" => Action::CopyStart,
        b"GOMP_single_copy_end" => Action::CopyEnd,
        b"GOMP_task" => Action::Task,
        name if name.starts_with(b"GOMP_parallel") => Action::Region,
        _ => return None,
    })
}

/// A function that will be run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Nothing,
    Region {
        data: u64,
        team: u64,
    },
    Once {
        control: u64,
    },
    /// Stays: any thread of the team may run it at any time.
    Task,
}

pub(crate) struct Bodies {
    list: [NotedFunction; BODIES],
    /// Places from here on are free.
    used: usize,
}

/// A function that the program handed over to be run; of a free place the address is zero.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NotedFunction {
    addr: u64,
    runs: Runs,
}

impl NotedFunction {
    const NONE: Self = Self { addr: 0, runs: Runs::Nothing };
}

static BODY: Lock<Bodies> = Lock::new(Bodies::NONE);

/// Held during a fork: no other thread is looking something up, which the child would wait for.
pub(crate) fn hold() -> Guard<'static, Bodies> {
    BODY.lock()
}

impl Bodies {
    const NONE: Self = Self { list: [NotedFunction::NONE; BODIES], used: 0 };

    fn add(&mut self, function: u64, runs: Runs) -> Option<usize> {
        if runs == Runs::Task
            && let Some(known) =
                self.list.iter().position(|noted| *noted == NotedFunction { addr: function, runs })
        {
            return Some(known);
        }
        let index = self.list.iter().position(|noted| noted.runs == Runs::Nothing)?;
        *self.list.get_mut(index)? = NotedFunction { addr: function, runs };
        self.used = self.used.max(index + 1);
        Some(index)
    }

    fn remove(&mut self, index: usize) {
        if let Some(place) = self.list.get_mut(index) {
            *place = NotedFunction::NONE;
        }
        while let Some(last) = self.used.checked_sub(1)
            && self.list.get(last).is_some_and(|noted| noted.runs == Runs::Nothing)
        {
            self.used = last;
        }
    }

    /// What a branch to `function` with this first argument runs: of several the region that began last.
    fn find(&self, function: u64, argument: u64) -> Option<Runs> {
        let mut found = None;
        let is_it = |noted: &&NotedFunction| noted.addr == function && noted.runs != Runs::Nothing;
        for &NotedFunction { runs, .. } in self.list.iter().take(self.used).filter(is_it) {
            match (runs, found) {
                (Runs::Region { data, .. }, _) if data != argument => {}
                (Runs::Region { team, .. }, Some(Runs::Region { team: other, .. })) if team < other => {}
                _ => found = Some(runs),
            }
        }
        found
    }
}

/// The process is not recorded any more.
pub(crate) fn forget() {
    *BODY.lock() = Bodies::NONE;
}

fn tell(thread: &mut TracedThread, kind: SyncKind, function: SyncFunction, object: u64, ip: u64) {
    let (ip, object) = (VirtAddr(ip), VirtAddr(object));
    thread.emit(&Record::Sync { order: recorder::next_order(), ip, kind, function, object, value: 0 });
}

fn omp(thread: &mut TracedThread, kind: SyncKind, object: u64, ip: u64) {
    tell(thread, kind, SyncFunction::OpenMp, object, ip);
}

/// Addresses to which branches must leave the cache from now on; zero: none.
pub(crate) type Stops = [u64; 2];

fn push(thread: &mut TracedThread, pending: OpenCall) -> u64 {
    let calls = &mut thread.translation.calls;
    if calls.len == PENDING {
        // The oldest frames are gone by a longjmp, or the program nests deeper than anything it could be told of.
        calls.list.rotate_left(1);
        calls.len -= 1;
    }
    if let Some(place) = calls.list.get_mut(calls.len) {
        *place = pending;
        calls.len += 1;
    }
    pending.return_to
}

/// The program calls a function that synchronises, and will return to `return_to`.
pub(crate) fn call(
    thread: &mut TracedThread,
    regs: &x86::Registers,
    action: Action,
    return_to: u64,
) -> Stops {
    use SyncKind as K;
    if thread.calls.silent > 0 {
        return [0; 2];
    }
    let (object, second) = (regs.rdi, regs.rsi);
    let ip = call_site(return_to);
    let rsp = regs.rsp + 8;
    let mut pending = OpenCall { return_to, rsp, object, ip, after: After::Nothing };
    let mut stop = 0;
    pending.after = match action {
        Action::Gives(kind, function) => {
            tell(thread, kind, function, object, ip);
            return [0; 2];
        }
        Action::Takes(kind, function, good) => After::Tell(kind, function, good),
        Action::Waits => {
            tell(thread, K::Unlock, SyncFunction::Condition, second, ip);
            After::Waited { lock: second }
        }
        Action::Barrier => {
            tell(thread, K::Arrive, SyncFunction::Barrier, object, ip);
            After::Tell(K::Depart, SyncFunction::Barrier, Good::Always)
        }
        Action::Once => {
            let Some(body) = BODY.lock().add(second, Runs::Once { control: object }) else { return [0; 2] };
            stop = second;
            After::OnceDone { body }
        }
        Action::Region => {
            let team = recorder::next_order() << TEAM_SHIFT;
            pending.ip = object;
            let Some(body) = BODY.lock().add(object, Runs::Region { data: second, team }) else {
                return [0; 2];
            };
            omp(thread, K::Release, team + TEAM_FORK, object);
            stop = object;
            pending.object = team;
            After::RegionDone { body, outer: thread.calls.team }
        }
        Action::TeamBarrier => {
            pending.object = thread.calls.team;
            omp(thread, K::Arrive, thread.calls.team + TEAM_BARRIER, ip);
            After::TeamBarrier
        }
        Action::Task => {
            omp(thread, K::Release, thread.calls.team + TEAM_TASKS, object);
            BODY.lock().add(object, Runs::Task);
            return [object, 0];
        }
        Action::CopyStart => {
            pending.object = thread.calls.team + TEAM_FORK;
            After::CopyStart
        }
        Action::CopyEnd => {
            omp(thread, K::Release, thread.calls.team + TEAM_FORK, ip);
            return [0; 2];
        }
        Action::Enters(kind, object, of_team) => {
            pending.object = object + if of_team { thread.calls.team } else { 0 };
            After::Tell(kind, SyncFunction::OpenMp, Good::Always)
        }
        Action::Leaves(kind, object, of_team) => {
            omp(thread, kind, object + if of_team { thread.calls.team } else { 0 }, ip);
            return [0; 2];
        }
    };
    [push(thread, pending), stop]
}

/// A branch that left the cache goes to that address: the return of such a call, or of a body.
pub(crate) fn returned(thread: &mut TracedThread, regs: &x86::Registers) {
    use SyncKind as K;
    let (rip, rsp) = (regs.rip, regs.rsp);
    let calls = &thread.translation.calls;
    let list = calls.list.get(..calls.len).unwrap_or(&[]);
    let Some(index) = list.iter().rposition(|call| call.return_to == rip && call.rsp == rsp) else { return };
    let Some(&call) = list.get(index) else { return };
    thread.translation.calls.len = index;
    let (object, ip) = (call.object, call.ip);
    match call.after {
        After::Nothing => {}
        After::Tell(kind, function, good) => {
            if good.is(regs.rax) {
                tell(thread, kind, function, object, ip);
            }
        }
        After::Waited { lock } => {
            if regs.rax as i32 == 0 {
                tell(thread, K::Acquire, SyncFunction::Condition, object, ip);
            }
            tell(thread, K::Lock, SyncFunction::Condition, lock, ip);
        }
        After::TeamBarrier => {
            omp(thread, K::Depart, object + TEAM_BARRIER, ip);
            // Tasks run inside barriers.
            omp(thread, K::Acquire, object + TEAM_DONE, ip);
        }
        After::RegionDone { body, outer } => {
            BODY.lock().remove(body);
            thread.calls.team = outer;
            omp(thread, K::Acquire, object + TEAM_DONE, ip);
        }
        After::OnceDone { body } => {
            BODY.lock().remove(body);
            tell(thread, K::Acquire, SyncFunction::Once, object, ip);
        }
        After::CopyStart => {
            if regs.rax != 0 {
                omp(thread, K::Acquire, object, ip);
            }
        }
        After::Body => omp(thread, K::Release, object + TEAM_DONE, ip),
        After::Routine => tell(thread, K::Release, SyncFunction::Once, object, ip),
    }
}

/// A branch that left the cache goes to that address: it may run a function that was noted. `return_to` is on top of the
/// stack. Returns the address to which branches must leave the cache from now on; zero: none.
pub(crate) fn runs(thread: &mut TracedThread, regs: &x86::Registers, return_to: impl FnOnce() -> u64) -> u64 {
    let target = regs.rip;
    let Some(runs) = BODY.lock().find(target, regs.rdi) else { return 0 };
    let (object, after) = match runs {
        Runs::Nothing => return 0,
        Runs::Region { team, .. } => {
            thread.calls.team = team;
            omp(thread, SyncKind::Acquire, team + TEAM_FORK, target);
            (team, After::Body)
        }
        Runs::Task => {
            omp(thread, SyncKind::Acquire, thread.calls.team + TEAM_TASKS, target);
            (thread.calls.team, After::Body)
        }
        Runs::Once { control } => (control, After::Routine),
    };
    let rsp = regs.rsp + 8;
    push(thread, OpenCall { return_to: return_to(), rsp, object, ip: target, after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::entry_points;

    #[test]
    fn every_name_is_an_entry_and_means_something() {
        let entries = entry_points::ENTRIES.iter().chain(entry_points::DIRECT);
        let known = entries.filter(|name| action(name).is_some()).count();
        // 67 with the caller's address, 12 without.
        assert!(known >= 75, "{known}");
        assert_eq!(action(c"malloc"), None);
        assert_eq!(action(c"GOMP_parallel_sections"), Some(Action::Region));
    }

    #[test]
    fn bodies_are_told_apart_by_their_data() {
        let mut bodies = Bodies::NONE;
        let outer = bodies.add(0x10, Runs::Region { data: 1, team: 8 }).expect("room");
        bodies.add(0x10, Runs::Region { data: 2, team: 16 });
        bodies.add(0x10, Runs::Region { data: 1, team: 24 });
        assert!(bodies.find(0x10, 2) == Some(Runs::Region { data: 2, team: 16 }));
        assert!(bodies.find(0x10, 1) == Some(Runs::Region { data: 1, team: 24 }));
        assert!(bodies.find(0x10, 3).is_none() && bodies.find(0x20, 1).is_none());
        bodies.remove(outer);
        assert!(bodies.add(0x30, Runs::Task) == Some(outer) && bodies.add(0x30, Runs::Task) == Some(outer));
        assert!(bodies.find(0x30, 0) == Some(Runs::Task) && bodies.used == 3);
        (1..3).for_each(|index| bodies.remove(index));
        assert!(bodies.used == 1 && bodies.find(0x10, 1).is_none());
        bodies.remove(outer);
        assert_eq!(bodies.used, 0);
        assert!(Good::Locked.is(libc::EOWNERDEAD as u64) && !Good::Zero.is(1) && Good::NotZero.is(1));
    }
}
