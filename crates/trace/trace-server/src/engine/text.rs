//! Storage formats of other tools, for writing only: they can represent only the accesses of a trace (Simutrace, section 3).

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use trace_format::{Error, Form, NewSegment, SegmentSink, StreamDescription};

use crate::lock;

/// A form that a trace can be stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFormat {
    /// memtap's own.
    Memtap,
    /// As `valgrind --tool=lackey --trace-mem=yes` prints accesses.
    Lackey,
    /// As DineroIV reads.
    Din,
    /// 32 bytes an access, with data where accesses carry it.
    Entries64,
}

impl StoreFormat {
    /// Splits `format:path`; a name without a known format is a path.
    pub fn split(specifier: &str) -> (Self, &str) {
        let known = [
            ("memtap:", Self::Memtap),
            ("lackey:", Self::Lackey),
            ("din:", Self::Din),
            ("entries64:", Self::Entries64),
        ];
        known
            .into_iter()
            .find_map(|(prefix, format)| Some((format, specifier.strip_prefix(prefix)?)))
            .unwrap_or((Self::Memtap, specifier))
    }

    /// The format that a name begins with, if there is none of that name: a word before a colon. A file whose name has one is meant
    /// where a directory stands before it, as in `./a:b`, or the format.
    pub(crate) fn unknown(specifier: &str) -> Option<&str> {
        let (word, _) = specifier.split_once(':').filter(|_| Self::split(specifier).1 == specifier)?;
        let is_word =
            |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
        (!word.is_empty() && is_word(word)).then_some(word)
    }

    fn form(self) -> Option<Form> {
        Some(match self {
            Self::Memtap => return None,
            Self::Lackey => Form::Lackey,
            Self::Din => Form::Din,
            Self::Entries64 => Form::Entries64,
        })
    }
}

/// A file of another format.
pub(crate) struct TextSink {
    format: StoreFormat,
    path: PathBuf,
    file: Mutex<File>,
    streams: AtomicU32,
    finished: AtomicBool,
}

impl fmt::Debug for TextSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextSink")
            .field("path", &self.path)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl TextSink {
    pub(crate) fn new(format: StoreFormat, path: PathBuf, file: File) -> Self {
        let (streams, finished) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { format, path, file: Mutex::new(file), streams, finished }
    }

    fn failed(&self, operation: &'static str) -> impl FnOnce(std::io::Error) -> Error {
        let path = self.path.clone();
        move |source| Error::Io { path, operation, offset: 0, source }
    }
}

impl SegmentSink for TextSink {
    fn path(&self) -> &Path {
        &self.path
    }

    fn has_encoder(&self, _: u32) -> bool {
        true
    }

    fn add_stream(&self, _: &StreamDescription) -> Result<u32, Error> {
        Ok(self.streams.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn add_segment(&self, segment: &NewSegment<'_>) -> Result<(), Error> {
        let Some(form) = self.format.form() else { return Ok(()) };
        let mut out = Vec::new();
        // Values that do not fit their entries are in a stream that says nothing of accesses: they are left out.
        segment.each_access(|entry| {
            let value = entry.value.to_le_bytes();
            form.put(&entry.access, value.get(..entry.value_bytes.into()).unwrap_or(&[]), &mut out);
        });
        lock(&self.file).write_all(&out).map_err(self.failed("write"))
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        lock(&self.file).sync_data().map_err(self.failed("sync"))
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    fn finish(&self, sync: bool) -> Result<(), Error> {
        self.finished.store(true, Ordering::Release);
        if sync { self.sync() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifiers_name_format_and_path() {
        assert_eq!(StoreFormat::split("memtap:a/b"), (StoreFormat::Memtap, "a/b"));
        assert_eq!(StoreFormat::split("a:b"), (StoreFormat::Memtap, "a:b"));
        assert_eq!(StoreFormat::split("din:x"), (StoreFormat::Din, "x"));
        assert_eq!(StoreFormat::split("entries64:/x"), (StoreFormat::Entries64, "/x"));
        assert_eq!(StoreFormat::split("lackey:"), (StoreFormat::Lackey, ""));
    }
}
