//! What input reaches, with its path.

use std::io::{self, Write};

use analysis::taint::{self, Spot};
use serde_json::{Value, json};

use super::{Finding, doubt, mark_doubt, place, times};

fn spot_json(spot: &Spot) -> Value {
    json!({"function": spot.function, "file": spot.file, "line": spot.line})
}

fn shown(spot: &Spot) -> String {
    format!("{}{}", spot.function, place(spot.file.as_deref(), spot.line))
}

impl Finding for taint::Finding {
    fn json(&self) -> Value {
        let source = json!({
            "kind": self.source.kind, "name": self.source.name, "offset": self.offset,
            "at": self.source.spot.as_ref().map(spot_json),
        });
        let mut object = json!({
            "sink": self.sink.name(), "detail": self.detail(), "function": self.at.function, "file": self.at.file,
            "line": self.at.line, "thread": self.thread.0, "source": source,
            "path": self.path.iter().map(spot_json).collect::<Vec<_>>(), "times": self.times,
        });
        mark_doubt(&mut object, self.uncertain);
        object
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (times, doubt) = (times(self.times), doubt(self.uncertain));
        writeln!(out, "input decides: {}{times}{doubt}", self.words())?;
        writeln!(out, "  at {} by thread {}", shown(&self.at), self.thread.0)?;
        let from = match (&self.source.spot, &self.source.name) {
            (Some(spot), _) => format!(" by {}", shown(spot)),
            (None, Some(name)) => format!(" of {name}"),
            _ => String::new(),
        };
        writeln!(out, "  from byte {} of {}{from}", self.offset, self.source.kind)?;
        self.path.iter().try_for_each(|spot| writeln!(out, "    {}", shown(spot)))
    }
}
