//! Source lines, as debug information gives them.

use std::sync::Arc;

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Path of the file, as the compiler was given it.
    pub file: Arc<str>,
    /// Its number, from 1; `None` where the compiler gave none.
    pub line: Option<u32>,
}

/// One function at an address: the first of several is the innermost inlined one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFrame {
    /// Its name, demangled.
    pub function: Option<Arc<str>>,
    /// Where in its source.
    pub line: Option<SourceLine>,
}
