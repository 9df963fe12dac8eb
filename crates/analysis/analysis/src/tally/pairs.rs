//! Counts by two keys at once: who accesses what.

use std::collections::HashMap;

use memref::{Access, Event};
use rustc_hash::FxHashMap;
use symbols::Resolver;

use super::group::Grouper;
use super::numbering::Numbering;
use super::slot::slot;
use super::{AccessRow, By, SortKey};
use crate::selection::{self, CountsPart, Selection};
use crate::stack::SiteStyle;
use crate::{Count, Error, Moment, Session, Tool, TracePart};

/// What two rows have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRow {
    /// The first one, with all of its counts.
    pub first: AccessRow,
    /// The second one, with the counts of what belongs to both.
    pub second: AccessRow,
}

/// No second number has this; the first access of a first number finds nothing.
const NONE: u32 = u32::MAX;

/// The pair that a second number was counted in last.
#[derive(Clone, Copy, Debug)]
struct LastPair {
    first: u32,
    place: u32,
}

/// Counts the accesses of each pair.
#[derive(Debug)]
pub struct PairTally {
    pub(super) by: [By; 2],
    pub(super) numberings: [Numbering; 2],
    pub(super) counts: Vec<([u32; 2], Count)>,
    place_of: FxHashMap<[u32; 2], u32>,
    /// The last pair of each second number: mostly the next one is the same.
    last: Vec<Option<LastPair>>,
    /// What a first number has more than once, as its accesses have several second ones.
    pub(super) again: Vec<Count>,
    /// What all pairs have more than once.
    pub(super) shared: Count,
    selection: Selection,
    style: SiteStyle,
}

impl PairTally {
    /// Counts for a table of two.
    ///
    /// # Errors
    /// Where the trace can't be read: types of heap blocks take a replay of their own.
    pub fn new(session: &Session, by: [By; 2]) -> Result<Self, Error> {
        Ok(Self::of(by, [Numbering::new(by[0], session)?, Numbering::new(by[1], session)?]))
    }

    /// Nothing is counted so far.
    pub(super) fn of(by: [By; 2], numberings: [Numbering; 2]) -> Self {
        Self {
            by,
            numberings,
            counts: Vec::new(),
            place_of: FxHashMap::default(),
            last: Vec::new(),
            again: Vec::new(),
            shared: Count::default(),
            selection: Selection::default(),
            style: SiteStyle::default(),
        }
    }

    /// Names allocation sites so.
    pub fn with_sites(self, style: SiteStyle) -> Self {
        Self { style, ..self }
    }

    /// Counts a part of a trace. Returns the resolvers as they are at the end.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(&mut self, session: &Session, part: &TracePart) -> Result<Vec<Resolver>, Error> {
        if let Some(resolvers) = self.replay_divided(session, part)? {
            return Ok(resolvers);
        }
        selection::replay(self, session, part)
    }

    #[inline]
    pub(super) fn count(&mut self, pair: [u32; 2]) -> &mut Count {
        let last = slot(&mut self.last, pair[1]);
        let place = match *last {
            Some(LastPair { first, place }) if first == pair[0] => place,
            _ => {
                let place = *self.place_of.entry(pair).or_insert_with(|| {
                    self.counts.push((pair, Count::default()));
                    self.counts.len() as u32 - 1
                });
                *last = Some(LastPair { first: pair[0], place });
                place
            }
        };
        &mut self.counts[place as usize].1
    }

    /// What the pairs have together of accesses that other pairs have, too: those of several fields.
    pub fn shared(&self) -> Count {
        self.shared
    }

    /// All pairs: sorted by the first ones as asked, then by their own counts.
    pub fn rows(&self, session: &Session, resolvers: &[Resolver], sort: SortKey) -> Vec<PairRow> {
        let [first, second] = [0, 1].map(|side: usize| {
            Grouper::new(self.by[side], session, &self.numberings[side], resolvers, self.style)
        });
        let (mut first, mut second) = (first, second);
        // What is met first stands for its row.
        for (side, rows) in [&mut first, &mut second].into_iter().enumerate() {
            let mut numbers: Vec<u32> = self.counts.iter().map(|(pair, _)| pair[side]).collect();
            numbers.sort_unstable();
            numbers.dedup();
            self.numberings[side].sort(session, &mut numbers);
            for number in numbers {
                rows.row(number);
            }
        }
        let mut pairs: HashMap<(usize, usize), Count> = HashMap::new();
        for ([one, other], count) in self.counts.iter().filter(|(_, count)| count.accesses() > 0) {
            if let (Some(one), Some(other)) = (first.row(*one), second.row(*other)) {
                *pairs.entry((one, other)).or_default() += *count;
            }
        }
        let again = self.again.iter().enumerate().filter(|(_, again)| again.accesses() > 0);
        let again: Vec<(usize, Count)> =
            again.filter_map(|(number, again)| Some((first.row(number as u32)?, *again))).collect();
        let (mut firsts, seconds) = (first.into_rows(), second.into_rows());
        for ((one, _), count) in &pairs {
            firsts[*one].count += *count;
        }
        for (row, again) in again {
            firsts[row].count = firsts[row].count.without(again);
        }
        // Their places are kept while they are sorted, since two may have the same name.
        let mut order: Vec<usize> = (0..firsts.len()).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&firsts[*a], &firsts[*b]);
            sort.order(a, b)
        });
        let mut rank = vec![NONE as usize; firsts.len()];
        for (index, one) in order.into_iter().enumerate() {
            rank[one] = index;
        }
        let mut pairs: Vec<((usize, usize), Count)> = pairs.into_iter().collect();
        pairs.sort_by(|(a, count_a), (b, count_b)| {
            let by_rank = rank[a.0].cmp(&rank[b.0]);
            let by_count = sort.of_count(count_b).cmp(&sort.of_count(count_a));
            let by_all = count_b.accesses().cmp(&count_a.accesses());
            let by_place = || seconds[a.1].place().cmp(&seconds[b.1].place());
            by_rank.then(by_count).then(by_all).then_with(by_place).then(a.1.cmp(&b.1))
        });
        pairs
            .into_iter()
            .map(|((one, other), count)| PairRow {
                first: firsts[one].clone(),
                second: AccessRow { count, ..seconds[other].clone() },
            })
            .collect()
    }
}

impl CountsPart for PairTally {
    fn follows_all(&self) -> bool {
        self.numberings.iter().any(Numbering::follows)
    }

    fn selection(&mut self) -> &mut Selection {
        &mut self.selection
    }
}

impl Tool for PairTally {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let begin = if self.selection.is_all() { 0 } else { self.selection.tell(at.thread, accesses.len()) };
        let mut further = [Vec::new(), Vec::new()];
        for (index, access) in (begin..).zip(accesses) {
            let [first, second] = &mut self.numberings;
            let pair = [first.number(at, access), second.number(at, access)];
            if self.selection.has(at.thread, index, access) {
                for (further, numbering) in further.iter_mut().zip([first, second]) {
                    further.clear();
                    further.extend_from_slice(numbering.further());
                }
                for (index, one) in [pair[0]].iter().chain(&further[0]).enumerate() {
                    for (other_index, other) in [pair[1]].iter().chain(&further[1]).enumerate() {
                        self.count([*one, *other]).add(access);
                        if other_index > 0 {
                            slot(&mut self.again, *one).add(access);
                        }
                        if index + other_index > 0 {
                            self.shared.add(access);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        for numbering in &mut self.numberings {
            numbering.event(at, event);
        }
        Ok(())
    }
}
