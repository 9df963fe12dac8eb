//! The metadata of a probe: its identifier, function and kind. Passed to the discovery callback (section 4).

use crate::joined::source::Sources;
use patch::CodeAddr;
use std::fmt;

/// A probe's number: dense, from 0, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProbeId(pub u32);

impl fmt::Display for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where in its function a probe sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProbeKind {
    /// At the entry; the exit has a probe of its own.
    Entry = 0,
    /// At an exit.
    Exit = 1,
    /// At the entry, where the return address lies on top of the stack: the exit is caught by replacing it.
    EntryWithReturn = 2,
    /// Somewhere inside: it marks a point.
    Point = 3,
}

/// Who found the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Provider {
    /// `-finstrument-functions`.
    Instrument = 0,
    /// `-fpatchable-function-entry`.
    Patchable = 1,
    /// XRay sleds.
    Xray = 2,
    /// The macro for stable Rust.
    Macro = 3,
    /// The entry of an unmodified function.
    Entry = 4,
    /// Registered by hand.
    Manual = 5,
}

impl Provider {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instrument => "instrument-functions",
            Self::Patchable => "patchable-function-entry",
            Self::Xray => "xray",
            Self::Macro => "macro",
            Self::Entry => "entry",
            Self::Manual => "manual",
        }
    }
}

/// A probe as the discovery callback sees it.
#[derive(Clone, Debug)]
pub struct ProbeMetadata {
    /// Its identifier.
    pub id: ProbeId,
    /// Index of the function, shared by its entry and exit probes.
    pub function: u32,
    /// The function's name as in the symbol table, or its address where it has none.
    pub function_name: String,
    /// The function's first address.
    pub function_addr: CodeAddr,
    /// The site.
    pub site: CodeAddr,
    /// Entry or exit.
    pub kind: ProbeKind,
    /// Who found it.
    pub provider: Provider,
    /// The module's file and the function's offset from its load address: with them a report finds file and line
    /// ([`Self::source`], or the report).
    pub module: &'static str,
    /// See `module`.
    pub module_offset: usize,
}

impl ProbeMetadata {
    /// Source file and line of the function, from its module's debug information; `None` where nothing says. It reads
    /// files and allocates: not for handlers, nor for the discovery callback of a program whose allocator is probed.
    #[must_use]
    pub fn source(&self) -> Option<(String, u32)> {
        Sources::default().find(self.module, self.module_offset as u64)
    }
}
