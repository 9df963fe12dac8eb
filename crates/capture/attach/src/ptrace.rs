//! One stopped thread of another process: its registers, and calls made on it.
//!
//! The thread is seized and interrupted, so it receives no signal from us. Everything that a call changes is
//! saved and restored: all registers including the extended state, and the signal mask. Dropping a [`Stopped`]
//! resumes the thread; if it was in a system call, the kernel restarts that call as after any stop.

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
const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

const ALL_SIGNALS_BUT_FAULTS: u64 =
    !(bit(libc::SIGSEGV) | bit(libc::SIGTRAP) | bit(libc::SIGBUS) | bit(libc::SIGILL));

fn ptrace(request: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: each caller passes memory that fits its request; the kernel checks all else.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// How a call ended that did not return.
pub(crate) enum CallError {
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

enum StopEvent {
    /// PTRACE_INTERRUPT, or a group stop.
    Event,
    /// A signal is about to be delivered.
    Signal(i32),
    Gone,
    Timeout,
}

/// The general registers, as the kernel tells them.
pub type UserRegisters = libc::user_regs_struct;

/// A function to call on a stopped thread.
#[derive(Debug)]
pub struct InjectedCall<'a> {
    /// Its address.
    pub function: usize,
    /// Copied to the stack; its address is the first argument. Afterwards what the function left there.
    pub data: &'a mut [u8],
    /// The second argument.
    pub second: usize,
    /// The end of the stack to use; `None`: the thread's own, below what it uses.
    pub stack: Option<u64>,
    /// Whether the code that is called may be trapped, as patched code is. Otherwise SIGTRAP stays pending meanwhile.
    pub traps: bool,
}

impl<'a> InjectedCall<'a> {
    /// With that data, on the thread's own stack.
    pub fn new(function: usize, data: &'a mut [u8]) -> Self {
        Self { function, data, second: 0, stack: None, traps: true }
    }
}

/// A seized thread, stopped.
#[derive(Debug)]
pub struct Stopped {
    tid: i32,
    /// Signals that were met on the way and are delivered when the thread goes on.
    pending: Option<i32>,
}

impl Stopped {
    /// Stops a thread; `None`: it is gone.
    pub(crate) fn stop(tid: i32, patience: Duration) -> io::Result<Option<Self>> {
        if let Err(error) = ptrace(libc::PTRACE_SEIZE, tid, 0, 0) {
            // What has ended is no more, or is still in the list and can't be seized.
            let has_ended = match error.raw_os_error() {
                Some(libc::ESRCH) => true,
                Some(libc::EPERM) => crate::target::has_ended(tid),
                _ => false,
            };
            return if has_ended { Ok(None) } else { Err(error) };
        }
        let mut stopped = Self { tid, pending: None };
        ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)?;
        match stopped.wait(Instant::now() + patience)? {
            StopEvent::Event => Ok(Some(stopped)),
            StopEvent::Signal(signal) => {
                // It waits for the signal's delivery: as good a stop; the signal is handed on at the end.
                stopped.pending = Some(signal);
                Ok(Some(stopped))
            }
            StopEvent::Gone => {
                std::mem::forget(stopped);
                Ok(None)
            }
            StopEvent::Timeout => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
        }
    }

    fn wait(&mut self, deadline: Instant) -> io::Result<StopEvent> {
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes one int.
            let got = unsafe { libc::waitpid(self.tid, &mut status, libc::__WALL | libc::WNOHANG) };
            if got < 0 {
                let error = io::Error::last_os_error();
                return if error.raw_os_error() == Some(libc::ECHILD) {
                    Ok(StopEvent::Gone)
                } else {
                    Err(error)
                };
            }
            if got > 0 {
                return Ok(match () {
                    () if !libc::WIFSTOPPED(status) => StopEvent::Gone,
                    () if status >> 16 == EVENT_STOP => StopEvent::Event,
                    () => StopEvent::Signal(libc::WSTOPSIG(status)),
                });
            }
            if Instant::now() >= deadline {
                return Ok(StopEvent::Timeout);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Its id.
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Whether it was about to be told of a signal, or of a fault of its last instruction: a call on it would come between
    /// the two.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.pending.is_some() || crate::target::has_fault(self.tid)
    }

    /// Its registers.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn registers(&self) -> io::Result<UserRegisters> {
        // SAFETY: all-zero is a valid value, and the kernel fills it.
        let mut registers: UserRegisters = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, self.tid, 0, &raw mut registers as usize)?;
        Ok(registers)
    }

    /// Sets them.
    ///
    /// # Errors
    /// Where it is gone, or they are no registers of a program.
    pub fn set_registers(&self, registers: &UserRegisters) -> io::Result<()> {
        ptrace(libc::PTRACE_SETREGS, self.tid, 0, std::ptr::from_ref(registers) as usize).map(|_| ())
    }

    /// Its signal mask: bit n-1 is signal n.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn mask(&self) -> io::Result<u64> {
        let mut mask = 0u64;
        ptrace(libc::PTRACE_GETSIGMASK, self.tid, 8, &raw mut mask as usize)?;
        Ok(mask)
    }

    /// Sets it.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn set_mask(&self, mask: u64) -> io::Result<()> {
        ptrace(libc::PTRACE_SETSIGMASK, self.tid, 8, &raw const mask as usize).map(|_| ())
    }

    /// Sends it a signal of its own, which waits where its mask blocks it.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn send(&self, pid: u32, signal: i32) -> io::Result<()> {
        // SAFETY: no pointers.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, self.tid, signal) };
        if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Its vector and floating point registers, in the processor's own format (XSAVE, not compacted).
    fn extended(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0u8; XSTATE_BYTES];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        ptrace(libc::PTRACE_GETREGSET, self.tid, NT_X86_XSTATE, &raw mut vector as usize)?;
        bytes.truncate(vector.iov_len);
        Ok(bytes)
    }

    fn write_extended(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        ptrace(libc::PTRACE_SETREGSET, self.tid, NT_X86_XSTATE, &raw mut vector as usize).map(|_| ())
    }

    /// Sets the vector and floating point registers to those that a signal frame holds, which may leave out the last ones.
    ///
    /// # Errors
    /// Where it is gone, or the bytes are no such registers.
    pub fn set_extended(&self, frame: &[u8]) -> io::Result<()> {
        let mut bytes = self.extended()?;
        let len = frame.len().min(bytes.len());
        bytes[..len].copy_from_slice(&frame[..len]);
        self.write_extended(&mut bytes)
    }

    /// Calls a function on this thread; gives what it returns. The thread is as it was before, whatever happens, but for the
    /// bases of fs and gs that the function may have set.
    pub(crate) fn call(
        &mut self,
        memory: &File,
        call: InjectedCall<'_>,
        patience: Duration,
    ) -> Result<u64, CallError> {
        let mut saved = self.registers()?;
        let mut extended = self.extended()?;
        let mask = self.mask()?;
        self.set_mask(ALL_SIGNALS_BUT_FAULTS | if call.traps { 0 } else { bit(libc::SIGTRAP) })?;
        // Below the red zone. The call returns to address 0: that fault is its end.
        let top = call.stack.unwrap_or(saved.rsp - 256) as usize;
        let at = (top - call.data.len()) & !63;
        memory.write_all_at(call.data, at as u64)?;
        memory.write_all_at(&0u64.to_le_bytes(), at as u64 - 8)?;
        let mut registers = saved;
        registers.rip = call.function as u64;
        registers.rsp = at as u64 - 8;
        registers.rdi = at as u64;
        registers.rsi = call.second as u64;
        registers.rax = 0;
        registers.orig_rax = u64::MAX;
        registers.eflags &= !(1 << 10 | 1 << 8);
        let result =
            self.set_registers(&registers).map_err(CallError::from).and_then(|()| self.run(patience));
        if result.is_ok() {
            let now = self.registers()?;
            (saved.fs_base, saved.gs_base, saved.fs, saved.gs) = (now.fs_base, now.gs_base, now.fs, now.gs);
            memory.read_exact_at(call.data, at as u64)?;
        }
        self.write_extended(&mut extended)?;
        self.set_mask(mask)?;
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
                StopEvent::Timeout => {
                    interrupted = true;
                    ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0)?;
                    self.wait(Instant::now() + Duration::from_secs(5))?
                }
                stop => stop,
            };
            match stop {
                StopEvent::Gone => return Err(CallError::Gone),
                StopEvent::Timeout => return Err(CallError::Timeout),
                StopEvent::Event if interrupted => return Err(CallError::Timeout),
                StopEvent::Event => {}
                StopEvent::Signal(libc::SIGSEGV) => {
                    let registers = self.registers()?;
                    return if registers.rip == 0 {
                        Ok(registers.rax)
                    } else {
                        Err(CallError::Signal(libc::SIGSEGV))
                    };
                }
                StopEvent::Signal(signal @ (libc::SIGBUS | libc::SIGILL)) => {
                    return Err(CallError::Signal(signal));
                }
                StopEvent::Signal(signal) => deliver = signal,
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
