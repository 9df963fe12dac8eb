//! What can go wrong while a result is written.

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
    /// A picture can't be made of pixels.
    #[error("the picture can't be made: {0}")]
    Picture(String),
}

impl Error {
    /// Says which file an error is about.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
