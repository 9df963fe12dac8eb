//! Columns of figures and a name, fitted into a width. If the width is too small, figures are
//! shortened first, then the least important columns are dropped, and the name loses its middle.

use std::io::{self, Write};

use super::appearance::{Look, Tone, Toned};
use super::shorten::shorten;
use crate::number::{grouped, short};

/// A name keeps so many characters before columns are given up for it.
const NAME_COLUMNS: usize = 36;
const LEAST_NAME_COLUMNS: usize = 12;
/// A note that is cut to less says nothing.
const LEAST_NOTE_COLUMNS: usize = 20;
/// Where figures are whole, a note has so many.
const EXACT_NOTE_COLUMNS: usize = 48;
const GAP: &str = "  ";

/// A cell of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Figure {
    Empty,
    Number(u64),
    /// A part of all.
    Share(u64, u64),
    Text(String),
}

impl Figure {
    fn text(&self, is_short: bool) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Number(number) if is_short => short(*number),
            Self::Number(number) => grouped(*number),
            Self::Share(part, all) => share(*part, *all),
            Self::Text(text) => text.clone(),
        }
    }
}

/// A part of all in per cent.
pub(super) fn share(part: u64, all: u64) -> String {
    match part as f64 * 100.0 / all.max(1) as f64 {
        _ if part == 0 => "0 %".to_owned(),
        percent if percent < 0.05 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// A column of figures.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Columns with lower numbers are given up first; [`ALWAYS`] never.
    pub(super) worth: u8,
    /// To the left, as words are.
    pub(super) left: bool,
}

/// The worth of a column that stays.
pub(super) const ALWAYS: u8 = u8::MAX;

/// A line.
#[derive(Clone, Debug, Default)]
pub(super) struct GridRow {
    /// One for each column.
    pub(super) figures: Vec<Figure>,
    pub(super) name: String,
    /// How far the name is moved in.
    pub(super) indent: usize,
    /// What is said after the name, as far as there is room.
    pub(super) note: String,
    pub(super) tone: Tone,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) columns: Vec<Column>,
    pub(super) name: &'static str,
    pub(super) rows: Vec<GridRow>,
}

impl Grid {
    pub(super) fn write(mut self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        self.drop_empty();
        let is_short = self.fit(look);
        let widths = self.widths(is_short);
        let left: usize = widths.iter().map(|width| width + GAP.len()).sum();
        let heads = self.columns.iter().zip(&widths);
        let mut line = String::new();
        for (column, width) in heads {
            line.push_str(&aligned(column.head, *width, column.left));
            line.push_str(GAP);
        }
        line.push_str(self.name);
        writeln!(out, "{}", Toned(look, Tone::Strong, &line))?;
        for row in &self.rows {
            let mut line = String::new();
            for ((column, figure), width) in self.columns.iter().zip(&row.figures).zip(&widths) {
                line.push_str(&aligned(&figure.text(is_short), *width, column.left));
                line.push_str(GAP);
            }
            let least = if look.exact { NAME_COLUMNS } else { LEAST_NAME_COLUMNS };
            let room = look
                .columns
                .map_or(usize::MAX, |columns| columns.saturating_sub(left + row.indent).max(least));
            let name = shorten(&row.name, room);
            let room = room.saturating_sub(name.chars().count() + GAP.len());
            let room = if look.exact { room.max(EXACT_NOTE_COLUMNS) } else { room };
            line.push_str(&" ".repeat(row.indent));
            line.push_str(&name);
            let line = if row.note.is_empty() { line.trim_end().to_owned() } else { line };
            write!(out, "{}", Toned(look, row.tone, &line))?;
            if !row.note.is_empty() && room >= row.note.chars().count().min(LEAST_NOTE_COLUMNS) {
                write!(out, "{GAP}{}", Toned(look, Tone::Faint, &shorten_note(&row.note, room)))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn widths(&self, is_short: bool) -> Vec<usize> {
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(index, column)| {
                let cells = self.rows.iter().filter_map(|row| row.figures.get(index));
                let widest = cells.map(|figure| figure.text(is_short).chars().count()).max().unwrap_or(0);
                widest.max(column.head.chars().count())
            })
            .collect()
    }

    fn remove(&mut self, index: usize) {
        self.columns.remove(index);
        for row in &mut self.rows {
            row.figures.remove(index);
        }
    }

    /// A column without a figure in any line says nothing.
    fn drop_empty(&mut self) {
        for index in (0..self.columns.len()).rev() {
            let is_empty = |figure: &Figure| match figure {
                Figure::Empty | Figure::Number(0) => true,
                Figure::Text(text) => text.is_empty(),
                _ => false,
            };
            if self.columns[index].worth != ALWAYS
                && self.rows.iter().all(|row| row.figures.get(index).is_none_or(is_empty))
            {
                self.remove(index);
            }
        }
    }

    /// Makes it fit, and says whether its figures are short for that.
    fn fit(&mut self, look: Look) -> bool {
        let Some(columns) = look.columns.filter(|_| !look.exact) else { return false };
        let longest = self.rows.iter().map(|row| row.indent + row.name.chars().count()).max().unwrap_or(0);
        let needed = longest.min(NAME_COLUMNS);
        let fits = |grid: &Self, is_short| {
            let left: usize = grid.widths(is_short).iter().map(|width| width + GAP.len()).sum();
            left + needed <= columns
        };
        if fits(self, false) {
            return false;
        }
        while !fits(self, true) {
            let worths = self.columns.iter().enumerate().map(|(index, column)| (column.worth, index));
            match worths.filter(|(worth, _)| *worth != ALWAYS).min() {
                Some((_, index)) => self.remove(index),
                None => break,
            }
        }
        true
    }
}

/// What stands in brackets keeps them, and its end.
fn shorten_note(note: &str, columns: usize) -> String {
    match note.strip_prefix('(').and_then(|inside| inside.strip_suffix(')')) {
        Some(inside) => format!("({})", shorten(inside, columns.saturating_sub(2))),
        None => shorten(note, columns),
    }
}

fn aligned(text: &str, width: usize, left: bool) -> String {
    if left { format!("{text:<width$}") } else { format!("{text:>width$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let column = |head, worth| Column { head, worth, left: false };
        let row = |name: &str, loads| GridRow {
            figures: vec![Figure::Share(loads, 2_000_000), Figure::Number(loads), Figure::Number(12_345)],
            name: name.to_owned(),
            note: "(table.c:3)".to_owned(),
            ..GridRow::default()
        };
        Grid {
            columns: vec![column("share", ALWAYS), column("loads", 2), column("bytes", 1)],
            name: "name",
            rows: vec![row("a_name_of_forty_characters_in_all_of_them", 1_234_567), row("b", 100)],
        }
    }

    fn check(columns: Option<usize>, expect: &str) {
        let mut out = Vec::new();
        grid().write(Look { columns, ..Look::default() }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, expect);
        if let Some(columns) = columns {
            assert!(text.lines().all(|line| line.chars().count() <= columns));
        }
    }

    #[test]
    fn a_table_fits_its_width() {
        check(
            None,
            " share      loads   bytes  name
61.7 %  1 234 567  12 345  a_name_of_forty_characters_in_all_of_them  (table.c:3)
<0.1 %        100  12 345  b  (table.c:3)
",
        );
        check(
            Some(60),
            " share   loads   bytes  name
61.7 %  1.23 M  12.3 k  a_name_of_forty_ch…rs_in_all_of_them
<0.1 %     100  12.3 k  b  (table.c:3)
",
        );
        check(
            Some(44),
            " share  name
61.7 %  a_name_of_forty_ch…rs_in_all_of_them
<0.1 %  b  (table.c:3)
",
        );
    }

    #[test]
    fn colours_are_there_where_they_are_asked_for() {
        let mut out = Vec::new();
        grid().write(Look { colour: true, ..Look::default() }, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().starts_with("\x1b[1m"));
    }
}
