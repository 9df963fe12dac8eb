//! Processes ended by a signal.

use memref::{GapReason, ProcessId, ThreadId, VirtAddr};
use signal_hook::low_level::signal_name;
use trace_format::{COUNTER_DEATH, CounterRecord, Error};

use super::Sink;
use super::records::FIRST_PROCESS;
use super::thread::TracedThread;
use crate::ProgramEnd;

/// Of each signal that an instruction can raise, the name of each code from 1 on (sigaction(2)).
const CODES: [(i32, &[&str]); 6] = [
    (
        libc::SIGILL,
        &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
        ],
    ),
    (libc::SIGTRAP, &["TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT"]),
    (libc::SIGBUS, &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"]),
    (
        libc::SIGFPE,
        &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
    ),
    (libc::SIGSEGV, &["SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"]),
    (libc::SIGSYS, &["SYS_SECCOMP"]),
];

impl Sink<'_> {
    /// A thread has told that a signal ends its process.
    pub(super) fn death(
        &mut self,
        thread: &TracedThread,
        signal: i32,
        code: i32,
        (ip, addr): (VirtAddr, VirtAddr),
    ) -> Result<(), Error> {
        if let Some(process) = self.processes.get_mut(&thread.process) {
            process.status = Some(-signal);
        }
        let process = self.process_id(thread.process);
        self.add_death(process, Some(thread.id), ip, words(signal, code, addr))
    }

    fn add_death(
        &mut self,
        process: ProcessId,
        thread: Option<ThreadId>,
        ip: VirtAddr,
        name: String,
    ) -> Result<(), Error> {
        self.totals.deaths += 1;
        self.trace.add_counter(&CounterRecord { process, thread, ip, code: COUNTER_DEATH, count: 1, name })
    }

    /// How the program that was started ended: by a signal that nobody told of, perhaps.
    pub(crate) fn program_ended(&mut self, end: ProgramEnd) -> Result<(), Error> {
        let ProgramEnd::Killed(signal) = end else { return Ok(()) };
        // By exec it may have become others, each a process of the pool: the last one is who has ended.
        let Some(pid) = self.processes.get(&FIRST_PROCESS).map(|process| process.record.pid) else {
            return Ok(());
        };
        let became = self.processes.iter().filter(|(_, process)| process.record.pid == pid);
        let Some((_, process)) = became.max_by_key(|(number, _)| **number) else { return Ok(()) };
        let id = process.id;
        if process.status == Some(-signal) {
            return Ok(());
        }
        if signal == libc::SIGSYS {
            let exe = &process.record.exe;
            let cause =
                format!("{exe}: its filter of system calls ended it, and may have met a call of memtap's");
            self.lone_gap(id, GapReason::LostControl, 1, &cause)?;
        }
        self.add_death(id, None, VirtAddr(0), name(signal))
    }
}

fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal-{signal}"), str::to_owned)
}

/// The signal, and why it came, where that has a name.
fn words(signal: i32, code: i32, addr: VirtAddr) -> String {
    let codes = CODES.iter().find(|(of, _)| *of == signal).map_or(&[][..], |(_, codes)| codes);
    let name = name(signal);
    let code = usize::try_from(code).ok().and_then(|code| code.checked_sub(1)).and_then(|at| codes.get(at));
    code.map_or_else(|| name.clone(), |code| format!("{name} {code} {addr}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_their_names_and_what_is_sent_has_the_signal_s() {
        assert_eq!(words(11, 1, VirtAddr(0x10)), "SIGSEGV SEGV_MAPERR 0x10");
        assert_eq!(words(31, 1, VirtAddr(0)), "SIGSYS SYS_SECCOMP 0x0");
        // By the kernel, without an address; by the thread itself.
        assert_eq!(words(11, 128, VirtAddr(0)), "SIGSEGV");
        assert_eq!(words(6, -6, VirtAddr(0)), "SIGABRT");
        assert_eq!(words(40, -6, VirtAddr(0)), "signal-40");
    }
}
