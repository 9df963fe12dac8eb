//! The totals of a trace (MadT, Table III), and its streams.

use std::io::{self, Write};

use analysis::{Death, Session, Summary};
use memref::{AllocationKind, RegionChange};
use serde_json::{Value, json};
use trace_format::{
    COUNTER_GAP_CAUSE, COUNTER_SLOW_PATH, COUNTER_UNTRACED_PROGRAM, COUNTER_WORK, StreamKind, Trace,
};

use crate::Error;
use crate::number::{amount, grouped};
use crate::tables::deaths::{self, NamedDeath};

/// Writes the streams of a file: bytes, frames, entries, bytes an entry, thread, name.
///
/// # Errors
/// Where the output can't be written.
pub fn streams(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    for stream in trace.streams() {
        let thread = stream.description.thread.map_or_else(|| "-".to_owned(), |thread| thread.0.to_string());
        writeln!(
            out,
            "{:>14} {:>7} {:>14} {:>9.3} {thread:>5} {}",
            stream.stored_bytes,
            stream.frames,
            stream.entries,
            stream.stored_bytes as f64 / stream.entries.max(1) as f64,
            stream.description.name
        )?;
    }
    Ok(())
}

/// Everything that both outputs show.
#[derive(Debug)]
pub struct Totals {
    program: String,
    tracer: String,
    /// The process that ran already when its recording began.
    attached: Option<u32>,
    summary: Summary,
    threads: usize,
    processes: usize,
    regions: usize,
    file_bytes: u64,
    wall_seconds: Option<f64>,
    /// Processor time of the program, and of the recorder.
    cpu_seconds: [Option<f64>; 2],
    instructions: Option<u64>,
    /// Where control flow was recorded.
    blocks_entered: Option<u64>,
    verified: Option<Comparison>,
    slow: Vec<SlowInstruction>,
    untraced: Vec<String>,
    /// Why events are missing, as far as that is known.
    causes: Vec<GapCause>,
    deaths: Vec<NamedDeath>,
    /// What the tracer itself did, of all processes, in its own order.
    work: Vec<WorkCount>,
    /// What could not be read of the trace, a line each.
    damaged: Vec<String>,
}

/// What was compared with stepping.
#[derive(Debug)]
struct Comparison {
    windows: u64,
    instructions: u64,
    accesses: u64,
    /// Accesses whose bytes were compared, too, where bytes are recorded.
    with_bytes: Option<u64>,
    mismatches: u64,
    /// The first of them, in words.
    first_mismatches: Vec<String>,
}

/// An instruction that the tracer executes on its slow path.
#[derive(Debug)]
struct SlowInstruction {
    instruction: String,
    function: String,
    times: u64,
}

/// Why events are missing.
#[derive(Debug)]
struct GapCause {
    reason: String,
    cause: String,
    count: u64,
}

/// Something that the tracer did, and how often.
#[derive(Debug)]
struct WorkCount {
    name: String,
    times: u64,
}

impl Totals {
    /// Counts a trace.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn of(session: &Session) -> Result<Self, Error> {
        let trace = session.trace();
        let property = |key: &str| trace.properties().get(key).cloned().unwrap_or_default();
        let mut slow: Vec<SlowInstruction> = Vec::new();
        let mut untraced = Vec::new();
        let mut work: Vec<WorkCount> = Vec::new();
        let mut causes: Vec<GapCause> = Vec::new();
        let counters = trace.counters()?;
        let deaths: Vec<Death> = counters.iter().filter_map(Death::of).collect();
        let named = counters.iter().any(|counter| counter.code == COUNTER_SLOW_PATH);
        let resolvers = if named { session.regions_at_end()? } else { Vec::new() };
        for counter in counters {
            match counter.code {
                COUNTER_SLOW_PATH => {
                    let resolver = resolvers.iter().find(|resolver| resolver.process() == counter.process);
                    let code = resolver.cloned().and_then(|mut resolver| resolver.code_name(counter.ip));
                    let function = code.map_or_else(|| counter.ip.to_string(), |code| code.to_string());
                    match slow
                        .iter_mut()
                        .find(|row| row.instruction == counter.name && row.function == function)
                    {
                        Some(row) => row.times += counter.count,
                        None => slow.push(SlowInstruction {
                            instruction: counter.name,
                            function,
                            times: counter.count,
                        }),
                    }
                }
                COUNTER_UNTRACED_PROGRAM => untraced.push(counter.name),
                COUNTER_WORK => match work.iter_mut().find(|row| row.name == counter.name) {
                    Some(row) => row.times += counter.count,
                    None => work.push(WorkCount { name: counter.name, times: counter.count }),
                },
                COUNTER_GAP_CAUSE => {
                    let (reason, cause) = counter.name.split_once(": ").unwrap_or(("", &counter.name));
                    match causes.iter_mut().find(|row| row.reason == reason && row.cause == cause) {
                        Some(row) => row.count += counter.count,
                        None => causes.push(GapCause {
                            reason: reason.to_owned(),
                            cause: cause.to_owned(),
                            count: counter.count,
                        }),
                    }
                }
                _ => {}
            }
        }
        let count = |what: &str| property(&format!("verified_{what}")).parse::<u64>().ok();
        let verified = count("windows").map(|windows| Comparison {
            windows,
            instructions: count("instructions").unwrap_or(0),
            accesses: count("accesses").unwrap_or(0),
            with_bytes: count("with_bytes"),
            mismatches: count("mismatches").unwrap_or(0),
            first_mismatches: property("verified_first_mismatches").lines().map(str::to_owned).collect(),
        });
        let is_flow = |stream: &trace_format::StreamInfo| {
            StreamKind::of(&stream.description.entry_type) == Some(StreamKind::Flow)
        };
        let flow = trace.streams().filter(is_flow);
        let entered: u64 = flow.map(|stream| stream.entries).sum();
        slow.sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.function.cmp(&b.function)));
        let summary = Summary::of(session)?;
        let regions = trace.regions()?.iter().filter(|event| event.change == RegionChange::Map).count();
        Ok(Self {
            program: property("program"),
            tracer: property("tracer"),
            attached: property("attached").parse().ok(),
            summary,
            threads: trace.threads().len(),
            processes: trace.processes().len(),
            regions,
            file_bytes: trace.file_bytes(),
            wall_seconds: property("wall_seconds").parse().ok(),
            cpu_seconds: [property("program_cpu_seconds"), property("recorder_cpu_seconds")]
                .map(|seconds| seconds.parse().ok()),
            instructions: property("instructions").parse().ok(),
            blocks_entered: (entered > 0).then_some(entered),
            verified,
            slow,
            untraced,
            causes,
            deaths: deaths::named(session, deaths)?,
            work,
            damaged: trace.damage_met().iter().map(ToString::to_string).collect(),
        })
    }
}

impl Totals {
    fn bytes_per_access(&self) -> Option<f64> {
        let accesses = self.summary.count.accesses();
        (accesses > 0).then(|| self.file_bytes as f64 / accesses as f64)
    }

    /// As a JSON object.
    pub fn to_json(&self) -> Value {
        let summary = &self.summary;
        let slow: Vec<Value> = self
            .slow
            .iter()
            .map(|row| json!({"instruction": row.instruction, "function": row.function, "count": row.times}))
            .collect();
        json!({
            "program": self.program,
            "tracer": self.tracer,
            "attached": self.attached,
            "loads": summary.count.loads,
            "stores": summary.count.stores,
            "modifies": summary.count.modifies,
            "accesses": summary.count.accesses(),
            "prefetches": summary.prefetches,
            "block_copies": summary.copies.operations,
            "block_fills": summary.fills.operations,
            "block_fetches": summary.fetches.operations,
            "block_bytes": summary.copies.bytes + summary.fills.bytes + summary.fetches.bytes,
            "allocations": {
                "malloc": summary.allocations_of(AllocationKind::Malloc),
                "calloc": summary.allocations_of(AllocationKind::Calloc),
                "realloc": summary.allocations_of(AllocationKind::Realloc),
                "mmap": summary.allocations_of(AllocationKind::Mmap),
                "mremap": summary.allocations_of(AllocationKind::Mremap),
            },
            "frees": summary.allocations_of(AllocationKind::Free),
            "unmaps": summary.allocations_of(AllocationKind::Munmap),
            "markers": summary.markers,
            "syncs": summary.syncs,
            "threads": self.threads,
            "processes": self.processes,
            "regions": self.regions,
            "gaps": summary.missing(),
            "gaps_by_reason": summary.gaps,
            "gap_causes": self.causes.iter()
                .map(|row| json!({"reason": row.reason, "cause": row.cause, "count": row.count}))
                .collect::<Vec<_>>(),
            "untraced_programs": self.untraced,
            "deaths": self.deaths.iter().map(NamedDeath::to_json).collect::<Vec<_>>(),
            "slow_path": slow,
            "tracer_work": self.work.iter().map(|row| (row.name.clone(), json!(row.times))).collect::<serde_json::Map<_, _>>(),
            "instructions": self.instructions,
            "blocks_entered": self.blocks_entered,
            "verified": self.verified.as_ref().map(|verified| json!({
                "windows": verified.windows,
                "instructions": verified.instructions,
                "accesses": verified.accesses,
                "with_bytes": verified.with_bytes,
                "mismatches": verified.mismatches,
                "first_mismatches": verified.first_mismatches,
            })),
            "file_bytes": self.file_bytes,
            "bytes_per_access": self.bytes_per_access(),
            "wall_seconds": self.wall_seconds,
            "program_cpu_seconds": self.cpu_seconds[0],
            "recorder_cpu_seconds": self.cpu_seconds[1],
            "damaged": self.damaged,
        })
    }

    /// As lines.
    ///
    /// # Errors
    /// Where the output can't be written.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let summary = &self.summary;
        let attached = self.attached.map_or_else(String::new, |pid| format!(", attached to process {pid}"));
        writeln!(out, "{} (tracer: {}{attached})", self.program, self.tracer)?;
        for (name, number) in [
            ("loads", summary.count.loads),
            ("stores", summary.count.stores),
            ("modifies", summary.count.modifies),
            ("accesses", summary.count.accesses()),
            ("block copies", summary.copies.operations),
            ("block fills", summary.fills.operations),
            ("block fetches", summary.fetches.operations),
            ("malloc", summary.allocations_of(AllocationKind::Malloc)),
            ("calloc", summary.allocations_of(AllocationKind::Calloc)),
            ("realloc", summary.allocations_of(AllocationKind::Realloc)),
            ("mmap", summary.allocations_of(AllocationKind::Mmap)),
            ("mremap", summary.allocations_of(AllocationKind::Mremap)),
            ("free", summary.allocations_of(AllocationKind::Free)),
            ("munmap", summary.allocations_of(AllocationKind::Munmap)),
            ("processes", self.processes as u64),
            ("threads", self.threads as u64),
            ("regions", self.regions as u64),
            ("missing events", summary.missing()),
            ("file bytes", self.file_bytes),
        ] {
            writeln!(out, "{name:<16} {:>16}", grouped(number))?;
        }
        if let Some(bytes) = self.bytes_per_access() {
            writeln!(out, "{:<16} {bytes:>16.3}", "bytes an access")?;
        }
        if let Some(instructions) = self.instructions {
            writeln!(out, "{:<16} {:>16}", "instructions", grouped(instructions))?;
        }
        if let Some(blocks) = self.blocks_entered {
            writeln!(out, "{:<16} {:>16}", "blocks entered", grouped(blocks))?;
        }
        if let Some(verified) = &self.verified {
            let accesses = amount(verified.accesses, "access");
            let instructions = amount(verified.instructions, "instruction");
            let windows = amount(verified.windows, "window");
            let mismatches = amount(verified.mismatches, "mismatch");
            let with_bytes =
                verified.with_bytes.map(|count| format!(", {} with their bytes,", grouped(count)));
            let with_bytes = with_bytes.unwrap_or_default();
            writeln!(out, "verified: {accesses}{with_bytes} of {instructions} in {windows}, {mismatches}")?;
            for words in &verified.first_mismatches {
                writeln!(out, "mismatch: {words}")?;
            }
        }
        if let Some(seconds) = self.wall_seconds {
            writeln!(out, "{:<16} {seconds:>16.3}", "seconds")?;
        }
        for (name, seconds) in ["cpu, program", "cpu, recorder"].iter().zip(self.cpu_seconds) {
            if let Some(seconds) = seconds {
                writeln!(out, "{name:<16} {seconds:>16.2}")?;
            }
        }
        for (reason, count) in &summary.gaps {
            writeln!(out, "missing: {count} ({reason})")?;
            // Programs are named below.
            let is_shown = |row: &&GapCause| row.reason == *reason && !self.untraced.contains(&row.cause);
            for row in self.causes.iter().filter(is_shown) {
                writeln!(out, "{:>16}  {}", grouped(row.count), row.cause)?;
            }
        }
        for death in &self.deaths {
            writeln!(out, "{death}")?;
        }
        for program in &self.untraced {
            writeln!(out, "not traced: {program}")?;
        }
        if !self.slow.is_empty() {
            writeln!(out, "instructions on the slow path:")?;
            for row in self.slow.iter().take(20) {
                writeln!(out, "{:>12}  {:<12} {}", grouped(row.times), row.instruction, row.function)?;
            }
        }
        if !self.work.is_empty() {
            writeln!(out, "the tracer's own work:")?;
            for row in &self.work {
                writeln!(out, "{:>16}  {}", grouped(row.times), row.name)?;
            }
        }
        Ok(())
    }
}
