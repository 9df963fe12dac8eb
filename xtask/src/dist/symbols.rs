//! The record of a library's interface in include/abi, in the format of Debian's symbols files.

use std::fs;

use anyhow::{Context, Result};

use crate::shell;

/// A library's interface.
pub(super) struct Symbols {
    /// The name that programs ask for which link it.
    pub(super) soname: String,
    text: String,
}

impl Symbols {
    /// Of a library by its file name.
    pub(super) fn of(library: &str) -> Result<Self> {
        let path = shell::repository().join("include/abi").join(library).with_extension("symbols");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (soname, _) = text.split_once(' ').with_context(|| format!("{}: no soname", path.display()))?;
        Ok(Self { soname: soname.to_owned(), text })
    }

    /// As the package holds it: from which version on each symbol is there.
    pub(super) fn for_debian(&self) -> &str {
        &self.text
    }
}
