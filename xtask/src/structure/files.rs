//! Every module opens with what it is, and a long file says why it is one (CONTRIBUTING.md, *Style*).

use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::source::Source;

/// A file of more lines has a reason in its head.
const LONG_LINES: usize = 800;
/// What begins the sentence that gives the reason.
const REASON: &str = "One file,";

/// Fails where a head is missing.
pub(super) fn check(sources: &[Source]) -> Result<String> {
    let mut problems = String::new();
    let mut longest = (0, "");
    for source in sources {
        let head = source.text.lines().take_while(|line| line.starts_with("//!"));
        let head: Vec<&str> = head.collect();
        let lines = source.text.lines().count();
        let path = source.path.to_str().unwrap_or_default();
        longest = longest.max((lines, path));
        if head.is_empty() {
            let _ = write!(problems, "\n  {path}: does not open with a //! paragraph");
        }
        if lines > LONG_LINES && !head.iter().any(|line| line.contains(REASON)) {
            let _ = write!(
                problems,
                "\n  {path}: {lines} lines, and no sentence in its head begins with \"{REASON}\" and says why"
            );
        }
    }
    if !problems.is_empty() {
        bail!("files that do not explain themselves:{problems}");
    }
    let (lines, path) = longest;
    Ok(format!("{} files open with their reason; the longest has {lines} lines ({path})", sources.len()))
}
