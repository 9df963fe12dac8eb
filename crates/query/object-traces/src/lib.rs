//! Traces in object stores: Amazon's and others that support S3, Google's, Azure's, and files on a web server.
//!
//! A trace is read by ranges, and only those that a query needs are fetched. The address of
//! such a trace can be used wherever a path can. [`blocks`] keeps what was fetched,
//! [`source`] fetches it, and [`store`] finds the store for an address, and its credentials.

mod blocks;
mod source;
mod store;
mod words;

use std::path::Path;

use trace_format::{Encoders, Error, Limits, Trace};

pub use source::ObjectSource;

/// Whether a path is the address of an object, `s3://bucket/run.memtap`.
pub fn is_address(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|path| path.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Opens a trace by its path or its address.
///
/// # Errors
/// Where it can't be read or is none.
pub fn open(path: &Path) -> Result<Trace, Error> {
    let Some(address) = path.to_str().filter(|_| is_address(path)) else { return Trace::open(path) };
    let failed = |source| Error::Io { path: path.into(), operation: "open the object", offset: 0, source };
    let source = ObjectSource::open(address).map_err(failed)?;
    Trace::open_on(Box::new(source), path, Encoders::default(), Limits::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme() {
        for path in ["s3://bucket/run.memtap", "https://example.org/run.memtap", "gs://b/r"] {
            assert!(is_address(Path::new(path)), "{path}");
        }
        for path in ["run.memtap", "/tmp/run.memtap", "a:b", "://x", "dir/s3://x", "s3:/bucket"] {
            assert!(!is_address(Path::new(path)), "{path}");
        }
    }
}
