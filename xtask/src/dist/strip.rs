//! Strips programs and libraries of what only debuggers need, and moves that into separate files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::PARTS;
use crate::shell;

/// What packages are made of.
pub(super) struct Stripped {
    /// Programs and libraries.
    pub(super) files: PathBuf,
    /// The debug file of each of them. A debugger finds it by name beside the program, or in `.debug` there.
    pub(super) debug: PathBuf,
}

/// Copies each file, splits it, and leaves a link by name and checksum to the debug file in it.
pub(super) fn run(built: &Path, work: &Path) -> Result<Stripped> {
    let stripped = Stripped { files: work.join("stripped"), debug: work.join("debug") };
    fs::create_dir_all(&stripped.files)?;
    fs::create_dir_all(&stripped.debug)?;
    for name in PARTS.iter().flat_map(|part| part.files()) {
        let from = built.join(name);
        let (file, debug) = (stripped.files.join(name), stripped.debug.join(format!("{name}.debug")));
        fs::copy(&from, &file).with_context(|| format!("{}: was not built", from.display()))?;
        let [file, debug] = [&file, &debug].map(|path| path.to_str());
        let (file, debug) = file.zip(debug).context("the path of the target directory is not UTF-8")?;
        run_quietly(&["objcopy", "--only-keep-debug", file, debug])?;
        run_quietly(&["strip", "--strip-unneeded", file])?;
        run_quietly(&["objcopy", &format!("--add-gnu-debuglink={debug}"), file])?;
    }
    Ok(stripped)
}

/// A command whose line nobody needs to see.
fn run_quietly(words: &[&str]) -> Result<()> {
    shell::output(&mut shell::command(words)).map(drop)
}
