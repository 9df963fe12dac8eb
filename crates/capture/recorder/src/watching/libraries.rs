//! The shared libraries of a program: which ones the loader will choose, and where a process has mapped them.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memref::VirtAddr;
use proc_files::Mapping;
use symbols::{Module, SearchPath};

/// A file, under whatever path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
}

/// Which file a path leads to.
pub(super) fn identity(path: &Path) -> std::io::Result<FileIdentity> {
    path.metadata().map(|file| FileIdentity { device: file.dev(), inode: file.ino() })
}

/// One library.
pub(super) struct NeededLibrary {
    pub(super) identity: FileIdentity,
    module: OnceCell<Option<Module>>,
    path: PathBuf,
}

impl NeededLibrary {
    /// Its names; `None` where they can't be read.
    pub(super) fn module(&self) -> Option<&Module> {
        self.module.get_or_init(|| Module::open(&self.path, None, &SearchPath::default()).ok()).as_ref()
    }
}

/// The libraries that the loader takes for a program, as it says itself: it is asked as ldd asks it, and does not run the
/// program. None where it does not answer.
pub(super) fn of_program(program: &Path) -> Vec<NeededLibrary> {
    let mut command = Command::new(program);
    command.env("LD_TRACE_LOADED_OBJECTS", "1").stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(output) = command.output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    paths(&text)
        .filter_map(|path| {
            let path = PathBuf::from(path);
            Some(NeededLibrary { identity: identity(&path).ok()?, module: OnceCell::new(), path })
        })
        .collect()
}

/// The files in the loader's answer: `name => path (address)`, or `path (address)`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let place = line.split_once(" => ").map_or(line, |(_, place)| place);
        let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
        path.starts_with('/').then_some(path)
    })
}

/// Where a process has mapped the first bytes of a file; `None` where it has not.
pub(super) fn base_in(pid: u32, file: FileIdentity) -> Option<VirtAddr> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    maps.lines().find_map(|line| {
        let mapping = Mapping::parse(line.as_bytes())?;
        let path = Path::new(OsStr::from_bytes(mapping.name));
        (mapping.offset == 0 && path.is_absolute() && identity(path).ok() == Some(file))
            .then_some(VirtAddr(mapping.start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_names_files() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibx.so => /opt/a b/libx.so (0x00007f01)\n\
                    \tliby.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        assert_eq!(paths(text).collect::<Vec<_>>(), ["/opt/a b/libx.so", "/lib64/ld-linux-x86-64.so.2"]);
    }

    #[test]
    fn a_process_has_its_own_file() {
        let own = std::env::current_exe().unwrap();
        assert!(base_in(std::process::id(), identity(&own).unwrap()).is_some());
        assert_eq!(base_in(std::process::id(), FileIdentity { device: 0, inode: 0 }), None);
        let libraries = of_program(&own);
        assert!(libraries.iter().any(|library| library.module().is_some()), "the tests need a C library");
    }
}
