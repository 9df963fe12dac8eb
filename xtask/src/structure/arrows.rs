//! Which crate uses which: the table in ARCHITECTURE.md states it, and the manifests must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::source::packages;
use crate::shell;

/// Above the table in ARCHITECTURE.md.
const HEADING: &str = "| crate | what it is | knows |";

/// Crate to the crates that it depends on.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Fails where the manifests and the table differ.
pub(super) fn check() -> Result<String> {
    let drawn = drawn(&read(Path::new("ARCHITECTURE.md"))?);
    if drawn.is_empty() {
        bail!("ARCHITECTURE.md: there is no table with the head \"{HEADING}\"");
    }
    let built = built()?;
    let mut problems = String::new();
    for (name, knows) in &built {
        let Some(may) = drawn.get(name) else {
            let _ = write!(problems, "\n  {name}: has no line in the table");
            continue;
        };
        for other in knows.difference(may) {
            let _ = write!(problems, "\n  {name} -> {other}: in its Cargo.toml, not in the table");
        }
        for other in may.difference(knows) {
            let _ = write!(problems, "\n  {name} -> {other}: in the table, not in its Cargo.toml");
        }
    }
    for name in drawn.keys().filter(|name| !built.contains_key(*name)) {
        let _ = write!(problems, "\n  {name}: in the table, but there is no such crate");
    }
    if !problems.is_empty() {
        bail!("ARCHITECTURE.md's arrows are not those of the manifests:{problems}");
    }
    let count: usize = built.values().map(BTreeSet::len).sum();
    Ok(format!("{count} arrows between {} crates are as ARCHITECTURE.md draws them", built.len()))
}

fn read(path: &Path) -> Result<String> {
    let full = shell::repository().join(path);
    std::fs::read_to_string(&full).with_context(|| format!("{}: can't be read", full.display()))
}

/// The table: a crate's name in the first column, those it knows in the third, each in backquotes.
fn drawn(text: &str) -> Arrows {
    let rows =
        text.lines().skip_while(|line| *line != HEADING).skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let name = quoted(cells.get(1)?).into_iter().next()?;
        Some((name, quoted(cells.get(3)?)))
    })
    .collect()
}

fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What the manifests say; what only tests need does not count.
fn built() -> Result<Arrows> {
    let packages = packages()?;
    let name =
        |path: &Path| path.file_name().expect("a crate has a directory").to_string_lossy().into_owned();
    let names: BTreeSet<String> = packages.iter().map(|path| name(path)).collect();
    let mut built = Arrows::new();
    for package in &packages {
        let knows = dependencies(&read(&package.join("Cargo.toml"))?);
        built.insert(name(package), knows.intersection(&names).cloned().collect());
    }
    Ok(built)
}

/// The keys of every table `dependencies`, also of those for one target alone.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            let table = line.trim_matches(['[', ']']);
            inside =
                table == "dependencies" || (table.starts_with("target.") && table.ends_with(".dependencies"));
        } else if inside && let Some((key, _)) = line.split_once(['.', '=', ' ']) {
            found.insert(key.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_table_is_read() {
        let text = format!(
            "x\n{HEADING}\n|---|---|---|\n| `a` | the first, `b` | `c`, `d` |\n| `c` | none | |\n\n| `e` | | |"
        );
        assert_eq!(
            drawn(&text),
            Arrows::from([("a".to_owned(), set(&["c", "d"])), ("c".to_owned(), set(&[]))])
        );
    }

    #[test]
    fn manifests_are_read() {
        let text = "[package]\nname = 1\n[dependencies]\na.workspace = true\nb-c = { path = \"x\" }\n[dev-dependencies]\nd = \"1\"\n
            [target.'cfg(loom)'.dependencies]\ne = \"1\"";
        assert_eq!(dependencies(text), set(&["a", "b-c", "e"]));
    }
}
