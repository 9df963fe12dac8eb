//! Build ids: which build of a file was traced.

use std::{fmt, path::Path, str::FromStr};

use crate::{
    Error,
    elf::{ElfSource, ReadBuildId},
};

/// The bytes of `NT_GNU_BUILD_ID`. Two files with one build id have the same code and symbols.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BuildId(Box<[u8]>);

impl BuildId {
    /// A build id of these bytes; `None` for no bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.into()))
    }

    /// Of a file; `None` inside where it has none.
    ///
    /// # Errors
    /// Where the file is no module for this processor, or can't be read.
    pub fn of_file(path: &Path) -> Result<Option<Self>, Error> {
        ElfSource::Path(path.to_owned()).with(path, ReadBuildId)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The text is not an even, positive number of hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a build id: an even number of hexadecimal digits is expected")]
pub struct ParseBuildIdError;

impl FromStr for BuildId {
    type Err = ParseBuildIdError;

    fn from_str(text: &str) -> Result<Self, ParseBuildIdError> {
        let digits =
            text.bytes().map(|b| (b as char).to_digit(16).map(|d| d as u8)).collect::<Option<Vec<u8>>>();
        let digits = digits.filter(|d| d.len() % 2 == 0).ok_or(ParseBuildIdError)?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        Self::new(&bytes).ok_or(ParseBuildIdError)
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&[u8]>) {
        assert_eq!(text.parse().ok().map(|id: BuildId| id.as_bytes().to_vec()).as_deref(), expect);
    }

    #[test]
    fn hexadecimal() {
        check("00ffA0", Some(&[0, 255, 160]));
        check("", None);
        check("abc", None);
        check("zz", None);
        assert_eq!("0aFF".parse::<BuildId>().unwrap().to_string(), "0aff");
    }
}
