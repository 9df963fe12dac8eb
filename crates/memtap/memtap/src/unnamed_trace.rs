//! The trace of a recording of which only tables are wanted: a file without a name. It
//! disappears with this process, however that ends, and does not have to be removed.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// The file, as long as this value lives.
#[derive(Debug)]
pub(crate) struct UnnamedTrace {
    path: PathBuf,
    _file: File,
}

/// The path of the one that was made, and what people read instead.
static CALLED: OnceLock<(String, String)> = OnceLock::new();

impl UnnamedTrace {
    /// Makes one where temporary files lie.
    pub(crate) fn create() -> Result<Self> {
        let folder = std::env::temp_dir();
        let file = tempfile::tempfile_in(&folder).with_context(|| {
            format!(
                "{}: takes no temporary file; set TMPDIR to another folder, or name a trace with -o",
                folder.display()
            )
        })?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let _first = CALLED.set((path.clone(), format!("the trace in {}", folder.display())));
        Ok(Self { path: path.into(), _file: file })
    }

    /// What this process opens it by, as often as it likes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A line for people: the descriptor of an unnamed trace says nothing to them, its folder may be full.
pub(crate) fn in_words(line: String) -> String {
    match CALLED.get() {
        Some((path, words)) => line.replace(path, words),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn it_is_opened_again_though_no_folder_has_it() {
        let trace = UnnamedTrace::create().expect("there is a folder for temporary files");
        let mut written = File::options().write(true).open(trace.path()).expect("it is there");
        written.write_all(b"whole").expect("written");
        let mut text = String::new();
        File::open(trace.path()).expect("it is there").read_to_string(&mut text).expect("read");
        assert_eq!(text, "whole");
        let link = std::fs::read_link(trace.path()).expect("it is a descriptor");
        assert!(!link.exists(), "{}", link.display());
        let line = in_words(format!("{}: can't be written", trace.path().display()));
        assert_eq!(line, format!("the trace in {}: can't be written", std::env::temp_dir().display()));
    }
}
