//! One case: its kind, its name, its source and the contents of its head.

use std::path::{Path, PathBuf};

use crate::{CaseBuild, CaseHead, CorpusError, KnownFault};

/// A small program whose errors are known.
#[derive(Clone, Debug)]
pub struct CorpusCase {
    /// The folder that it is in.
    pub kind: String,
    /// The file's name without its extension.
    pub name: String,
    /// The source.
    pub source: PathBuf,
    /// What the head says.
    pub head: CaseHead,
}

impl CorpusCase {
    /// All cases of a corpus, by kind and name.
    pub fn all(corpus: &Path) -> Result<Vec<Self>, CorpusError> {
        let mut cases = Vec::new();
        for kind in entries(corpus)?.into_iter().filter(|path| path.is_dir()) {
            for source in entries(&kind)? {
                cases.push(Self::read(&source)?);
            }
        }
        Ok(cases)
    }

    fn read(source: &Path) -> Result<Self, CorpusError> {
        let text = std::fs::read_to_string(source)
            .map_err(|error| CorpusError::File { path: source.to_path_buf(), error })?;
        let head = CaseHead::parse(&text)
            .map_err(|problem| CorpusError::Head { path: source.to_path_buf(), problem })?;
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            kind: part(source.parent().and_then(Path::file_name)),
            name: part(source.file_stem()),
            source: source.to_path_buf(),
            head,
        })
    }

    /// `KIND/NAME`
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// Why memtap is known to miss it in this build, or may do so; nothing where it finds it.
    pub fn misses(&self, build: CaseBuild) -> Option<&str> {
        KnownFault::first(&self.head.misses, build.name()).or(self.head.may_miss.as_deref())
    }

    /// Why memtap is known to accuse it falsely in this build; nothing where it does not.
    pub fn accuses(&self, build: CaseBuild) -> Option<&str> {
        KnownFault::first(&self.head.accuses, build.name())
    }

    pub(crate) fn extension(&self) -> &str {
        self.source.extension().and_then(|extension| extension.to_str()).unwrap_or("")
    }
}

/// What is in a folder, by name.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, CorpusError> {
    let failed = |error| CorpusError::File { path: dir.to_path_buf(), error };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}
