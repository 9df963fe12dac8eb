//! The destination of results: buffered, and silent when the reader has gone. Also the messages beside the results.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

use analysis::Session;
use anstream::{AutoStream, ColorChoice};
use report::tables::appearance::Look;

use crate::unnamed_trace::in_words;

/// The width of lines that are read as text, where nobody says how wide they may be.
const COLUMNS: usize = 100;

/// Where results are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Output,
    Error,
}

/// Standard output, or standard error. Once its reader is gone (`| head`), writing fails with [`ReaderGone`], with which the command ends
/// well.
pub(crate) struct Out {
    inner: BufWriter<Box<dyn Write>>,
    stream: Stream,
}

/// The reader of the results is gone: no error, but a reason to stop.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the results is gone")]
struct ReaderGone;

/// Results can't be written.
#[derive(Debug, thiserror::Error)]
#[error("standard {} can't be written: {source}", match stream { Stream::Output => "output", Stream::Error => "error" })]
struct WritingFailed {
    stream: Stream,
    source: io::Error,
}

/// What the names of source files are relative to.
pub(crate) fn working_directory() -> anyhow::Result<std::path::PathBuf> {
    use anyhow::Context;
    std::env::current_dir().context("the working directory is gone")
}

impl Out {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::to(Stream::Output, Box::new(io::stdout().lock()))
    }

    /// Standard error, where standard output is another program's.
    pub(crate) fn stderr() -> Self {
        Self::to(Stream::Error, Box::new(io::stderr()))
    }

    fn to(stream: Stream, writer: Box<dyn Write>) -> Self {
        Self { inner: BufWriter::with_capacity(1 << 16, writer), stream }
    }

    /// How a table looks here: as wide as the terminal unless it may be wider, and coloured where the user wants that. Where it goes to
    /// another program or a file, names are cut, and figures are whole.
    pub(crate) fn look(&self, wide: bool) -> Look {
        let (is_terminal, colour) = match self.stream {
            Stream::Output => (io::stdout().is_terminal(), AutoStream::choice(&io::stdout())),
            Stream::Error => (io::stderr().is_terminal(), AutoStream::choice(&io::stderr())),
        };
        Look { columns: self.width(wide), exact: !is_terminal, colour: colour != ColorChoice::Never }
    }

    /// The width of lines that are cut also where they go to another program or a file: nothing where they may be of any width.
    pub(crate) fn width(&self, wide: bool) -> Option<usize> {
        (!wide).then(|| self.columns().unwrap_or(COLUMNS))
    }

    /// Of the terminal, or what the user says.
    fn columns(&self) -> Option<usize> {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        columns.or_else(|| {
            let size = match self.stream {
                Stream::Output => rustix::termios::tcgetwinsize(io::stdout()),
                Stream::Error => rustix::termios::tcgetwinsize(io::stderr()),
            };
            Some(usize::from(size.ok()?.ws_col)).filter(|columns| *columns > 0)
        })
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.write_all(text.as_bytes())?;
        self.write_all(b"\n")?;
        Ok(())
    }

    /// Writes what is buffered.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        Ok(self.flush()?)
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(told(self.stream))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes).map_err(told(self.stream))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(told(self.stream))
    }
}

fn told(stream: Stream) -> impl FnOnce(io::Error) -> io::Error {
    move |source| match source.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone),
        kind => io::Error::new(kind, WritingFailed { stream, source }),
    }
}

/// Whether an error says only that nobody reads the results any more.
pub(crate) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.filter_map(io::Error::get_ref).any(|inner| inner.is::<ReaderGone>())
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
    in_words(line)
}

/// Writes the line of `say!`.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Says what could not be read of the session's files, beside the results.
pub(crate) fn note_problems(session: &Session) {
    for problem in session.problems() {
        say!("memtap: note: {}", in_words(problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_library_tells_that_the_reader_is_gone() {
        let gone = io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone);
        assert!(is_reader_gone(&anyhow::Error::new(report::Error::Output(gone))));
        let other = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(
            !is_reader_gone(&report::Error::Output(other).into()),
            "a socket's pipe is not standard output"
        );
    }
}
