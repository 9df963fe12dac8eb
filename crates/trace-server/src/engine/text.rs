//! Storage formats of others, for writing only: what they can say of a trace is its accesses (Simutrace, section 3).

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use memref::{Access, AccessKind, VirtAddr};
use trace_format::{EntryType, Error, NewSegment, SegmentSink, StreamDescription};

use crate::lock;

/// A form that a trace can be stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// memtap's own.
    Memtap,
    /// As `valgrind --tool=lackey --trace-mem=yes` prints accesses.
    Lackey,
    /// As DineroIV reads.
    Din,
    /// 32 bytes an access; data is zero, since accesses carry none.
    Entries64,
}

impl Format {
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

    fn access(self, access: &Access, out: &mut Vec<u8>) {
        let Access { cycle, ip, addr, size, kind } = *access;
        // Writing into memory does not fail.
        match self {
            Self::Memtap => {}
            Self::Lackey => {
                let letter = match kind {
                    AccessKind::Load => 'L',
                    AccessKind::Store => 'S',
                    AccessKind::Modify => 'M',
                    AccessKind::Prefetch => return,
                };
                let _ = writeln!(out, " {letter} {addr:08x},{size}");
            }
            Self::Din => {
                if kind.reads() {
                    let _ = writeln!(out, "0 {addr:x}");
                }
                if kind.writes() {
                    let _ = writeln!(out, "1 {addr:x}");
                }
            }
            Self::Entries64 => {
                for offset in (0..size.max(1)).step_by(8) {
                    let part = (size - offset.min(size)).min(8);
                    let full = u64::from(part == 8) << 48;
                    let data = if part == 8 { 0 } else { u64::from(part) << 32 };
                    for (told, store) in [(kind.reads(), 0), (kind.writes(), 1 << 49)] {
                        if told {
                            let meta = cycle & ((1 << 48) - 1) | full | store;
                            for word in [meta, ip.0, addr.0.wrapping_add(offset.into()), data] {
                                out.extend_from_slice(&word.to_le_bytes());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A file of another format.
pub(crate) struct TextSink {
    format: Format,
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
    pub(crate) fn new(format: Format, path: PathBuf, file: File) -> Self {
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
        if segment.entry_type.guid != EntryType::accesses().guid {
            return Ok(());
        }
        let mut out = Vec::new();
        let word = |entry: &[u8], at: usize| {
            entry.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        for entry in segment.entries.chunks_exact(32) {
            let Some(kind) = AccessKind::from_code(entry[28]) else { continue };
            let access = Access {
                cycle: word(entry, 0),
                ip: VirtAddr(word(entry, 8)),
                addr: VirtAddr(word(entry, 16)),
                size: word(entry, 24) as u32,
                kind,
            };
            self.format.access(&access, &mut out);
        }
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
        assert_eq!(Format::split("memtap:a/b"), (Format::Memtap, "a/b"));
        assert_eq!(Format::split("a:b"), (Format::Memtap, "a:b"));
        assert_eq!(Format::split("din:x"), (Format::Din, "x"));
        assert_eq!(Format::split("entries64:/x"), (Format::Entries64, "/x"));
        assert_eq!(Format::split("lackey:"), (Format::Lackey, ""));
    }

    #[test]
    fn accesses_are_written_as_the_formats_have_them() {
        let access =
            Access { cycle: 5, ip: VirtAddr(0x40), addr: VirtAddr(0xabc), size: 4, kind: AccessKind::Modify };
        let text = |format: Format| {
            let mut out = Vec::new();
            format.access(&access, &mut out);
            out
        };
        assert_eq!(text(Format::Lackey), b" M 00000abc,4\n");
        assert_eq!(text(Format::Din), b"0 abc\n1 abc\n");
        let entries = text(Format::Entries64);
        assert_eq!(entries.len(), 64);
        assert_eq!(entries[0..8], 5u64.to_le_bytes());
        assert_eq!(entries[32..40], (5u64 | 1 << 49).to_le_bytes());
        assert_eq!(entries[24..32], (4u64 << 32).to_le_bytes());
    }
}
