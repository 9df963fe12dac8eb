//! Which versions of the C library binaries require, according to their dynamic symbols.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::build::{PARTS, Part};
use crate::shell;

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Glibc {
    major: u32,
    minor: u32,
}

impl std::fmt::Display for Glibc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What the oldest systems that memtap is meant for have (RHEL 8, Debian 10).
pub(super) const WANTED: Glibc = Glibc { major: 2, minor: 28 };

impl Glibc {
    /// From the name of a version, such as `GLIBC_2.2.5`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(|number| number.parse().ok());
        let (major, minor) = numbers.next()?.zip(numbers.next()?)?;
        Some(Self { major, minor })
    }
}

/// The newest version that a list of dynamic symbols asks for, and a symbol that does.
fn newest(symbols: &str) -> Option<(Glibc, &str)> {
    let versions = symbols.lines().filter_map(|line| {
        // `objdump -T`: address, flags, section, size, version (in parentheses where it is asked for), name
        let (_, rest) = line.split_once('(')?;
        let (version, name) = rest.split_once(')')?;
        Some((Glibc::parse(version)?, name.trim()))
    });
    versions.max_by_key(|(version, _)| *version)
}

/// The newest version that one file asks for.
pub(super) fn of_file(path: &Path) -> Result<Option<(Glibc, String)>> {
    let path = path.to_str().context("the path of the target directory is not UTF-8")?;
    let symbols = shell::output(&mut shell::command(&["objdump", "-T", path]))?;
    Ok(newest(&symbols).map(|(version, symbol)| (version, symbol.to_owned())))
}

/// The newest version that any file of a part asks for: what a package depends on.
pub(super) fn needed(part: &Part, dir: &Path) -> Result<Glibc> {
    let mut most = Glibc { major: 2, minor: 2 };
    for name in part.files() {
        if let Some((version, _)) = of_file(&dir.join(name))? {
            most = most.max(version);
        }
    }
    Ok(most)
}

/// A line for each file.
pub(super) fn describe(dir: &Path) -> Result<String> {
    let mut lines = Vec::new();
    for name in PARTS.iter().flat_map(|part| part.files()) {
        lines.push(match of_file(&dir.join(name))? {
            Some((version, symbol)) => format!("glibc {version:<5} {name:<24} ({symbol})"),
            None => format!("glibc any   {name}"),
        });
    }
    Ok(lines.join("\n"))
}

/// Fails where one of the files needs a newer one than [`WANTED`].
pub(super) fn check(dir: &Path) -> Result<()> {
    for part in PARTS {
        let needed = needed(part, dir)?;
        if needed > WANTED {
            bail!("the binaries need glibc {needed}, and are to run with {WANTED}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_a_symbol_table() {
        let table = "\
DYNAMIC SYMBOL TABLE:
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.2.5) memcpy
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) dlsym
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.9) pipe2
0000000000000000      DF *UND*  0000000000000000 (GCC_3.0)   _Unwind_Resume
0000000000012340 g    DF .text  0000000000000010  Base       malloc
";
        assert_eq!(newest(table), Some((Glibc { major: 2, minor: 34 }, "dlsym")));
        assert_eq!(newest("DYNAMIC SYMBOL TABLE:\nno symbols\n"), None);
    }
}
