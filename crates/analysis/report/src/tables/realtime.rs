//! A workload under real-time virtual memory and under a page table: Table I of the paper.

use std::io::{self, Write};

use analysis::realtime::{ComparedRun, spreads};
use rtvm::replay::{ReplayOptions, ReplayOutcome};
use serde_json::{Value, json};

use crate::number::grouped;

/// The table of the runs as JSON.
pub fn to_json(options: &ReplayOptions, runs: &[ComparedRun]) -> Value {
    let rows: Vec<Value> = runs.iter().flat_map(rows).collect();
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
        "failures": runs.iter().map(failures).collect::<Vec<_>>(),
        "points_above_conventional": runs.iter().map(|run| run.points_above).sum::<u64>(),
        "page_bytes": 1_u64 << options.page_bits,
        "space_pages": options.pages,
        "memory_pages": options.frames,
        "costs": options.costs.name,
    })
}

/// The table of the runs as lines.
///
/// # Errors
/// Where the output can't be written.
pub fn text(runs: &[ComparedRun], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<16} {:>6}  {:<12} {:>12} {:>12} {:>14} {:>14} {:>12} {:>12} {:>12}",
        "workload",
        "seed",
        "system",
        "alloc touch",
        "free touch",
        "alloc us",
        "free us",
        "peak pages",
        "mean pages",
        "unmapped"
    )?;
    for run in runs {
        for (system, outcome) in run.systems() {
            let seed = run.seed.map_or_else(|| "-".to_owned(), |seed| seed.to_string());
            writeln!(
                out,
                "{:<16} {seed:>6}  {:<12} {:>12} {:>12} {:>14.3} {:>14.3} {:>12} {:>12} {:>12}",
                run.workload,
                system.name(),
                grouped(outcome.max_alloc_touches),
                grouped(outcome.max_free_touches),
                outcome.max_alloc_ns / 1000.0,
                outcome.max_free_ns / 1000.0,
                grouped(u64::from(outcome.peak_pages)),
                grouped(outcome.mean_pages().round() as u64),
                grouped(u64::from(outcome.max_pages_unmapped_by_one_free)),
            )?;
        }
    }
    writeln!(out, "\nconventional / rtmmu (smallest, middle, largest of the runs)")?;
    for (name, s) in spreads(runs) {
        writeln!(out, "  {name:<18} {:>10.2} {:>10.2} {:>10.2}", s.min, s.median, s.max)?;
    }
    for run in runs {
        for (name, count) in run.findings.named() {
            if count > 0 {
                let note = match name {
                    "accesses_after_free" => {
                        ", which vector reads and the allocator make too: `memtap errors` finds those of the program"
                    }
                    _ => "",
                };
                writeln!(out, "{}: {} {}{note}", run.workload, grouped(count), name.replace('_', " "))?;
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
                    writeln!(out, "{} ({}): {} {name}", run.workload, system.name(), grouped(count))?;
                }
            }
        }
    }
    Ok(())
}

/// The rows of Table I.
fn rows(run: &ComparedRun) -> [Value; 2] {
    run.systems().map(|(system, outcome)| {
        json!({
            "workload": run.workload,
            "seed": run.seed,
            "system": system.name(),
            "allocations": outcome.allocations,
            "frees": outcome.frees,
            "accesses": outcome.accesses,
            "max_alloc_touches": outcome.max_alloc_touches,
            "max_free_touches": outcome.max_free_touches,
            "max_alloc_ns": outcome.max_alloc_ns,
            "max_free_ns": outcome.max_free_ns,
            "peak_pages": outcome.peak_pages,
            "mean_pages": outcome.mean_pages(),
            "max_pages_unmapped_by_one_free": outcome.max_pages_unmapped_by_one_free,
        })
    })
}

/// What the systems could not do, by system.
fn failures(run: &ComparedRun) -> Value {
    let of = |outcome: &ReplayOutcome| {
        let f = outcome.failures;
        json!({
            "out_of_frames": f.out_of_frames,
            "out_of_address_space": f.out_of_address_space,
            "other": f.other,
            "on_missing_blocks": f.on_missing_blocks,
        })
    };
    json!({"rtmmu": of(&run.rtmmu), "conventional": of(&run.conventional)})
}
