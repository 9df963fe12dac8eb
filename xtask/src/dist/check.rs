//! Checks the packages: packing again gives the same bytes; the tarball runs from a folder; the Debian package and the .rpm install
//! and run in new Debian systems, and leave nothing behind when they are removed; and what `cargo install` leaves can record.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Packages, Release};
use crate::shell;

/// Packing twice gives the same bytes.
pub(super) fn same_bytes(first: &Packages, second: &Packages) -> Result<()> {
    for (a, b) in first.all().into_iter().zip(second.all()) {
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
    in_folder(&root, "readelf -d lib/libmemtap_rtheap.so | grep -q 'soname.*libmemtap_rtheap.so.0'")?;
    in_folder(
        &root,
        "echo '#include <memtap_rtheap.h>' > use.c && echo 'int main() { return !memtap_rtheap_create(1 << 20, 0); }' >> use.c &&
         cc -Iinclude use.c -Llib -lmemtap_rtheap -o use && LD_LIBRARY_PATH=lib ./use",
    )?;
    in_folder(
        &root,
        "bin/memtap sql run.memtap 'SELECT count(*) FROM accesses' --format csv | tail -1 | grep -qE '^[0-9]+$'",
    )?;
    in_folder(&root, "bin/memtap cluster --help | grep -q executor")?;
    in_folder(&root, "bin/memtap mcp run.memtap < /dev/null")?;
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

/// What is done in a Debian system that has its essential packages alone. Its root directory is `$1`, the packages `$PACKAGE` and `$QUERY`.
const IN_DEBIAN: &str = r#"set -eu
root=$1
list() { (cd "$root" && find . -xdev -path ./proc -prune -o -path ./sys -prune -o -path ./dev -prune -o \
    -path ./tmp -prune -o -path ./var/lib/dpkg -prune -o -path ./var/lib/rpm -prune -o -path ./var/log -prune -o \
    -path ./var/cache/ldconfig -prune -o -print) | sort; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
# Debian has other names for what the package needs.
rpms() { rpm --root "$root" --dbpath /var/lib/rpm --nodeps "$@"; }
case $PACKAGE in
*.rpm)
    # Folders that other packages bring where such packages are at home.
    for dir in include lib64/pkgconfig share/man/man1 share/bash-completion/completions share/zsh/site-functions \
        share/fish/vendor_completions.d; do mkdir -p "$root/usr/$dir"; done ;;
esac
list > "$WORK/before"
mount -t proc proc "$root/proc" || mount --rbind /proc "$root/proc"
case $PACKAGE in
*.deb)
    cp "$PACKAGE" "$root/tmp/memtap.deb"
    cp "$QUERY" "$root/tmp/query.deb"
    inside dpkg --install /tmp/memtap.deb /tmp/query.deb > /dev/null ;;
*.rpm) rpms --install "$PACKAGE" "$QUERY"; inside ldconfig ;;
esac
list > "$WORK/installed"
cd "$root"
inside memtap --version
inside memtap record --quiet -o /tmp/run.memtap -- ls /
inside memtap report /tmp/run.memtap --top 3
inside memtap stat /tmp/run.memtap | head -3
inside memtap sql /tmp/run.memtap 'SELECT count(*) AS n FROM accesses'
inside memtap record --quiet --tracer protect -o /tmp/closed.memtap -- ls /
# Programs that have no threads, and before glibc 2.34 no library of threads: what is preloaded brings its own.
inside memtap probe -- ls / > /dev/null
inside memtap probe --libraries -- gzip -c /bin/ls > /dev/null
for library in rtmalloc rtheap; do
    file=$(cd "$root" && ls usr/lib*/libmemtap_$library.so.* usr/lib/*/libmemtap_$library.so.* 2> /dev/null | head -1)
    inside env LD_PRELOAD="/$file" ls / > /dev/null
done
case $PACKAGE in
*.deb)
    inside dpkg --verify memtap memtap-query
    inside dpkg --purge memtap-query memtap > /dev/null ;;
*.rpm)
    rpms --verify memtap memtap-query
    rpms --erase memtap-query memtap ;;
esac
list > "$WORK/after"
rm -f "$root/tmp/memtap.deb" "$root/tmp/query.deb" "$root/tmp/run.memtap" "$root/tmp/closed.memtap"
diff "$WORK/before" "$WORK/after" || { echo "the package leaves something, or takes something along" >&2; exit 1; }
"#;

/// The packages install, run, and are removed, in new Debian systems, and nothing is left of them.
pub(super) fn in_debian(packages: &Packages) -> Result<()> {
    let work = shell::target_dir().join("packages/debian");
    fs::create_dir_all(&work)?;
    let script = work.join("check.sh");
    fs::write(&script, IN_DEBIAN)?;
    let debs = SYSTEMS.iter().map(|suite| (*suite, &packages.deb, &packages.query_deb));
    for (suite, package, query) in debs.chain([(SYSTEMS[0], &packages.rpm, &packages.query_rpm)]) {
        let [package, query, work, script] = [package, query, &work, &script].map(|path| path.to_str());
        let (Some(package), Some(query), Some(work), Some(script)) = (package, query, work, script) else {
            bail!("the path of the target directory is not UTF-8")
        };
        let hook = format!(
            "--customize-hook=PACKAGE='{package}' QUERY='{query}' WORK='{work}' unshare --mount sh '{script}' \"$1\""
        );
        let mut debian = shell::command(&["mmdebstrap", "--quiet", "--variant=essential", &hook]);
        debian.args(["--include=libgcc-s1", suite, "/dev/null"]);
        shell::run_command(&mut debian).with_context(|| format!("{package} in a new Debian {suite}"))?;
        println!("ok      {package} installs, runs and goes in a new Debian {suite}");
    }
    Ok(())
}

/// Debian 11, whose C library (2.31) has threads in a library of their own, 12 and 13.
const SYSTEMS: [&str; 3] = ["bullseye", "bookworm", "trixie"];

/// `cargo install` alone gives a memtap that records: its libraries are inside.
pub(super) fn cargo_install() -> Result<()> {
    let place = shell::target_dir().join("packages/cargo-install");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&place)?;
    let root = place.to_str().context("the path of the target directory is not UTF-8")?;
    let words = ["cargo", "install", "--quiet", "--locked", "--path", "crates/memtap/memtap", "--root", root];
    shell::run_command(shell::command(&words).env_remove("MEMTAP_BUNDLE"))?;
    let in_place = |line: &str| in_folder(&place, &format!("export XDG_CACHE_HOME=$PWD/cache; {line}"));
    in_place("test \"$(find . -name '*.so')\" = ''")?;
    in_place("bin/memtap record --quiet -o run.memtap -- ls bin | grep -qx memtap")?;
    in_place("bin/memtap probe -- ls bin > /dev/null")?;
    in_place("bin/memtap doctor")?;
    in_place("test $(ls cache/memtap/*/libmemtap_*.so | wc -l) = 3")?;
    fs::remove_dir_all(&place)?;
    println!("ok      what cargo install leaves records");
    Ok(())
}
