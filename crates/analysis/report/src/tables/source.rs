//! Lines of source files, where the files are available.

use std::collections::HashMap;
use std::fs;

/// Larger files are not read.
const MOST_BYTES: u64 = 16 << 20;

/// The files that were asked for.
#[derive(Debug, Default)]
pub struct Sources {
    files: HashMap<String, Option<Vec<String>>>,
}

impl Sources {
    /// The text of `file:line`, without the space before it.
    pub fn text(&mut self, place: &str) -> Option<String> {
        let (file, line) = place.rsplit_once(':')?;
        let line: usize = line.parse().ok()?;
        let text = self.lines(file)?.get(line.checked_sub(1)?)?;
        Some(text.trim().replace('\t', " "))
    }

    /// All lines of a file; `None` where it is not there, or very large.
    pub fn lines(&mut self, file: &str) -> Option<&[String]> {
        let lines = self.files.entry(file.to_owned()).or_insert_with(|| {
            let is_small = fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.len() <= MOST_BYTES);
            let text = if is_small { fs::read(file).ok()? } else { return None };
            Some(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
        });
        lines.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_are_found() {
        let mut sources = Sources::default();
        let here = format!("{}/src/tables/source.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(sources.text(&format!("{here}:1")).unwrap().starts_with("//! Lines of source files"));
        assert_eq!(sources.text(&format!("{here}:0")), None);
        assert_eq!(sources.text("/nowhere/at/all.c:1"), None);
        assert_eq!(sources.text("main"), None);
    }
}
