//! Recording a process that runs already: the tracer's library is loaded into it and takes all threads over; at the end all
//! go on natively.
//!
//! The threads are stopped by ptrace (crate `attach`) only for these two moments. What the library does on them is described
//! in `buffers::attach`. Processes that the recorded one starts are recorded too, and left at the end as well.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use attach::{Error, InjectedCall, Stopped, TargetProcess, UserRegisters};
use buffers::ProcessState;
use buffers::attach::{
    ATTACH_VERSION, Enter, Leave, MAX_THREADS, READY_WORDS, RECORDED_AT, RECORDER_AT, Ready, STACK_AT,
    Status, VERSION_AT, WORD_COUNT, WORDS, is_restart,
};
use buffers_host::OwnedPool;

use super::watch::Watch;

/// How long is waited until no thread is at work in the tracer.
const LEAVE_SECONDS: u64 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process to record, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// `None`: until Ctrl-C.
    pub time: Option<Duration>,
}

/// Why there is no recording, or none that ended well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The process was left as it was.
    NotEntered(anyhow::Error),
    /// It goes on in the tracer, unrecorded.
    NotLeft(anyhow::Error),
}

/// Refuses what can't be recorded. Before anything is made.
pub fn check(pid: u32, library: &Path) -> Result<()> {
    attach::check(pid)?;
    for (space, what) in [("pid", "process numbers"), ("net", "network")] {
        let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{space}"));
        match (of("self"), of(&pid.to_string())) {
            (Ok(here), Ok(there)) if here != there => bail!(
                "process {pid} has other {what} than memtap (a container); run memtap inside of the container"
            ),
            _ => {}
        }
    }
    if !attach::sees(pid, library) {
        // One that has ended sees nothing.
        attach::check(pid)?;
        bail!(
            "process {pid} does not see {} (another root directory); install memtap there and run it inside",
            library.display()
        );
    }
    let process = TargetProcess::open(pid)?;
    if let Some(library) = Library::find(&process, library)? {
        check_words(&library.words()?, pid)?;
    }
    Ok(())
}

/// Whether the process is recorded by somebody who is no more; an error where he is.
fn check_words(words: &[u64; WORD_COUNT], pid: u32) -> Result<bool> {
    if words[VERSION_AT] != ATTACH_VERSION {
        bail!("process {pid} has another version of memtap's library in it; start the program anew");
    }
    if words[RECORDED_AT] == 0 {
        return Ok(false);
    }
    let recorder = words[RECORDER_AT];
    if Path::new(&format!("/proc/{recorder}")).exists() {
        bail!("process {pid} is recorded by memtap already (process {recorder}): end that one first");
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
    stack: u64,
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
            Self { process, path, words, open, begin, enter, ready, stay, leave, finish, stack: 0 };
        library.stack = library.words()?[STACK_AT];
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
        let stack = (self.stack != 0).then_some(self.stack);
        let word = self.process.call(
            thread,
            InjectedCall {
                second: count,
                stack,
                traps: self.stack == 0,
                ..InjectedCall::new(function, data)
            },
        )?;
        match Status::from_word(word) {
            Some(Status::Done) => Ok(()),
            Some(Status::NoRecorder) => bail!(
                "process {pid} can't reach the recorder: sockets or memory are refused to it (limits, seccomp)"
            ),
            Some(Status::NoMemory) => {
                bail!("process {pid} has no memory or address space left for the tracer")
            }
            Some(Status::NoDispatch) => bail!(
                "process {pid} can't have its system calls handed to the tracer: that needs Linux 5.11, and a process that does not forbid it to itself (seccomp)"
            ),
            Some(Status::Full) => bail!("process {pid} is recorded already, or the session is full"),
            Some(Status::NotRecorded) => bail!("process {pid} is not recorded"),
            Some(Status::Version) | None => {
                bail!("{}: is of another version than memtap", self.path.display())
            }
        }
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
    let mut library = Library::find(&process, path)?
        .with_context(|| format!("{}: is of another version than memtap", path.display()))?;
    // This thread is at a safe place and calls the loader: on its own stack.
    library.stack = 0;
    library.call(&mut thread, library.open, &mut attach::terminated(channel), 0)?;
    library.stack = library.words()?[STACK_AT];
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
        bail!("process {pid} has {count} threads; at most {MAX_THREADS} can be attached to");
    }
    let mut list = Vec::new();
    for thread in stopped.iter() {
        let registers = thread.registers()?;
        if registers.gs_base != 0 {
            bail!("process {pid} uses the gs segment itself, which the tracer needs");
        }
        list.extend([registers.rsp, registers.fs_base]);
    }
    let Some(first) = stopped.first_mut() else { bail!(Error::Ended(pid)) };
    library.call(first, library.begin, &mut to_bytes(&list), count)?;
    let mut targets = Vec::new();
    for thread in stopped.iter_mut() {
        let registers = thread.registers()?;
        // It makes its call again when it goes on, and comes by that.
        let waits = registers.orig_rax as i64 >= 0 && is_restart(registers.rax);
        let request = Enter { rip: registers.rip, mask: thread.mask()?, waits: waits.into() };
        let mut bytes = to_bytes(&request.words());
        library.call(thread, library.enter, &mut bytes, 0)?;
        targets.push(Enter::from_words(from_bytes(&bytes)));
    }
    // From here on nothing can fail but by the process's end.
    for (thread, target) in stopped.iter().zip(targets) {
        thread.set_mask(target.mask)?;
        if target.waits == 0 {
            let registers = thread.registers()?;
            thread.set_registers(&UserRegisters { rip: target.rip, orig_rax: u64::MAX, ..registers })?;
        }
    }
    Ok(())
}

/// Lets a process go on natively. One that ended, or has become a program without the library, does.
fn leave(pid: u32, path: &Path) -> Result<()> {
    match try_leave(pid, path) {
        Err(error) if is_end(&error) => Ok(()),
        result => result.with_context(|| format!("process {pid} goes on in the tracer, unrecorded")),
    }
}

fn is_end(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Ended(_) | Error::NoProcess(_) | Error::NoProgram(_)))
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
            bail!("a thread stayed in the tracer or in the kernel for {LEAVE_SECONDS} seconds");
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
    let mut list = Vec::new();
    for thread in stopped.iter() {
        let registers = thread.registers()?;
        let ready = Ready {
            tid: thread.tid() as u64,
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
    let Some(first) = stopped.first_mut() else { bail!(Error::Ended(library.process.pid())) };
    library.call(first, library.ready, &mut bytes, count)?;
    let each = bytes.chunks_exact(READY_WORDS * 8);
    Ok(each.map(|bytes| Ready::from_words(from_bytes(bytes)).is_ready != 0).collect())
}

/// Lets stopped threads leave, all of which are ready, and gives back what is the process's.
fn leave_stopped(library: &Library<'_>, stopped: &mut [Stopped]) -> Result<()> {
    for (index, thread) in stopped.iter_mut().enumerate() {
        let registers = thread.registers()?;
        let request = Leave {
            registers: in_order(&registers),
            orig_rax: registers.orig_rax,
            mask: thread.mask()?,
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
            thread.set_extended(&state)?;
        }
        thread.set_mask(left.mask)?;
        for signal in (1..=64).filter(|signal| left.kept & 1 << (signal - 1) != 0) {
            thread.send(library.process.pid(), signal)?;
        }
        let now = thread.registers()?;
        thread.set_registers(&from_order(&left.registers, left.orig_rax, &now))?;
    }
    let Some(first) = stopped.first_mut() else { bail!(Error::Ended(library.process.pid())) };
    library.call(first, library.finish, &mut [], 0)
}

/// General registers in the order of a signal context.
fn in_order(r: &UserRegisters) -> [u64; 18] {
    [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
        r.rcx, r.rsp, r.rip, r.eflags,
    ]
}

/// The inverse; segments are those of `others`.
fn from_order(words: &[u64; 18], orig_rax: u64, others: &UserRegisters) -> UserRegisters {
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags] = *words;
    UserRegisters {
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        rdi,
        rsi,
        rbp,
        rbx,
        rdx,
        rax,
        rcx,
        rsp,
        rip,
        eflags,
        orig_rax,
        ..*others
    }
}

/// Takes the process over, waits until it is time, and leaves it and all that it started. One thread does all, because a
/// stopped thread listens to who stopped it alone; another one empties the buffers meanwhile.
pub(crate) fn run(
    running: Running,
    library: &Path,
    channel: &str,
    pool: &OwnedPool,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    enter(running.pid, library, channel).map_err(Failure::NotEntered)?;
    let how = if running.time.is_none() { ", end with Ctrl-C" } else { "" };
    eprintln!("memtap: recording process {}{how}", running.pid);
    let begun = Instant::now();
    let mut watch = Watch::default();
    let mut known = 0;
    let is_time = || running.time.is_some_and(|time| begun.elapsed() >= time);
    while !stop.load(Ordering::Relaxed) && !is_time() {
        while let Some(slot) = pool.pool().process(known).filter(|slot| slot.state() != ProcessState::Empty) {
            watch.add(known, slot.pid());
            known += 1;
        }
        watch.dead();
        if watch.is_empty() {
            eprintln!("memtap: process {} ended", running.pid);
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
        let pool = pool.pool();
        let numbers = 0..pool.control().processes();
        let mut live = numbers
            .filter_map(|number| pool.process(number))
            .filter(|slot| slot.state() == ProcessState::Live);
        let Some(slot) = live.next() else { return result };
        let left = leave(slot.pid(), library);
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
        // The test's own registers serve as the others: none of them is looked at.
        let others = from_order(&[0; 18], 0, &zeros());
        let registers = from_order(&words, 77, &others);
        assert_eq!(in_order(&registers), words);
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
        assert!(text.contains("recorded by memtap already"), "{text}");
        let text = check_words(&words(1, 0, 0), 1).unwrap_err().to_string();
        assert!(text.contains("another version"), "{text}");
    }
}
