//! The licences of the parts of the binaries, with the texts that must be passed on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::build::{Part, cargo_home};
use crate::shell;

/// How names of files with terms begin.
const TEXTS: [&str; 6] = ["license", "licence", "copying", "notice", "copyright", "unlicense"];

/// Debian's copy of the licence of the plugin of QEMU.
const GPL: &str = "/usr/share/common-licenses/GPL-2";

/// What the file says before the dependencies.
const HEAD: &str = "\
memtap is licensed under MIT or Apache 2.0, at your choice: LICENSE-MIT, LICENSE-APACHE. Only libmemtap_qemu.so, a plugin that QEMU loads
and nothing else, is under the GNU General Public License, version 2 or later (at the end of the file that comes with it). Source code of
all of it: https://github.com/memtap/memtap.

The binaries contain Rust's standard library (MIT or Apache 2.0) and the following crates. The list was made from what is linked,
the texts are those that the crates come with; a text that several have is written once.
";

/// A crate that is linked.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Dependency {
    name: String,
    version: String,
    licence: String,
}

impl Dependency {
    /// From a line of `cargo tree`; nothing for a crate of this workspace, which has its path in the line.
    fn parse(line: &str) -> Result<Option<Self>> {
        let [package, licence] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("cargo tree says {line:?}, which is not a package and its licence");
        };
        // What has been listed with its dependencies before is marked so.
        let licence = licence.trim_end_matches(" (*)");
        let words: Vec<&str> = package.split(' ').collect();
        let [name, version, rest @ ..] = &words[..] else { bail!("cargo tree says {line:?}") };
        if rest.iter().any(|word| word.starts_with("(/")) {
            return Ok(None);
        }
        if licence.is_empty() {
            bail!("{name}: its manifest names no licence, so it can't be passed on");
        }
        let version = version.trim_start_matches('v').to_owned();
        Ok(Some(Self { name: (*name).to_owned(), version, licence: licence.to_owned() }))
    }
}

/// The plugin of QEMU.
const PLUGIN: &str = "libmemtap_qemu.so";

/// Writes those of some parts into one file.
pub(super) fn write(parts: &[&Part], to: &Path) -> Result<()> {
    let dependencies = linked(parts)?;
    let sources = sources()?;
    let mut text = HEAD.to_owned();
    let mut terms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    text.push('\n');
    for one in &dependencies {
        let _ = writeln!(text, "{} {}: {}", one.name, one.version, one.licence);
        let folder = format!("{}-{}", one.name, one.version);
        let source = sources.iter().map(|dir| dir.join(&folder)).find(|dir| dir.is_dir());
        let source = source.with_context(|| format!("{folder}: its source is not in cargo's registry"))?;
        for path in texts(&source, 2)? {
            let said = String::from_utf8_lossy(&fs::read(&path)?).trim().to_owned();
            terms.entry(said).or_default().push(folder.clone());
        }
    }
    for (said, mut who) in terms {
        who.dedup();
        let _ = write!(text, "\n{}\n{}\n\n{said}\n", "-".repeat(100), who.join(", "));
    }
    if parts.iter().any(|part| part.own_libraries.contains(&PLUGIN)) {
        let gpl = fs::read_to_string(GPL).with_context(|| {
            format!("{GPL}: the text of the plugin's licence is Debian's copy (base-files)")
        })?;
        let _ = write!(text, "\n{}\n{PLUGIN}\n\n{gpl}", "-".repeat(100));
    }
    fs::write(to, text).with_context(|| to.display().to_string())
}

/// What the binaries link: no build scripts, no tests, sorted.
fn linked(parts: &[&Part]) -> Result<Vec<Dependency>> {
    let mut all = Vec::new();
    for part in parts {
        let mut tree = shell::command(&["cargo", "tree", "--locked", "--offline", "--edges", "normal"]);
        // Each with its own dependencies once: of DataFusion's there are more ways through the tree than anybody can wait for.
        tree.args(["--target", "x86_64-unknown-linux-gnu", "--prefix", "none"]);
        tree.args(["--format", "{p}\t{l}"]);
        part.select(&mut tree);
        let lines = shell::output(&mut tree)?;
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            all.extend(Dependency::parse(line)?);
        }
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// The folders in which cargo unpacks what it downloaded.
fn sources() -> Result<Vec<PathBuf>> {
    let place = cargo_home()?.join("registry/src");
    let folders = fs::read_dir(&place).with_context(|| place.display().to_string())?;
    let mut folders: Vec<PathBuf> = folders.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    Ok(folders)
}

/// Files with terms in a folder and those below it, down to a depth: a crate may bring the source of a library of C.
fn texts(dir: &Path, depth: u32) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(dir).with_context(|| dir.display().to_string())?.flatten().collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let kind = entry.file_type()?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if kind.is_file() && TEXTS.iter().any(|start| name.starts_with(start)) && !name.ends_with(".rs") {
            found.push(entry.path());
        } else if kind.is_dir() && depth > 1 {
            found.extend(texts(&entry.path(), depth - 1)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree() {
        let check = |line: &str, expect: Option<(&str, &str, &str)>| {
            let found = Dependency::parse(line).expect("a line");
            let found = found.as_ref().map(|d| (&d.name[..], &d.version[..], &d.licence[..]));
            assert_eq!(found, expect, "{line}");
        };
        check("clap v4.6.7\tMIT OR Apache-2.0", Some(("clap", "4.6.7", "MIT OR Apache-2.0")));
        check("clap v4.6.7\tMIT OR Apache-2.0 (*)", Some(("clap", "4.6.7", "MIT OR Apache-2.0")));
        check("clap_derive v4.6.7 (proc-macro)\tMIT", Some(("clap_derive", "4.6.7", "MIT")));
        check("memref v0.1.0 (/src/memtap/crates/base/memref)\tMIT OR Apache-2.0", None);
        assert!(Dependency::parse("nameless v1.0.0\t").is_err());
    }
}
