//! Runs a command and returns its output and exit status. A time limit makes a hang fail instead of waiting.

use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Its exit status; 128 + signal where one ended it, as shells have it.
    pub status: i32,
}

impl Finished {
    /// Standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// No command of a test takes this long unless it hangs; `MEMTAP_TEST_SECONDS` changes it.
fn limit() -> Duration {
    Duration::from_secs(std::env::var("MEMTAP_TEST_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(240))
}

/// A child that is killed, with all that it started, where it takes longer than a command of a test may: what waits for it or
/// reads from it goes on then, and fails. The runner of the tests need not know how to end one.
#[derive(Debug)]
pub struct Limited {
    child: Child,
    /// Tells the watchdog that the child is over.
    _over: mpsc::Sender<()>,
}

impl Deref for Limited {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Limited {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

/// Starts a command that is ended by the limit of time at the latest, in a process group of its own. Panics where it can't be
/// started.
pub fn spawn(command: &mut Command) -> Limited {
    let child = command.process_group(0).spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let group = child.id();
    let (over, ended) = mpsc::channel();
    std::thread::spawn(move || {
        // That the other end is gone means that the child was waited for, or need not be.
        if ended.recv_timeout(limit()) == Err(mpsc::RecvTimeoutError::Timeout) {
            kill_group(group);
        }
    });
    Limited { child, _over: over }
}

/// What a test has started ends with the test, whatever became of that.
impl Drop for Limited {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            kill_group(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// The whole group: a recorder that hangs has a program that waits.
fn kill_group(group: u32) {
    let _ = Command::new("kill").args(["-9", "--", &format!("-{group}")]).status();
}

/// Runs to the end with that standard input. Panics where it can't be started or does not end.
pub fn run(command: &mut Command, stdin: &[u8]) -> Finished {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let group = child.id();
    let mut input = child.stdin.take().expect("piped above");
    let stdin = stdin.to_vec();
    // A program that reads nothing closes the pipe: no error here.
    std::thread::spawn(move || input.write_all(&stdin).is_ok());
    let mut out = child.stdout.take().expect("piped above");
    let mut err = child.stderr.take().expect("piped above");
    let reader = std::thread::spawn(move || read_all(&mut err));
    let stdout_reader = std::thread::spawn(move || read_all(&mut out));
    let (done, ended) = mpsc::channel();
    let watchdog = std::thread::spawn(move || {
        if ended.recv_timeout(limit()).is_err() {
            kill_group(group);
            return true;
        }
        false
    });
    let status = child.wait().expect("a child that was started can be waited for");
    let stdout = stdout_reader.join().expect("reading does not panic");
    let stderr = reader.join().expect("reading does not panic");
    let _ = done.send(());
    let hung = watchdog.join().expect("the watchdog does not panic");
    assert!(!hung, "{what} did not end\n{}", String::from_utf8_lossy(&stderr));
    let status = status.code().unwrap_or_else(|| 128 + status.signal().expect("no exit code means a signal"));
    Finished { stdout, stderr, status }
}

fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("a pipe can be read");
    bytes
}
