//! The access graph of a machine: its functions, its variables, and the pages that hold them.

use std::cmp::Reverse;
use std::rc::Rc;

use memref::VirtAddr;
use trace_format::Trace;

use super::names::{GuestNames, Named};
use super::process::{GuestMode, walk_owned_in};
use super::programs::ProgramPlaces;
use super::symbols::GuestSymbols;
use super::walk::Places;
use crate::access_graph::GatheredCounts;
use crate::{AccessRow, Count, Error, PairRow};

/// What accessed what. Names stand for their places in the lists.
#[derive(Debug)]
pub struct GuestLinks {
    /// Functions, with the mode that they executed in.
    pub functions: Vec<(GuestMode, String)>,
    /// Variables, with the mode that they were accessed in.
    pub variables: Vec<(GuestMode, String)>,
    /// By variable and function, in this order.
    pub pairs: Vec<(GuestPair, Count)>,
    /// By page of physical memory and variable; of a page the most accessed variable comes first. Devices have none.
    pub pages: Vec<(GuestPage, Count)>,
}

/// A variable and a function that accessed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestPair {
    /// The variable's place.
    pub variable: usize,
    /// The function's place.
    pub function: usize,
}

/// A variable on a page of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestPage {
    /// The page's number.
    pub page: u64,
    /// The variable's place.
    pub variable: usize,
}

impl GuestLinks {
    /// Counts all of a machine's trace.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(trace: &Trace, programs: &ProgramPlaces<'_>) -> Result<Self, Error> {
        let symbols = Rc::new(GuestSymbols::of(trace)?);
        let mut functions = GuestNames::with_symbols(trace, Rc::clone(&symbols), Named::Function, programs)?;
        let mut variables = GuestNames::with_symbols(trace, symbols, Named::Variable, programs)?;
        let mut pairs = GatheredCounts::default();
        let mut pages = GatheredCounts::default();
        let mut places = Places::of_cpus(trace)?;
        walk_owned_in(trace, None, |by, access| {
            let function = functions.near(by, access.ip);
            let variable = variables.near(by, access.addr);
            let mut count = Count::default();
            count.add(access);
            pairs.add(GuestPair { variable, function }, (variable as u64) << 32 | function as u64, count);
            let places = &mut places[by.cpu];
            places.go_to(by.index)?;
            if let Some([first, _]) = places.physical.ranges(access) {
                let page = VirtAddr(first.start).page_number();
                pages.add(GuestPage { page, variable }, (variable as u64) << 40 ^ page, count);
            }
            Ok(())
        })?;
        let mut pairs: Vec<(GuestPair, Count)> = pairs.all().into_iter().collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        let mut pages: Vec<(GuestPage, Count)> = pages.all().into_iter().collect();
        pages.sort_unstable_by_key(|(page, count)| (page.page, Reverse(count.accesses()), page.variable));
        Ok(Self { functions: functions.into_list(), variables: variables.into_list(), pairs, pages })
    }

    /// The pairs as rows of a table, the most accessed first: of each variable its functions, or of each function its variables.
    pub fn rows(&self, variable_first: bool) -> Vec<PairRow> {
        let (firsts, seconds) = match variable_first {
            true => (&self.variables, &self.functions),
            false => (&self.functions, &self.variables),
        };
        let mut counts = vec![Count::default(); firsts.len()];
        let mut pairs = Vec::with_capacity(self.pairs.len());
        for (pair, count) in &self.pairs {
            let (first, second) = match variable_first {
                true => (pair.variable, pair.function),
                false => (pair.function, pair.variable),
            };
            counts[first] += *count;
            pairs.push((first, second, *count));
        }
        pairs.sort_by_key(|(first, second, count)| {
            (Reverse(counts[*first].accesses()), *first, Reverse(count.accesses()), *second)
        });
        let row = |(mode, name): &(GuestMode, String), count| AccessRow {
            name: name.clone(),
            region: mode.name().to_owned(),
            count,
            things: 1,
            ..AccessRow::default()
        };
        let rows = pairs.into_iter().map(|(first, second, count)| PairRow {
            first: row(&firsts[first], counts[first]),
            second: row(&seconds[second], count),
        });
        rows.collect()
    }
}
