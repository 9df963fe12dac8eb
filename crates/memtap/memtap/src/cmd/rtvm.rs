//! `memtap rtvm`: a program's memory under real-time virtual memory management and under a page table (Böhnert and Scholl,
//! section V).

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::realtime::{Run, run_synthetic, run_trace, spreads};
use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use rtvm::replay::{Costs, Options, Sizes, Synthetic};
use serde_json::{Value, json};

use super::rtvm_options::{parse_bytes, parse_sizes};
use crate::output::{Out, grouped};

/// A set of constants of the cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Constants {
    /// The paper's prototype on an FPGA
    Paper,
    /// This kind of processor, all in software
    Measured,
}

/// Replay allocations and accesses with immediate release in constant time, and with a page table
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
    /// Synthetic: the first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Synthetic: how many seeds, counted up from the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Synthetic: how many actions
    #[arg(long, value_name = "N", default_value_t = Synthetic::ACTIONS)]
    actions: u64,
    /// Synthetic: sizes of blocks, uniform:MAX or loguniform:MAX
    #[arg(long, value_name = "DISTRIBUTION", default_value = "uniform:8m", value_parser = parse_sizes)]
    sizes: Sizes,
    /// A trace: replay malloc's blocks alone, not what else the program has (as the paper did)
    #[arg(long)]
    heap_only: bool,
    /// Bytes of a page, a power of two
    #[arg(long, value_name = "BYTES", default_value = "4k", value_parser = parse_bytes)]
    page: u64,
    /// Bytes of each address space; 16g, or 64g for a trace, where nothing is given
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    space: Option<u64>,
    /// Bytes of physical memory; as much as one address space where nothing is given
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// What touches cost
    #[arg(long, value_enum, default_value = "paper")]
    costs: Constants,
}

impl Args {
    fn options(&self) -> Result<Options> {
        if !self.page.is_power_of_two() || !(64..=2 << 20).contains(&self.page) {
            bail!("--page {}: a page has a power of two of bytes, 64 to 2m", self.page);
        }
        let space = self.space.unwrap_or(if self.synthetic { 16 << 30 } else { 64 << 30 });
        let pages = space / self.page;
        if !(16..=1 << 27).contains(&pages) {
            bail!("--space {space}: an address space has 16 to 2^27 pages, this one has {pages}");
        }
        let frames = self.memory.unwrap_or(space) / self.page;
        if frames == 0 || frames > 1 << 27 {
            bail!("--memory: there are 1 to 2^27 frames, not {frames}");
        }
        let pages = pages as u32;
        let costs = match self.costs {
            Constants::Paper => Costs::PAPER,
            Constants::Measured => Costs::MEASURED,
        };
        // A trace has regions beside its heap.
        let heap_pages = if self.synthetic || self.heap_only { pages } else { pages / 2 };
        Ok(Options { pages, heap_pages, page_bits: self.page.ilog2(), frames: frames as u32, costs })
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
        runs.push(run_trace(&options, file, args.heap_only)?);
    }
    let table = to_json(&options, &runs);
    if let Some(dir) = &args.out {
        report::pages::realtime::write(dir, &runs, &table)?;
    }
    let mut out = Out::stdout();
    if args.json {
        out.line(&serde_json::to_string_pretty(&table)?)?;
    } else {
        print(&mut out, &runs)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn to_json(options: &Options, runs: &[Run]) -> Value {
    let rows: Vec<Value> = runs.iter().flat_map(Run::rows).collect();
    let ratios: serde_json::Map<String, Value> = spreads(runs)
        .into_iter()
        .map(|(name, s)| (name.to_owned(), json!({"min": s.min, "median": s.median, "max": s.max})))
        .collect();
    let findings: Vec<Value> = runs
        .iter()
        .map(|run| run.findings.named().into_iter().map(|(name, n)| (name.to_owned(), json!(n))).collect())
        .map(Value::Object)
        .collect();
    json!({
        "rows": rows,
        "conventional_over_rtmmu": ratios,
        "findings": findings,
        "failures": runs.iter().map(Run::failures).collect::<Vec<_>>(),
        "points_above_conventional": runs.iter().map(|run| run.points_above).sum::<u64>(),
        "page_bytes": 1_u64 << options.page_bits,
        "space_pages": options.pages,
        "memory_pages": options.frames,
        "costs": options.costs.name,
    })
}

fn print(out: &mut Out, runs: &[Run]) -> Result<()> {
    out.line(&format!(
        "{:<16} {:>6}  {:<12} {:>12} {:>12} {:>14} {:>14} {:>12} {:>12}",
        "workload",
        "seed",
        "system",
        "alloc touch",
        "free touch",
        "alloc us",
        "free us",
        "peak pages",
        "unmapped"
    ))?;
    for run in runs {
        for (system, outcome) in run.systems() {
            let seed = run.seed.map_or_else(|| "-".to_owned(), |seed| seed.to_string());
            out.line(&format!(
                "{:<16} {seed:>6}  {:<12} {:>12} {:>12} {:>14.3} {:>14.3} {:>12} {:>12}",
                run.workload,
                system.name(),
                grouped(outcome.max_alloc_touches),
                grouped(outcome.max_free_touches),
                outcome.max_alloc_ns / 1000.0,
                outcome.max_free_ns / 1000.0,
                grouped(u64::from(outcome.peak_pages)),
                grouped(u64::from(outcome.max_pages_unmapped_by_one_free)),
            ))?;
        }
    }
    out.line("\nconventional / rtmmu (smallest, middle, largest of the runs)")?;
    for (name, s) in spreads(runs) {
        out.line(&format!("  {name:<18} {:>10.2} {:>10.2} {:>10.2}", s.min, s.median, s.max))?;
    }
    for run in runs {
        for (name, count) in run.findings.named() {
            if count > 0 {
                out.line(&format!("{}: {} {}", run.workload, grouped(count), name.replace('_', " ")))?;
            }
        }
        for (system, outcome) in run.systems() {
            let f = outcome.failures;
            for (name, count) in [
                ("calls or accesses that found no free frame", f.out_of_frames),
                ("calls that found no free part of the address space", f.out_of_address_space),
                ("actions on blocks that could not be made", f.on_missing_blocks),
                ("other failures", f.other),
            ] {
                if count > 0 {
                    out.line(&format!("{} ({}): {} {name}", run.workload, system.name(), grouped(count)))?;
                }
            }
        }
    }
    Ok(())
}
