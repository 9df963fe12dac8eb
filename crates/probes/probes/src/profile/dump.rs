//! Writes the profile: at the program's end, once a second before it (so that a killed process leaves one too), and on request.
//!
//! Counts are read while threads keep writing them: each is right, but together they are from slightly different moments.

use super::{
    area, governor,
    histogram::{self, BucketCount},
    own_time::{self, CALL_ERROR_TICKS, Threads},
    pass, processor_time,
    raw::*,
    settings,
    strata::{Factors, Measured, Scaled, TWO_SIDED_95},
    unprobed, window,
};
use crate::{module, provider::entry, registry, thread, thread_words};
use patch::sys;
use std::{
    collections::HashMap,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// When profiling began: TSC ticks and nanoseconds of the wall clock; written once a process.
static START_TICKS: AtomicU64 = AtomicU64::new(0);
static START_NS: AtomicU64 = AtomicU64::new(0);

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos() as u64
}

/// The process that the profile is of: a child that no fork handler saw (vfork, a bare clone) shares or copies this
/// memory, and has no profile of its own. Written with the two above.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether a thread writes a profile. No mutex: the child of a fork takes it from whoever had it in the parent.
static IS_WRITING: AtomicBool = AtomicBool::new(false);

/// Notes the beginning, and makes the file that the profile will be written to: later the process may have lost the
/// rights to.
pub fn note_start() {
    // In a fork's child, no thread is left that could be writing.
    IS_WRITING.store(false, Ordering::Release);
    START_TICKS.store(sys::ticks(), Ordering::Relaxed);
    START_NS.store(wall_ns(), Ordering::Relaxed);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    if let Some(settings) = settings::current() {
        area::open(Path::new(&path(&settings.out_dir, "area")));
    }
}

/// Where this process's profile goes.
fn path(dir: &str, extension: &str) -> String {
    format!("{dir}/{}-{}.{extension}", std::process::id(), START_TICKS.load(Ordering::Relaxed))
}

/// Writes the profile of this process to the directory of the settings; a later one replaces an earlier one.
pub fn write() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    thread_words::muted(|| {
        let Some(settings) = settings::current() else { return };
        // Another thread is done in a moment, and what it writes is not as of now.
        while IS_WRITING.swap(true, Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        write_to(&settings.out_dir);
        IS_WRITING.store(false, Ordering::Release);
    });
}

fn write_to(dir: &str) {
    let Ok(profile) = serde_json::to_vec(&collect()) else { return };
    if area::write(&profile) {
        return;
    }
    let (fresh, name) = (path(dir, "new"), path(dir, "json"));
    let written = std::fs::write(&fresh, profile).and_then(|()| std::fs::rename(&fresh, &name));
    if let Err(error) = written {
        eprintln!("memtap: cannot write the profile {name}: {error}");
    }
}

/// All counts as they are now.
#[must_use]
pub fn collect() -> RawProfile {
    let sample = settings::current().and_then(|s| s.sample);
    let start_ticks = START_TICKS.load(Ordering::Relaxed);
    let mut elapsed_ns = wall_ns().saturating_sub(START_NS.load(Ordering::Relaxed));
    if elapsed_ns < 1_000_000 {
        // Too short to tell the frequency: measure a little longer.
        std::thread::sleep(Duration::from_millis(2));
        elapsed_ns = wall_ns().saturating_sub(START_NS.load(Ordering::Relaxed));
    }
    let ticks_per_ns = sys::ticks().saturating_sub(start_ticks) as f64 / elapsed_ns.max(1) as f64;
    let mut kept: HashMap<u32, u32> = HashMap::new();
    let mut functions = Vec::new();
    for index in 0..registry::function_count() {
        if let Some(function) = function(index, sample.is_some()) {
            kept.insert(index, functions.len() as u32);
            functions.push(function);
        }
    }
    let (mut paths, latencies) = paths(&kept);
    let probes_ticks: u64 = thread::all().map(thread::ThreadState::probes_ticks).sum();
    if sample.is_some() {
        let present: u64 = thread::all().map(|state| state.present_ticks(sys::ticks())).sum();
        let threads = Threads {
            present_ticks: present.saturating_sub(probes_ticks) as f64,
            waited_ticks: processor_time::share_waited() * present as f64,
        };
        own_time::fill_in(&mut functions, &mut paths, &latencies, threads);
    }
    RawProfile {
        version: VERSION,
        program: module::module(0).map_or_else(String::new, |m| m.path.clone()),
        pid: std::process::id(),
        ticks_per_ns,
        sample,
        epoch_ms: settings::current().map_or(0, |s| s.epoch_ms),
        elapsed_ns,
        start_ticks,
        probes_ticks,
        rearmed: pass::rearmed(),
        paths,
        events: events(&kept, start_ticks),
        unprobed: unprobed::all()
            .into_iter()
            .map(|u| RawUnprobed { symbol: u.symbol, module: u.module, reason: u.reason.to_string() })
            .collect(),
        probes: registry::probe_count(),
        gaps: gaps(),
        functions,
    }
}

/// A function's figures; where calls are sampled, without its time outside callees.
fn function(index: u32, is_sampled: bool) -> Option<RawFunction> {
    let missed = governor::missed(index);
    let mut counts = vec![0u64; histogram::BUCKETS];
    let mut sum = Measured::default();
    let (mut self_ticks, mut max_ticks, mut inside) = (0, 0, 0);
    for state in thread::all() {
        sum.add(&window::measured(state, index));
        // SAFETY: records are mapped for ever; words may change while they are read, none is a reference.
        unsafe {
            let record = state.records.get(index);
            self_ticks += (&raw const (*record).self_ticks).read_volatile();
            inside += (&raw const (*record).calls_inside).read_volatile();
            max_ticks = max_ticks.max((&raw const (*record).max_ticks).read_volatile());
            let histogram = (&raw const (*record).histogram).read_volatile();
            if !histogram.is_null() {
                for (bucket, count) in counts.iter_mut().enumerate() {
                    *count += u64::from(histogram.add(bucket).read_volatile());
                }
            }
        }
    }
    // A watch counts, as all probes do, and measures nothing.
    if sum.calls == 0 || registry::probes_of(index).any(entry::is_watch) {
        return None;
    }
    let scaled = match is_sampled {
        true => window::scaled(index, missed.calls),
        false => Scaled {
            total_ticks: sum.clusters.ticks as f64,
            latency_ticks: sum.total_ticks as f64,
            variance: 0.0,
        },
    };
    let calls = sum.calls as f64 + missed.calls;
    let inside = inside as f64 * scaled.total_ticks / sum.clusters.ticks.max(1) as f64;
    let by_probes_ticks = CALL_ERROR_TICKS * (calls + inside);
    let chance_error_ticks = TWO_SIDED_95 * scaled.variance.sqrt();
    let (symbol, place) = registry::function_name(index);
    let provider = registry::probes_of(index).next().and_then(|id| registry::metadata(id).ok());
    Some(RawFunction {
        symbol,
        module: place.path.to_owned(),
        offset: place.offset as u64,
        provider: provider.map_or("?", |m| m.provider.name()).to_owned(),
        calls,
        outermost_calls: calls * sum.clusters.count as f64 / sum.clusters.calls.max(1) as f64,
        calls_error: TWO_SIDED_95 * missed.variance.sqrt(),
        sampled: sum.sampled,
        total_ticks: scaled.total_ticks,
        total_error_ticks: chance_error_ticks + by_probes_ticks,
        chance_error_ticks,
        latency_ticks: scaled.latency_ticks,
        self_ticks: self_ticks as f64,
        self_error_ticks: by_probes_ticks,
        self_chance_error_ticks: 0.0,
        max_ticks,
        histogram: (0..)
            .zip(counts)
            .map(|(bucket, count)| BucketCount { bucket, count })
            .filter(|of| of.count > 0)
            .collect(),
    })
}

/// The trees of all threads, joined, and the latencies of all calls of each path.
fn paths(kept: &HashMap<u32, u32>) -> (Vec<RawPath>, Vec<f64>) {
    let mut joined: Vec<RawPath> = Vec::new();
    let mut latencies: Vec<f64> = Vec::new();
    let mut index: HashMap<(Option<u32>, u32), u32> = HashMap::new();
    for state in thread::all() {
        let mut numbers: Vec<Option<u32>> = vec![None];
        // How latencies are scaled, by function.
        let mut scales: HashMap<u32, (Factors, f64)> = HashMap::new();
        for node in state.paths.nodes().iter().skip(1) {
            let parent = numbers.get(node.parent as usize).copied().flatten();
            let Some(function) = kept.get(&node.function).copied() else {
                numbers.push(parent);
                continue;
            };
            let number = *index.entry((parent, function)).or_insert_with(|| {
                joined.push(RawPath { parent, function, calls: 0, self_ticks: 0.0 });
                latencies.push(0.0);
                joined.len() as u32 - 1
            });
            let (factors, factor) = *scales.entry(node.function).or_insert_with(|| {
                let (strata, factors) = window::ended_strata(state, node.function);
                let calls = window::measured(state, node.function).calls as f64;
                (factors, strata.factor(calls).unwrap_or(1.0))
            });
            let path = &mut joined[number as usize];
            path.calls += node.calls;
            path.self_ticks += node.self_ticks as f64;
            latencies[number as usize] += node.scaled_ticks(factors) * factor;
            numbers.push(Some(number));
        }
    }
    (joined, latencies)
}

fn events(kept: &HashMap<u32, u32>, start_ticks: u64) -> Vec<RawEvent> {
    let mut events: Vec<RawEvent> = thread::all()
        .flat_map(|state| {
            let tid = state.tid.load(Ordering::Relaxed);
            state.timeline.kept().iter().filter_map(move |event| {
                Some(RawEvent {
                    tid,
                    function: *kept.get(&event.function)?,
                    start_ticks: event.start_ticks.saturating_sub(start_ticks),
                    ticks: event.ticks,
                })
            })
        })
        .collect();
    events.sort_by_key(|e| (e.tid, e.start_ticks, u64::MAX - e.ticks));
    events
}

fn gaps() -> RawGaps {
    let mut gaps = RawGaps::default();
    for state in thread::all() {
        gaps.unfinished += state.shadow.unfinished;
        gaps.too_deep += state.shadow.too_deep;
        gaps.foreign_stack += state.shadow.foreign;
        gaps.paths_joined += state.paths.overflowed;
        gaps.events_overwritten += state.timeline.added.saturating_sub(super::timeline::EVENTS as u64);
    }
    gaps
}
