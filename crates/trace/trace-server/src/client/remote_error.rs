//! Converts a server's error about a trace into an error of the trace.

use std::path::Path;

use trace_format::Error as TraceError;

use crate::Error;

/// With the trace's name once: what comes by way of a worker, or of another server, has it already.
pub(super) fn remote_error(path: &Path, error: &Error) -> TraceError {
    let (text, name) = (error.to_string(), format!("{}: ", path.display()));
    let mut what = text.as_str();
    while let Some(rest) = what.strip_prefix(&name) {
        what = rest;
    }
    TraceError::Remote { path: path.into(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefusalReason;

    #[test]
    fn the_trace_is_named_once() {
        let said = |text: &str| {
            remote_error(Path::new("dir/x"), &Error::refused(RefusalReason::File, text)).to_string()
        };
        assert_eq!(said("dir/x: dir/x: cannot write: no room"), "dir/x: cannot write: no room");
        assert_eq!(said("no room"), "dir/x: no room");
        assert_eq!(said("dir/xy: no room"), "dir/x: dir/xy: no room");
    }
}
