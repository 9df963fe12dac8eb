//! Writing the profile: at the program's end, once a second before it (so that a killed process leaves one too), and
//! whenever asked.
//!
//! Counts are read while threads go on writing them: each is right, together they are as of slightly different moments.

use super::{
    area, governor,
    histogram::{self, BucketCount},
    pass,
    raw::*,
    settings, unprobed, window,
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
        if let Some(function) = function(index, sample) {
            kept.insert(index, functions.len() as u32);
            functions.push(function);
        }
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
        rearmed: pass::rearmed(),
        paths: paths(&kept),
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

fn function(index: u32, sample: Option<u32>) -> Option<RawFunction> {
    let measured = window::measured(index);
    let missed = governor::missed(index);
    // A watch counts, as all probes do, and measures nothing.
    if measured.calls == 0 || registry::probes_of(index).any(entry::is_watch) {
        return None;
    }
    let mut counts = vec![0u64; histogram::BUCKETS];
    for state in thread::all() {
        // SAFETY: records are mapped for ever; words may change while they are read, none is a reference.
        unsafe {
            let histogram = (&raw const (*state.records.get(index)).histogram).read_volatile();
            if !histogram.is_null() {
                for (bucket, count) in counts.iter_mut().enumerate() {
                    *count += u64::from(histogram.add(bucket).read_volatile());
                }
            }
        }
    }
    let calls = measured.calls as f64 + missed.calls;
    let scaled = match sample {
        None => window::Scaled {
            total_ticks: measured.total_ticks as f64,
            self_ticks: measured.self_ticks as f64,
            recursive_ticks: measured.recursive_ticks as f64,
            variance: 0.0,
        },
        Some(_) => window::scaled(index, measured, calls),
    };
    let (symbol, place) = registry::function_name(index);
    let provider = registry::probes_of(index).next().and_then(|id| registry::metadata(id).ok());
    Some(RawFunction {
        symbol,
        module: place.path.to_owned(),
        offset: place.offset as u64,
        provider: provider.map_or("?", |m| m.provider.name()).to_owned(),
        calls,
        calls_error: window::TWO_SIDED_95 * missed.variance.sqrt(),
        sampled: measured.sampled,
        total_ticks: measured.total_ticks,
        self_ticks: measured.self_ticks,
        scaled_total_ticks: scaled.total_ticks,
        scaled_recursive_ticks: scaled.recursive_ticks,
        scaled_self_ticks: scaled.self_ticks,
        total_error_ticks: window::TWO_SIDED_95 * scaled.variance.sqrt(),
        max_ticks: measured.max_ticks,
        histogram: (0..)
            .zip(counts)
            .map(|(bucket, count)| BucketCount { bucket, count })
            .filter(|of| of.count > 0)
            .collect(),
    })
}

/// The trees of all threads, joined.
fn paths(kept: &HashMap<u32, u32>) -> Vec<RawPath> {
    let mut joined: Vec<RawPath> = Vec::new();
    let mut index: HashMap<(Option<u32>, u32), u32> = HashMap::new();
    for state in thread::all() {
        let mut numbers: Vec<Option<u32>> = vec![None];
        for node in state.paths.nodes().iter().skip(1) {
            let parent = numbers.get(node.parent as usize).copied().flatten();
            let Some(function) = kept.get(&node.function).copied() else {
                numbers.push(parent);
                continue;
            };
            let number = *index.entry((parent, function)).or_insert_with(|| {
                joined.push(RawPath { parent, function, calls: 0, total_ticks: 0, self_ticks: 0 });
                joined.len() as u32 - 1
            });
            let path = &mut joined[number as usize];
            path.calls += node.calls;
            path.total_ticks += node.total_ticks;
            path.self_ticks += node.self_ticks;
            numbers.push(Some(number));
        }
    }
    joined
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
