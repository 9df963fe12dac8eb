//! The page index: what each frame of accesses touched, page by page, in a file beside the trace.
//! With it, queries by address need not read all frames (docs/format.md, *The page index*).
//!
//! [`PageIndex::build`] decodes every frame once and writes the file. [`PageIndex::open`] finds it again, and
//! accepts it only if it was built from this very trace. Cursors with a filter by address use it automatically
//! ([`crate::Trace::page_index`]). Its answers agree with the frames. Where it can't be exact, because pages were
//! coarsened or a frame could not be read, it claims more, never less. Names and pictures are left to its users.

mod build;
mod cells;
mod entry;
mod read;

pub use build::BuildStep;
pub use entry::{PageCell, PageTotal};
pub use read::{NoIndex, PageIndex};

pub(crate) use read::IndexPlace;

/// Cells of a frame at most: beyond, its pages are made larger.
const MOST_CELLS: usize = 1024;
/// Pages that totals are kept of at most.
const MOST_TOTALS: usize = 1 << 22;
/// Entries of a frame of the index at most, so that what reads one knows what it takes.
const SEGMENT_ENTRIES: usize = 1 << 16;
const PROPERTY_KEY: &str = "index-of";
const PROPERTY_VERSION: &str = "index-version";
const VERSION: &str = "1";
const PROPERTY_TOTALS: &str = "index-totals";
