//! Attaches to a running process, and leaves it as it was.
//!
//! One thread at a safe place is borrowed for `dlopen` of the probes' library and for a call that starts the profiler in
//! a thread of its own; the rest of the program keeps running (crate `attach`). [`Attached::end`] asks the library to
//! switch off all probes and to write its profile; then all threads are stopped at once for some microseconds, and the
//! return addresses that are still replaced are restored. What remains in the process is the library, mapped and idle.
//!
//! This is deliberately not a debugger: none of it is on a probe's path, and a program is not ptraced while it is profiled.

mod error;

pub use attach::{Error as ProcessError, check, path_here, sees};
pub use error::AttachError;

use crate::profile::{
    attached::{self, StoppedAt},
    settings::Settings,
};
use attach::{InjectedCall, TargetProcess, terminated};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// How long the library may take to make its probes, and to write the profile.
const LIBRARY_SECONDS: u64 = 60;
/// How often all threads are stopped before one that stays inside a probe is given up.
const SETTLE_ROUNDS: u32 = 500;
/// Threads of which is told on the stack in one call.
const MOST_THREADS: usize = 4096;

/// A process that is being profiled.
pub struct Attached {
    process: TargetProcess,
    /// The library's functions there.
    settle: usize,
    state: usize,
    /// Whether nothing that was started here has to be ended.
    is_over: bool,
}

impl Attached {
    /// Loads `library` into process `pid` and starts the profiler there; its controller must be this process.
    pub fn start(pid: u32, library: &Path, settings: &Settings) -> Result<Self, AttachError> {
        let process = TargetProcess::open(pid)?;
        let mut thread = process.load(library)?;
        let names = ["memtap_probes_attach", "memtap_probes_settle", "memtap_probes_state"];
        let [start, settle, state] = process.symbols(library, names)?.ok_or_else(|| ProcessError::Load {
            pid,
            library: library.display().to_string(),
            reason: "it is of another version than memtap".to_owned(),
        })?;
        let state = process.call(&mut thread, InjectedCall::new(state, &mut []))? as usize;
        let mut this = Self { process, settle, state, is_over: true };
        if attached::stage(this.state()?) == attached::STOPPED {
            // Someone attached before and was killed half way out.
            drop(thread);
            this.settle()?;
            thread = this.process.borrow()?;
        }
        match this.state()? {
            attached::IDLE | attached::FAILED => {}
            attached::UNSAFE => return Err(AttachError::Unwinder(pid)),
            _ => return Err(AttachError::Busy(pid)),
        }
        this.process.call(&mut thread, InjectedCall::new(start, &mut terminated(&settings.to_text())))?;
        drop(thread);
        this.is_over = false;
        match this.wait_for(|state| state != attached::STARTING)? {
            attached::RUNNING => Ok(this),
            attached::UNSAFE => Err(AttachError::Unwinder(pid)),
            _ => Err(AttachError::NotStarted(pid)),
        }
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state().is_err()
    }

    /// Switches all probes off, has the profiles written, and leaves the process as it was. Returns how many forked children did not
    /// write theirs in time.
    pub fn end(mut self) -> Result<u32, AttachError> {
        self.is_over = true;
        if self.state()? == attached::RUNNING {
            self.process.write(&attached::STOPPING.to_le_bytes(), self.state)?;
        }
        let state = self.wait_for(|state| state != attached::STOPPING)?;
        self.settle()?;
        Ok(state >> attached::STAGE.trailing_ones())
    }

    fn state(&self) -> Result<u32, AttachError> {
        let mut word = [0; 4];
        self.process.read(&mut word, self.state)?;
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
            let mut stopped = Vec::new();
            self.process.stop_all(&mut stopped)?;
            let mut threads: Vec<u8> = stopped
                .iter()
                .filter_map(|thread| thread.registers().ok())
                .flat_map(|registers| [registers.rip, registers.rsp])
                .flat_map(u64::to_le_bytes)
                .collect();
            let count = threads.len() / size_of::<StoppedAt>();
            let caller = stopped.iter_mut().find(|thread| self.process.has_room(thread, threads.len()));
            if let Some(thread) = caller.filter(|_| count <= MOST_THREADS) {
                let call = InjectedCall { second: count, ..InjectedCall::new(self.settle, &mut threads) };
                if self.process.call(thread, call)? as u32 == 1 {
                    return Ok(());
                }
            }
            drop(stopped);
            std::thread::sleep(Duration::from_micros(200) * (round + 1).min(50));
        }
        Err(AttachError::Unsettled(self.process.pid()))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.is_over {
            // Given up on the way: the library ends by itself; nobody waits for its profile.
            let _ = self.process.write(&attached::STOPPING.to_le_bytes(), self.state);
        }
    }
}
