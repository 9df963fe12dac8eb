//! Waiting for a program that has stopped itself after a hit.
//!
//! The program is stopped in the same way as by Ctrl-Z (SIGSTOP). A debugger can attach to it, and any
//! process can continue it (SIGCONT). On a terminal the user is asked: Enter continues, `q` ends the
//! program. The answer is read from the terminal, not from standard input, which belongs to the program.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use proc_files::{TaskActivity, TaskStat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

/// How often a stopped program is looked at: somebody else may have continued it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who is asked.
pub(crate) struct StoppedProgram {
    terminal: Option<File>,
}

impl StoppedProgram {
    /// The terminal, if there is one.
    pub(crate) fn new() -> Self {
        Self { terminal: File::options().read(true).write(true).open("/dev/tty").ok() }
    }

    /// Waits until a process that has said that it stops does so, and then until it is continued, by the terminal or by
    /// somebody else: it says so itself.
    pub(crate) fn wait(&self, pid: u32, is_continued: &dyn Fn() -> bool) {
        while activity(pid) == TaskActivity::Alive && !is_continued() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match &self.terminal {
            Some(_) => {
                let question = format!("process {pid} is stopped: Enter continues, q ends it ");
                let _ = std::io::stderr().write_all(question.as_bytes());
            }
            None => say!("process {pid} is stopped: kill -CONT {pid} continues it"),
        }
        while activity(pid) != TaskActivity::Ended && !is_continued() {
            let Some(answer) = self.ask() else { continue };
            let signal = if answer.trim() == "q" { Signal::KILL } else { Signal::CONT };
            if let Some(id) = id {
                let _ = kill_process(id, signal);
            }
            // What is done is done when the process has it.
            while activity(pid) != TaskActivity::Ended && !is_continued() {
                std::thread::sleep(Duration::from_millis(1));
            }
            return;
        }
        if self.terminal.is_some() {
            say!("");
        }
    }

    /// A line from the terminal; none for a while, or where there is no terminal.
    fn ask(&self) -> Option<String> {
        let Some(terminal) = &self.terminal else {
            std::thread::sleep(LOOK_EVERY);
            return None;
        };
        if !is_readable(terminal.as_fd()) {
            return None;
        }
        let mut bytes = [0; 256];
        match rustix::io::read(terminal, &mut bytes) {
            Ok(len) if len > 0 => Some(String::from_utf8_lossy(bytes.get(..len)?).into_owned()),
            // Closed: nobody answers any more.
            _ => {
                std::thread::sleep(LOOK_EVERY);
                None
            }
        }
    }
}

fn is_readable(file: BorrowedFd<'_>) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
    let mut list = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    matches!(poll(&mut list, Some(&timeout)), Ok(1..))
}

/// A process that nobody can tell anything of has ended.
fn activity(pid: u32) -> TaskActivity {
    let line = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    TaskStat::parse(&line).map_or(TaskActivity::Ended, |stat| stat.activity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_apart() {
        assert_eq!(activity(std::process::id()), TaskActivity::Alive);
        assert_eq!(activity(u32::MAX), TaskActivity::Ended);
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let id = Pid::from_raw(child.id() as i32).unwrap();
        kill_process(id, Signal::STOP).unwrap();
        rustix::process::waitpid(Some(id), rustix::process::WaitOptions::UNTRACED).unwrap();
        assert_eq!(activity(child.id()), TaskActivity::Stopped);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(activity(child.id()), TaskActivity::Ended);
    }
}
