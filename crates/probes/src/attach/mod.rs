//! Attaching to a process that runs, and leaving it as it was.
//!
//! One thread at a safe place is borrowed for `dlopen` of the probes' library and for a call that starts the profiler in
//! a thread of its own; the rest of the program runs on meanwhile. [`Attached::end`] asks the library to switch all
//! probes off and to write its profile; then, for some microseconds, all threads are stopped at once, and the return
//! addresses that are still replaced are put back. What remains in the process is the library, mapped and idle.
//!
//! Deliberately no debugger: nothing of this is on a probe's path, and while a program is profiled it is not traced.

mod error;
mod ptrace;
mod target;

pub use error::AttachError;

use crate::profile::{attached, settings::Settings};
use ptrace::{CallError, Stopped};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

/// How long is waited for a thread at a safe place.
const SAFE_PLACE_SECONDS: u64 = 5;
/// How long a call may take: the loader reads files.
const CALL_SECONDS: u64 = 20;
/// How long the library may take to make its probes, and to write the profile.
const LIBRARY_SECONDS: u64 = 60;
/// How often all threads are stopped before one that stays inside a probe is given up.
const SETTLE_ROUNDS: u32 = 500;
/// Program counters that are handed over on the stack in one call.
const MOST_THREADS: usize = 4096;

/// A process that is being profiled.
pub struct Attached {
    pid: u32,
    memory: File,
    /// The library's functions there.
    settle: usize,
    state: usize,
    /// Whether nothing that was started here has to be ended.
    is_over: bool,
}

/// Checks whether process `pid` can be attached to.
pub fn check(pid: u32) -> Result<(), AttachError> {
    target::check(pid)
}

/// The path of a file of process `pid` as this one sees it, for a process with another root directory.
#[must_use]
pub fn path_here(pid: u32, path: &str) -> std::path::PathBuf {
    target::seen_from_here(pid, path)
}

/// Whether process `pid` sees the same file at `path` as this one.
#[must_use]
pub fn sees(pid: u32, path: &Path) -> bool {
    target::sees(pid, path)
}

impl Attached {
    /// Loads `library` into process `pid` and starts the profiler there; its controller must be this process.
    pub fn start(pid: u32, library: &Path, settings: &Settings) -> Result<Self, AttachError> {
        target::check(pid)?;
        let memory = open_memory(pid)?;
        let mapped = target::mappings(pid)?;
        let find = |name| target::loader_function(pid, &mapped, name).ok_or(AttachError::NoLoader(pid));
        let (dlopen, dlerror) = (find("dlopen")?, find("dlerror")?);
        let mut thread = borrow(pid)?;
        let call = |thread: &mut Stopped, function, data: &[u8], second| {
            thread
                .call(&memory, function, (data, second), Duration::from_secs(CALL_SECONDS))
                .map_err(|error| failed(pid, error))
        };
        let path = library.to_string_lossy().into_owned();
        let handle = call(&mut thread, dlopen, &terminated(&path), libc::RTLD_NOW as usize)?;
        if handle == 0 {
            let text = call(&mut thread, dlerror, &[], 0)?;
            return Err(AttachError::Load { pid, library: path, reason: read_text(&memory, text) });
        }
        let mapped = target::mappings(pid)?;
        let real = library.canonicalize().unwrap_or_else(|_| library.to_path_buf());
        let name = real.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let is_library = |path: &str| path.ends_with(&format!("/{name}"));
        let of_library = |function| {
            target::function(pid, &mapped, is_library, function).ok_or_else(|| AttachError::Load {
                pid,
                library: path.clone(),
                reason: "it is of another version than memtap".to_owned(),
            })
        };
        let [start, settle, state] =
            ["memtap_probes_attach", "memtap_probes_settle", "memtap_probes_state"].map(of_library);
        let (start, settle) = (start?, settle?);
        let state = call(&mut thread, state?, &[], 0)? as usize;
        let mut process = Self { pid, memory, settle, state, is_over: true };
        if process.state()? == attached::STOPPED {
            // Someone attached before and was killed half way out.
            drop(thread);
            process.settle()?;
            thread = borrow(pid)?;
        }
        match process.state()? {
            attached::IDLE | attached::FAILED => {}
            attached::UNSAFE => return Err(AttachError::Unwinder(pid)),
            _ => return Err(AttachError::Busy(pid)),
        }
        thread
            .call(
                &process.memory,
                start,
                (&terminated(&settings.to_text()), 0),
                Duration::from_secs(CALL_SECONDS),
            )
            .map_err(|error| failed(pid, error))?;
        drop(thread);
        process.is_over = false;
        match process.wait_for(|state| state != attached::STARTING)? {
            attached::RUNNING => Ok(process),
            attached::UNSAFE => Err(AttachError::Unwinder(pid)),
            _ => Err(AttachError::NotStarted(pid)),
        }
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state().is_err()
    }

    /// Switches all probes off, has the profile written, and leaves the process as it was.
    pub fn end(mut self) -> Result<(), AttachError> {
        self.is_over = true;
        if self.state()? == attached::RUNNING {
            self.memory
                .write_all_at(&attached::STOPPING.to_le_bytes(), self.state as u64)
                .map_err(|_| AttachError::Ended(self.pid))?;
        }
        self.wait_for(|state| state != attached::STOPPING)?;
        self.settle()
    }

    fn state(&self) -> Result<u32, AttachError> {
        let mut word = [0; 4];
        // The memory of a process that ended reads as empty.
        self.memory.read_exact_at(&mut word, self.state as u64).map_err(|_| AttachError::Ended(self.pid))?;
        Ok(u32::from_le_bytes(word))
    }

    fn wait_for(&self, reached: impl Fn(u32) -> bool) -> Result<u32, AttachError> {
        let deadline = Instant::now() + Duration::from_secs(LIBRARY_SECONDS);
        loop {
            let state = self.state()?;
            if reached(state) || Instant::now() > deadline {
                return Ok(state);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Puts back what is left, in a moment when no thread is inside a probe.
    fn settle(&self) -> Result<(), AttachError> {
        for round in 0..SETTLE_ROUNDS {
            let mut stopped = stop_all(self.pid)?;
            let counters: Vec<u8> = stopped
                .iter()
                .filter_map(|thread| thread.registers().ok())
                .flat_map(|registers| registers.rip.to_le_bytes())
                .collect();
            let count = counters.len() / 8;
            let caller = stopped.iter_mut().find(|thread| has_room(self.pid, thread, counters.len()));
            if let Some(thread) = caller.filter(|_| count <= MOST_THREADS) {
                let settled = thread
                    .call(&self.memory, self.settle, (&counters, count), Duration::from_secs(CALL_SECONDS))
                    .map_err(|error| failed(self.pid, error))?;
                if settled as u32 == 1 {
                    return Ok(());
                }
            }
            drop(stopped);
            std::thread::sleep(Duration::from_micros(200) * (round + 1).min(50));
        }
        Err(AttachError::Unsettled(self.pid))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.is_over {
            // Given up on the way: the library ends by itself; nobody waits for its profile.
            let _ = self.memory.write_all_at(&attached::STOPPING.to_le_bytes(), self.state as u64);
        }
    }
}

fn open_memory(pid: u32) -> Result<File, AttachError> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).map_err(|source| match source
        .kind()
    {
        io::ErrorKind::PermissionDenied => target::permission(pid),
        io::ErrorKind::NotFound => AttachError::Ended(pid),
        _ => AttachError::System { pid, what: "its memory cannot be opened", source },
    })
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn read_text(memory: &File, at: u64) -> String {
    let mut bytes = [0; 512];
    let got = memory.read_at(&mut bytes, at).unwrap_or(0);
    let text = bytes[..got].split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn failed(pid: u32, error: CallError) -> AttachError {
    match error {
        CallError::Gone => AttachError::Ended(pid),
        CallError::Signal(signal) => AttachError::Crashed { pid, signal },
        CallError::Timeout => AttachError::Timeout(pid, CALL_SECONDS),
        CallError::System(source) => AttachError::System { pid, what: "a call inside it failed", source },
    }
}

fn not_stopped(pid: u32, error: io::Error) -> AttachError {
    match error.raw_os_error() {
        Some(libc::EPERM) => target::permission(pid),
        _ => AttachError::System { pid, what: "a thread cannot be stopped", source: error },
    }
}

const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Stops one thread that stands where the loader can be called; those that wait in the kernel are tried first.
fn borrow(pid: u32) -> Result<Stopped, AttachError> {
    let deadline = Instant::now() + Duration::from_secs(SAFE_PLACE_SECONDS);
    let mut round = 0u32;
    loop {
        let mapped = target::mappings(pid)?;
        let mut threads = target::threads(pid);
        if threads.is_empty() {
            return Err(AttachError::Ended(pid));
        }
        if round < 3 && threads.iter().any(|tid| target::waits(pid, *tid)) {
            threads.retain(|tid| target::waits(pid, *tid));
        }
        for tid in threads {
            match Stopped::stop(tid, STOP_PATIENCE) {
                Ok(Some(thread)) => {
                    if thread.registers().is_ok_and(|registers| target::is_safe_place(&registers, &mapped)) {
                        return Ok(thread);
                    }
                }
                Ok(None) => {}
                // One thread may hang in the kernel; the others will do.
                Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {}
                Err(error) => return Err(not_stopped(pid, error)),
            }
        }
        if Instant::now() > deadline {
            return Err(AttachError::NoSafePlace(pid, SAFE_PLACE_SECONDS));
        }
        round += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Stops all threads, also those that are born meanwhile.
fn stop_all(pid: u32) -> Result<Vec<Stopped>, AttachError> {
    let mut stopped = Vec::new();
    let mut known = std::collections::HashSet::new();
    loop {
        let fresh: Vec<i32> = target::threads(pid).into_iter().filter(|tid| known.insert(*tid)).collect();
        if fresh.is_empty() {
            break;
        }
        for tid in fresh {
            match Stopped::stop(tid, STOP_PATIENCE) {
                Ok(Some(thread)) => stopped.push(thread),
                Ok(None) => {}
                Err(error) => return Err(not_stopped(pid, error)),
            }
        }
    }
    if stopped.is_empty() { Err(AttachError::Ended(pid)) } else { Ok(stopped) }
}

/// Whether the thread's stack has room for the call that ends an attachment.
fn has_room(pid: u32, thread: &Stopped, data_bytes: usize) -> bool {
    let Ok(registers) = thread.registers() else { return false };
    let at = registers.rsp as usize;
    target::mappings(pid).is_ok_and(|mapped| {
        mapped
            .iter()
            .find(|m| (m.start..m.end).contains(&at))
            .is_some_and(|m| m.path == "[stack]" || at - m.start >= data_bytes + (16 << 10))
    })
}
