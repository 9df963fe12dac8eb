//! Tables of counts. The tools that `report` uses count them, so the figures are the same.

use std::collections::HashMap;
use std::sync::Arc;

use analysis::stack::{StackCount, StackNumber, StackTable};
use analysis::{AccessRow, By, Session, Tally, TracePart, has_stacks, page_row};
use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, StringBuilder};

use crate::batch::{WholeColumns, numbers, numbers32, some_numbers, texts};
use crate::name_column::names;

/// The functions of a stack, outermost first.
pub type StackFunctions = Arc<[Arc<str>]>;

fn rows(session: &Session, by: By) -> Result<Vec<AccessRow>, crate::Error> {
    let mut tally = Tally::new(session, &[by])?;
    let resolvers = tally.replay(session, &TracePart::default())?;
    Ok(tally.rows(by, session, &resolvers))
}

pub(crate) fn counted(session: &Session, by: By) -> WholeColumns {
    let rows = rows(session, by)?;
    Ok(vec![
        texts(rows.iter().map(|row| Some(&row.name))),
        names(rows.iter().map(|row| Some(&row.region)))?,
        numbers(rows.iter().map(|row| row.count.loads)),
        numbers(rows.iter().map(|row| row.count.stores)),
        numbers(rows.iter().map(|row| row.count.modifies)),
        numbers(rows.iter().map(|row| row.count.bytes)),
        numbers(rows.iter().map(|row| row.size)),
        numbers(rows.iter().map(|row| row.things)),
        texts(rows.iter().map(|row| row.line.as_deref())),
        names(rows.iter().map(|row| Some(&row.module)))?,
        names(rows.iter().map(|row| Some(row.owner.name())))?,
    ])
}

pub(crate) fn pages(session: &Session) -> WholeColumns {
    let mut tally = Tally::new(session, &[By::Page])?;
    let resolvers = tally.replay(session, &TracePart::default())?;
    let touched = tally.pages().touched();
    let regions: Vec<String> =
        touched.iter().map(|(process, addr, _)| page_row(&resolvers, *process, *addr).region).collect();
    Ok(vec![
        numbers32(touched.iter().map(|(process, _, _)| process.0)),
        numbers(touched.iter().map(|(_, addr, _)| addr.0)),
        names(regions.iter().map(Some))?,
        numbers(touched.iter().map(|(_, _, count)| count.loads)),
        numbers(touched.iter().map(|(_, _, count)| count.stores)),
        numbers(touched.iter().map(|(_, _, count)| count.modifies)),
        numbers(touched.iter().map(|(_, _, count)| count.bytes)),
    ])
}

/// A stack, its number, and what happened in it. Rare stacks that had no room are one row without a number.
fn numbered_stacks(session: &Session) -> Result<Vec<(Option<StackNumber>, StackCount)>, crate::Error> {
    if !has_stacks(session) {
        return Ok(Vec::new());
    }
    let rows = StackTable::count(session, &TracePart::default(), 0.0)?.all_rows();
    let stacks = rows.rows.len();
    let number = |(place, row): (usize, StackCount)| {
        let number = || StackNumber::of(row.stack.iter().map(|function| &**function));
        ((place < stacks).then(number), row)
    };
    Ok(rows.named().into_iter().enumerate().map(number).collect())
}

pub(crate) fn contexts(session: &Session) -> WholeColumns {
    let all = numbered_stacks(session)?;
    let rows = || all.iter().map(|(_, row)| row);
    let mut stacks = ListBuilder::new(StringBuilder::new());
    for row in rows() {
        row.stack.iter().for_each(|function| stacks.values().append_value(function));
        stacks.append(true);
    }
    Ok(vec![
        some_numbers(all.iter().map(|(number, _)| Some((*number)?.0))),
        Arc::new(stacks.finish()) as ArrayRef,
        numbers(rows().map(|row| row.count.loads)),
        numbers(rows().map(|row| row.count.stores)),
        numbers(rows().map(|row| row.count.modifies)),
        numbers(rows().map(|row| row.count.bytes)),
        numbers(rows().map(|row| row.allocations)),
        numbers(rows().map(|row| row.allocated_bytes)),
    ])
}

/// The functions of each stack that has a number, outermost first.
pub(crate) fn stacks_by_number(session: &Session) -> Result<HashMap<u64, StackFunctions>, crate::Error> {
    let stacks = numbered_stacks(session)?.into_iter();
    Ok(stacks.filter_map(|(number, row)| Some((number?.0, row.stack.into()))).collect())
}
