//! Compression levels: how much work a writer spends in its encoders.

/// How much time to spend on how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// As fast as a recorder needs it.
    #[default]
    Standard,
    /// For traces that are kept: a little smaller, and slower to write and to read.
    Archive,
}
