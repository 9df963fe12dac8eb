//! Data races: both sides of each, and the number of races in code without source lines.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::race::{Race, Side};
use serde_json::{Value, json};

use super::{Finding, call_json, doubt, findings, first_place_json, mark_doubt, place, times};
use crate::number::amount;

impl Finding for Race {
    fn json(&self) -> Value {
        let side = |side: &Side| {
            json!({
                "function": side.function, "file": side.file, "line": side.line, "thread": side.thread.0,
                "kind": side.kind.name(), "locks": side.locks,
                "stack": side.stack.iter().map(call_json).collect::<Vec<_>>(),
            })
        };
        let mut object = json!({
            "variable": self.variable, "type": self.type_name, "field": self.field, "inside": self.inside,
            "len": self.len, "first": side(&self.first), "second": side(&self.second), "times": self.times,
            "first_seen": first_place_json(&self.first_seen()),
        });
        mark_doubt(&mut object, self.uncertain);
        object
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (times, doubt) = (times(self.times), doubt(self.uncertain));
        let (name, block) = match &self.field {
            Some(field) => (field, format!("{}, ", self.variable)),
            None => (&self.variable, String::new()),
        };
        writeln!(out, "race on {name} ({block}{}{times}){doubt}", amount(self.len, "byte"))?;
        for side in [&self.first, &self.second] {
            let at = place(side.file.as_deref(), side.line);
            let locks = if side.locks.is_empty() { "no lock".to_owned() } else { side.locks.join(", ") };
            writeln!(
                out,
                "  {} by thread {} in {}{at}, holding {locks}",
                side.kind, side.thread.0, side.function
            )?;
            for caller in side.stack.iter().skip(1) {
                let function = caller.function.as_deref().unwrap_or("?");
                let file = caller.file.as_deref().filter(|_| caller.line.is_some());
                writeln!(out, "    called by {function}{}", place(file, caller.line))?;
            }
        }
        Ok(())
    }
}

/// Writes races for a terminal: those in code with source lines, and of the others how many there are; all of them where that is asked.
///
/// # Errors
/// Where the output can't be written.
pub fn races_text(races: &[Race], all: bool, out: &mut dyn Write) -> io::Result<()> {
    // Those without lines are the last ones.
    let own = races.iter().position(|race| race.inside.is_some()).filter(|_| !all).unwrap_or(races.len());
    let (own, inside) = races.split_at(own);
    if !own.is_empty() || inside.is_empty() {
        findings(own, false, "no race was seen", out)?;
    } else {
        writeln!(out, "no race was seen in code with source lines")?;
    }
    let mut modules: BTreeMap<&str, usize> = BTreeMap::new();
    for module in inside.iter().filter_map(|race| race.inside.as_deref()) {
        *modules.entry(module).or_default() += 1;
    }
    for (module, count) in modules {
        let count = amount(count as u64, "possible race");
        writeln!(
            out,
            "{count} inside of {module}, which has no source lines, so its atomic variables are unknown (--all)"
        )?;
    }
    Ok(())
}
