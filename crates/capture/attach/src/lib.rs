//! Control of a running process: stops its threads with ptrace, calls functions on them, and loads a library into the process.
//!
//! Loading borrows one thread at a safe place for `dlopen` ([`TargetProcess::load`]) while the others
//! keep running. Operations that need all threads at once stop them all ([`TargetProcess::stop_all`]).
//! Dropping a [`Stopped`] resumes its thread, with its original registers or with those that were set.
//!
//! Which functions are called in the process, and why, is up to the users of this crate: the probes (crate
//! `probes`) and the recorder of running processes (crate `recorder`). Start with [`TargetProcess`].

mod error;
mod ptrace;
mod target;

pub use error::Error;
pub use ptrace::{InjectedCall, Stopped, UserRegisters};
pub use target::{check, path_here, sees};

use ptrace::CallError;
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
/// How long is waited for a thread to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// A process that runs, and its memory.
#[derive(Debug)]
pub struct TargetProcess {
    pid: u32,
    memory: File,
}

impl TargetProcess {
    /// Looks whether process `pid` can be attached to, and opens its memory.
    ///
    /// # Errors
    /// Where it can't be attached to.
    pub fn open(pid: u32) -> Result<Self, Error> {
        check(pid)?;
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => target::permission(pid),
            _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Ended(pid),
            io::ErrorKind::NotFound => Error::Ended(pid),
            _ => Error::System { pid, what: "its memory cannot be opened", source },
        })?;
        Ok(Self { pid, memory })
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The addresses of functions or variables that a library at that path exports there; `None` where it is not loaded
    /// or lacks one of the names.
    ///
    /// # Errors
    /// Where the process ended.
    pub fn symbols<const N: usize>(
        &self,
        library: &Path,
        names: [&str; N],
    ) -> Result<Option<[usize; N]>, Error> {
        let real = library.canonicalize().unwrap_or_else(|_| library.to_path_buf());
        let file = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mapped = target::mappings(self.pid)?;
        Ok(target::functions(self.pid, &mapped, |path| path.ends_with(&format!("/{file}")), names))
    }

    /// Loads a library, and gives back the thread that was borrowed for it.
    ///
    /// # Errors
    /// Where there is no loader, no thread at a safe place, or the loader refuses.
    pub fn load(&self, library: &Path) -> Result<Stopped, Error> {
        let [dlopen, dlerror] = target::young(|| {
            target::check_now(self.pid)?;
            let mapped = target::mappings(self.pid)?;
            target::loader_functions(self.pid, &mapped, ["dlopen", "dlerror"])
                .ok_or(Error::NoLoader(self.pid))
        })?;
        let mut thread = self.borrow()?;
        let path = library.to_string_lossy().into_owned();
        let mut name = terminated(&path);
        let flags = libc::RTLD_NOW as usize;
        if self.call(&mut thread, InjectedCall { second: flags, ..InjectedCall::new(dlopen, &mut name) })?
            == 0
        {
            let text = self.call(&mut thread, InjectedCall::new(dlerror, &mut []))?;
            return Err(Error::Load { pid: self.pid, library: path, reason: self.read_text(text) });
        }
        Ok(thread)
    }

    /// Calls a function on a stopped thread, which is then as it was before; gives what it returns.
    ///
    /// # Errors
    /// Where it faults, takes too long, or the process ended.
    pub fn call(&self, thread: &mut Stopped, call: InjectedCall<'_>) -> Result<u64, Error> {
        let pid = self.pid;
        thread.call(&self.memory, call, Duration::from_secs(CALL_SECONDS)).map_err(|error| match error {
            CallError::Gone => Error::Ended(pid),
            CallError::Signal(signal) => Error::Crashed { pid, signal },
            CallError::Timeout => Error::Timeout(pid, CALL_SECONDS),
            CallError::System(source) => Error::System { pid, what: "a call inside it failed", source },
        })
    }

    /// Reads its memory.
    ///
    /// # Errors
    /// Where it ended, or nothing is mapped there.
    pub fn read(&self, into: &mut [u8], at: usize) -> Result<(), Error> {
        // The memory of a process that ended reads as empty.
        self.memory.read_exact_at(into, at as u64).map_err(|_| Error::Ended(self.pid))
    }

    /// Writes its memory.
    ///
    /// # Errors
    /// As for [`TargetProcess::read`].
    pub fn write(&self, bytes: &[u8], at: usize) -> Result<(), Error> {
        self.memory.write_all_at(bytes, at as u64).map_err(|_| Error::Ended(self.pid))
    }

    fn read_text(&self, at: u64) -> String {
        let mut bytes = [0; 512];
        let got = self.memory.read_at(&mut bytes, at).unwrap_or(0);
        let text = bytes[..got].split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    /// Stops one thread that stands where the loader can be called; those that wait in the kernel are tried first.
    ///
    /// # Errors
    /// Where there is none for some seconds.
    pub fn borrow(&self) -> Result<Stopped, Error> {
        let pid = self.pid;
        let deadline = Instant::now() + Duration::from_secs(SAFE_PLACE_SECONDS);
        let mut round = 0u32;
        loop {
            let mapped = target::mappings(pid)?;
            let mut threads = target::threads(pid);
            if threads.is_empty() {
                return Err(Error::Ended(pid));
            }
            if round < 3 && threads.iter().any(|tid| target::waits(pid, *tid)) {
                threads.retain(|tid| target::waits(pid, *tid));
            }
            for tid in threads {
                match Stopped::stop(tid, STOP_PATIENCE) {
                    Ok(Some(thread)) => {
                        let is_safe = |registers| target::is_safe_place(&registers, &mapped);
                        if !thread.is_disturbed() && thread.registers().is_ok_and(is_safe) {
                            return Ok(thread);
                        }
                    }
                    Ok(None) => {}
                    // One thread may hang in the kernel; the others will do.
                    Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {}
                    Err(error) => return Err(self.not_stopped(error)),
                }
            }
            if Instant::now() > deadline {
                return Err(Error::NoSafePlace(pid, SAFE_PLACE_SECONDS));
            }
            round += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops all threads, also those that are born meanwhile, where no signal is about to be delivered to them. Adds them to
    /// those that `stopped` already holds.
    ///
    /// # Errors
    /// Where one can't be stopped, none more was for some seconds though there are others, or the process ended.
    pub fn stop_all(&self, stopped: &mut Vec<Stopped>) -> Result<(), Error> {
        // Of the last progress: how long many threads take depends on how busy the processors are.
        let mut last = Instant::now();
        // A list that is read while a thread of it ends may lack those after it: only when nobody new is there twice is there nobody.
        let mut quiet = 0;
        while quiet < 2 {
            let known: std::collections::HashSet<i32> = stopped.iter().map(Stopped::tid).collect();
            let fresh: Vec<i32> =
                target::threads(self.pid).into_iter().filter(|tid| !known.contains(tid)).collect();
            quiet = if fresh.is_empty() { quiet + 1 } else { 0 };
            for tid in fresh {
                match Stopped::stop(tid, STOP_PATIENCE) {
                    // Otherwise it goes on into the signal's handler, and is stopped there.
                    Ok(Some(thread)) if !thread.is_disturbed() => {
                        stopped.push(thread);
                        last = Instant::now();
                    }
                    Ok(_) => {}
                    Err(error) => return Err(self.not_stopped(error)),
                }
            }
            if last.elapsed() > Duration::from_secs(SAFE_PLACE_SECONDS) {
                return Err(self.not_stopped(io::ErrorKind::TimedOut.into()));
            }
        }
        if stopped.is_empty() { Err(Error::Ended(self.pid)) } else { Ok(()) }
    }

    fn not_stopped(&self, error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::EPERM) => target::permission(self.pid),
            _ => Error::System { pid: self.pid, what: "a thread cannot be stopped", source: error },
        }
    }

    /// Whether the thread's stack has room for a call with that much data.
    #[must_use]
    pub fn has_room(&self, thread: &Stopped, data_bytes: usize) -> bool {
        let Ok(registers) = thread.registers() else { return false };
        let at = registers.rsp as usize;
        target::mappings(self.pid).is_ok_and(|mapped| {
            mapped
                .iter()
                .find(|m| (m.start..m.end).contains(&at))
                .is_some_and(|m| m.path == "[stack]" || at - m.start >= data_bytes + (16 << 10))
        })
    }
}

/// A text as functions of C take it.
#[must_use]
pub fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}
