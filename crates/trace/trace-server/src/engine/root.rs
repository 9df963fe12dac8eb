//! Files by the names that clients give, confined to one directory, whatever links are on the way.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::{Error, RefusalReason};

/// Where files may lie.
#[derive(Debug)]
pub(crate) enum Root {
    /// Anywhere: the client is this process.
    Free,
    /// Beneath a directory.
    Beneath {
        /// The directory.
        dir: OwnedFd,
        /// Its names: as it was given, and without links.
        names: [PathBuf; 2],
    },
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Create { replace: bool },
    Append,
    Read,
}

impl Root {
    pub(crate) fn beneath(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Io {
            what: path.display().to_string(),
            operation: "open the root",
            cause: source,
        };
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let full = path.canonicalize().map_err(failed)?;
        Ok(Self::Beneath { dir, names: [path.to_path_buf(), full] })
    }

    /// The name for people, and where the file lies as far as that is known by name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Free => name.into(),
            Self::Beneath { names, .. } => names[1].join(name),
        }
    }

    /// Opens a file. It is a regular one; one to create anew is empty.
    pub(crate) fn open(&self, name: &str, purpose: Purpose) -> Result<File, Error> {
        if name.is_empty() || name.contains('\0') {
            return Err(Error::refused(
                RefusalReason::OutsideRoot,
                format!("{name:?}: not a name of a file"),
            ));
        }
        // Never wait for the other side of a pipe.
        let always = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = always
            | match purpose {
                Purpose::Create { replace: false } => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
                Purpose::Create { replace: true } => OFlags::RDWR | OFlags::CREATE,
                Purpose::Append => OFlags::RDWR,
                Purpose::Read => OFlags::RDONLY,
            };
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
        let opened = match self {
            Self::Free => rustix::fs::open(name, flags, mode),
            Self::Beneath { dir, names } => {
                let path = Path::new(name);
                let beneath = if path.is_absolute() {
                    names.iter().find_map(|root| path.strip_prefix(root).ok())
                } else {
                    Some(path)
                };
                let beneath = beneath.ok_or(()).map_err(|()| outside(name))?;
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                rustix::fs::openat2(dir, beneath, flags, mode, resolve)
            }
        };
        let file = File::from(opened.map_err(|errno| refusal(name, errno))?);
        let failed = |source| Error::Io { what: name.into(), operation: "look at the file", cause: source };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(Error::refused(RefusalReason::File, format!("{name}: not a regular file")));
        }
        Ok(file)
    }
}

fn outside(name: &str) -> Error {
    Error::refused(RefusalReason::OutsideRoot, format!("{name}: outside the server's root"))
}

fn refusal(name: &str, errno: Errno) -> Error {
    match errno {
        Errno::XDEV | Errno::LOOP => outside(name),
        Errno::EXIST => Error::refused(
            RefusalReason::File,
            format!("{name}: already exists; choose another name or overwrite it with --force"),
        ),
        _ => {
            let text = format!("{name}: cannot be opened: {}", std::io::Error::from(errno));
            Error::refused(RefusalReason::File, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_root() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("root");
        std::fs::create_dir_all(path.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("../secret", path.join("link")).unwrap();
        std::os::unix::fs::symlink("..", path.join("up")).unwrap();
        std::os::unix::fs::symlink("/etc", path.join("etc")).unwrap();
        std::os::unix::fs::symlink("sub", path.join("inside")).unwrap();
        let root = Root::beneath(&path).unwrap();
        let secret = outer.path().join("secret").display().to_string();
        for name in
            ["../secret", "sub/../../secret", "link", "up/secret", "etc/passwd", &secret, "/etc/passwd", ""]
        {
            for purpose in [Purpose::Read, Purpose::Append, Purpose::Create { replace: true }] {
                let error = root.open(name, purpose).unwrap_err();
                assert_eq!(error.reason(), RefusalReason::OutsideRoot, "{name}: {error}");
            }
        }
        assert_eq!(std::fs::read(outer.path().join("secret")).unwrap(), b"x");
        root.open("inside/new", Purpose::Create { replace: false }).unwrap();
        assert!(path.join("sub/new").exists());
        let full = path.canonicalize().unwrap().join("sub/new").display().to_string();
        root.open(&full, Purpose::Read).unwrap();
        let again = root.open("sub/new", Purpose::Create { replace: false }).unwrap_err();
        assert_eq!(again.reason(), RefusalReason::File);
        assert_eq!(root.open("sub", Purpose::Read).unwrap_err().reason(), RefusalReason::File);
        assert_eq!(root.open("missing", Purpose::Read).unwrap_err().reason(), RefusalReason::File);
    }
}
