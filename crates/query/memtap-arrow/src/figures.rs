//! Tables of counts. The tools that `report` uses count them, so the figures are the same.

use std::sync::Arc;

use analysis::stack::StackTable;
use analysis::{AccessRow, By, Session, Tally, has_stacks, page_row};
use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, StringBuilder};
use trace_format::Filter;

use crate::batch::{WholeColumns, numbers, numbers32, texts};
use crate::name_column::names;

fn rows(session: &Session, by: By) -> Result<Vec<AccessRow>, crate::Error> {
    let mut tally = Tally::new(session, &[by])?;
    let resolvers = tally.replay(session, &Filter::default(), None)?;
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
    let resolvers = tally.replay(session, &Filter::default(), None)?;
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

pub(crate) fn contexts(session: &Session) -> WholeColumns {
    let rows = match has_stacks(session) {
        true => StackTable::count(session, &Filter::default(), None, 0.0)?.all_rows().named(),
        false => Vec::new(),
    };
    let mut stacks = ListBuilder::new(StringBuilder::new());
    for row in &rows {
        row.stack.iter().for_each(|function| stacks.values().append_value(function));
        stacks.append(true);
    }
    Ok(vec![
        Arc::new(stacks.finish()) as ArrayRef,
        numbers(rows.iter().map(|row| row.count.loads)),
        numbers(rows.iter().map(|row| row.count.stores)),
        numbers(rows.iter().map(|row| row.count.modifies)),
        numbers(rows.iter().map(|row| row.count.bytes)),
        numbers(rows.iter().map(|row| row.allocations)),
        numbers(rows.iter().map(|row| row.allocated_bytes)),
    ])
}
