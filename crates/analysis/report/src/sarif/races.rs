//! Data races as SARIF: one result per race, located at its second access.

use std::io::{self, Write};
use std::path::Path;

use analysis::race::{Race, Side};

use super::{SarifFinding, SarifFrame, SarifPlace, SarifRule, write};
use crate::number::amount;

const RULES: [SarifRule; 1] = [SarifRule {
    id: "race",
    text: "Two threads access the same bytes, one of them writes, and nothing orders them",
    level: "error",
}];

/// Writes races; names of files below `root` are relative to it.
///
/// # Errors
/// Where the output can't be written.
pub fn races(races: &[Race], root: &Path, out: &mut dyn Write) -> io::Result<()> {
    let found: Vec<SarifFinding> = races.iter().map(finding).collect();
    write(&RULES, &found, root, out)
}

fn finding(race: &Race) -> SarifFinding {
    let (first, second) = (&race.first, &race.second);
    // Which of the two comes first differs from run to run.
    let mut functions = [&first.function[..], &second.function[..]];
    functions.sort_unstable();
    SarifFinding {
        rule: 0,
        message: format!(
            "Race on {} ({}): {} and {}; nothing orders them",
            race.variable,
            amount(race.len, "byte"),
            words(second),
            words(first)
        ),
        fingerprint: format!("{}|{}", race.variable, functions.join("|")),
        places: [second, first].map(place).into(),
        times: race.times,
        uncertain: race.uncertain,
    }
}

fn words(side: &Side) -> String {
    let locks = if side.locks.is_empty() { "no lock".to_owned() } else { side.locks.join(", ") };
    format!("{} by thread {} in {}, holding {locks}", side.kind, side.thread.0, side.function)
}

fn place(side: &Side) -> SarifPlace {
    let innermost = SarifFrame { function: side.function.clone(), file: side.file.clone(), line: side.line };
    let callers = side.stack.iter().skip(1).map(|call| SarifFrame {
        function: call.function.as_deref().unwrap_or("?").to_owned(),
        file: call.file.as_deref().map(str::to_owned),
        line: call.line,
    });
    SarifPlace { words: words(side), stack: [innermost].into_iter().chain(callers).collect() }
}
