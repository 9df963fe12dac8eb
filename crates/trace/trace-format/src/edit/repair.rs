//! Repairs a trace: a copy of the readable parts replaces it.

use std::ffi::OsString;

use super::copy::{CopyOptions, copy};
use crate::{CreateOptions, Error, FileSink, SegmentSink, Trace};

/// Replaces the file by a copy without what is damaged, and returns how many entries were lost. The copy is complete and on
/// disk before the file is replaced; where that fails, the file stays as it was.
pub fn repair(trace: &Trace) -> Result<u64, Error> {
    let path = trace.path();
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".repair");
    let beside = path.with_file_name(name);
    let options = CreateOptions { session: trace.session(), ..Default::default() };
    let sink = FileSink::create(&beside, options)?;
    let renamed = copy(trace, &sink, &CopyOptions::default()).and_then(|report| {
        sink.finish(true)?;
        std::fs::rename(&beside, path).map_err(|source| Error::Io {
            path: path.into(),
            operation: "replace the file",
            offset: 0,
            source,
        })?;
        Ok(report.lost)
    });
    if renamed.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    renamed
}
