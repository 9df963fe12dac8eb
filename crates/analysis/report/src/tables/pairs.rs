//! Who accesses what: for each row of one table, the rows of another.

use std::collections::HashSet;
use std::io::{self, Write};

use analysis::{AccessRow, By, Count, PairRow};
use serde_json::{Map, Value, json};

use super::appearance::{Look, Tone};
use super::grid::{Grid, GridRow};
use super::json as write_json;
use super::rows::{Shown, Split, count_columns, count_figures, folds, split, sum};

/// Second rows of each first one, unless all are asked for.
const MOST_SECOND: usize = 5;
const INDENT: usize = 2;

/// Writes pairs as a JSON array: an object with both names under the names of the tables, and the counts that they have together.
///
/// # Errors
/// Where the output can't be written.
pub fn pairs_json(rows: &[PairRow], by: [By; 2], out: &mut dyn Write) -> io::Result<()> {
    let to_json = |row: &PairRow| {
        let mut object = Map::new();
        for (by, part) in [(by[0], &row.first), (by[1], &row.second)] {
            object.insert(by.name().to_owned(), json!(part.name));
            object.insert(format!("{}_module", by.name()), json!(part.module));
        }
        let count = row.second.count;
        object.insert("loads".to_owned(), json!(count.loads));
        object.insert("stores".to_owned(), json!(count.stores));
        object.insert("modifies".to_owned(), json!(count.modifies));
        object.insert("bytes".to_owned(), json!(count.bytes));
        Value::Object(object)
    };
    write_json(&rows.iter().map(to_json).collect(), out)
}

/// The second rows of a first one.
struct Group {
    first: AccessRow,
    seconds: Vec<AccessRow>,
}

/// Pairs of the same first row follow each other. Blocks of one call are one first row, unless all are shown.
fn groups(rows: Vec<PairRow>, all: bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut family_at = std::collections::HashMap::new();
    let mut last: Option<AccessRow> = None;
    // What the group had before this first row, and what the pairs of this row add: no more than it has, where they share accesses.
    let (mut before, mut added) = (Count::default(), Count::default());
    // A name in words says the line.
    let in_words = |row: AccessRow| match row.made.is_some() && !all {
        true => AccessRow { made: None, line: None, ..row.in_words() },
        false => row,
    };
    for PairRow { first, second } in rows {
        let (first, second) = (in_words(first), in_words(second));
        let of_first = first.count;
        let is_new = last.as_ref() != Some(&first);
        let family = first.family.clone().filter(|_| !all).map(|family| (family, first.module.clone()));
        let place = match &family {
            Some(family) => family_at.get(family).copied(),
            None => (!is_new).then(|| groups.len() - 1),
        };
        let place = place.unwrap_or_else(|| {
            let (count, size, things) = (Count::default(), 0, 0);
            groups.push(Group {
                first: AccessRow { count, size, things, ..first.clone() },
                seconds: Vec::new(),
            });
            groups.len() - 1
        });
        if let Some(family) = family {
            family_at.insert(family, place);
        }
        let group = &mut groups[place];
        if is_new {
            if group.first.things > 0
                && let Some(family) = &first.family
            {
                group.first.name.clone_from(family);
            }
            group.first.size += first.size;
            group.first.things += first.things;
            last = Some(first);
            (before, added) = (group.first.count, Count::default());
        }
        added += second.count;
        group.first.count = before;
        group.first.count += added.at_most(of_first);
        let same = |other: &&mut AccessRow| {
            (&other.name, &other.module, &other.line) == (&second.name, &second.module, &second.line)
        };
        match group.seconds.iter_mut().find(same) {
            Some(other) => other.count += second.count,
            None => group.seconds.push(second),
        }
    }
    groups
}

/// Writes pairs for people: each first row, and after it those of the second table. Shares are of `total`.
///
/// # Errors
/// Where the output can't be written.
pub fn pairs_text(
    rows: Vec<PairRow>,
    total: Count,
    by: [By; 2],
    shown: &Shown,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "nothing was accessed here");
    }
    let all = total.accesses();
    let mut of_rows = Count::default();
    rows.iter().for_each(|row| of_rows += row.second.count);
    let of_rows = of_rows.at_most(total);
    let mut groups = groups(rows, shown.all);
    // The groups are divided as the rows of the first table alone are; a place says which is which.
    let firsts: Vec<AccessRow> = groups
        .iter()
        .enumerate()
        .map(|(place, group)| AccessRow {
            line: Some(place.to_string()),
            family: None,
            ..group.first.clone()
        })
        .collect();
    let Split { shown: firsts, summed } = split(firsts, shown);
    let mut lines: Vec<GridRow> = Vec::new();
    for first in &firsts {
        let Some(group) =
            first.line.as_deref().and_then(|place| groups.get_mut(place.parse::<usize>().ok()?))
        else {
            continue;
        };
        let note = if group.first.things > 1 && folds(by[0]) {
            format!("({} of them)", crate::grouped(group.first.things))
        } else {
            group.first.line.as_deref().map_or_else(String::new, |line| format!("({line})"))
        };
        lines.push(GridRow {
            figures: count_figures(&group.first.count, all),
            name: group.first.name.clone(),
            note,
            tone: Tone::Strong,
            ..GridRow::default()
        });
        let inner = Shown { by: by[1], top: if shown.all { usize::MAX } else { MOST_SECOND }, ..*shown };
        let Split { shown: seconds, summed } = split(std::mem::take(&mut group.seconds), &inner);
        for second in &seconds {
            lines.push(GridRow {
                figures: count_figures(&second.count, all),
                name: second.name.clone(),
                indent: INDENT,
                note: second.line.as_deref().map_or_else(String::new, |line| format!("({line})")),
                tone: Tone::Plain,
            });
        }
        let distinct: HashSet<&str> = summed.rows().map(|row| row.name.as_str()).collect();
        if !distinct.is_empty() {
            lines.push(GridRow {
                figures: count_figures(&sum(summed.rows()), all),
                name: format!("{} more", crate::grouped(distinct.len() as u64)),
                indent: INDENT,
                tone: Tone::Faint,
                ..GridRow::default()
            });
        }
    }
    lines.extend(summed.lines(&of_rows, |count| count_figures(count, all)));
    Grid { columns: count_columns(), name: head_of_two(by), rows: lines }.write(look, out)
}

fn head_of_two(by: [By; 2]) -> &'static str {
    match by {
        [By::Variable | By::Local | By::Field | By::Type, By::Function | By::Line] => "what, and by whom",
        [By::Function | By::Line, By::Variable | By::Local | By::Field | By::Type] => "who, and what",
        _ => "name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::{Owner, SortKey};

    fn pair(first: (&str, u64), second: (&str, u64), family: Option<&str>, owner: Owner) -> PairRow {
        let row = |(name, loads): (&str, u64)| AccessRow {
            name: name.into(),
            things: 1,
            count: Count { loads, ..Count::default() },
            ..AccessRow::default()
        };
        PairRow {
            first: AccessRow { family: family.map(str::to_owned), ..row(first) },
            second: AccessRow { owner, ..row(second) },
        }
    }

    #[test]
    fn each_row_is_followed_by_those_that_belong_to_it() {
        let rows = vec![
            pair(("table", 70), ("lookup", 60), None, Owner::Program),
            pair(("table", 70), ("memset", 10), None, Owner::CLibrary),
            pair(("<malloc0001@make+3>", 20), ("walk", 20), Some("<malloc@make+3>"), Owner::Program),
            pair(("<malloc0002@make+3>", 10), ("walk", 10), Some("<malloc@make+3>"), Owner::Program),
        ];
        let total = Count { loads: 100, ..Count::default() };
        let shown = Shown { by: By::Variable, sort: SortKey::Accesses, top: 20, all: false, folded: true };
        let mut out = Vec::new();
        let by = [By::Variable, By::Function];
        pairs_text(rows, total, by, &shown, Look::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "  share  loads  what, and by whom
 70.0 %     70  table
 60.0 %     60    lookup
 10.0 %     10    1 more
 30.0 %     30  <malloc@make+3>  (2 of them)
 30.0 %     30    walk
100.0 %    100  total
"
        );
    }

    #[test]
    fn a_row_has_what_its_pairs_share_once() {
        let rows = vec![
            pair(("move", 60), ("point.x", 60), None, Owner::Program),
            pair(("move", 60), ("point.y", 60), None, Owner::Program),
        ];
        let total = Count { loads: 60, ..Count::default() };
        let shown = Shown { by: By::Function, sort: SortKey::Accesses, top: 20, all: false, folded: true };
        let mut out = Vec::new();
        pairs_text(rows, total, [By::Function, By::Field], &shown, Look::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("100.0 %     60  move\n") && text.contains("100.0 %     60  total\n"),
            "{text}"
        );
    }
}
