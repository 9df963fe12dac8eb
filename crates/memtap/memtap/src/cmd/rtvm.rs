//! `memtap rtvm`: a program's memory under real-time virtual memory
//! management and under a page table (Böhnert and Scholl, section V).

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::realtime::{MunmapCurve, run_synthetic, run_trace};
use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use report::{pages, tables};
use rtvm::replay::{Costs, ReplayOptions, Sizes, Synthetic};

use super::rtvm_options::{parse_bytes, parse_sizes};
use crate::inputs;
use crate::output::Out;

/// A set of constants of the cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CostConstants {
    /// The paper's prototype on an FPGA
    Paper,
    /// This kind of processor, everything in software
    Measured,
}

/// Replay a run with immediate, constant-time release of memory, and with a page table
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    #[arg(required_unless_present = "synthetic", conflicts_with = "synthetic")]
    file: Option<PathBuf>,
    /// Replay the paper's synthetic workload instead
    #[arg(long)]
    synthetic: bool,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    /// Write the figures (SVG), the table (JSON) and one page with all of it (HTML) into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: also measure Linux's munmap on this machine, and draw it beside the modelled releases
    #[arg(long, requires = "out")]
    munmap: bool,
    /// Synthetic: the first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Synthetic: the number of seeds, counted up from the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Synthetic: the number of actions
    #[arg(long, value_name = "N", default_value_t = Synthetic::ACTIONS)]
    actions: u64,
    /// Synthetic: block sizes, uniform:MAX or loguniform:MAX
    #[arg(long, value_name = "DISTRIBUTION", default_value = "uniform:8m", value_parser = parse_sizes)]
    sizes: Sizes,
    /// With a trace: replay only malloc's blocks, not the program's other memory (as the paper did)
    #[arg(long)]
    heap_only: bool,
    /// Page size in bytes, a power of two
    #[arg(long, value_name = "BYTES", default_value = "4k", value_parser = parse_bytes)]
    page: u64,
    /// Size of each address space in bytes [default: 16g, or 64g for a trace]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    space: Option<u64>,
    /// Physical memory in bytes [default: the size of one address space]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// The cost model for memory touches
    #[arg(long, value_enum, default_value = "paper")]
    costs: CostConstants,
}

impl Args {
    fn options(&self) -> Result<ReplayOptions> {
        if !self.page.is_power_of_two() || !(64..=2 << 20).contains(&self.page) {
            bail!("--page {}: a page size is a power of two from 64 to 2m", self.page);
        }
        let space = self.space.unwrap_or(if self.synthetic { 16 << 30 } else { 64 << 30 });
        let pages = space / self.page;
        if !(16..=1 << 27).contains(&pages) {
            bail!("--space {space}: an address space has 16 to 2^27 pages, this one has {pages}");
        }
        let frames = self.memory.unwrap_or(space) / self.page;
        if frames == 0 || frames > 1 << 27 {
            bail!("--memory: expected 1 to 2^27 frames, not {frames}");
        }
        let pages = pages as u32;
        let costs = match self.costs {
            CostConstants::Paper => Costs::PAPER,
            CostConstants::Measured => Costs::MEASURED,
        };
        // A trace has regions beside its heap.
        let heap_pages = if self.synthetic || self.heap_only { pages } else { pages / 2 };
        Ok(ReplayOptions { pages, heap_pages, page_bits: self.page.ilog2(), frames: frames as u32, costs })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let options = args.options()?;
    let mut runs = Vec::new();
    if args.synthetic {
        for seed in 0..args.seeds {
            runs.push(run_synthetic(&options, args.seed.wrapping_add(seed), args.actions, args.sizes)?);
        }
    }
    if let Some(file) = &args.file {
        runs.push(run_trace(&options, &inputs::program_session(file, "rtvm")?, args.heap_only)?);
    }
    let table = tables::realtime::to_json(&options, &runs);
    if let Some(dir) = &args.out {
        let munmap = args.munmap.then(MunmapCurve::measure);
        pages::realtime::write(dir, &runs, &table, munmap.as_ref())?;
    }
    let mut out = Out::stdout();
    if args.json {
        tables::json(&table, &mut out)?;
    } else {
        tables::realtime::text(&runs, &mut out)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
