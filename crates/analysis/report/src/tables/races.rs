//! Data races: both sides of each.

use std::io::{self, Write};

use analysis::race::{Race, Side};
use serde_json::{Value, json};

use super::{Finding, call_json, doubt, mark_doubt, place, times};
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
            "variable": self.variable, "len": self.len, "first": side(&self.first), "second": side(&self.second),
            "times": self.times,
        });
        mark_doubt(&mut object, self.uncertain);
        object
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (times, doubt) = (times(self.times), doubt(self.uncertain));
        writeln!(out, "race on {} ({}{times}){doubt}", self.variable, amount(self.len, "byte"))?;
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
