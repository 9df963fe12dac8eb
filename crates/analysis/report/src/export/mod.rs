//! The formats to which a trace can be exported: one file per format, each an [`Exporter`]. A format receives the
//! events one by one, or figures counted over the whole trace, or both; it declares what it needs itself ([`Needs`]).
//!
//! Reading the trace, names and counting are left to `analysis`. To add a format, write a file here with its exporter.

mod access_bytes;
mod callgrind;
mod dhat;
mod drmemtrace;
mod entries64;
mod feed;
mod figures;
mod firefox;
mod folded;
mod form_lines;
mod jsonl;
mod letters;
mod madt;
mod measure;
mod message;
mod names;
mod otlp;
mod perfetto;
mod pprof;
mod running;
mod samples;
mod tree;

use std::io::Write;
use std::ops::Range;

use analysis::{By, Moment, Session, TracePart};
use memref::{Access, Event, ThreadId, VirtAddr};
use trace_format::{Filter, KindSet};

use crate::Error;

pub use access_bytes::AccessBytes;
pub use callgrind::callgrind;
pub use dhat::dhat;
pub use drmemtrace::drmemtrace;
pub use entries64::Entries64;
pub use figures::Figures;
pub use firefox::firefox;
pub use folded::folded;
pub use form_lines::FormLines;
pub use jsonl::JsonLines;
pub use madt::Madt;
pub use measure::Measure;
pub(crate) use names::code_name;
pub use otlp::otlp;
pub use perfetto::perfetto;
pub use pprof::pprof;
pub use tree::{CallTree, TreeCount, TreeFunction, TreeLine, TreeNode};

/// The order in which an exporter is fed with events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventOrder {
    /// With none: figures are enough.
    #[default]
    None,
    /// All threads' events in an order in which addresses mean what they meant, with a resolver that names them.
    Session,
    /// One thread after the other; nothing is named, which is faster.
    ByThread,
}

/// What an exporter is fed with.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Events, in which order.
    pub events: EventOrder,
    /// The kinds of them that it writes.
    pub kinds: KindSet,
    /// The bytes that were loaded and stored, where they were recorded.
    pub bytes: bool,
    /// Counts for these tables.
    pub tables: Vec<By>,
    /// Who accesses what.
    pub links: bool,
    /// Accesses to released memory.
    pub stale: bool,
    /// The totals.
    pub summary: bool,
}

impl Needs {
    /// Whether tables are all, for which there are faster ways than a replay.
    fn asks_for_tables_alone(&self) -> bool {
        self.events == EventOrder::None && !self.links && !self.stale && !self.summary
    }
}

/// Writes a trace in one format. Its methods are called in the order in which they stand here; what it returns as an error
/// ends the export.
pub trait Exporter {
    /// What it is to be fed with.
    fn needs(&self) -> Needs;

    /// Accesses of one thread, without any other event of it between them. `bytes` has one entry for each of them, in their order.
    ///
    /// # Errors
    /// Where the output can't be written, or the format has no place for what happened.
    fn accesses(
        &mut self,
        at: &mut Moment<'_>,
        accesses: &[Access],
        bytes: &mut AccessBytes,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let _ = (at, accesses, bytes, out);
        Ok(())
    }

    /// Any other event. An allocation has been applied to the resolver already.
    ///
    /// # Errors
    /// See [`Self::accesses`].
    fn event(
        &mut self,
        at: &mut Moment<'_>,
        event: &Event<String>,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let _ = (at, event, out);
        Ok(())
    }

    /// The end, with what was counted.
    ///
    /// # Errors
    /// See [`Self::accesses`].
    fn finish(&mut self, figures: &Figures<'_>, out: &mut dyn Write) -> Result<(), Error> {
        let _ = (figures, out);
        Ok(())
    }
}

/// The part of a trace that is written; the default is all of it.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Events of these kinds.
    pub kinds: KindSet,
    /// Accesses by their numbers among those of their thread.
    pub entries: Option<Range<u64>>,
    /// Events that touch these addresses.
    pub addresses: Option<Range<VirtAddr>>,
    /// Events at these cycles.
    pub cycles: Option<Range<u64>>,
    /// One thread's events.
    pub thread: Option<ThreadId>,
}

impl Selection {
    fn is_everything(&self) -> bool {
        self.kinds == KindSet::ALL
            && self.entries.is_none()
            && self.addresses.is_none()
            && self.cycles.is_none()
            && self.thread.is_none()
    }

    /// All kinds of events of it.
    pub fn part(&self) -> TracePart {
        TracePart::new(self.filter(KindSet::ALL), self.thread)
    }

    fn filter(&self, kinds: KindSet) -> Filter {
        Filter {
            index: self.entries.clone(),
            cycles: self.cycles.clone(),
            kinds: KindSet(self.kinds.0 & kinds.0),
            addresses: self.addresses.iter().cloned().collect(),
            ..Default::default()
        }
    }
}

/// Writes a trace, or a part of it.
///
/// # Errors
/// Where the trace can't be read or the output can't be written.
pub fn export(
    session: &Session,
    selection: &Selection,
    exporter: &mut dyn Exporter,
    out: &mut dyn Write,
) -> Result<(), Error> {
    feed::run(session, selection, exporter, out)
}
