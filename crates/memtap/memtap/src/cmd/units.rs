//! `--unit`: what an analysis would take on watchpoint hardware (Unlimited Watchpoints, Figures 6 to 11).

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;
use watch_models::{CostModel, UnitKind};

use analysis::demand::UnitFigure;

use crate::output::Out;

/// A watchpoint unit, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unit {
    /// Page protection
    Vm,
    /// A cache of packed watchpoint bits
    Memtracker,
    /// A trie with a lookaside buffer
    Mondriaan,
    /// A cache of ranges
    Range,
    /// A cache of ranges with bitmaps
    #[value(name = "range+bitmap")]
    RangeBitmap,
    /// Every one of them
    All,
}

/// Which costs are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Costs {
    /// The paper's
    #[value(name = "paper-2012")]
    Paper2012,
    /// This machine's, measured now
    Measured,
}

/// Options of the analyses that run on units.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct UnitArgs {
    /// Print what the analysis would take on this watchpoint unit, instead of what it finds
    #[arg(long, value_enum)]
    pub(crate) unit: Option<Unit>,
    /// The costs of a unit's events
    #[arg(long, value_enum, default_value = "paper-2012")]
    costs: Costs,
}

impl UnitArgs {
    /// The units asked for.
    pub(crate) fn kinds(&self) -> Option<Vec<UnitKind>> {
        Some(match self.unit? {
            Unit::Vm => vec![UnitKind::VirtualMemory],
            Unit::Memtracker => vec![UnitKind::MemTracker],
            Unit::Mondriaan => vec![UnitKind::Mondriaan],
            Unit::Range => vec![UnitKind::RangeCache],
            Unit::RangeBitmap => vec![UnitKind::RangeCacheBitmap],
            Unit::All => UnitKind::ALL.to_vec(),
        })
    }

    /// The costs asked for.
    pub(crate) fn model(&self) -> CostModel {
        match self.costs {
            Costs::Paper2012 => CostModel::paper_2012(),
            Costs::Measured => CostModel::measured(),
        }
    }
}

/// Prints figures.
pub(crate) fn print(
    analysis: &str,
    baseline: &str,
    model: &CostModel,
    figures: &[UnitFigure],
    as_json: bool,
) -> Result<()> {
    let mut out = Out::stdout();
    if as_json {
        let object = json!({
            "analysis": analysis, "baseline": baseline, "costs": model, "units": figures,
        });
        out.line(&serde_json::to_string_pretty(&object)?)?;
    } else {
        out.line(&format!("{analysis}, relative to {baseline}, costs {}", model.name))?;
        out.line("unit          granule  accesses/miss  with lookaside   faults  false faults   changes  performance")?;
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.1}"));
        for figure in figures {
            out.line(&format!(
                "{:<13} {:>7} {:>14} {:>15} {:>8} {:>13} {:>9} {:>12.4}",
                figure.unit,
                figure.granule,
                number(figure.accesses_per_miss),
                number(figure.accesses_per_any_miss),
                figure.counters.faults,
                figure.counters.false_faults,
                figure.counters.changes,
                figure.relative_performance
            ))?;
        }
    }
    out.finish()
}
