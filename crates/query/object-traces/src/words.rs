//! Describes the response of a store to a failed request, in one line.

use std::error::Error as _;
use std::io;

use object_store::Error;

/// Characters of a reason; servers answer with pages.
const MOST_CHARACTERS: usize = 200;

/// The error of a request, in words for people.
pub(crate) fn said_by(error: &Error) -> io::Error {
    let (kind, words) = match error {
        Error::NotFound { .. } => (io::ErrorKind::NotFound, "there is no such object".to_owned()),
        Error::Precondition { .. } | Error::NotModified { .. } => {
            (io::ErrorKind::Other, "it was replaced or removed since it was opened".to_owned())
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            let words = "the store refuses it: no credentials, or others than it needs (docs/guide.md, Traces in object stores)";
            (io::ErrorKind::PermissionDenied, words.to_owned())
        }
        _ => (io::ErrorKind::Other, innermost(error)),
    };
    io::Error::new(kind, words)
}

/// The cause of all others, without what surrounds it, as one line.
fn innermost(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        words = inner.to_string();
        cause = inner.source();
    }
    let mut line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(MOST_CHARACTERS) {
        line.truncate(end);
        line.push_str(" ...");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(source: Box<dyn std::error::Error + Send + Sync>) -> String {
        said_by(&Error::Generic { store: "S3", source }).to_string()
    }

    #[test]
    fn a_reason_is_one_line_that_ends() {
        assert_eq!(generic("503 Slow Down:\n <a>\n  b\n</a>".into()), "503 Slow Down: <a> b </a>");
        assert_eq!(generic("é".repeat(5000).into()), format!("{} ...", "é".repeat(200)));
    }
}
