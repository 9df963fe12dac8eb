//! Where files with debug information are looked for.

use std::path::PathBuf;

/// Where separate debug files are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// Directories laid out like `/usr/lib/debug`: `.build-id/xx/yyyy.debug`, and paths of files for debug links.
    pub debug_roots: Vec<PathBuf>,
}

impl Default for SearchPath {
    fn default() -> Self {
        Self { debug_roots: vec![PathBuf::from("/usr/lib/debug")] }
    }
}
