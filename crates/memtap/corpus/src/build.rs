//! How a case is built: which compiler, which optimisation, which sanitizer.
//!
//! Binaries are kept in a folder named after everything they depend on, so each case is built once.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{run, shown};
use crate::{CaseQuestion, CorpusCase, CorpusError};

/// A compiler with its optimisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseBuild {
    /// GCC, -O1
    GccO1,
    /// GCC, -O2
    GccO2,
    /// Clang, -O1
    ClangO1,
    /// Clang, -O2
    ClangO2,
    /// rustc -O
    RustcO,
}

impl CaseBuild {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::GccO1, Self::GccO2, Self::ClangO1, Self::ClangO2, Self::RustcO];

    /// Its name in heads and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GccO1 => "gcc-O1",
            Self::GccO2 => "gcc-O2",
            Self::ClangO1 => "clang-O1",
            Self::ClangO2 => "clang-O2",
            Self::RustcO => "rustc-O",
        }
    }

    /// The build of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|build| build.name() == name)
    }

    /// Whether the case is of this build's language, and is what its head says in this build.
    pub fn fits(self, case: &CorpusCase) -> bool {
        let is_rust = case.extension() == "rs";
        let is_named = case.head.builds.is_empty() || case.head.builds.iter().any(|name| name == self.name());
        is_rust == (self == Self::RustcO) && is_named
    }

    /// Builds a case below `dir`, unless that was done.
    pub fn build(self, case: &CorpusCase, dir: &Path) -> Result<PathBuf, CorpusError> {
        self.build_with(case, &[], dir)
    }

    /// The same with the sanitizers that look for what the case is about. Nothing where there is none, as in stable Rust, or where the
    /// compiler has come without it: the case itself was built before.
    pub(crate) fn build_sanitized(
        self,
        case: &CorpusCase,
        dir: &Path,
    ) -> Result<Option<PathBuf>, CorpusError> {
        let flags: &[&str] = match case.head.question {
            _ if self == Self::RustcO => return Ok(None),
            CaseQuestion::Errors => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            CaseQuestion::Race => &["-fsanitize=thread"],
            CaseQuestion::Taint => return Ok(None),
        };
        match self.build_with(case, flags, dir) {
            Ok(binary) => Ok(Some(binary)),
            Err(CorpusError::Command { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn build_with(self, case: &CorpusCase, more: &[&str], dir: &Path) -> Result<PathBuf, CorpusError> {
        let is_cpp = case.extension() == "cpp";
        let (compiler, base): (_, &[&str]) = match (self, is_cpp) {
            (Self::GccO1, false) => ("gcc", &["-O1"]),
            (Self::GccO1, true) => ("g++", &["-O1", "-std=c++17"]),
            (Self::GccO2, false) => ("gcc", &["-O2"]),
            (Self::GccO2, true) => ("g++", &["-O2", "-std=c++17"]),
            (Self::ClangO1, false) => ("clang", &["-O1"]),
            (Self::ClangO1, true) => ("clang++", &["-O1", "-std=c++17"]),
            (Self::ClangO2, false) => ("clang", &["-O2"]),
            (Self::ClangO2, true) => ("clang++", &["-O2", "-std=c++17"]),
            (Self::RustcO, _) => ("rustc", &["--edition=2024", "-O", "-Awarnings"]),
        };
        let mut line: Vec<&str> = base.to_vec();
        line.push("-g");
        if self != Self::RustcO {
            line.extend(["-w", "-pthread"]);
        }
        line.extend(more);
        line.extend(case.head.flags.iter().map(String::as_str));
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| CorpusError::File { path: path.to_path_buf(), error })
        };
        let header = case.source.parent().and_then(Path::parent).unwrap_or(Path::new(".")).join("hide.h");
        let mut hasher = DefaultHasher::new();
        (compiler, &line, &case.source, read(&case.source)?, read(&header)?).hash(&mut hasher);
        let sanitized = if more.is_empty() { "" } else { "-sanitized" };
        let place = dir.join(format!("{}-{}{sanitized}-{:016x}", case.kind, self.name(), hasher.finish()));
        let binary = place.join(&case.name);
        if binary.exists() {
            return Ok(binary);
        }
        std::fs::create_dir_all(&place).map_err(|error| CorpusError::File { path: place.clone(), error })?;
        // Beside its place first: who comes second must not see half a file.
        let part = place.join(format!("{}-{}", std::process::id(), case.name));
        let mut command = Command::new(compiler);
        if self == Self::RustcO {
            command.args(["--crate-name", &case.name]);
        }
        command.args(&line).arg("-o").arg(&part).arg(&case.source);
        let ended = run(&mut command, b"")?;
        if ended.status != 0 {
            return Err(CorpusError::Command { command: shown(&command), problem: ended.stderr });
        }
        std::fs::rename(&part, &binary).map_err(|error| CorpusError::File { path: part, error })?;
        Ok(binary)
    }
}
