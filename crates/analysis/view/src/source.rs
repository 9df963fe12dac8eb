//! Source files, shown with counts by line. Only files that a table by line of this trace has named are read.

use report::tables::source::Sources;
use serde_json::{Value, json};

use crate::error::Refusal;
use crate::map::TraceMap;

/// Lines of a file that are sent at most.
const MOST_LINES: usize = 50_000;

/// The file of a row that is called `file:line`.
pub(crate) fn file_of(name: &str) -> Option<&str> {
    let (file, line) = name.rsplit_once(':')?;
    line.parse::<u32>().ok().map(|_| file)
}

impl TraceMap {
    /// The lines of a file.
    pub(crate) fn source(&self, file: &str) -> Result<Value, Refusal> {
        let is_listed = self.listed_files.lock().is_ok_and(|listed| listed.contains(file));
        if !is_listed {
            return Err(Refusal::new(404, "no table by line has named that file"));
        }
        let mut sources = Sources::default();
        match sources.lines(file) {
            Some(lines) => Ok(json!({"lines": &lines[..lines.len().min(MOST_LINES)]})),
            None => Err(Refusal::new(404, format!("{file} is not there, or can't be read"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_have_files() {
        let check = |name, expect| assert_eq!(file_of(name), expect, "{name}");
        check("/src/a.c:12", Some("/src/a.c"));
        check("a::b.rs:1", Some("a::b.rs"));
        for none in ["main", "std::vec", "a.c:", "a.c:x", "a.c:-1"] {
            check(none, None);
        }
    }
}
