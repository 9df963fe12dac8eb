//! The libraries embedded in this program, unpacked where there are none beside it: `cargo install` installs only programs.
//!
//! They are unpacked into the user's cache or, without a home directory, into the folder for temporary files.
//! Each set of libraries has a folder that is named after its content, so different programs and versions never
//! disturb each other; later runs only compare what was unpacked before. A file that differs is replaced; a
//! folder that another user could change is not used. `build.rs` decides whether any libraries are embedded.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

/// A library that this program holds.
#[derive(Debug)]
pub(crate) struct BundledLibrary {
    name: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/bundle.rs"));

/// Unpacks a library into the first folder that takes it; `None` where this program does not hold it. Otherwise the folders with the
/// reasons why they did not.
pub(crate) fn unpack(name: &str) -> Option<Result<PathBuf, Vec<String>>> {
    LIBRARIES.iter().any(|library| library.name == name).then(|| unpack_from(LIBRARIES, name, &caches()))
}

/// Where programs may keep what they can make anew, best first.
fn caches() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = rustix::process::geteuid().as_raw();
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let temporary = std::env::temp_dir().join(format!("memtap-{user}"));
    cache.map(|cache| cache.join("memtap")).into_iter().chain([temporary]).collect()
}

fn unpack_from(libraries: &[BundledLibrary], name: &str, caches: &[PathBuf]) -> Result<PathBuf, Vec<String>> {
    let mut failed = Vec::new();
    for cache in caches {
        let folder = cache.join(content(libraries));
        match unpack_into(libraries, &folder) {
            Ok(()) => return Ok(folder.join(name)),
            Err(error) => failed.push(format!("{} ({error})", folder.display())),
        }
    }
    Err(failed)
}

/// What tells one set of libraries from another.
fn content(libraries: &[BundledLibrary]) -> String {
    let mut hash = Xxh3::new();
    for library in libraries {
        hash.update(library.name.as_bytes());
        hash.update(&library.bytes.len().to_le_bytes());
        hash.update(library.bytes);
    }
    format!("{:032x}", hash.digest128())
}

/// Makes the folder hold all of them.
fn unpack_into(libraries: &[BundledLibrary], folder: &Path) -> io::Result<()> {
    // Others may read it: what a program starts as another user is recorded, too.
    fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let own = [Some(folder), folder.parent()];
    for dir in own.into_iter().flatten() {
        let metadata = fs::symlink_metadata(dir)?;
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
        if !metadata.is_dir() || !is_own {
            return Err(io::Error::other(format!("{} could be changed by others", dir.display())));
        }
    }
    for library in libraries {
        let path = folder.join(library.name);
        if fs::read(&path).is_ok_and(|bytes| bytes == library.bytes) {
            continue;
        }
        // Whole or not at all: another memtap may be at it, or a program may have the file mapped.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(library.bytes)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
        file.persist(&path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [BundledLibrary; 2] = [
        BundledLibrary { name: "liba.so", bytes: b"the first" },
        BundledLibrary { name: "libb.so", bytes: b"the second" },
    ];

    fn unpacked(cache: &Path) -> PathBuf {
        unpack_from(&TWO, "libb.so", &[cache.to_path_buf()]).expect("the folder takes them")
    }

    #[test]
    fn libraries_are_unpacked_once_and_mended() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache/memtap");
        let path = unpacked(&cache);
        assert_eq!(path, cache.join(content(&TWO)).join("libb.so"));
        assert_eq!(fs::read(&path).unwrap(), b"the second");
        assert_eq!(fs::read(path.with_file_name("liba.so")).unwrap(), b"the first");
        let before = fs::metadata(&path).unwrap().ino();
        assert_eq!((unpacked(&cache), fs::metadata(&path).unwrap().ino()), (path.clone(), before));
        fs::write(&path, "the sec").unwrap();
        assert_eq!(unpacked(&cache), path);
        assert_eq!(fs::read(&path).unwrap(), b"the second");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn other_libraries_have_another_folder() {
        let longer = [BundledLibrary { name: "liba.so", bytes: b"the firstl" }];
        let shifted = [BundledLibrary { name: "liba.sot", bytes: b"he first" }];
        let first = &TWO[..1];
        assert_ne!(content(first), content(&TWO));
        assert_ne!(content(first), content(&longer));
        assert_ne!(content(first), content(&shifted));
    }

    #[test]
    fn the_first_folder_that_takes_them_is_used_and_others_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let good = dir.path().join("good");
        let path = unpack_from(&TWO, "liba.so", &[file.join("cache"), open.clone(), good.clone()]).unwrap();
        assert!(path.starts_with(&good), "{}", path.display());
        let failed = unpack_from(&TWO, "liba.so", &[file.join("cache"), open.clone()]).unwrap_err();
        assert_eq!(failed.len(), 2);
        assert!(failed[0].contains("Not a directory"), "{}", failed[0]);
        assert!(failed[1].contains("could be changed by others"), "{}", failed[1]);
    }
}
