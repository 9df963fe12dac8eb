//! The profile of a run: the output of its processes, joined by function and with names.

use super::source::Sources;
use crate::{
    name,
    profile::{
        area,
        histogram::{self, BucketCount},
        raw::{RawGaps, RawProfile, RawUnprobed},
    },
};
use std::{collections::HashMap, io, path::Path};

/// One function's figures. Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct FunctionFigures {
    /// Its name, demangled.
    pub function: String,
    /// Source file, where debug information names it.
    pub file: Option<String>,
    /// Line there.
    pub line: Option<u32>,
    /// The provider of its probes.
    pub provider: String,
    /// Calls: exact, unless a budget had the probe switched off for a while.
    pub calls: u64,
    /// Half the width of the interval around `calls` that holds the truth 95 times of 100; 0: exact.
    pub calls_error: f64,
    /// Measured calls.
    pub sampled: u64,
    /// Calls a second.
    pub rate_per_s: f64,
    /// Mean latency: of all calls, as far as those measured tell.
    pub mean_ns: f64,
    /// Percentiles: 50, 90, 99, 99.9.
    pub percentiles_ns: [f64; 4],
    /// The longest.
    pub max_ns: f64,
    /// Time of all calls outside callees.
    pub self_ns: f64,
    /// Half the width of the interval around `self_ns`, as for `calls_error`, with what probes may have taken.
    pub self_error_ns: f64,
    /// Time of all calls with callees, recursion counted once.
    pub total_ns: f64,
    /// Half the width of the interval around `total_ns`, as for `calls_error`, with what probes may have taken.
    pub total_error_ns: f64,
    /// How long calls took, by bucket.
    pub histogram: Vec<BucketCount>,
}

/// One node of the tree of call paths; parents come first.
#[derive(Clone, Debug)]
pub struct PathNode {
    /// Index of the caller's node.
    pub parent: Option<u32>,
    /// Index into the rows.
    pub row: usize,
    /// Calls, scaled from the measured ones: over all nodes of a row they add up to the row's.
    pub calls: f64,
    /// Their time.
    pub total_ns: f64,
    /// Time outside callees: over all nodes of a row it adds up to the row's.
    pub self_ns: f64,
}

/// One call on the timeline.
#[derive(Clone, Copy, Debug)]
pub struct TimedCall {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Index into the rows.
    pub row: usize,
    /// Since the first process's start.
    pub start_ns: f64,
    /// How long.
    pub duration_ns: f64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The program.
    pub program: String,
    /// How many processes left a profile.
    pub processes: usize,
    /// Samples of a function and epoch; `None`: every call.
    pub sample: Option<u32>,
    /// The longest time that a process was measured.
    pub elapsed_ns: u64,
    /// What probes took, of all threads and processes: no function's time.
    pub probes_ns: f64,
    /// Nanoseconds a tick, of the first process.
    pub ns_per_tick: f64,
    /// Probes in all.
    pub probes: u64,
    /// The functions, the largest total first.
    pub rows: Vec<FunctionFigures>,
    /// The call paths.
    pub paths: Vec<PathNode>,
    /// The latest calls.
    pub calls: Vec<TimedCall>,
    /// Functions without a probe.
    pub unprobed: Vec<RawUnprobed>,
    /// What is missing.
    pub gaps: RawGaps,
}

/// A function's figures while processes are joined.
#[derive(Default)]
struct Sum {
    symbol: String,
    provider: String,
    calls: f64,
    variance: f64,
    sampled: u64,
    total_ns: f64,
    total_error: JoinedError,
    latency_ns: f64,
    self_ns: f64,
    self_error: JoinedError,
    max_ns: f64,
    histogram: HashMap<u32, u64>,
}

/// The error of a sum over processes: chance differs from one to the next, what their probes did is the same in all.
#[derive(Default)]
struct JoinedError {
    chance_variance: f64,
    by_probes_ns: f64,
}

impl JoinedError {
    fn add(&mut self, error_ticks: f64, chance_ticks: f64, ns_per_tick: f64) {
        self.chance_variance += (chance_ticks * ns_per_tick).powi(2);
        self.by_probes_ns += (error_ticks - chance_ticks) * ns_per_tick;
    }

    fn ns(&self) -> f64 {
        self.chance_variance.sqrt() + self.by_probes_ns
    }
}

impl Profile {
    /// Reads all profiles in `dir`.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let mut raw = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            let bytes = match path.extension().and_then(|e| e.to_str()) {
                Some("json") => Some(std::fs::read(&path)?),
                Some("area") => area::read(&path)?,
                _ => None,
            };
            if let Some(bytes) = bytes {
                let profile: RawProfile = serde_json::from_slice(&bytes)
                    .map_err(|e| io::Error::other(format!("{}: not a profile: {e}", path.display())))?;
                raw.push(profile);
            }
        }
        Ok(Self::join(raw))
    }

    /// Joins the profiles of a run's processes.
    #[must_use]
    pub fn join(mut raw: Vec<RawProfile>) -> Self {
        // A wrapper (env, timeout) without a probe is no part of the answer, unless there is nothing else.
        if raw.iter().any(|p| p.probes > 0) {
            raw.retain(|p| p.probes > 0);
        }
        raw.sort_by_key(|p| p.start_ticks);
        let mut profile = Self { processes: raw.len(), ..Self::default() };
        let mut keys: HashMap<(String, u64, String), usize> = HashMap::new();
        let mut sums: Vec<(Sum, String, u64)> = Vec::new();
        let mut nodes: HashMap<(Option<u32>, usize), u32> = HashMap::new();
        let first_ticks = raw.first().map_or(0, |p| p.start_ticks);
        for p in &raw {
            let ns_per_tick = 1.0 / p.ticks_per_ns.max(1e-9);
            if profile.program.is_empty() {
                (profile.program, profile.sample) = (p.program.clone(), p.sample);
                profile.ns_per_tick = ns_per_tick;
            }
            profile.elapsed_ns = profile.elapsed_ns.max(p.elapsed_ns);
            profile.probes_ns += p.probes_ticks as f64 * ns_per_tick;
            profile.probes += u64::from(p.probes);
            let rows: Vec<usize> = p
                .functions
                .iter()
                .map(|f| {
                    let key = (f.module.clone(), f.offset, f.symbol.clone());
                    let row = *keys.entry(key).or_insert_with(|| {
                        sums.push((
                            Sum { symbol: f.symbol.clone(), ..Sum::default() },
                            f.module.clone(),
                            f.offset,
                        ));
                        sums.len() - 1
                    });
                    let sum = &mut sums[row].0;
                    sum.provider.clone_from(&f.provider);
                    sum.calls += f.calls;
                    sum.variance += f.calls_error * f.calls_error;
                    sum.sampled += f.sampled;
                    sum.total_ns += f.total_ticks * ns_per_tick;
                    sum.total_error.add(f.total_error_ticks, f.chance_error_ticks, ns_per_tick);
                    sum.latency_ns += f.latency_ticks * ns_per_tick;
                    sum.self_ns += f.self_ticks * ns_per_tick;
                    sum.self_error.add(f.self_error_ticks, f.self_chance_error_ticks, ns_per_tick);
                    sum.max_ns = sum.max_ns.max(f.max_ticks as f64 * ns_per_tick);
                    for of in &f.histogram {
                        *sum.histogram.entry(of.bucket).or_default() += of.count;
                    }
                    row
                })
                .collect();
            profile.add_paths(p, &rows, ns_per_tick, &mut nodes);
            let offset_ns = (p.start_ticks - first_ticks) as f64 * ns_per_tick;
            profile.calls.extend(p.events.iter().map(|e| TimedCall {
                pid: p.pid,
                tid: e.tid,
                row: rows[e.function as usize],
                start_ns: offset_ns + e.start_ticks as f64 * ns_per_tick,
                duration_ns: e.ticks as f64 * ns_per_tick,
            }));
            for u in &p.unprobed {
                if !profile.unprobed.iter().any(|k| (&k.symbol, &k.module) == (&u.symbol, &u.module)) {
                    profile.unprobed.push(u.clone());
                }
            }
            profile.gaps.unfinished += p.gaps.unfinished;
            profile.gaps.too_deep += p.gaps.too_deep;
            profile.gaps.foreign_stack += p.gaps.foreign_stack;
            profile.gaps.paths_joined += p.gaps.paths_joined;
            profile.gaps.events_overwritten += p.gaps.events_overwritten;
        }
        profile.total_paths();
        profile.name_rows(sums);
        profile
    }

    fn add_paths(
        &mut self,
        p: &RawProfile,
        rows: &[usize],
        ns_per_tick: f64,
        nodes: &mut HashMap<(Option<u32>, usize), u32>,
    ) {
        let mut numbers: Vec<u32> = Vec::new();
        for path in &p.paths {
            let parent = path.parent.map(|up| numbers[up as usize]);
            let row = rows[path.function as usize];
            let number = *nodes.entry((parent, row)).or_insert_with(|| {
                self.paths.push(PathNode { parent, row, calls: 0.0, total_ns: 0.0, self_ns: 0.0 });
                self.paths.len() as u32 - 1
            });
            let node = &mut self.paths[number as usize];
            let f = &p.functions[path.function as usize];
            let factor = if f.sampled == 0 { 0.0 } else { f.calls / f.sampled as f64 };
            node.calls += path.calls as f64 * factor;
            node.self_ns += path.self_ticks * ns_per_tick;
            numbers.push(number);
        }
    }

    /// The time of each node with its callees. A parent stands before its children.
    fn total_paths(&mut self) {
        for at in (0..self.paths.len()).rev() {
            self.paths[at].total_ns += self.paths[at].self_ns;
            if let Some(parent) = self.paths[at].parent {
                self.paths[parent as usize].total_ns += self.paths[at].total_ns;
            }
        }
    }

    fn name_rows(&mut self, sums: Vec<(Sum, String, u64)>) {
        let mut sources = Sources::default();
        let ns_per_tick = self.ns_per_tick;
        let mut rows: Vec<(usize, FunctionFigures)> = sums
            .into_iter()
            .map(|(sum, module, offset)| {
                let source = sources.find(&module, offset);
                let mut counts: Vec<BucketCount> = sum.histogram.into_iter().map(BucketCount::from).collect();
                counts.sort_unstable();
                // A percentile is a bucket's middle: never beyond the longest call.
                let at = |q| {
                    histogram::quantile(&counts, q).map_or(0.0, |ticks| (ticks * ns_per_tick).min(sum.max_ns))
                };
                // With every call measured, those that did not return are not in the total.
                let calls = if self.sample.is_none() { sum.sampled as f64 } else { sum.calls };
                FunctionFigures {
                    function: name::demangle(&sum.symbol),
                    file: source.as_ref().map(|s| s.0.clone()),
                    line: source.map(|s| s.1),
                    provider: sum.provider,
                    calls: sum.calls.round() as u64,
                    calls_error: sum.variance.sqrt(),
                    sampled: sum.sampled,
                    rate_per_s: sum.calls / (self.elapsed_ns.max(1) as f64 / 1e9),
                    mean_ns: sum.latency_ns / calls.max(1.0),
                    percentiles_ns: [at(0.5), at(0.9), at(0.99), at(0.999)],
                    max_ns: sum.max_ns,
                    self_ns: sum.self_ns,
                    self_error_ns: sum.self_error.ns(),
                    // Both are estimates; a function takes no less than its own part.
                    total_ns: sum.total_ns.max(sum.self_ns),
                    total_error_ns: sum.total_error.ns(),
                    histogram: counts,
                }
            })
            .enumerate()
            .collect();
        rows.sort_by(|a, b| {
            b.1.total_ns.total_cmp(&a.1.total_ns).then_with(|| a.1.function.cmp(&b.1.function))
        });
        let mut moved = vec![0; rows.len()];
        for (to, (from, _)) in rows.iter().enumerate() {
            moved[*from] = to;
        }
        self.paths.iter_mut().for_each(|node| node.row = moved[node.row]);
        self.calls.iter_mut().for_each(|call| call.row = moved[call.row]);
        self.rows = rows.into_iter().map(|(_, row)| row).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_joined_as_chance_and_what_probes_did_is_added() {
        let mut error = JoinedError::default();
        error.add(13.0, 3.0, 2.0);
        error.add(14.0, 4.0, 2.0);
        assert_eq!(error.ns(), 10.0 + 40.0);
    }
}
