//! The figures of a whole trace. Every view takes its figures from here, so the same figure is the same in each.

use analysis::{AccessRow, By, Links, Session, Stale, Summary, Tally};
use symbols::Resolver;

use super::Needs;
use crate::Error;
use crate::heatmap::MapRegion;

/// The figures that an exporter asked for; those that it did not ask for are empty.
#[derive(Debug)]
pub struct Figures<'a> {
    /// The trace.
    pub session: &'a Session,
    /// Accesses by name and page.
    pub tally: Tally,
    /// Who accesses what.
    pub links: Links,
    /// Accesses to released memory.
    pub stale: Stale,
    /// The totals.
    pub summary: Summary,
    /// The names of each process, as they were at its end.
    pub resolvers: Vec<Resolver>,
}

impl<'a> Figures<'a> {
    pub(super) fn new(session: &'a Session, needs: &Needs) -> Result<Self, Error> {
        Ok(Self {
            session,
            tally: Tally::new(session, &needs.tables)?,
            links: Links::default(),
            stale: Stale::default(),
            summary: Summary::default(),
            resolvers: Vec::new(),
        })
    }

    /// The rows of a table, most accessed first.
    pub fn rows(&self, by: By) -> Vec<AccessRow> {
        self.tally.rows(by, self.session, &self.resolvers)
    }

    /// Every region that a process ever had.
    pub fn regions(&self) -> Vec<MapRegion> {
        MapRegion::all(&self.resolvers)
    }

    /// The program with its arguments, as far as the trace tells.
    pub fn title(&self) -> &str {
        crate::title(self.session)
    }
}
