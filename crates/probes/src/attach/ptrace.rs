//! One stopped thread of another process: its registers, and calls made on it.
//!
//! The thread is seized and interrupted, so it sees no signal of ours; everything that a call changes is saved and put
//! back: all registers with the extended state, and the signal mask. Dropping a [`Stopped`] lets the thread run on; a
//! system call that it was in is restarted by the kernel as after any stop.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

/// The status bits of a stop that PTRACE_INTERRUPT made.
const EVENT_STOP: i32 = 128;
const NT_X86_XSTATE: usize = 0x202;
/// As much as any processor's extended state takes (AMX tiles included).
const XSTATE_BYTES: usize = 16 << 10;
const ALL_SIGNALS_BUT_FAULTS: u64 = !(1 << (libc::SIGSEGV - 1)
    | 1 << (libc::SIGTRAP - 1)
    | 1 << (libc::SIGBUS - 1)
    | 1 << (libc::SIGILL - 1));

fn ptrace(request: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: each caller passes memory that fits its request; the kernel checks all else.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// How a call ended that did not return.
pub(super) enum CallError {
    /// The thread is gone.
    Gone,
    /// A fault in the call.
    Signal(i32),
    /// It took longer than allowed.
    Timeout,
    /// The system refused something.
    System(io::Error),
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        if error.raw_os_error() == Some(libc::ESRCH) { Self::Gone } else { Self::System(error) }
    }
}

enum Stop {
    /// PTRACE_INTERRUPT, or a group stop.
    Event,
    /// A signal is about to be delivered.
    Signal(i32),
    Gone,
    Timeout,
}

/// A seized thread, stopped.
pub(super) struct Stopped {
    tid: i32,
    /// Signals that were met on the way and are delivered when the thread goes on.
    pending: Option<i32>,
}

impl Stopped {
    /// Stops a thread; `None`: it is gone.
    pub(super) fn stop(tid: i32, patience: Duration) -> io::Result<Option<Self>> {
        if let Err(error) = ptrace(libc::PTRACE_SEIZE, tid, 0, 0) {
            return if error.raw_os_error() == Some(libc::ESRCH) { Ok(None) } else { Err(error) };
        }
        let mut stopped = Self { tid, pending: None };
        ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)?;
        match stopped.wait(Instant::now() + patience)? {
            Stop::Event => Ok(Some(stopped)),
            Stop::Signal(signal) => {
                // It waits for the signal's delivery: as good a stop; the signal is handed on at the end.
                stopped.pending = Some(signal);
                Ok(Some(stopped))
            }
            Stop::Gone => {
                std::mem::forget(stopped);
                Ok(None)
            }
            Stop::Timeout => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
        }
    }

    fn wait(&mut self, deadline: Instant) -> io::Result<Stop> {
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes one int.
            let got = unsafe { libc::waitpid(self.tid, &mut status, libc::__WALL | libc::WNOHANG) };
            if got < 0 {
                let error = io::Error::last_os_error();
                return if error.raw_os_error() == Some(libc::ECHILD) { Ok(Stop::Gone) } else { Err(error) };
            }
            if got > 0 {
                return Ok(match () {
                    () if !libc::WIFSTOPPED(status) => Stop::Gone,
                    () if status >> 16 == EVENT_STOP => Stop::Event,
                    () => Stop::Signal(libc::WSTOPSIG(status)),
                });
            }
            if Instant::now() >= deadline {
                return Ok(Stop::Timeout);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub(super) fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: all-zero is a valid value, and the kernel fills it.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, self.tid, 0, &raw mut registers as usize)?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        ptrace(libc::PTRACE_SETREGS, self.tid, 0, std::ptr::from_ref(registers) as usize).map(|_| ())
    }

    /// Calls `function` on this thread with the address of a copy of `data` on its stack, and `second`; gives what it
    /// returns. The thread is as it was before, whatever happens.
    pub(super) fn call(
        &mut self,
        memory: &File,
        function: usize,
        (data, second): (&[u8], usize),
        patience: Duration,
    ) -> Result<u64, CallError> {
        let saved = self.registers()?;
        let mut extended = vec![0u8; XSTATE_BYTES];
        let mut vector = libc::iovec { iov_base: extended.as_mut_ptr().cast(), iov_len: extended.len() };
        ptrace(libc::PTRACE_GETREGSET, self.tid, NT_X86_XSTATE, &raw mut vector as usize)?;
        let mut mask = 0u64;
        ptrace(libc::PTRACE_GETSIGMASK, self.tid, 8, &raw mut mask as usize)?;
        let quiet = ALL_SIGNALS_BUT_FAULTS;
        ptrace(libc::PTRACE_SETSIGMASK, self.tid, 8, &raw const quiet as usize)?;
        // Below the red zone. The call returns to address 0: that fault is its end.
        let at = (saved.rsp as usize - 256 - data.len()) & !63;
        memory.write_all_at(data, at as u64)?;
        memory.write_all_at(&0u64.to_le_bytes(), at as u64 - 8)?;
        let mut registers = saved;
        registers.rip = function as u64;
        registers.rsp = at as u64 - 8;
        registers.rdi = at as u64;
        registers.rsi = second as u64;
        registers.rax = 0;
        registers.orig_rax = u64::MAX;
        registers.eflags &= !(1 << 10 | 1 << 8);
        let result =
            self.set_registers(&registers).map_err(CallError::from).and_then(|()| self.run(patience));
        ptrace(libc::PTRACE_SETREGSET, self.tid, NT_X86_XSTATE, &raw mut vector as usize)?;
        ptrace(libc::PTRACE_SETSIGMASK, self.tid, 8, &raw const mask as usize)?;
        self.set_registers(&saved)?;
        result
    }

    /// Runs until the call returns to address 0.
    fn run(&mut self, patience: Duration) -> Result<u64, CallError> {
        let deadline = Instant::now() + patience;
        let mut deliver = 0;
        let mut interrupted = false;
        loop {
            ptrace(libc::PTRACE_CONT, self.tid, 0, deliver as usize)?;
            deliver = 0;
            let stop = match self.wait(deadline)? {
                Stop::Timeout => {
                    interrupted = true;
                    ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0)?;
                    self.wait(Instant::now() + Duration::from_secs(5))?
                }
                stop => stop,
            };
            match stop {
                Stop::Gone => return Err(CallError::Gone),
                Stop::Timeout => return Err(CallError::Timeout),
                Stop::Event if interrupted => return Err(CallError::Timeout),
                Stop::Event => {}
                Stop::Signal(libc::SIGSEGV) => {
                    let registers = self.registers()?;
                    return if registers.rip == 0 {
                        Ok(registers.rax)
                    } else {
                        Err(CallError::Signal(libc::SIGSEGV))
                    };
                }
                Stop::Signal(signal @ (libc::SIGBUS | libc::SIGILL)) => {
                    return Err(CallError::Signal(signal));
                }
                Stop::Signal(signal) => deliver = signal,
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Fails only where the thread is gone.
        let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, self.pending.unwrap_or(0) as usize);
    }
}
