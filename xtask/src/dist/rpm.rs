//! The packages for Fedora, RHEL and their relatives, built with `rpmbuild`, which Debian has, too.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Release, set_times};
use crate::shell;

/// What a package says of itself. What it needs, `rpmbuild` finds in the binaries.
pub(super) struct Words {
    name: &'static str,
    summary: &'static str,
    licence: &'static str,
    /// Lines of the preamble, beside those that all have.
    more: &'static str,
    description: &'static str,
    /// What is run after it is installed, and after it is removed.
    scripts: &'static str,
}

/// memtap.
pub(super) const MEMTAP: Words = Words {
    name: "memtap",
    summary: "Shows what a program does to its memory",
    licence: "(MIT OR Apache-2.0) AND GPL-2.0-or-later",
    more: "Suggests: qemu-system-x86-core\nSuggests: memtap-query\n",
    description: "\
memtap records every load, store and allocation of a program, names them by
variable, and keeps them in a compact file that can be asked again: what is
accessed most and by whom, races, errors of the heap, caches, layouts of types.
Nothing is recompiled.
",
    scripts: "%post -p /sbin/ldconfig\n%postun -p /sbin/ldconfig\n",
};

/// The programs of SQL.
pub(super) const QUERY: Words = Words {
    name: "memtap-query",
    summary: "Queries in SQL on what memtap recorded",
    licence: "MIT OR Apache-2.0",
    more: "Requires: memtap = @version@\n",
    description: "\
memtap sql, catalogue and cluster: the tables of one trace or of many, on one
machine or on many, and in Parquet files for other engines.
",
    scripts: "",
};

impl Words {
    fn spec(&self, version: &str, root: &str) -> String {
        let Self { name, summary, licence, more, description, scripts } = self;
        let more = more.replace("@version@", version);
        format!(
            "\
%global __requires_exclude ^/usr/bin/pkg-config$
%global __provides_exclude_from ^/usr/lib/memtap/
Name: {name}
Version: {version}
Release: 1
Summary: {summary}
License: {licence}
URL: https://github.com/memtap/memtap
{more}
%description
{description}
%install
cp -a '{root}/.' '%{{buildroot}}/'

{scripts}
%files
%defattr(-,root,root)
"
        )
    }
}

/// What `rpmbuild` would do beyond packing what is there, and what would differ from machine to machine.
const DEFINES: [&str; 11] = [
    "debug_package %{nil}",
    "__os_install_post %{nil}",
    "_build_id_links none",
    "_buildhost memtap",
    "_binary_payload w6.xzdio",
    "_source_filedigest_algorithm 8",
    "_binary_filedigest_algorithm 8",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "source_date_epoch_from_changelog 0",
    "_build_name_fmt memtap.rpm",
];

/// Packs an installation; returns the package's path.
pub(super) fn pack(words: &Words, root: &Path, release: &Release, work: &Path, to: &Path) -> Result<PathBuf> {
    let text = |path: &Path| -> Result<String> {
        let text = path.to_str().context("the path of the target directory is not UTF-8")?;
        if text.contains(['\'', '%']) {
            bail!("{text}: rpmbuild can't pack from a folder with a quote or a percent sign in its path");
        }
        Ok(text.to_owned())
    };
    let (source, work) = (text(root)?, text(work)?);
    let mut spec = words.spec(&release.version, &source);
    for path in files(root)? {
        let below = path.strip_prefix(root).context("a file lies in its folder")?;
        let _ = writeln!(spec, "\"/{}\"", text(below)?);
    }
    let spec_file = format!("{work}/memtap.spec");
    fs::write(&spec_file, spec)?;
    set_times(root, release)?;
    let mut build = shell::command(&["rpmbuild", "-bb", "--quiet", "--target", "x86_64-linux"]);
    for define in DEFINES {
        build.args(["--define", define]);
    }
    for (name, value) in [("_topdir", format!("{work}/rpm")), ("_rpmdir", work.clone())] {
        build.args(["--define", &format!("{name} {value}")]);
    }
    build.arg(&spec_file).env("SOURCE_DATE_EPOCH", &release.time);
    shell::output(&mut build).context("rpmbuild can't pack")?;
    fs::rename(format!("{work}/memtap.rpm"), to).with_context(|| to.display().to_string())?;
    Ok(to.to_path_buf())
}

/// Folders that no other package has.
const OWN_FOLDERS: [&str; 2] = ["memtap", "memtap-query"];

/// Every file and link, sorted, and the folders that are memtap's own.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(dir).with_context(|| dir.display().to_string())?.flatten().collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        match entry.file_type()?.is_dir() {
            // With all that is in it.
            true if OWN_FOLDERS.iter().any(|own| entry.file_name() == *own) => found.push(entry.path()),
            true => found.extend(files(&entry.path())?),
            false => found.push(entry.path()),
        }
    }
    Ok(found)
}
