//! Counts of accesses by variable, function, line, allocation, page, region and thread, and by any two of them.
//!
//! Counting uses numbers (`numbering`), in one pass for all requested tables ([`Tally`]) or for a pair of them
//! ([`PairTally`]). The names of the rows are found at the end (`group`). Display is left to the crate `report`.

mod allocated;
mod divided;
mod group;
mod groups;
mod locals;
mod made;
mod numbering;
mod pairs;
mod row;
mod slot;
mod step_groups;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Event, ProcessId, ThreadId};
use symbols::{CodeId, Resolver};
use trace_format::ExecutedFrame;

use self::groups::VariableGroups;
pub(crate) use self::slot::slot;
use self::step_groups::{StepGroups, Sums};
use crate::selection::{self, CountsPart, Selection};
use crate::stack::SiteStyle;
use crate::{Count, Error, Moment, Pages, Session, Tool, TracePart};

pub(crate) use allocated::BlockSites;
pub use group::page_row;
pub(crate) use group::{Grouper, any_element, family};
pub(crate) use locals::{AccessedLocal, Locals};
pub use made::{MadeBlock, MadeObjects};
pub(crate) use numbering::Numbering;
pub use pairs::{PairRow, PairTally};
pub use row::{AccessRow, By, CountedRows, SortKey, join_families, joined_in_words};

/// Counts by number.
#[derive(Debug)]
struct Counted {
    numbering: Numbering,
    sums: Sums,
    groups: VariableGroups,
    steps: StepGroups,
}

impl Counted {
    fn new(numbering: Numbering) -> Self {
        let (groups, steps) = (VariableGroups::default(), StepGroups::default());
        Self { numbering, sums: Sums::default(), groups, steps }
    }

    /// All counts so far.
    fn sums(&self) -> Cow<'_, Sums> {
        let mut sums = Cow::Borrowed(&self.sums);
        if self.steps.has_pending() {
            self.steps.add_pending(sums.to_mut());
        }
        sums
    }

    /// Adds up all counts so far: from then on they need no copy.
    fn add_up(&mut self) {
        self.steps.take_pending(&mut self.sums);
    }

    /// Counts the access that was just numbered.
    fn add(&mut self, access: &Access, number: u32) {
        let Sums { counts, again } = &mut self.sums;
        slot(counts, number).add(access);
        for number in self.numbering.further() {
            slot(counts, *number).add(access);
            again.add(access);
        }
    }
}

/// Counts everything in one pass; asks only for the names that are wanted.
#[derive(Debug)]
pub struct Tally {
    counted: Vec<Counted>,
    /// Pages are counted apart: the heat map is drawn from them, too.
    pages: Option<Pages>,
    no_pages: Pages,
    selection: Selection,
    style: SiteStyle,
}

impl Tally {
    /// Counts for these tables.
    ///
    /// # Errors
    /// Where the trace can't be read: types of heap blocks take a replay of their own.
    pub fn new(session: &Session, wanted: &[By]) -> Result<Self, Error> {
        let mut counted: Vec<Counted> = Vec::new();
        for &by in wanted.iter().filter(|by| **by != By::Page) {
            if !counted.iter().any(|counted| counted.numbering.serves(by)) {
                counted.push(Counted::new(Numbering::new(by, session)?));
            }
        }
        let pages = wanted.contains(&By::Page).then(Pages::default);
        Ok(Self { counted, pages, ..Self::of_nothing() })
    }

    /// Names allocation sites so.
    pub fn with_sites(self, style: SiteStyle) -> Self {
        Self { style, ..self }
    }

    /// Adds accesses of an instruction.
    pub(crate) fn add_code(&mut self, code: CodeId, count: Count) {
        for counted in &mut self.counted {
            if let Numbering::Code = counted.numbering {
                *slot(&mut counted.sums.counts, code.0) += count;
            }
        }
    }

    /// Adds accesses of a thread.
    pub(crate) fn add_thread(&mut self, thread: ThreadId, process: ProcessId, count: Count) {
        for counted in &mut self.counted {
            if let Numbering::Thread(threads) = &mut counted.numbering {
                threads.add(thread, process);
                *slot(&mut counted.sums.counts, thread.0) += count;
            }
        }
    }

    /// With counts by page that are known already.
    pub fn of_pages(pages: Pages) -> Self {
        Self { pages: Some(pages), ..Self::of_nothing() }
    }

    /// Counts for no table.
    fn of_nothing() -> Self {
        Self {
            counted: Vec::new(),
            pages: None,
            no_pages: Pages::default(),
            selection: Selection::default(),
            style: SiteStyle::default(),
        }
    }

    /// Counts a part of a trace. Returns the resolvers as they are at the end.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(&mut self, session: &Session, part: &TracePart) -> Result<Vec<Resolver>, Error> {
        let is_all = part.is_all();
        // An index answers for all pages, and reads nothing.
        if self.counted.is_empty()
            && is_all
            && let Some(indexed) = session.indexed_pages()?
        {
            self.pages = Some(indexed.pages);
            return Ok(indexed.resolvers);
        }
        // Code is counted without making accesses. Threads are not: what each is for, a replay tells.
        if is_all
            && self.pages.is_none()
            && matches!(self.counted.as_slice(), [Counted { numbering: Numbering::Code, .. }])
            && let Some(counted) = session.counted_by_instruction(&[By::Function])?
        {
            *self = counted.tally;
            return Ok(counted.resolvers);
        }
        if let Some(resolvers) = self.replay_divided(session, part)? {
            return Ok(resolvers);
        }
        let resolvers = selection::replay(self, session, part)?;
        self.counted.iter_mut().for_each(Counted::add_up);
        Ok(resolvers)
    }

    /// Counts by page.
    pub fn pages(&self) -> &Pages {
        self.pages.as_ref().unwrap_or(&self.no_pages)
    }

    /// A table: its rows, and what they have together.
    pub fn table(&self, by: By, session: &Session, resolvers: &[Resolver]) -> CountedRows {
        let CountedRows { rows, total } = CountedRows::apart(self.rows(by, session, resolvers));
        CountedRows { rows, total: total.without(self.shared(by)) }
    }

    /// What rows of a table have together of accesses that other rows have, too: those of several fields.
    fn shared(&self, by: By) -> Count {
        let counted = self.counted.iter().find(|counted| counted.numbering.serves(by));
        counted.map(|counted| counted.sums().again).unwrap_or_default()
    }

    /// The rows of a table, most accessed first, equals by name.
    pub fn rows(&self, by: By, session: &Session, resolvers: &[Resolver]) -> Vec<AccessRow> {
        let mut rows = match by {
            By::Page => self.page_rows(resolvers),
            _ => self.named_rows(by, session, resolvers),
        };
        SortKey::Accesses.sort(&mut rows);
        rows
    }

    fn named_rows(&self, by: By, session: &Session, resolvers: &[Resolver]) -> Vec<AccessRow> {
        let Some(counted) = self.counted.iter().find(|counted| counted.numbering.serves(by)) else {
            return Vec::new();
        };
        let mut grouper = Grouper::new(by, session, &counted.numbering, resolvers, self.style);
        let mut counts: Vec<Count> = Vec::new();
        let sums = counted.sums();
        let all = &sums.counts;
        let mut numbers: Vec<u32> =
            (0..all.len() as u32).filter(|number| all[*number as usize].accesses() > 0).collect();
        counted.numbering.sort(session, &mut numbers);
        for number in numbers {
            if let Some(row) = grouper.row(number) {
                *slot(&mut counts, row as u32) += all[number as usize];
            }
        }
        let rows = grouper.into_rows().into_iter().zip(counts);
        rows.map(|(row, count)| AccessRow { count, ..row }).collect()
    }

    fn page_rows(&self, resolvers: &[Resolver]) -> Vec<AccessRow> {
        let touched = self.pages().touched().into_iter();
        touched
            .map(|(process, page, count)| AccessRow { count, ..page_row(resolvers, process, page) })
            .collect()
    }
}

impl CountsPart for Tally {
    fn follows_all(&self) -> bool {
        // Other tables follow nothing, and would be told what they do not count.
        self.pages.is_none()
            && matches!(self.counted.as_slice(), [Counted { numbering, .. }] if numbering.follows())
    }

    fn selection(&mut self) -> &mut Selection {
        &mut self.selection
    }
}

impl Tool for Tally {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let is_all = self.selection.is_all();
        let begin = if is_all { 0 } else { self.selection.tell(at.thread, accesses.len()) };
        for counted in &mut self.counted {
            if let Numbering::Variable = counted.numbering
                && is_all
            {
                for access in accesses {
                    let name = at.resolver.resolve_data(access.addr);
                    slot(&mut counted.sums.counts, name.variable.0).add(access);
                }
            } else if is_all {
                for access in accesses {
                    let number = counted.numbering.number(at, access);
                    counted.add(access, number);
                }
            } else {
                for (index, access) in (begin..).zip(accesses) {
                    let number = counted.numbering.number(at, access);
                    if self.selection.has(at.thread, index, access) {
                        counted.add(access, number);
                    }
                }
            }
        }
        if let Some(pages) = &mut self.pages {
            pages.add(at.process, accesses);
        }
        Ok(())
    }

    fn takes_executions(&self) -> bool {
        let takes = |Counted { numbering, .. }: &Counted| {
            matches!(numbering, Numbering::Variable | Numbering::Block(_)) || numbering.takes_steps()
        };
        self.pages.is_none() && self.selection.is_all() && self.counted.iter().all(takes)
    }

    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        for Counted { numbering, groups, steps, sums } in &mut self.counted {
            if numbering.takes_steps() {
                numbering.add_steps(steps, at, (frame, part.clone()), sums);
                continue;
            }
            if let Numbering::Block(stacks) = numbering {
                stacks.executions(at, frame, part.clone());
            }
            groups.add(at, frame, part.clone(), &mut sums.counts);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        for counted in &mut self.counted {
            counted.numbering.event(at, event);
        }
        Ok(())
    }
}
