//! `cargo xtask dist`: a tarball that runs from any folder, Debian packages, and some for Fedora and its relatives.
//!
//! In outline, it builds with the profile `dist` ([`build`]) for systems as old as glibc 2.28 ([`old_glibc`]),
//! removes what only debuggers need ([`strip`]), lays the files out as an installation has them ([`layout`]),
//! and packs that in three ways ([`tarball`], [`deb`], [`rpm`]); [`one_file`] is memtap for reading alone. The same commit built with the same toolchain
//! gives the same bytes: times are the commit's, names are sorted, everything belongs to root, and paths of this
//! machine are omitted. With `--check`, [`check`] installs the packages where nothing of memtap was before.

mod build;
mod check;
mod deb;
mod glibc;
mod layout;
mod licences;
mod old_glibc;
mod one_file;
mod rpm;
mod strip;
mod symbols;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{install, shell};

/// What is asked for.
struct Options {
    profile: String,
    check: bool,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self { profile: "dist".to_owned(), check: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--check" => options.check = true,
                "--profile" => {
                    options.profile = (*words.next().context("--profile needs a name")?).to_owned()
                }
                _ => bail!("dist: no such option {word}; there are --profile NAME and --check"),
            }
        }
        Ok(options)
    }
}

/// What a package says of itself.
struct Release {
    version: String,
    /// Seconds since 1970: the time of every file in a package.
    time: String,
}

impl Release {
    fn of_this_commit() -> Result<Self> {
        let version = include_str!("../../../Cargo.toml")
            .lines()
            .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        let version = version.context("Cargo.toml: the workspace has no version")?.to_owned();
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => shell::output(&mut shell::command(&["git", "log", "-1", "--format=%ct"]))
                .context("the commit's time is the time of all files; without git, set SOURCE_DATE_EPOCH")?,
        };
        Ok(Self { version, time: time.trim().to_owned() })
    }
}

/// The packages of one run.
struct Packages {
    tarball: PathBuf,
    debug: PathBuf,
    deb: PathBuf,
    query_deb: PathBuf,
    rpm: PathBuf,
    query_rpm: PathBuf,
}

impl Packages {
    fn all(&self) -> [&PathBuf; 6] {
        [&self.tarball, &self.debug, &self.deb, &self.query_deb, &self.rpm, &self.query_rpm]
    }
}

/// Builds, packs, says what there is, and checks it where that is asked for.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    install::tools(install::DIST)?;
    let release = Release::of_this_commit()?;
    let built = build::run(&options.profile)?;
    let place = shell::target_dir().join("packages");
    let packages = pack(&built, &release, &place)?;
    println!("{}", glibc::describe(&built)?);
    if options.profile == "dist" {
        glibc::check(&built)?;
    }
    let one_file = place.join(format!("memtap-{}-x86_64-static", release.version));
    let one_file = one_file::make(&options.profile, &one_file)?;
    for path in packages.all().into_iter().chain([&one_file]) {
        let bytes = fs::metadata(path).with_context(|| path.display().to_string())?.len();
        println!("{:6.1} MB  {}", bytes as f64 / 1e6, path.display());
    }
    if options.check {
        let again = pack(&built, &release, &place.join("again"))?;
        check::same_bytes(&packages, &again)?;
        check::tarball(&packages, &release)?;
        check::in_debian(&packages)?;
        one_file::check(&one_file, &built.join("memtap"))?;
        check::cargo_install()?;
        println!("the packages are as they should be");
    }
    Ok(())
}

/// Packs what was built, into files of that folder.
fn pack(built: &Path, release: &Release, place: &Path) -> Result<Packages> {
    let work = place.join("work");
    for dir in [&work, place] {
        if dir.exists() && dir.ends_with("work") {
            fs::remove_dir_all(dir)?;
        }
        fs::create_dir_all(dir)?;
    }
    let stripped = strip::run(built, &work)?;
    let name = format!("memtap-{}-x86_64-linux", release.version);
    let relocatable = layout::relocatable(&stripped, &work.join(&name), release)?;
    let tarball = tarball::pack(&relocatable, release, &place.join(format!("{name}.tar.xz")))?;
    let debug = tarball::pack(&stripped.debug, release, &place.join(format!("{name}-debug.tar.xz")))?;
    let version = &release.version;
    let deb = |name: &str| place.join(format!("{name}_{version}_amd64.deb"));
    let root = layout::debian(&stripped, &work.join("root"), release)?;
    let memtap_deb = deb::pack(&root, &stripped, release, &deb("memtap"))?;
    let root = layout::query(&stripped, &work.join("query"))?;
    let query_deb = deb::pack_query(&root, &stripped, release, &deb("memtap-query"))?;
    let rpm = |name: &str| place.join(format!("{name}-{version}-1.x86_64.rpm"));
    let root = layout::red_hat(&stripped, &work.join("red-hat"), release)?;
    let memtap_rpm = rpm::pack(&rpm::MEMTAP, &root, release, &work, &rpm("memtap"))?;
    let root = layout::query(&stripped, &work.join("query"))?;
    let query_rpm = rpm::pack(&rpm::QUERY, &root, release, &work, &rpm("memtap-query"))?;
    fs::remove_dir_all(&work)?;
    Ok(Packages { tarball, debug, deb: memtap_deb, query_deb, rpm: memtap_rpm, query_rpm })
}

/// Every file is as old as the commit: what packs makes later ones older, not older ones later.
fn set_times(dir: &Path, release: &Release) -> Result<()> {
    let time = format!("@{}", release.time);
    let dir = dir.to_str().context("the path of the target directory is not UTF-8")?;
    shell::output(&mut shell::command(&[
        "find",
        dir,
        "-exec",
        "touch",
        "--no-dereference",
        "--date",
        &time,
        "{}",
        "+",
    ]))
    .map(drop)
}
