//! `memtap diff`: two runs side by side.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use analysis::stack::{StackCount, StackTable};
use analysis::{By, ComparedRow, Comparison, Session, Tally, compared, compared_stacks, has_stacks};
use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use report::export::Selection;
use report::tables::compared::{compared_json, compared_text};

use crate::inputs;
use crate::output::{Out, note_problems};
use crate::progress::Reading;

/// A limit that was asked for is passed.
const PASSED: u8 = 3;

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparedBy {
    /// A static variable, or all blocks of the calls in one function
    Variable,
    /// A function that makes accesses
    Function,
    /// A variable's field, or an array's elements
    Field,
    /// A type, of heap blocks and static variables
    Type,
    /// A stack of functions
    Stack,
}

impl ComparedBy {
    fn head(self) -> &'static str {
        match self {
            Self::Variable => "variable or block",
            Self::Function => "function",
            Self::Field => "field",
            Self::Type => "type",
            Self::Stack => "stack",
        }
    }
}

/// Compare two runs: what is accessed more or less, what is new, what is gone
///
/// Rows are matched by name, so the runs may be of different builds. All blocks allocated in one function are one row.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace of the first run
    before: PathBuf,
    /// The trace of the second run
    after: PathBuf,
    /// What the rows are
    #[arg(long, value_enum, value_name = "KIND", default_value = "variable")]
    by: ComparedBy,
    /// Show so many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print a JSON array of everything that differs (docs/json.md)
    #[arg(long)]
    json: bool,
    /// Exit with status 3 if a figure grew by more than a limit: accesses, loads, stores, modifies or bytes, then > and a number or a
    /// percentage, for the total or for one row, as in accesses>5% and table.stores>1000 (may be given several times)
    #[arg(long, value_name = "EXPR")]
    fail_if: Vec<GrowthLimit>,
    /// Wider than the terminal
    #[arg(long)]
    wide: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let sessions =
        [inputs::program_session(&args.before, "diff")?, inputs::program_session(&args.after, "diff")?];
    let comparison = match args.by {
        ComparedBy::Variable => by(&sessions, By::Variable)?,
        ComparedBy::Function => by(&sessions, By::Function)?,
        ComparedBy::Field => by(&sessions, By::Field)?,
        ComparedBy::Type => by(&sessions, By::Type)?,
        ComparedBy::Stack => {
            let [before, after] = [(&args.before, &sessions[0]), (&args.after, &sessions[1])];
            compared_stacks(&stacks(before.0, before.1)?, &stacks(after.0, after.1)?)
        }
    };
    let mut out = Out::stdout();
    if args.json {
        compared_json(&comparison.rows, &mut out)?;
    } else {
        let look = out.look(args.wide);
        compared_text(&comparison, args.by.head(), args.top, look, &mut out)?;
    }
    out.finish()?;
    sessions.iter().for_each(note_problems);
    let mut code = ExitCode::SUCCESS;
    for limit in &args.fail_if {
        let Some(row) = limit.row(&comparison) else { continue };
        if let Some(words) = limit.passed_by(row) {
            say!("memtap: {words}, which {limit} forbids");
            code = ExitCode::from(PASSED);
        }
    }
    Ok(code)
}

fn by(sessions: &[Session; 2], by: By) -> Result<Comparison> {
    let table = |session: &Session| {
        let _reading = Reading::of(session);
        let mut tally = Tally::new(session, &[by])?;
        let resolvers = tally.replay(session, &Selection::default().part())?;
        Ok::<_, anyhow::Error>(tally.table(by, session, &resolvers))
    };
    Ok(compared(table(&sessions[0])?, table(&sessions[1])?))
}

fn stacks(path: &Path, session: &Session) -> Result<Vec<StackCount>> {
    if !has_stacks(session) {
        bail!(
            "{}: has no calls, so call stacks are unknown; record it with the default tracer, without --regions",
            path.display()
        );
    }
    let _reading = Reading::of(session);
    let counted = StackTable::count(session, &Selection::default().part(), 0.0)?;
    Ok(counted.all_rows().named())
}

/// How much more there may be: `accesses>5%`, `table.stores>1000`.
#[derive(Clone, Debug, PartialEq)]
struct GrowthLimit {
    /// Of this row, else of all.
    name: Option<String>,
    figure: &'static str,
    number: f64,
    is_percent: bool,
}

const FIGURES: [&str; 5] = ["accesses", "loads", "stores", "modifies", "bytes"];

impl FromStr for GrowthLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("[NAME.]FIGURE>NUMBER or >NUMBER% is wanted, with a figure of {}", FIGURES.join(", "));
        let (left, right) = text.rsplit_once('>').ok_or_else(form)?;
        let (name, figure) = match left.trim().rsplit_once('.') {
            Some((name, figure)) => (Some(name.trim().to_owned()), figure),
            None => (None, left.trim()),
        };
        let figure = FIGURES.into_iter().find(|known| *known == figure).ok_or_else(form)?;
        let right = right.trim();
        let number = right.strip_suffix('%').unwrap_or(right).trim().parse().map_err(|_| form())?;
        Ok(Self { name, figure, number, is_percent: right.ends_with('%') })
    }
}

impl fmt::Display for GrowthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_ref().map(|name| format!("{name}.")).unwrap_or_default();
        write!(f, "{name}{}>{}{}", self.figure, self.number, if self.is_percent { "%" } else { "" })
    }
}

impl GrowthLimit {
    /// What it is about; `None` where neither run has it.
    fn row<'a>(&self, Comparison { rows, total }: &'a Comparison) -> Option<&'a ComparedRow> {
        match &self.name {
            Some(name) => rows.iter().find(|row| row.name == *name),
            None => Some(total),
        }
    }

    /// What grew by how much, where that is more than it may.
    fn passed_by(&self, row: &ComparedRow) -> Option<String> {
        let of = |count: &analysis::Count| match self.figure {
            "accesses" => count.accesses(),
            "loads" => count.loads,
            "stores" => count.stores,
            "modifies" => count.modifies,
            _ => count.bytes,
        };
        let (before, after) = (of(&row.before), of(&row.after));
        let growth = after as f64 - before as f64;
        let least = if self.is_percent { before as f64 * self.number / 100.0 } else { self.number };
        let grouped = |number| report::grouped(number);
        (growth > least).then(|| {
            format!("{}: {} went from {} to {}", row.name, self.figure, grouped(before), grouped(after))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_hold() {
        let row = |before: u64, after: u64| ComparedRow {
            name: "a.b".into(),
            before: analysis::Count { stores: before, ..Default::default() },
            after: analysis::Count { stores: after, ..Default::default() },
            ..Default::default()
        };
        let check = |text: &str, before, after, expect: bool| {
            let limit: GrowthLimit = text.parse().unwrap();
            let row = row(before, after);
            assert_eq!(limit.passed_by(&row).is_some(), expect, "{text}: {before} to {after}");
            assert_eq!(limit.to_string().parse::<GrowthLimit>().unwrap(), limit);
        };
        check("stores>5%", 100, 105, false);
        check("a.b.stores > 5 %", 100, 106, true);
        check("accesses>0", 7, 8, true);
        check("accesses>0", 8, 7, false);
        check("accesses>10%", 0, 1, true);
        check("loads>0", 7, 8, false);
        for text in ["stores", "weight>3", "stores>x", "stores<5", ""] {
            assert!(text.parse::<GrowthLimit>().is_err(), "{text}");
        }
    }
}
