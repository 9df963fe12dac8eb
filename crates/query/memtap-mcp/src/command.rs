//! Commands of memtap about the trace: as they are run, and as a person would type them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

/// Runs commands of memtap about one trace.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    memtap: PathBuf,
    trace: PathBuf,
    symbols: Vec<OsString>,
}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    /// The lines of standard error, without the name of the program
    pub(crate) notes: Vec<String>,
}

/// Some lines of a long output.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<String>,
    /// Whether there are more than these
    pub(crate) has_more: bool,
    pub(crate) status: i32,
    pub(crate) notes: Vec<String>,
}

/// Which lines of a long output are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    First,
    Last,
}

fn notes(stderr: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stderr);
    text.lines()
        .map(|line| line.strip_prefix("memtap: ").unwrap_or(line).to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

impl Commands {
    pub(crate) fn new(memtap: PathBuf, trace: &Path, symbols: &[PathBuf]) -> Self {
        let symbols = symbols.iter().flat_map(|dir| ["--symbols".into(), dir.into()]).collect();
        Self { memtap, trace: trace.to_owned(), symbols }
    }

    pub(crate) fn trace(&self) -> &Path {
        &self.trace
    }

    /// The command with its options: the trace comes last, or before a query.
    fn command<S: AsRef<str>>(&self, words: &[S], query: Option<&str>) -> Command {
        let mut command = Command::new(&self.memtap);
        command
            .args(words.iter().map(AsRef::as_ref))
            .args(&self.symbols)
            .arg("--")
            .arg(&self.trace)
            .args(query);
        // A question that is withdrawn stops its command.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// The same as a person types it.
    pub(crate) fn typed<S: AsRef<str>>(&self, words: &[S], query: Option<&str>) -> String {
        let symbols = self.symbols.iter().map(|word| word.to_string_lossy());
        let all = words
            .iter()
            .map(|word| word.as_ref().into())
            .chain(symbols)
            .chain([self.trace.to_string_lossy()]);
        let quoted = all.chain(query.map(Into::into)).map(|word| {
            // Only a NUL cannot be quoted, and no argument has one.
            shlex::try_quote(&word).map(|quoted| quoted.into_owned()).unwrap_or_else(|_| word.into_owned())
        });
        std::iter::once("memtap".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Runs a command to its end.
    pub(crate) async fn output<S: AsRef<str>>(&self, words: &[S]) -> Result<Output> {
        self.finish(self.command(words, None)).await
    }

    /// Runs a query.
    pub(crate) async fn query<S: AsRef<str>>(&self, words: &[S], query: &str) -> Result<Output> {
        self.finish(self.command(words, Some(query))).await
    }

    async fn finish(&self, mut command: Command) -> Result<Output> {
        let output =
            command.output().await.with_context(|| format!("{}: can't be started", self.memtap.display()))?;
        Ok(Output {
            status: output.status.code().unwrap_or(1),
            stdout: output.stdout,
            notes: notes(&output.stderr),
        })
    }

    /// The first or last lines of a command's output. The first ones end it.
    pub(crate) async fn lines<S: AsRef<str>>(&self, words: &[S], count: usize, end: End) -> Result<Lines> {
        let mut child = self
            .command(words, None)
            .spawn()
            .with_context(|| format!("{}: can't be started", self.memtap.display()))?;
        let stdout = child.stdout.take().context("the command has no output")?;
        let mut stderr = child.stderr.take().context("the command has no standard error")?;
        let told = tokio::spawn(async move {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).await.map(|_| bytes)
        });
        let mut all = BufReader::new(stdout).lines();
        let mut kept = VecDeque::new();
        let mut has_more = false;
        while let Some(line) = all.next_line().await.context("the output of memtap can't be read")? {
            if kept.len() == count {
                has_more = true;
                match end {
                    End::First => break,
                    End::Last => _ = kept.pop_front(),
                }
            }
            kept.push_back(line);
        }
        let was_stopped = has_more && end == End::First;
        if was_stopped {
            child.kill().await.context("the command can't be stopped")?;
        }
        let status = child.wait().await.context("the command can't be waited for")?;
        let notes = notes(&told.await.context("nobody read standard error")??);
        Ok(Lines {
            lines: kept.into(),
            has_more,
            status: if was_stopped { 0 } else { status.code().unwrap_or(1) },
            notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let commands = Commands::new("memtap".into(), Path::new("my run.memtap"), &["debug files".into()]);
        assert_eq!(
            commands.typed(&["report", "--name=*a b*"], None),
            "memtap report '--name=*a b*' --symbols 'debug files' 'my run.memtap'"
        );
        assert_eq!(
            Commands::new("memtap".into(), Path::new("t.memtap"), &[]).typed(&["sql"], Some("SELECT 'a'")),
            "memtap sql t.memtap \"SELECT 'a'\""
        );
    }

    #[test]
    fn notes_are_lines_without_the_name_of_the_program() {
        assert_eq!(
            notes(b"memtap: t: 3 events are missing\n\nsecond\n"),
            ["t: 3 events are missing", "second"]
        );
    }
}
