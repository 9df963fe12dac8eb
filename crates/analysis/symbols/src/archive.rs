//! Copies of the files that names come from, laid out so that a [`crate::SearchPath`] finds them when the originals are gone.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, Module, search_path};

/// A module whose files were copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedModule {
    /// Files that are there now: the module, and its separate debug file where it has one.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies a module and its debug file into a directory: by build id, or where it has none by its path. Files that are there
/// already are left as they are; a copy that is cut short is not there.
///
/// # Errors
/// Where a file can't be read or written. `None` is a module without a file.
pub fn archive(module: &Module, root: &Path) -> Result<Option<ArchivedModule>, Error> {
    let Some(file) = module.file() else { return Ok(None) };
    let path = module.path();
    let plain = || root.join(search_path::below(path));
    let by_id = module.build_id().and_then(|id| search_path::by_build_id(root, id));
    let debug = module.separate_file().map(|separate| match &by_id {
        Some(by_id) => (separate, search_path::debug_file(by_id.clone())),
        // By the name that the debug link has, beside the module.
        None => (separate, plain().with_file_name(separate.file_name().unwrap_or_default())),
    });
    let mut copied = ArchivedModule { files: 0, bytes: 0 };
    let place = by_id.unwrap_or_else(plain);
    for (from, to) in [Some((file, place)), debug].into_iter().flatten() {
        copied.files += 1;
        copied.bytes += copy(from, &to)?;
    }
    Ok(Some(copied))
}

fn copy(from: &Path, to: &Path) -> Result<u64, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| Error::Copy { path, source }
    };
    if let Ok(there) = to.metadata() {
        return Ok(there.len());
    }
    let directory = to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut part = to.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let copied = fs::copy(from, &part).map_err(failed(from));
    let named = copied.and_then(|bytes| fs::rename(&part, to).map_err(failed(to)).map(|()| bytes));
    if named.is_err() {
        let _ = fs::remove_file(&part);
    }
    named
}
