//! Runs a command to its end, with a time limit.
//!
//! Output goes to files, so that a child process that outlives the program delays nothing.

use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::CorpusError;

/// No command takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// What a command did.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Its exit status; 128 + signal where one ended it.
    pub(crate) status: i32,
}

/// Runs a command with that standard input.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Result<Ended, CorpusError> {
    let name = shown(command);
    attempt(command, input)
        .and_then(|ended| ended.ok_or_else(|| std::io::Error::other("it did not end")))
        .map_err(|error| CorpusError::Command { command: name, problem: error.to_string() })
}

/// Nothing where it had to be killed.
fn attempt(command: &mut Command, input: &[u8]) -> std::io::Result<Option<Ended>> {
    let (mut stdin, mut stdout, mut stderr) =
        (tempfile::tempfile()?, tempfile::tempfile()?, tempfile::tempfile()?);
    stdin.write_all(input)?;
    stdin.rewind()?;
    let mut child = command
        .stdin(stdin)
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .process_group(0)
        .spawn()?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            // The whole group: a recorder that hangs has a program that waits.
            Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |file: &mut std::fs::File| -> std::io::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(Some(Ended { stdout: text(&mut stdout)?, stderr: text(&mut stderr)?, status }))
}

/// A command's words.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
