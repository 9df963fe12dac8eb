//! Records a running process: the tracer's library is loaded into it and takes over all its threads; at the end they all continue natively.
//!
//! The threads are stopped by ptrace (crate `attach`) only for these two moments. What the library does on them is described
//! in `buffers::attach`. Processes that the recorded one starts are also recorded, and are also detached from at the end.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use attach::{InjectedCall, Stopped, TargetProcess, UserRegisters};
use buffers::ProcessState;
use buffers::attach::{
    ATTACH_VERSION, Enter, Leave, MAX_THREADS, READY_WORDS, RECORDED_AT, RECORDER_AT, Ready, STACK_AT,
    Status, VERSION_AT, WORD_COUNT, WORDS, is_restart,
};
use buffers_host::OwnedPool;
use memref::VirtAddr;
use x86::Registers;

use crate::plan::RunningProcess;
use crate::target::live_processes::LiveProcesses;
use crate::target::pid_namespaces;
use crate::{Error, Notice};

type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nobody knows how the program ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A process that was to be attached to was left as it was.
    NotEntered(Error),
    /// It goes on in the tracer, unrecorded.
    NotLeft(Error),
    /// A program that was started can't be waited for.
    Lost(io::Error),
}

/// How long is waited until no thread is at work in the tracer.
const LEAVE_SECONDS: u64 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Refuses what can't be recorded. Before anything is made.
pub(crate) fn check(pid: u32, library: &Path) -> Result<()> {
    attach::check(pid)?;
    has_proc(pid)?;
    let process = TargetProcess::open(pid)?;
    if let Some(library) = Library::find(&process, library)? {
        check_words(&library.words()?, pid)?;
    }
    Ok(())
}

/// The tracer reads in `/proc` what is mapped: a container may have none.
fn has_proc(pid: u32) -> Result<()> {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    match rustix::fs::statfs(attach::path_here(pid, "/proc")) {
        Ok(found) if found.f_type == PROC_SUPER_MAGIC => Ok(()),
        _ => {
            // One that has ended has nothing.
            attach::check(pid)?;
            Err(Error::NoProc(pid))
        }
    }
}

/// Whether the process is recorded by somebody who is no more; an error where he is.
fn check_words(words: &[u64; WORD_COUNT], pid: u32) -> Result<bool> {
    if words[VERSION_AT] != ATTACH_VERSION {
        return Err(Error::OldLibrary(pid));
    }
    if words[RECORDED_AT] == 0 {
        return Ok(false);
    }
    let recorder = words[RECORDER_AT];
    if Path::new(&format!("/proc/{recorder}")).exists() {
        return Err(Error::RecordedAlready { pid, recorder });
    }
    Ok(true)
}

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn from_bytes<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// The library in a process: where its words and functions are.
struct Library<'a> {
    process: &'a TargetProcess,
    path: &'a Path,
    words: usize,
    open: usize,
    begin: usize,
    enter: usize,
    ready: usize,
    stay: usize,
    leave: usize,
    finish: usize,
    /// The stack on which they are called; zero: the thread's own.
    stack: VirtAddr,
}

impl<'a> Library<'a> {
    /// `None` where it is not loaded.
    fn find(process: &'a TargetProcess, path: &'a Path) -> Result<Option<Self>> {
        let names = [
            WORDS,
            "memtap_attach_open",
            "memtap_attach_begin",
            "memtap_attach_enter",
            "memtap_attach_ready",
            "memtap_attach_stay",
            "memtap_attach_leave",
            "memtap_attach_finish",
        ];
        let Some([words, open, begin, enter, ready, stay, leave, finish]) = process.symbols(path, names)?
        else {
            return Ok(None);
        };
        let mut library =
            Self { process, path, words, open, begin, enter, ready, stay, leave, finish, stack: VirtAddr(0) };
        library.stack = VirtAddr(library.words()?[STACK_AT]);
        Ok(Some(library))
    }

    /// What it says.
    fn words(&self) -> Result<[u64; WORD_COUNT]> {
        let mut bytes = [0; WORD_COUNT * 8];
        self.process.read(&mut bytes, self.words)?;
        Ok(from_bytes(&bytes))
    }

    /// Calls a function on a thread. `data` is what it gets, and what it leaves there.
    fn call(&self, thread: &mut Stopped, function: usize, data: &mut [u8], count: usize) -> Result<()> {
        let pid = self.process.pid();
        let stack = (self.stack.0 != 0).then_some(self.stack.0);
        let word = self.process.call(
            thread,
            InjectedCall {
                second: count,
                stack,
                traps: self.stack.0 == 0,
                ..InjectedCall::new(function, data)
            },
        )?;
        Err(match Status::from_word(word) {
            Some(Status::Done) => return Ok(()),
            Some(Status::NoRecorder) => Error::NoRecorder(pid),
            Some(Status::NoMemory) => Error::NoMemory(pid),
            Some(Status::NoDispatch) => Error::NoDispatch(pid),
            Some(Status::Full) => Error::Full(pid),
            Some(Status::NotRecorded) => Error::NotRecorded(pid),
            Some(Status::Version) | None => Error::Version(self.path.into()),
        })
    }
}

/// Takes a process over: on return all its threads run in the cache or are on their way there.
fn enter(pid: u32, path: &Path, channel: &str) -> Result<()> {
    let process = TargetProcess::open(pid)?;
    if let Some(library) = Library::find(&process, path)?
        && check_words(&library.words()?, pid)?
    {
        // Its recorder was killed.
        leave(pid, path)?;
    }
    let mut thread = process.load(path)?;
    let mut library = Library::find(&process, path)?.ok_or_else(|| Error::Version(path.into()))?;
    // This thread is at a safe place and calls the loader: on its own stack.
    library.stack = VirtAddr(0);
    library.call(&mut thread, library.open, &mut attach::terminated(channel), 0)?;
    library.stack = VirtAddr(library.words()?[STACK_AT]);
    drop(thread);
    let mut stopped = Vec::new();
    process.stop_all(&mut stopped)?;
    let entered = enter_stopped(&library, &mut stopped);
    if let Err(error) = entered {
        // Nobody has run since: those that were entered have not come to the cache.
        let _ = leave_stopped(&library, &mut stopped);
        return Err(error);
    }
    Ok(())
}

fn enter_stopped(library: &Library<'_>, stopped: &mut [Stopped]) -> Result<()> {
    let pid = library.process.pid();
    let count = stopped.len();
    if count > MAX_THREADS {
        return Err(Error::TooManyThreads { pid, count });
    }
    let mut list = Vec::new();
    for thread in stopped.iter() {
        let registers = thread.registers().map_err(thread_error(pid))?;
        if registers.gs_base != 0 {
            return Err(Error::UsesGs(pid));
        }
        list.extend([registers.rsp, registers.fs_base]);
    }
    let Some(first) = stopped.first_mut() else { return Err(Error::ProcessEnded(pid)) };
    library.call(first, library.begin, &mut to_bytes(&list), count)?;
    let mut targets = Vec::new();
    for thread in stopped.iter_mut() {
        let registers = thread.registers().map_err(thread_error(pid))?;
        // It makes its call again when it goes on, and comes by that.
        let waits = registers.orig_rax as i64 >= 0 && is_restart(registers.rax);
        let request = Enter {
            rip: registers.rip,
            mask: thread.mask().map_err(thread_error(pid))?,
            waits: waits.into(),
        };
        let mut bytes = to_bytes(&request.words());
        library.call(thread, library.enter, &mut bytes, 0)?;
        targets.push(Enter::from_words(from_bytes(&bytes)));
    }
    // From here on nothing can fail but by the process's end.
    for (thread, target) in stopped.iter().zip(targets) {
        thread.set_mask(target.mask).map_err(thread_error(pid))?;
        if target.waits == 0 {
            let registers = thread.registers().map_err(thread_error(pid))?;
            let registers = UserRegisters { rip: target.rip, orig_rax: u64::MAX, ..registers };
            thread.set_registers(&registers).map_err(thread_error(pid))?;
        }
    }
    Ok(())
}

/// Lets a process go on natively. One that ended, or has become a program without the library, does.
fn leave(pid: u32, path: &Path) -> Result<()> {
    match try_leave(pid, path) {
        Err(error) if is_end(&error) => Ok(()),
        Err(error) => Err(Error::NotLeft { pid, source: Box::new(error) }),
        Ok(()) => Ok(()),
    }
}

fn is_end(error: &Error) -> bool {
    use attach::Error as Attach;
    matches!(
        error,
        Error::ProcessEnded(_)
            | Error::Attach(Attach::Ended(_) | Attach::NoProcess(_) | Attach::NoProgram(_))
    )
}

fn try_leave(pid: u32, path: &Path) -> Result<()> {
    let process = TargetProcess::open(pid)?;
    let Some(library) = Library::find(&process, path)? else { return Ok(()) };
    if library.words()?[RECORDED_AT] == 0 {
        return Ok(());
    }
    let deadline = Instant::now() + Duration::from_secs(LEAVE_SECONDS);
    let mut held = Vec::new();
    let mut pause = Duration::from_micros(100);
    loop {
        process.stop_all(&mut held)?;
        let ready = readiness(&library, &mut held)?;
        if ready.iter().all(|ready| *ready) {
            return leave_stopped(&library, &mut held);
        }
        if Instant::now() > deadline {
            if let Some(first) = held.first_mut() {
                library.call(first, library.stay, &mut [], 0)?;
            }
            return Err(Error::StaysInTracer { seconds: LEAVE_SECONDS });
        }
        // Those that are not go on for a moment. They are not stepped: code that keeps the flags would keep the trap flag.
        let mut ready = ready.into_iter();
        held.retain(|_| ready.next() == Some(true));
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Asks for each thread whether it can leave.
fn readiness(library: &Library<'_>, stopped: &mut [Stopped]) -> Result<Vec<bool>> {
    let pid = library.process.pid();
    let mut list = Vec::new();
    for thread in stopped.iter() {
        let registers = thread.registers().map_err(thread_error(pid))?;
        let ready = Ready {
            tid: pid_namespaces::own_tid(pid, thread.tid()) as u64,
            rip: registers.rip,
            rsp: registers.rsp,
            gs_base: registers.gs_base,
            rax: registers.rax,
            orig_rax: registers.orig_rax,
            is_ready: 0,
        };
        list.extend(ready.words());
    }
    let (mut bytes, count) = (to_bytes(&list), stopped.len());
    let Some(first) = stopped.first_mut() else { return Err(Error::ProcessEnded(pid)) };
    library.call(first, library.ready, &mut bytes, count)?;
    let each = bytes.chunks_exact(READY_WORDS * 8);
    Ok(each.map(|bytes| Ready::from_words(from_bytes(bytes)).is_ready != 0).collect())
}

/// Lets stopped threads leave, all of which are ready, and gives back what is the process's.
fn leave_stopped(library: &Library<'_>, stopped: &mut [Stopped]) -> Result<()> {
    let pid = library.process.pid();
    for (index, thread) in stopped.iter_mut().enumerate() {
        let registers = thread.registers().map_err(thread_error(pid))?;
        let request = Leave {
            registers: *general(&registers).words(),
            orig_rax: registers.orig_rax,
            mask: thread.mask().map_err(thread_error(pid))?,
            state: [0; 2],
            is_first: u64::from(index == 0),
            kept: 0,
        };
        let mut bytes = to_bytes(&request.words());
        library.call(thread, library.leave, &mut bytes, 0)?;
        let left = Leave::from_words(from_bytes(&bytes));
        let [at, len] = left.state.map(|word| word as usize);
        if len > 0 {
            let mut state = vec![0; len];
            library.process.read(&mut state, at)?;
            thread.set_extended(&state).map_err(thread_error(pid))?;
        }
        thread.set_mask(left.mask).map_err(thread_error(pid))?;
        for signal in (1..=64).filter(|signal| left.kept & 1 << (signal - 1) != 0) {
            thread.send(pid, signal).map_err(thread_error(pid))?;
        }
        let now = thread.registers().map_err(thread_error(pid))?;
        let registers = with_general(&Registers::from_words(left.registers), left.orig_rax, &now);
        thread.set_registers(&registers).map_err(thread_error(pid))?;
    }
    let Some(first) = stopped.first_mut() else { return Err(Error::ProcessEnded(pid)) };
    library.call(first, library.finish, &mut [], 0)
}

fn thread_error(pid: u32) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Thread { pid, source }
}

/// A stopped thread's registers as its tracer is told them.
fn general(r: &UserRegisters) -> Registers {
    Registers {
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rdi: r.rdi,
        rsi: r.rsi,
        rbp: r.rbp,
        rbx: r.rbx,
        rdx: r.rdx,
        rax: r.rax,
        rcx: r.rcx,
        rsp: r.rsp,
        rip: r.rip,
        rflags: r.eflags,
    }
}

/// The inverse; segments are those of `others`.
fn with_general(g: &Registers, orig_rax: u64, others: &UserRegisters) -> UserRegisters {
    UserRegisters {
        r8: g.r8,
        r9: g.r9,
        r10: g.r10,
        r11: g.r11,
        r12: g.r12,
        r13: g.r13,
        r14: g.r14,
        r15: g.r15,
        rdi: g.rdi,
        rsi: g.rsi,
        rbp: g.rbp,
        rbx: g.rbx,
        rdx: g.rdx,
        rax: g.rax,
        rcx: g.rcx,
        rsp: g.rsp,
        rip: g.rip,
        eflags: g.rflags,
        orig_rax,
        ..*others
    }
}

/// Takes the process over, waits until it is time, and leaves it and all that it started. One thread does all, because a
/// stopped thread listens to who stopped it alone; another one empties the buffers meanwhile.
pub(crate) fn run(
    running: &RunningProcess,
    library: &Path,
    channel: &str,
    pool: &OwnedPool,
    tell: impl Fn(Notice<'static>),
) -> Result<(), Failure> {
    let pid = running.pid;
    enter(pid, library, channel).map_err(Failure::NotEntered)?;
    tell(Notice::Attached { pid });
    let begun = Instant::now();
    let mut living = LiveProcesses::default();
    let mut known = 0;
    let is_time = || running.time.is_some_and(|time| begun.elapsed() >= time);
    while !running.stop.load(Ordering::Relaxed) && !is_time() {
        while let Some(slot) = pool.pool().process(known).filter(|slot| slot.state() != ProcessState::Empty) {
            living.add(known, pid_namespaces::pid_of(slot, pool).unwrap_or(0));
            known += 1;
        }
        living.dead();
        if living.is_empty() {
            tell(Notice::Ended { pid });
            return Ok(());
        }
        let rest = running.time.map_or(LOOK_EVERY, |time| time.saturating_sub(begun.elapsed()));
        std::thread::sleep(rest.min(LOOK_EVERY));
    }
    leave_all(pool, library).map_err(Failure::NotLeft)
}

/// Leaves all processes of the session, also those that are started meanwhile.
fn leave_all(pool: &OwnedPool, library: &Path) -> Result<()> {
    let mut result = Ok(());
    loop {
        let numbers = 0..pool.pool().control().processes();
        let mut live = numbers
            .filter_map(|number| pool.pool().process(number))
            .filter(|slot| slot.state() == ProcessState::Live);
        let Some(slot) = live.next() else { return result };
        let left = pid_namespaces::pid_of(slot, pool).map_or(Ok(()), |pid| leave(pid, library));
        slot.end();
        result = result.and(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_come_back() {
        let words: [u64; 18] = std::array::from_fn(|index| index as u64 + 1);
        let registers = with_general(&Registers::from_words(words), 77, &zeros());
        assert_eq!(*general(&registers).words(), words);
        assert_eq!((registers.rip, registers.orig_rax), (17, 77));
    }

    fn zeros() -> UserRegisters {
        UserRegisters {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            rbp: 0,
            rbx: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rax: 0,
            rcx: 0,
            rdx: 0,
            rsi: 0,
            rdi: 0,
            orig_rax: 0,
            rip: 0,
            cs: 0,
            eflags: 0,
            rsp: 0,
            ss: 0,
            fs_base: 0,
            gs_base: 0,
            ds: 0,
            es: 0,
            fs: 0,
            gs: 0,
        }
    }

    #[test]
    fn a_process_is_recorded_once_at_a_time() {
        let own = u64::from(std::process::id());
        let words = |version, recorded, recorder| {
            let mut words = [0; WORD_COUNT];
            (words[VERSION_AT], words[RECORDED_AT], words[RECORDER_AT]) = (version, recorded, recorder);
            words
        };
        assert!(!check_words(&words(ATTACH_VERSION, 0, 0), 1).unwrap());
        assert!(check_words(&words(ATTACH_VERSION, 1, 1 << 22), 1).unwrap());
        let text = check_words(&words(ATTACH_VERSION, 1, own), 1).unwrap_err().to_string();
        assert!(text.contains("already being recorded by memtap"), "{text}");
        let text = check_words(&words(1, 0, 0), 1).unwrap_err().to_string();
        assert!(text.contains("another version"), "{text}");
    }
}
