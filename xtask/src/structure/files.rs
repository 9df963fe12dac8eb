//! Every module opens with a description, a long file says why it is one, and a SAFETY line states its fact (CONTRIBUTING.md, *Style*).

use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::source::Source;

/// A file of more lines has a reason in its head.
const LONG_LINES: usize = 800;
/// What begins the sentence that gives the reason.
const REASON: &str = "One file,";
/// How a SAFETY line begins that sends its reader elsewhere.
const POINTERS: [&str; 5] = ["as above", "as in `", "as `", "see `", "the same"];

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
    for source in sources {
        let path = source.path.to_str().unwrap_or_default();
        for (number, line) in (1..).zip(source.text.lines()) {
            let Some((_, fact)) = line.split_once("// SAFETY: ") else { continue };
            if POINTERS.iter().any(|words| fact.starts_with(words)) {
                let _ = write!(
                    problems,
                    "\n  {path}:{number}: a SAFETY line states its fact, not where another stands"
                );
            }
        }
    }
    if !problems.is_empty() {
        bail!("files that do not explain themselves:{problems}");
    }
    let (lines, path) = longest;
    Ok(format!("{} files open with their reason; the longest has {lines} lines ({path})", sources.len()))
}
