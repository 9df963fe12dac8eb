//! Finds the libraries that go into traced programs.

mod bundle;

use std::path::{Path, PathBuf};

use crate::Error;

const NAME: &str = "libmemtap_tracer.so";

/// Finds the tracer.
///
/// # Errors
/// As for [`find_library`].
pub(crate) fn find() -> Result<PathBuf, Error> {
    find_library(NAME)
}

/// Finds one of memtap's libraries by its file name: where `$MEMTAP_LIB_DIR` says, beside the program that this process runs,
/// where an installation puts it, or inside of the program, which then unpacks it.
///
/// # Errors
/// Where it is in none of these places, which are then named, or in one from which the loader can't preload it.
pub fn find_library(name: &str) -> Result<PathBuf, Error> {
    let own = own_program()?;
    let own = std::fs::canonicalize(&own).unwrap_or(own);
    let beside = own.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut places: Vec<PathBuf> =
        std::env::var_os("MEMTAP_LIB_DIR").map(PathBuf::from).into_iter().collect();
    places.extend([beside.clone(), beside.join("../lib/memtap"), beside.join("../lib")]);
    for place in &places {
        let candidate = place.join(name);
        if candidate.is_file() {
            return preloadable(&candidate);
        }
    }
    let mut looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    match bundle::unpack(name) {
        Some(Ok(path)) => return preloadable(&path),
        Some(Err(caches)) => looked.extend(caches),
        None => looked.push("memtap itself".to_owned()),
    }
    Err(Error::NoLibrary { name: name.to_owned(), looked: looked.join(", ") })
}

/// The path by which the loader preloads a library that is there.
fn preloadable(path: &Path) -> Result<PathBuf, Error> {
    let path = std::fs::canonicalize(path).map_err(Error::file(path, "can't be found"))?;
    if can_be_preloaded(&path) { Ok(path) } else { Err(Error::LibraryPath { path }) }
}

/// Whether the loader takes a path for one: LD_PRELOAD is a list with spaces and colons between its members, and knows no quotes.
fn can_be_preloaded(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':')
}

/// The file of the program that this process runs.
pub(crate) fn own_program() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(Error::system("the path of memtap itself can't be found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: &str, can_be_preloaded: bool) {
        let temporary = tempfile::tempdir().expect("a folder");
        // Its own name must not decide.
        let base = temporary.path().canonicalize().expect("it is there");
        assert!(super::can_be_preloaded(&base), "TMPDIR is {}", base.display());
        let folder = base.join(folder);
        std::fs::create_dir(&folder).expect("a folder");
        let file = folder.join(NAME);
        std::fs::write(&file, "").expect("a file");
        let link = base.join("link.so");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        // The loader is told the file itself, whose path the link hides.
        for path in [&file, &link] {
            match preloadable(path) {
                Ok(found) => assert!(can_be_preloaded && found == file, "{}", found.display()),
                Err(Error::LibraryPath { path }) => assert!(!can_be_preloaded && path == file),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_library_in_a_folder_that_the_preload_list_would_split_is_refused() {
        check("lib", true);
        check("lib-1.2_a,b", true);
        check("my lib", false);
        check("a:b", false);
        check("tab\there", false);
    }

    #[test]
    fn a_library_that_is_nowhere_is_refused_with_the_places() {
        let error = find_library("libmemtap_no_such.so").unwrap_err();
        let Error::NoLibrary { name, looked } = error else { panic!("{error:?}") };
        assert_eq!(name, "libmemtap_no_such.so");
        let beside = std::env::current_exe().and_then(std::fs::canonicalize).expect("it is a file");
        let beside = beside.parent().expect("a folder").display().to_string();
        // Other places have that path before theirs.
        assert!(looked.split(", ").any(|place| place == beside), "{looked}");
    }
}
