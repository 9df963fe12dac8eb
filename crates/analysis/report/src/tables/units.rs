//! What an analysis would cost on watchpoint hardware (Unlimited Watchpoints, Figures 6 to 11).

use std::io::{self, Write};

use analysis::watch_units::UnitFigure;
use serde_json::json;
use watch_models::CostModel;

use super::json as write_json;

/// Writes the figures of an analysis, relative to a baseline in words.
///
/// # Errors
/// Where the output can't be written.
pub fn write(
    analysis: &str,
    baseline: &str,
    model: &CostModel,
    figures: &[UnitFigure],
    as_json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if as_json {
        let object = json!({
            "analysis": analysis, "baseline": baseline, "costs": model, "units": figures,
        });
        return write_json(&object, out);
    }
    writeln!(out, "{analysis}, relative to {baseline}, costs {}", model.name)?;
    writeln!(
        out,
        "                                                                                 cycles an access for"
    )?;
    writeln!(
        out,
        "unit          granule  accesses/miss  with lookaside   faults  false faults   changes   faults  changes   misses  performance"
    )?;
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.1}"));
    for figure in figures {
        let accesses = figure.counters.accesses.max(1) as f64;
        let causes = &figure.cycles_by_cause;
        writeln!(
            out,
            "{:<13} {:>7} {:>14} {:>15} {:>8} {:>13} {:>9} {:>8.2} {:>8.2} {:>8.2} {:>12.4}",
            figure.unit,
            figure.granule,
            number(figure.accesses_per_miss),
            number(figure.accesses_per_any_miss),
            figure.counters.faults,
            figure.counters.false_faults,
            figure.counters.changes,
            causes.faults / accesses,
            causes.changes / accesses,
            causes.misses / accesses,
            figure.relative_performance
        )?;
    }
    Ok(())
}
