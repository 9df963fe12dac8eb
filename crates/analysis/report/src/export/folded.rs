//! Folded stacks, as tools that draw flame graphs read them: one line per stack, `outer;inner figure`.

use std::io::{self, Write};

use crate::flame::FlameGraph;

/// Writes a line for each stack in which something happened.
///
/// # Errors
/// Where the output can't be written.
pub fn folded(graph: &FlameGraph, out: &mut dyn Write) -> io::Result<()> {
    for (stack, figure) in graph.stacks() {
        // A semicolon would be another function.
        let names: Vec<String> = stack.iter().map(|name| name.replace(';', ":").replace('\n', " ")).collect();
        writeln!(out, "{} {figure}", names.join(";"))?;
    }
    Ok(())
}
