//! Excerpts of source files for the page: the lines that make accesses, with the lines around them.

use std::collections::BTreeSet;
use std::path::Path;

/// Lines that are shown before and after one that makes accesses.
const AROUND: u32 = 3;
/// Larger files are generated, or none of source.
const MOST_FILE_BYTES: u64 = 16 << 20;
/// Text of all files.
const MOST_BYTES: usize = 8 << 20;

/// Lines of a file that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The number of the first one, from 1.
    pub(super) first: u32,
    /// They are.
    pub(super) lines: Vec<String>,
}

/// Takes excerpts, until there is too much text.
#[derive(Debug, Default)]
pub(super) struct Excerpts {
    taken_bytes: usize,
}

impl Excerpts {
    /// Those of a file around these lines; none where it is not there.
    pub(super) fn of(&mut self, path: &Path, wanted: &BTreeSet<u32>) -> Vec<Excerpt> {
        let small = path.is_absolute()
            && path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MOST_FILE_BYTES);
        if !small || self.taken_bytes > MOST_BYTES {
            return Vec::new();
        }
        let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
        let taken = excerpts(&String::from_utf8_lossy(&bytes), wanted);
        self.taken_bytes += taken.iter().flat_map(|part| &part.lines).map(String::len).sum::<usize>();
        taken
    }
}

fn excerpts(text: &str, wanted: &BTreeSet<u32>) -> Vec<Excerpt> {
    let mut all: Vec<Excerpt> = Vec::new();
    for (line, number) in text.lines().zip(1u32..) {
        let from = number.saturating_sub(AROUND);
        if wanted.range(from..=number.saturating_add(AROUND)).next().is_none() {
            continue;
        }
        let follows =
            all.last().is_some_and(|last| last.first as usize + last.lines.len() == number as usize);
        if !follows {
            all.push(Excerpt { first: number, lines: Vec::new() });
        }
        if let Some(last) = all.last_mut() {
            // A line of a megabyte is no line that anybody reads.
            last.lines.push(line.chars().take(400).collect());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_those_that_are_wanted() {
        let text: String = (1..=40).map(|n| format!("line {n}\n")).collect();
        let check = |wanted: &[u32], expect: &[(u32, usize)]| {
            let found = excerpts(&text, &wanted.iter().copied().collect());
            let shape: Vec<(u32, usize)> = found.iter().map(|part| (part.first, part.lines.len())).collect();
            assert_eq!(shape, expect, "{wanted:?}");
            assert!(found.iter().all(|part| part.lines[0] == format!("line {}", part.first)));
        };
        check(&[1], &[(1, 4)]);
        check(&[10, 15], &[(7, 12)]);
        check(&[10, 30], &[(7, 7), (27, 7)]);
        check(&[40], &[(37, 4)]);
        check(&[99], &[]);
    }
}
