//! Checks that the targets of references in documents exist: linked files and headings, and named files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where a path in a document begins at the root of the repository, so that it is a path and no example.
const FOLDERS: [&str; 8] =
    ["crates/", "docs/", "include/", "examples/", "tests/", "benches/", "xtask/", "fuzz/"];

/// A document, and the headings that links can go to.
struct Document {
    path: PathBuf,
    text: String,
}

/// Fails where a link or a named file leads nowhere.
pub(super) fn check() -> Result<String> {
    let documents = all()?;
    let anchors: BTreeMap<&Path, Vec<String>> =
        documents.iter().map(|document| (document.path.as_path(), anchors(&document.text))).collect();
    let mut problems = String::new();
    let mut count = 0;
    for document in &documents {
        let folder = document.path.parent().unwrap_or(Path::new(""));
        for link in links(&document.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { document.path.clone() } else { normal(&folder.join(file)) };
            let has_anchor = |anchor: &str| {
                anchors.get(target.as_path()).is_none_or(|all| all.iter().any(|one| one == anchor))
            };
            if !target.exists() {
                let _ = write!(problems, "\n  {}: links {link}, which is not there", document.path.display());
            } else if !anchor.is_none_or(has_anchor) {
                let _ = write!(
                    problems,
                    "\n  {}: links {link}, which has no such heading",
                    document.path.display()
                );
            }
        }
        for name in named_files(&document.text) {
            count += 1;
            if !Path::new(name).exists() {
                let _ = write!(problems, "\n  {}: names {name}, which is not there", document.path.display());
            }
        }
    }
    for name in not_in_summary(&documents) {
        let _ = write!(problems, "\n  {SUMMARY}: does not name {}", name.display());
    }
    if !problems.is_empty() {
        bail!("documents point to what is not there:{problems}");
    }
    Ok(format!("{count} links and names of files in {} documents lead somewhere", documents.len()))
}

/// What orders the documents in the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Documents that the book would not have.
fn not_in_summary(documents: &[Document]) -> Vec<&Path> {
    let summary = documents.iter().find(|document| document.path == Path::new(SUMMARY));
    let named: Vec<PathBuf> = summary.map_or(Vec::new(), |summary| {
        links(&summary.text).iter().map(|link| normal(&Path::new("docs").join(link))).collect()
    });
    let all = documents.iter().map(|document| document.path.as_path());
    all.filter(|path| *path != Path::new(SUMMARY) && !named.iter().any(|one| one == path)).collect()
}

/// Those at the root and in docs.
fn all() -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for folder in [".", "docs"] {
        for entry in fs::read_dir(folder).with_context(|| folder.to_owned())? {
            let path = normal(&entry?.path());
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                documents.push(Document { path, text });
            }
        }
    }
    documents.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(documents)
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// The text outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Where links and pictures lead.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in prose(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((link, after)) = after.split_once(')') else { break };
            found.push(link);
            rest = after;
        }
    }
    found
}

/// What stands between backticks.
fn code_spans(text: &str) -> Vec<&str> {
    prose(text).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Files of the repository that are named, not patterns of them.
fn named_files(text: &str) -> Vec<&str> {
    let is_path = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && span.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
    };
    code_spans(text).into_iter().filter(is_path).collect()
}

/// What headings are called in links: small letters, blanks as hyphens, no other marks.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim())
    });
    let name = |title: &str| -> String {
        let letters = title.to_lowercase();
        let kept = letters.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_names_and_headings() {
        let text = "# What is `hot`?\nsee [a](b.md#c) and ![p](d.svg)\n`crates/base` `docs/*.md` `x`\n```\n[no](e)\n```\n";
        assert_eq!(links(text), ["b.md#c", "d.svg"]);
        assert_eq!(named_files(text), ["crates/base"]);
        assert_eq!(anchors(text), ["what-is-hot"]);
        let document = |path: &str, text: &str| Document { path: path.into(), text: text.to_owned() };
        let documents = [
            document(SUMMARY, "[a](a.md) [r](../README.md)"),
            document("docs/a.md", ""),
            document("docs/b.md", ""),
        ];
        assert_eq!(not_in_summary(&documents), [Path::new("docs/b.md")]);
        assert_eq!(normal(Path::new("docs/../a/./b")), Path::new("a/b"));
    }
}
