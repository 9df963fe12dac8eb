//! Errors of the corpus itself: a head that can't be read, a case that can't be built, a tool that fails.

use std::path::PathBuf;

/// Why a case could not be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// A file can't be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A head says something that nobody understands.
    #[error("{path}: {problem}")]
    Head {
        /// The case.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A command does not do what it should.
    #[error("{command}: {problem}")]
    Command {
        /// Its words.
        command: String,
        /// What it did instead.
        problem: String,
    },
}
