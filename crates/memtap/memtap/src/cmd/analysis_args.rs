//! The options that race, taint and determinism share: the trace, JSON, and `--unit`, which shows
//! what the analysis would cost on watchpoint hardware (Unlimited Watchpoints, Figures 6 to 11).

use std::path::PathBuf;

use analysis::watch_units::UnitFigure;
use anyhow::Result;
use clap::ValueEnum;
use watch_models::{CostModel, UnitKind};

use crate::output::Out;

/// A watchpoint unit, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UnitChoice {
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
enum UnitCosts {
    /// The paper's
    #[value(name = "paper-2012")]
    Paper2012,
    /// This machine's, measured now
    Measured,
}

/// Options of the analyses that run on units.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AnalysisArgs {
    /// The trace
    pub(crate) file: PathBuf,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print what the analysis would cost on this watchpoint unit, instead of its findings
    #[arg(long, value_enum)]
    unit: Option<UnitChoice>,
    /// The cost model for a unit's events
    #[arg(long, value_enum, default_value = "paper-2012")]
    costs: UnitCosts,
}

impl AnalysisArgs {
    /// The units asked for.
    pub(crate) fn units(&self) -> Option<Vec<UnitKind>> {
        Some(match self.unit? {
            UnitChoice::Vm => vec![UnitKind::VirtualMemory],
            UnitChoice::Memtracker => vec![UnitKind::MemTracker],
            UnitChoice::Mondriaan => vec![UnitKind::Mondriaan],
            UnitChoice::Range => vec![UnitKind::RangeCache],
            UnitChoice::RangeBitmap => vec![UnitKind::RangeCacheBitmap],
            UnitChoice::All => UnitKind::ALL.to_vec(),
        })
    }

    /// The costs asked for.
    pub(crate) fn model(&self) -> CostModel {
        match self.costs {
            UnitCosts::Paper2012 => CostModel::paper_2012(),
            UnitCosts::Measured => CostModel::measured(),
        }
    }

    /// Prints what the analysis would take on the units, relative to a baseline in words.
    pub(crate) fn print_units(
        &self,
        analysis: &str,
        baseline: &str,
        model: &CostModel,
        figures: &[UnitFigure],
    ) -> Result<()> {
        let mut out = Out::stdout();
        report::tables::units::write(analysis, baseline, model, figures, self.json, &mut out)?;
        out.finish()
    }
}
