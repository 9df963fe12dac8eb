//! What an attached process needs if it sees other files or another network than the recorder does (a container): the tracer's
//! library where its loader finds it, and a socket that is a file, because abstract sockets are confined to their network namespace.
//!
//! Both are in a folder of the process's own root directory, which is reached through `/proc/PID/root`. The socket is removed when
//! the recorder ends. The library stays, as it stays in the process; its folder is named after its content, so the next recorder
//! finds the same one. A process that sees the library where the recorder does, and only has another network, gets no copy of it.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;

/// Where the folder may be, below the process's root. Some containers have nothing but their root.
const FOLDERS: [&str; 5] = ["/tmp", "/var/tmp", "/run", "", "/dev/shm"];

/// A folder in another root directory.
#[derive(Debug)]
pub(crate) struct Foothold {
    /// The library as the process sees it.
    pub(crate) library: PathBuf,
    /// The socket as the process sees it.
    pub(crate) channel: String,
    folder: OwnedFd,
    parent: OwnedFd,
    name: String,
}

impl Foothold {
    /// Whether a process needs one to use a library that is here.
    pub(crate) fn is_needed(pid: u32, library: &Path) -> bool {
        let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net"));
        let is_other = match (network("self"), network(&pid.to_string())) {
            (Ok(here), Ok(there)) => here != there,
            _ => false,
        };
        is_other || !attach::sees(pid, library)
    }

    /// Makes one.
    ///
    /// # Errors
    /// Where no folder of that root takes it.
    pub(crate) fn make(pid: u32, library: &Path) -> Result<Self, Error> {
        let bytes = fs::read(library).map_err(Error::file(library, "can't be read"))?;
        let mut looked = Vec::new();
        for folder in FOLDERS {
            match Self::make_in(pid, folder, library, &bytes) {
                Ok(this) => return Ok(this),
                Err(error) => looked.push(format!("{folder}/ ({error})")),
            }
        }
        Err(Error::NoFoothold { pid, looked: looked.join(", ") })
    }

    fn make_in(pid: u32, folder: &str, library: &Path, bytes: &[u8]) -> io::Result<Self> {
        let open = |path: &Path| rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        let parent = open(&attach::path_here(pid, &format!("{folder}/")))?;
        let is_seen = attach::sees(pid, library);
        let name = match is_seen {
            true => format!("memtap-{}", std::process::id()),
            false => format!("memtap-{:016x}", xxh3_64(bytes)),
        };
        let path = through(&parent).join(&name);
        // Whatever user the process is: it reads.
        match fs::DirBuilder::new().mode(0o755).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let own = rustix::fs::openat(&parent, &name, flags, Mode::empty())?;
        let metadata = fs::metadata(through(&own))?;
        let users = [rustix::process::geteuid().as_raw(), fs::metadata(format!("/proc/{pid}"))?.uid()];
        if !users.contains(&metadata.uid()) || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other(format!("{name} could be changed by others")));
        }
        let file = library.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let copy = through(&own).join(file);
        if !is_seen && !fs::read(&copy).is_ok_and(|there| there == bytes) {
            let mut new = tempfile::NamedTempFile::new_in(through(&own))?;
            new.write_all(bytes)?;
            new.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
            new.persist(&copy)?;
        }
        let there = Path::new(folder).join(&name);
        let there = if there.is_absolute() { there } else { Path::new("/").join(there) };
        let channel = there.join(std::process::id().to_string()).display().to_string();
        let library = if is_seen { library.to_path_buf() } else { there.join(file) };
        Ok(Self { library, channel, folder: own, parent, name })
    }

    /// The socket as the recorder sees it.
    pub(crate) fn socket(&self) -> PathBuf {
        through(&self.folder).join(std::process::id().to_string())
    }
}

impl Drop for Foothold {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.socket());
        // Only where nothing is left in it.
        let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
    }
}

/// The path of a folder that is open, also when the process through whose root it was reached has ended.
fn through(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = b"a library";

    /// In this process, whose root is that of everything here.
    fn make_in(folder: &Path, library: &Path) -> io::Result<Foothold> {
        Foothold::make_in(std::process::id(), folder.to_str().expect("text"), library, BYTES)
    }

    #[test]
    fn a_process_needs_none_that_sees_the_library_in_the_same_network() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("libtest.so");
        assert!(Foothold::is_needed(std::process::id(), &library));
        fs::write(&library, BYTES).expect("a file");
        assert!(!Foothold::is_needed(std::process::id(), &library));
    }

    #[test]
    fn where_the_library_is_seen_nothing_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("libtest.so");
        fs::write(&library, BYTES).expect("a file");
        let foothold = make_in(folder.path(), &library).expect("a foothold");
        assert_eq!(foothold.library, library);
        fs::write(foothold.socket(), "").expect("a file in place of the socket");
        let channel = PathBuf::from(&foothold.channel);
        assert!(channel.starts_with(folder.path()) && channel.is_file());
        drop(foothold);
        let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
        assert_eq!(left.iter().map(fs::DirEntry::path).collect::<Vec<_>>(), [library]);
    }

    #[test]
    fn the_copy_of_a_library_that_is_not_seen_stays_and_is_mended() {
        let folder = tempfile::tempdir().expect("a folder");
        let hidden = folder.path().join("hidden/libtest.so");
        let first = make_in(folder.path(), &hidden).expect("a foothold").library.clone();
        assert_eq!(fs::read(&first).expect("it stays"), BYTES);
        assert_eq!(fs::metadata(&first).expect("it stays").mode() & 0o777, 0o755);
        fs::write(&first, "half").expect("a file of our own");
        let second = make_in(folder.path(), &hidden).expect("a foothold");
        assert_eq!(second.library, first);
        assert_eq!(fs::read(&first).expect("it stays"), BYTES);
    }

    #[test]
    fn a_folder_that_others_can_change_is_no_place_for_a_library() {
        let folder = tempfile::tempdir().expect("a folder");
        let hidden = folder.path().join("hidden/libtest.so");
        let library = make_in(folder.path(), &hidden).expect("a foothold").library.clone();
        let own = library.parent().expect("it lies in a folder");
        fs::set_permissions(own, fs::Permissions::from_mode(0o777)).expect("a folder of our own");
        let error = make_in(folder.path(), &hidden).unwrap_err();
        assert!(error.to_string().contains("could be changed by others"), "{error}");
    }
}
