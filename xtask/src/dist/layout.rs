//! The location of each file: in a folder that can be anywhere, and in a Debian system.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::{MEMTAP, PARTS, QUERY};
use super::strip::Stripped;
use super::symbols::Symbols;
use super::{Release, licences};
use crate::shell;

/// What programs that use memtap include.
const HEADERS: [&str; 3] = ["memtap.h", "memtap_client.h", "memtap_rtheap.h"];

/// What people read, and the pictures in it.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// The folders of an installation, below its root.
struct Places {
    prefix: PathBuf,
    libraries: &'static str,
    zsh: &'static str,
    /// What a pkg-config file says its prefix is.
    pkg_config_prefix: &'static str,
}

/// An installation in a folder of any name.
pub(super) fn relocatable(from: &Stripped, root: &Path, release: &Release) -> Result<PathBuf> {
    let places = Places {
        prefix: root.to_path_buf(),
        libraries: "lib",
        zsh: "share/zsh/site-functions",
        pkg_config_prefix: "${pcfiledir}/../..",
    };
    places.fill(from, release)?;
    places.programs(from, QUERY.programs)?;
    licences::write(&PARTS, &root.join("share/doc/memtap/copyright"))?;
    Ok(root.to_path_buf())
}

/// The programs of SQL, which are a package of their own wherever there are packages.
pub(super) fn query(from: &Stripped, root: &Path) -> Result<PathBuf> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    let usr = Places { prefix: root.join("usr"), libraries: "lib", zsh: "", pkg_config_prefix: "/usr" };
    usr.programs(from, QUERY.programs)?;
    let copyright = usr.prefix.join("share/doc/memtap-query/copyright");
    make_parent(&copyright)?;
    licences::write(&[&QUERY], &copyright)?;
    Ok(root.to_path_buf())
}

/// An installation in a Debian system.
pub(super) fn debian(from: &Stripped, root: &Path, release: &Release) -> Result<PathBuf> {
    let places = Places {
        prefix: root.join("usr"),
        libraries: "lib/x86_64-linux-gnu",
        zsh: "share/zsh/vendor-completions",
        pkg_config_prefix: "/usr",
    };
    places.fill(from, release)?;
    Ok(root.to_path_buf())
}

/// An installation in a system of Fedora's kind.
pub(super) fn red_hat(from: &Stripped, root: &Path, release: &Release) -> Result<PathBuf> {
    let places = Places {
        prefix: root.join("usr"),
        libraries: "lib64",
        zsh: "share/zsh/site-functions",
        pkg_config_prefix: "/usr",
    };
    places.fill(from, release)?;
    Ok(root.to_path_buf())
}

impl Places {
    fn fill(&self, from: &Stripped, release: &Release) -> Result<()> {
        if self.prefix.exists() {
            fs::remove_dir_all(&self.prefix)?;
        }
        self.programs(from, MEMTAP.programs)?;
        for name in MEMTAP.own_libraries {
            self.copy(&from.files.join(name), &format!("lib/memtap/{name}"))?;
        }
        let repository = shell::repository();
        for name in MEMTAP.libraries {
            // The loader asks for the soname, the linker for the name without a number.
            let soname = Symbols::of(name)?.soname;
            self.copy(&from.files.join(name), &format!("{}/{soname}", self.libraries))?;
            let link = self.prefix.join(self.libraries).join(name);
            std::os::unix::fs::symlink(&soname, &link).with_context(|| link.display().to_string())?;
        }
        for name in HEADERS {
            self.copy(&repository.join("include").join(name), &format!("include/{name}"))?;
        }
        self.pkg_config(release)?;
        for name in DOCUMENTS {
            self.copy(&repository.join(name), &format!("share/doc/memtap/{name}"))?;
        }
        self.copy_all(&repository.join("docs"), "share/doc/memtap/docs")?;
        licences::write(&[&MEMTAP], &self.prefix.join("share/doc/memtap/copyright"))?;
        self.generated()
    }

    fn programs(&self, from: &Stripped, names: &[&str]) -> Result<()> {
        for name in names {
            self.copy(&from.files.join(name), &format!("bin/{name}"))?;
        }
        Ok(())
    }

    /// Manual pages and completions, which the binary itself knows.
    fn generated(&self) -> Result<()> {
        let memtap = self.prefix.join("bin/memtap");
        let memtap = memtap.to_str().context("the path of the target directory is not UTF-8")?;
        let pages = self.prefix.join("share/man/man1");
        shell::output(&mut shell::command(&[memtap, "man", pages.to_str().context("as above")?]))?;
        let mut names: Vec<PathBuf> = fs::read_dir(&pages)?.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for page in names {
            fs::set_permissions(&page, fs::Permissions::from_mode(0o644))?;
            let page = page.to_str().context("as above")?;
            shell::output(&mut shell::command(&["gzip", "-9", "-n", page]))?;
        }
        for (name, place) in [
            ("bash", "share/bash-completion/completions/memtap"),
            ("zsh", &format!("{}/_memtap", self.zsh)),
            ("fish", "share/fish/vendor_completions.d/memtap.fish"),
        ] {
            let text = shell::output(&mut shell::command(&[memtap, "completions", name]))?;
            self.write(place, &text)?;
        }
        Ok(())
    }

    fn pkg_config(&self, release: &Release) -> Result<()> {
        let path = shell::repository().join("include/memtap-client.pc.in");
        let template = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let text = template
            .replace("@prefix@", self.pkg_config_prefix)
            .replace("@libdir@", &format!("${{prefix}}/{}", self.libraries))
            .replace("@includedir@", "${prefix}/include")
            .replace("@version@", &release.version);
        self.write(&format!("{}/pkgconfig/memtap-client.pc", self.libraries), &text)
    }

    fn write(&self, place: &str, text: &str) -> Result<()> {
        let to = self.prefix.join(place);
        make_parent(&to)?;
        fs::write(&to, text).with_context(|| to.display().to_string())?;
        Ok(fs::set_permissions(&to, fs::Permissions::from_mode(0o644))?)
    }

    /// Copies a file; only programs are executable.
    fn copy(&self, from: &Path, place: &str) -> Result<()> {
        let to = self.prefix.join(place);
        make_parent(&to)?;
        fs::copy(from, &to).with_context(|| format!("{}: can't be packed", from.display()))?;
        let mode = if place.starts_with("bin/") { 0o755 } else { 0o644 };
        Ok(fs::set_permissions(&to, fs::Permissions::from_mode(mode))?)
    }

    fn copy_all(&self, from: &Path, place: &str) -> Result<()> {
        for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name();
            let below = format!("{place}/{}", name.to_str().context("a name in docs is not UTF-8")?);
            match entry.file_type()?.is_dir() {
                true => self.copy_all(&entry.path(), &below)?,
                false => self.copy(&entry.path(), &below)?,
            }
        }
        Ok(())
    }
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().context("a place in a package has a folder")?;
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())
}
