//! Where to look for the files of a trace and for those with debug information.

use std::path::{Component, Path, PathBuf};

use crate::BuildId;

/// Where files are looked for that are not where they were mapped from, and separate debug files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// Directories with modules of traces that were recorded elsewhere, or whose files are gone: by build id as
    /// `.build-id/xx/yyyy` (and `.build-id/xx/yyyy.debug`), by whole path, or by file name. They hold debug files, too.
    pub symbol_roots: Vec<PathBuf>,
    /// Directories laid out like `/usr/lib/debug`: `.build-id/xx/yyyy.debug`, and paths of files for debug links.
    pub debug_roots: Vec<PathBuf>,
}

impl Default for SearchPath {
    fn default() -> Self {
        Self { symbol_roots: Vec::new(), debug_roots: vec![PathBuf::from("/usr/lib/debug")] }
    }
}

impl SearchPath {
    /// Where a module may be that is not at its own path, the best place first.
    pub(crate) fn places(&self, path: &Path, id: Option<&BuildId>) -> Vec<PathBuf> {
        let below = below(path);
        let mut places = Vec::new();
        for root in &self.symbol_roots {
            if let Some(place) = id.and_then(|id| by_build_id(root, id)) {
                places.push(place.clone());
            }
            places.push(root.join(&below));
            places.extend(path.file_name().map(|name| root.join(name)));
            // Where there is nothing but the debug file: it has the symbols, too.
            places.extend(id.and_then(|id| by_build_id(root, id)).map(debug_file));
        }
        places
    }

    /// Directories with separate debug files.
    pub(crate) fn debug_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.symbol_roots.iter().chain(&self.debug_roots)
    }
}

/// A path without what leads out of a directory: it comes from a trace.
pub(crate) fn below(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The place of a file in a directory of build ids.
pub(crate) fn by_build_id(root: &Path, id: &BuildId) -> Option<PathBuf> {
    let id = id.to_string();
    let (first, rest) = id.split_at_checked(2)?;
    (!rest.is_empty()).then(|| root.join(".build-id").join(first).join(rest))
}

/// The debug file beside a file that is named by its build id.
pub(crate) fn debug_file(by_id: PathBuf) -> PathBuf {
    let mut name = by_id.into_os_string();
    name.push(".debug");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_module() {
        let search = SearchPath { symbol_roots: vec!["/s".into()], ..SearchPath::default() };
        let id: BuildId = "abcdef".parse().unwrap();
        let all = search.places(Path::new("/usr/bin/x"), Some(&id));
        let expect = ["/s/.build-id/ab/cdef", "/s/usr/bin/x", "/s/x", "/s/.build-id/ab/cdef.debug"];
        assert_eq!(all, expect.map(PathBuf::from));
        assert_eq!(search.places(Path::new("/x"), None).len(), 2);
        assert_eq!(below(Path::new("/a/../../b/./c")), Path::new("a/b/c"));
    }
}
