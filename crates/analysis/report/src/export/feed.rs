//! Gives an exporter what it needs, in one pass over the trace.

use std::io::{self, Write};

use analysis::{By, Moment, Session, Tally, Tool};
use memref::{Access, Allocation, Event};
use symbols::{HeapChange, Resolver};
use trace_format::KindSet;

use super::{AccessBytes, EventOrder, Exporter, Figures, Needs, Selection};
use crate::Error;

pub(super) fn run(
    session: &Session,
    selection: &Selection,
    exporter: &mut dyn Exporter,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let needs = exporter.needs();
    let counts = !needs.tables.is_empty() || needs.links || needs.stale || needs.summary;
    let kinds = if counts { KindSet::ALL } else { needs.kinds };
    if needs.asks_for_tables_alone()
        && selection.is_everything()
        && let Some(figures) = without_replay(session, &needs)?
    {
        return exporter.finish(&figures, out);
    }
    let filter = selection.filter(kinds);
    let bytes = if needs.bytes { AccessBytes::of(session, &filter) } else { AccessBytes::default() };
    let mut feed =
        Feed { figures: Figures::new(session, &needs)?, needs, exporter, out, bytes, failed: None };
    let read = match feed.needs.events {
        EventOrder::ByThread if !counts => {
            session.replay_by_thread(&filter, selection.thread, &mut feed).map(|()| Vec::new())
        }
        _ => session.replay(&filter, selection.thread, &mut feed),
    };
    if let Some(error) = feed.failed {
        return Err(error);
    }
    feed.figures.resolvers = read?;
    feed.exporter.finish(&feed.figures, feed.out)
}

/// Figures that need no replay: from an index, or from counts by instruction.
fn without_replay<'a>(session: &'a Session, needs: &Needs) -> Result<Option<Figures<'a>>, Error> {
    let (tally, resolvers) = if needs.tables == [By::Page] {
        let Some(indexed) = session.indexed_pages()? else { return Ok(None) };
        (Tally::of_pages(indexed.pages), indexed.resolvers)
    } else {
        let Some(counted) = session.counted_by_instruction(&needs.tables)? else { return Ok(None) };
        (counted.tally, counted.resolvers)
    };
    Ok(Some(Figures { tally, resolvers, ..Figures::new(session, needs)? }))
}

/// The tool that the replay sees.
struct Feed<'a> {
    needs: Needs,
    exporter: &'a mut dyn Exporter,
    out: &'a mut dyn Write,
    bytes: AccessBytes,
    figures: Figures<'a>,
    /// What went wrong in the exporter; it ended the replay.
    failed: Option<Error>,
}

impl Feed<'_> {
    /// Whether events of these kinds go to the exporter.
    fn wants(&self, kinds: KindSet) -> bool {
        self.needs.events != EventOrder::None && self.needs.kinds.intersects(kinds)
    }

    /// Ends the replay where the exporter failed.
    fn note(&mut self, written: Result<(), Error>) -> Result<(), analysis::Error> {
        written.map_err(|error| {
            self.failed = Some(error);
            analysis::Error::Output(io::ErrorKind::Other.into())
        })
    }
}

impl Tool for Feed<'_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), analysis::Error> {
        self.figures.tally.accesses(at, accesses)?;
        if self.needs.links {
            self.figures.links.accesses(at, accesses)?;
        }
        if self.needs.stale {
            self.figures.stale.accesses(at, accesses)?;
        }
        if self.needs.summary {
            self.figures.summary.accesses(at, accesses)?;
        }
        if self.wants(KindSet::ACCESSES) {
            let written = self.exporter.accesses(at, accesses, &mut self.bytes, self.out);
            self.note(written)?;
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), analysis::Error> {
        self.figures.tally.event(at, event)?;
        if self.needs.stale {
            self.figures.stale.event(at, event)?;
        }
        if self.needs.summary {
            self.figures.summary.event(at, event)?;
        }
        let kinds = match event {
            Event::Access(_) => KindSet::ACCESSES,
            Event::Block(_) => KindSet::BLOCKS,
            Event::Allocation(_) => KindSet::ALLOCATIONS,
            Event::Marker(_) => KindSet::MARKERS,
            Event::Gap(_) => KindSet::GAPS,
            Event::Sync(_) => KindSet::SYNCS,
            Event::Order(_) => KindSet::ORDERS,
        };
        if self.wants(kinds) {
            let written = match event {
                Event::Access(access) => {
                    self.exporter.accesses(at, std::slice::from_ref(access), &mut self.bytes, self.out)
                }
                _ => self.exporter.event(at, event, self.out),
            };
            self.note(written)?;
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        if self.needs.stale {
            self.figures.stale.change(resolver, event, change);
        }
    }
}
