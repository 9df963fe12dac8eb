//! Whether packages do what they are for: unpacked into a folder, and installed into a Debian system in which there was nothing of
//! memtap before and nothing is left after.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Packages, Release};
use crate::shell;

/// Packing twice gives the same bytes.
pub(super) fn same_bytes(first: &Packages, second: &Packages) -> Result<()> {
    let pairs = [(&first.tarball, &second.tarball), (&first.debug, &second.debug), (&first.deb, &second.deb)];
    for (a, b) in pairs {
        if fs::read(a)? != fs::read(b)? {
            bail!("{} and {} differ: packing is not reproducible", a.display(), b.display());
        }
    }
    println!("ok      packing again gives the same bytes");
    Ok(())
}

/// The tarball runs from a folder of any name, and without anything of this repository.
pub(super) fn tarball(packages: &Packages, release: &Release) -> Result<()> {
    let place = shell::target_dir().join("packages/any-folder");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&place)?;
    let archive = packages.tarball.to_str().context("the path of the target directory is not UTF-8")?;
    shell::output(shell::command(&["tar", "--extract", "--file", archive]).current_dir(&place))?;
    let root = place.join(format!("memtap-{}-x86_64-linux", release.version));
    in_folder(&root, "bin/memtap --version")?;
    in_folder(&root, "bin/memtap doctor")?;
    in_folder(&root, "bin/memtap record --quiet -o run.memtap -- ls bin | grep -qx memtap")?;
    in_folder(&root, "bin/memtap report run.memtap --top 3 | grep -q total")?;
    in_folder(&root, "bin/memtap record --quiet --tracer protect -o closed.memtap -- ls bin")?;
    in_folder(&root, "sleep 20 & bin/memtap record --quiet --pid $! --for 1 -o sleep.memtap; kill %1")?;
    in_folder(&root, "bin/memtap probe -- gzip -c bin/memtap > /dev/null")?;
    in_folder(&root, "LD_PRELOAD=$PWD/lib/libmemtap_rtmalloc.so ls bin")?;
    in_folder(&root, "gzip -dc share/man/man1/memtap-record.1.gz | grep -q record")?;
    in_folder(&root, "bash -n share/bash-completion/completions/memtap")?;
    in_folder(
        &root,
        "PKG_CONFIG_PATH=lib/pkgconfig pkg-config --cflags --libs memtap-client | grep -q -- -lmemtap",
    )?;
    fs::remove_dir_all(&place)?;
    println!("ok      the tarball runs from a folder");
    Ok(())
}

/// A line of a shell in an unpacked folder.
fn in_folder(root: &Path, line: &str) -> Result<()> {
    // What a developer has set must not help.
    let mut command = shell::command(&["bash", "-o", "pipefail", "-c", line]);
    command.current_dir(root).env_remove("MEMTAP_LIB_DIR").env_remove("LD_LIBRARY_PATH");
    shell::output(&mut command).with_context(|| format!("{}: {line}", root.display())).map(drop)
}

/// What is done in a Debian system that has its essential packages alone. Its root directory is `$1`, the package `$DEB`.
const IN_DEBIAN: &str = r#"set -eu
root=$1
list() { (cd "$root" && find . -xdev -path ./proc -prune -o -path ./sys -prune -o -path ./dev -prune -o \
    -path ./tmp -prune -o -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -path ./var/cache/ldconfig -prune -o -print) | sort; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
list > "$WORK/before"
mount -t proc proc "$root/proc" || mount --rbind /proc "$root/proc"
cp "$DEB" "$root/tmp/memtap.deb"
inside dpkg --install /tmp/memtap.deb > /dev/null
list > "$WORK/installed"
cd "$root"
inside memtap --version
inside memtap record --quiet -o /tmp/run.memtap -- ls /
inside memtap report /tmp/run.memtap --top 3
inside memtap stat /tmp/run.memtap | head -3
inside env LD_PRELOAD=libmemtap_rtmalloc.so ls / > /dev/null
inside dpkg --verify memtap
inside dpkg --purge memtap > /dev/null
list > "$WORK/after"
rm -f "$root/tmp/memtap.deb" "$root/tmp/run.memtap"
diff "$WORK/before" "$WORK/after" || { echo "the package leaves something, or takes something along" >&2; exit 1; }
"#;

/// The package installs, runs, and is removed, in a new Debian system, and nothing is left of it.
pub(super) fn deb(packages: &Packages) -> Result<()> {
    let work = shell::target_dir().join("packages/debian");
    fs::create_dir_all(&work)?;
    let script = work.join("check.sh");
    fs::write(&script, IN_DEBIAN)?;
    let [deb, work, script] = [&packages.deb, &work, &script].map(|path| path.to_str());
    let (Some(deb), Some(work), Some(script)) = (deb, work, script) else {
        bail!("the path of the target directory is not UTF-8")
    };
    for suite in SUITES {
        let hook = format!("--customize-hook=DEB='{deb}' WORK='{work}' unshare --mount sh '{script}' \"$1\"");
        let mut debian = shell::command(&["mmdebstrap", "--quiet", "--variant=essential", &hook]);
        debian.args(["--include=libgcc-s1", suite, "/dev/null"]);
        shell::run_command(&mut debian).with_context(|| format!("the package in a new Debian {suite}"))?;
        println!("ok      the package installs, runs and goes in a new Debian {suite}");
    }
    Ok(())
}

/// Debian 12 and 13.
const SUITES: [&str; 2] = ["bookworm", "trixie"];
