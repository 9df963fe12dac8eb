//! Errors that occur while a result is written.

use std::path::PathBuf;

/// An error of an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be made or written.
    #[error("{}: can't be written: {source}", path.display())]
    File {
        /// The file, or the directory for several.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The trace can't be read.
    #[error(transparent)]
    Analysis(#[from] analysis::Error),
    /// The output can't be written; the message is the writer's.
    #[error("{0}")]
    Output(#[from] std::io::Error),
    /// The format has no place for something that happened.
    #[error("{0}")]
    Format(&'static str),
    /// The trace is not that of a machine.
    #[error("--stream {stream} is for the trace of a machine (record --tracer qemu)")]
    NoMachine {
        /// The stream asked for.
        stream: &'static str,
    },
    /// The trace has no control flow.
    #[error("its control flow was not recorded (record --flow full)")]
    NoFlow,
    /// A picture can't be made of pixels.
    #[error("the picture can't be made: {0}")]
    Picture(String),
}

impl From<trace_format::Error> for Error {
    fn from(error: trace_format::Error) -> Self {
        Self::Analysis(error.into())
    }
}

impl Error {
    /// Says which file an error is about.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
