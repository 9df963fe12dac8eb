//! `cargo xtask book`: the documents as a book in HTML, built without a network.
//!
//! mdBook takes a folder in which every file becomes a part of the book, and a repository is not such a
//! folder. The documents are therefore copied, at the same places relative to each other, into `target/book`,
//! with docs/SUMMARY.md, which defines their order. `cargo xtask structure` checks that it names each of them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

/// What documents show or link that is no document.
const FILES: [&str; 3] = ["LICENSE-MIT", "LICENSE-APACHE", "docs"];

/// Makes the book, and says where it is.
pub(crate) fn run() -> Result<()> {
    if !shell::succeeds(&["mdbook", "--version"]) {
        bail!("mdbook is not installed; run: cargo install --locked mdbook");
    }
    let place = shell::target_dir().join("book");
    lay_out(&place)?;
    let path = place.to_str().context("the path of the target directory is not UTF-8")?;
    shell::run(&["mdbook", "build", path])?;
    println!("the book: {}", place.join("html/index.html").display());
    Ok(())
}

/// Copies what the book is made of into a new folder.
fn lay_out(place: &Path) -> Result<()> {
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    let source = place.join("src");
    fs::create_dir_all(&source)?;
    for entry in fs::read_dir(shell::repository())? {
        let path = entry?.path();
        let name = path.file_name().context("a file has a name")?;
        let is_document = path.extension().is_some_and(|extension| extension == "md");
        if is_document || FILES.iter().any(|file| name == *file) {
            copy(&path, &source.join(name))?;
        }
    }
    let settings = fs::read_to_string(source.join("docs/book.toml")).context("docs/book.toml")?;
    let settings = settings.replace("[book]\n", "[book]\nsrc = \"src\"\n");
    fs::write(place.join("book.toml"), format!("{settings}\n[build]\nbuild-dir = \"html\"\n"))?;
    let summary = fs::read_to_string(source.join("docs/SUMMARY.md")).context("docs/SUMMARY.md")?;
    fs::remove_file(source.join("docs/SUMMARY.md"))?;
    Ok(fs::write(source.join("SUMMARY.md"), from_the_root(&summary))?)
}

/// The summary with its links from the repository's root instead of from docs.
fn from_the_root(summary: &str) -> String {
    summary.replace("](", "](docs/").replace("](docs/../", "](")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    fs::copy(from, to).with_context(|| from.display().to_string()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_summary() {
        let text = "[What](../README.md)\n- [Guide](guide.md)\n";
        assert_eq!(from_the_root(text), "[What](README.md)\n- [Guide](docs/guide.md)\n");
    }

    #[test]
    fn what_the_summary_names_is_in_the_book() {
        let place = shell::target_dir().join("tmp/book-test");
        lay_out(&place).expect("it is laid out");
        let summary = fs::read_to_string(place.join("src/SUMMARY.md")).expect("the summary");
        let named: Vec<&str> =
            summary.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
        assert!(named.len() > 10, "{summary}");
        for name in named {
            assert!(place.join("src").join(name).is_file(), "{name}");
        }
    }
}
