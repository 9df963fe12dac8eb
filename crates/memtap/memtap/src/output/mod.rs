//! Writing results: buffered, and quiet where the reader has seen enough.

mod letters;

use std::io::{self, BufWriter, StdoutLock, Write};

use analysis::Session;
use serde_json::Value;

pub(crate) use letters::{Letter, letter};

/// Standard output. Once its reader is gone (`| head`), everything written vanishes and the command ends well.
pub(crate) struct Out {
    inner: BufWriter<StdoutLock<'static>>,
}

/// The reader of standard output is gone: no error, but a reason to stop.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output is gone")]
pub(crate) struct ReaderGone;

impl Out {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self { inner: BufWriter::with_capacity(1 << 16, io::stdout().lock()) }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.inner.write_all(bytes).map_err(check)
    }

    /// Writes what is buffered.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.inner.flush().map_err(check)
    }
}

/// An error with its causes in one line; what an error says of its cause already is not said again.
pub(crate) fn error_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line
}

/// Prints what was found: as a JSON array, or one after the other, and `none` where there is nothing.
pub(crate) fn print_found<T>(
    found: &[T],
    as_json: bool,
    to_json: impl Fn(&T) -> Value,
    text: impl Fn(&mut Out, &T) -> anyhow::Result<()>,
    none: &str,
) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    if as_json {
        let all: Vec<Value> = found.iter().map(to_json).collect();
        out.line(&serde_json::to_string_pretty(&all)?)?;
    } else {
        found.iter().try_for_each(|one| text(&mut out, one))?;
        if found.is_empty() {
            out.line(none)?;
        }
    }
    out.finish()
}

/// Says what could not be read of the session's files, beside the results.
pub(crate) fn note_problems(session: &Session) {
    for problem in session.problems() {
        eprintln!("memtap: note: {problem}");
    }
}

fn check(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ReaderGone.into();
    }
    anyhow::Error::new(error).context("standard output can't be written")
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A function of a stack, as `race` and `watch` write it.
pub(crate) fn call_json(call: &symbols::Call) -> serde_json::Value {
    serde_json::json!({ "function": call.function.as_deref(), "file": call.file.as_deref(), "line": call.line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
    }
}
