//! A recording from its plan to a finished trace: the outline of the recorder's work on programs and processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use buffers::{Config, FIRST_ANNOUNCEMENT};
use memref::RegionKind;
use proc_files::TaskStatus;
use trace_format::{FRAMES_BEGIN, TraceWriter, WITH_ACCESSES};

use crate::buffer_service::{BufferService, Configure};
use crate::clock::{cpu_seconds, now_ns};
use crate::listener::Listener;
use crate::plan::Plan;
use crate::run::drain::Drain;
use crate::run::running::Failure;
use crate::run::waiter::Waiter;
use crate::sink::regions;
use crate::sink::{Contents, Sink};
use crate::store::destination::Destination;
use crate::{Error, Notice, ProgramEnd, RecordedRun, Verified, Warning, command_line};

/// Records until the program and all that it started have ended, or the recording of a running process has.
pub(crate) fn record(plan: &Plan, tell: &mut dyn FnMut(Notice<'_>)) -> Result<RecordedRun, Error> {
    let config = plan.config;
    listen(plan, Arc::new(move |_| config), None, tell)
}

/// Records; `configure` says what each process is told, and `listener` hears at once what it wants to know, which is then not
/// kept.
pub(crate) fn listen(
    plan: &Plan,
    configure: Configure,
    listener: Option<&mut dyn Listener>,
    tell: &mut dyn FnMut(Notice<'_>),
) -> Result<RecordedRun, Error> {
    let Config { translate, regions, data, flow, verify, .. } = plan.config;
    let output = &plan.trace.output;
    let destination = Destination::create(&plan.trace, data)?;
    let trace = destination.trace.clone();
    let started = Instant::now();
    describe(&trace, plan)?;
    let foothold = plan.running.as_ref().and_then(|running| running.foothold.as_deref());
    let service = BufferService::open(configure, foothold)?;
    let waiter = match begin(plan, &service, tell) {
        Ok(waiter) => waiter,
        Err(error) => {
            drop(trace);
            destination.discard();
            return Err(error);
        }
    };
    let regions = if translate { regions } else { u32::MAX };
    let contents = Contents { regions, data, flow, verify: verify > 0 };
    let mut sink = Sink::new(trace.clone(), contents, destination.workers(), destination.memory, listener);
    if plan.running.is_none() {
        sink.announce_program(FIRST_ANNOUNCEMENT, &plan.program.to_string_lossy());
    }
    let drained = Drain::new(service.pool(), &mut sink).run(&waiter, plan, tell);
    if drained.is_err() {
        // What of it can't be kept either is counted.
        let _ = sink.finish_pieces();
    }
    service.close();
    // The end, where it is known; and what is wrong where it is not, or with the process that was left.
    let is_left = plan.leave.load(Ordering::Relaxed) && !waiter.is_over();
    let ended = if is_left { Ok(ProgramEnd::NotWaited) } else { waiter.wait(tell) };
    let (end, problem) = match ended {
        Ok(end) => (Some(end), None),
        Err(Failure::NotEntered(error)) => {
            drop((sink, trace));
            destination.discard();
            return Err(error);
        }
        Err(Failure::NotLeft(error)) => (Some(ProgramEnd::NotWaited), Some(error)),
        Err(Failure::Lost(source)) => (None, Some(Error::LostProgram(source))),
    };
    let verified = (verify > 0).then(|| sink.verified().clone());
    let closed = drained
        .and_then(|()| verified.as_ref().map_or(Ok(()), |verified| keep_verified(&trace, verified)))
        .and_then(|()| if begins_at_main(plan) { Ok(sink.never_begun()?) } else { Ok(()) })
        .and_then(|()| close(&trace, &mut sink, end, started, translate));
    if let Err(error) = closed {
        // What is written stays readable, and says that the rest is missing, as far as there is room for that.
        let _ = trace.finish();
        return Err(match end {
            Some(end) => Error::Incomplete { end, source: Box::new(error) },
            None => error,
        });
    }
    let warnings: Vec<Warning> = more_memory(plan, &sink).into_iter().collect();
    warnings.iter().for_each(|warning| tell(Notice::Warning(warning.clone())));
    match (end, problem) {
        (Some(end), None) => Ok(RecordedRun {
            output: output.clone(),
            end,
            totals: sink.totals(),
            missing: sink.missing().to_vec(),
            causes: sink.gap_causes(),
            untraced: sink.untraced(),
            verified,
            warnings,
        }),
        (_, Some(error)) => Err(error),
        (None, None) => unreachable!("an end that is not known is a problem"),
    }
}

/// Whether more memory was taken than the recording was given.
fn more_memory(plan: &Plan, sink: &Sink<'_>) -> Option<Warning> {
    let bound_mib = plan.trace.memory_bytes? >> 20;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = TaskStatus(&status).field("VmHWM").split_whitespace().next()?.parse::<usize>().ok()?;
    let peak_mib = peak.div_ceil(1 << 10);
    let code_mib = sink.code_bytes() >> 20;
    (peak_mib > bound_mib).then_some(Warning::MoreMemory { bound_mib, peak_mib, code_mib })
}

/// Has the program run, or the process that runs it entered.
fn begin(plan: &Plan, service: &BufferService, tell: &mut dyn FnMut(Notice<'_>)) -> Result<Waiter, Error> {
    match &plan.running {
        Some(running) => Ok(Waiter::attend(plan, running, service)),
        None => Waiter::start(plan, service, tell),
    }
}

/// What a reader should know of the run.
fn describe(trace: &TraceWriter, plan: &Plan) -> Result<(), Error> {
    let config = &plan.config;
    let program = std::fs::canonicalize(&plan.program).unwrap_or_else(|_| plan.program.clone());
    trace.set_property("program", &program.to_string_lossy())?;
    trace.set_property("args", &command_line::of_words(&plan.name, &plan.args))?;
    trace.set_property("tracer", if config.translate { "translate" } else { "protect" })?;
    // With accesses in other frames, these say when the recorder saw their first access.
    if config.translate && trace.keeps_blocks() {
        trace.set_property(FRAMES_BEGIN, WITH_ACCESSES)?;
    }
    // Its threads had come to where they were before anything was seen of them.
    if let Some(running) = &plan.running {
        trace.set_property("attached", &running.pid.to_string())?;
    }
    if config.regions != u32::MAX {
        let selected = RegionKind::ALL.iter().filter(|kind| regions::selects(config.regions, **kind));
        let names: Vec<&str> = selected.map(|kind| kind.name()).collect();
        trace.set_property("regions", &names.join(","))?;
    }
    // Of what the order between threads is known: calls and the accesses that carry news, or calls alone. A translated
    // program tells of no calls before recording starts.
    if !config.translate {
        trace.set_property("syncs", "1")?;
    } else if begins_at_main(plan) {
        trace.set_property("syncs", "calls")?;
    }
    if config.flow {
        trace.set_property("flow", "full")?;
    }
    trace.set_property("version", env!("CARGO_PKG_VERSION"))?;
    trace.set_property("start_ns", &now_ns().to_string())?;
    Ok(())
}

/// Keeps what was compared with stepping, for `memtap stat`.
fn keep_verified(trace: &TraceWriter, verified: &Verified) -> Result<(), Error> {
    for (name, count) in [
        ("verified_windows", verified.windows),
        ("verified_instructions", verified.instructions),
        ("verified_accesses", verified.accesses),
        ("verified_mismatches", verified.mismatches),
    ] {
        trace.set_property(name, &count.to_string())?;
    }
    if let Some(count) = verified.with_bytes {
        trace.set_property("verified_with_bytes", &count.to_string())?;
    }
    if !verified.shown.is_empty() {
        trace.set_property("verified_first_mismatches", &verified.shown.join("\n"))?;
    }
    Ok(())
}

/// Whether recording is to begin with each program's main.
fn begins_at_main(plan: &Plan) -> bool {
    plan.config.at_main && plan.running.is_none()
}

/// The last counts, and what is known of the run at its end.
fn close(
    trace: &TraceWriter,
    sink: &mut Sink<'_>,
    end: Option<ProgramEnd>,
    started: Instant,
    translated: bool,
) -> Result<(), Error> {
    if let Some(end) = end {
        sink.program_ended(end)?;
    }
    sink.finish()?;
    if translated {
        trace.set_property("instructions", &sink.instructions().to_string())?;
    }
    if let Some(end) = end {
        trace.set_property("exit_status", &end.shell_status().to_string())?;
    }
    let seconds = cpu_seconds();
    trace.set_property("recorder_cpu_seconds", &format!("{:.2}", seconds.own))?;
    trace.set_property("program_cpu_seconds", &format!("{:.2}", seconds.children))?;
    trace.set_property("wall_seconds", &format!("{:.6}", started.elapsed().as_secs_f64()))?;
    trace.clone().finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::{CreateOptions, Trace};

    /// The properties of a trace that keeps this.
    fn kept(verified: &Verified) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.memtap");
        let trace = TraceWriter::create(&path, CreateOptions::default()).expect("a trace");
        keep_verified(&trace, verified).expect("a trace that can be written");
        trace.finish().expect("a trace that can be written");
        let trace = Trace::open(&path).expect("a trace");
        let properties = trace.properties().iter().filter(|(name, _)| name.starts_with("verified_"));
        properties.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn check(verified: &Verified, expect: &[(&str, &str)]) {
        let kept = kept(verified);
        let kept: Vec<_> = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(kept, expect);
    }

    #[test]
    fn what_was_not_compared_is_not_kept_as_zero() {
        let mut verified = Verified { windows: 1, instructions: 20, accesses: 300, ..Verified::default() };
        let counts = [
            ("verified_accesses", "300"),
            ("verified_instructions", "20"),
            ("verified_mismatches", "0"),
            ("verified_windows", "1"),
        ];
        check(&verified, &counts);
        verified.with_bytes = Some(0);
        verified.mismatches = 2;
        verified.shown = vec!["the first".to_owned(), "the second".to_owned()];
        let all = [
            ("verified_accesses", "300"),
            ("verified_first_mismatches", "the first\nthe second"),
            ("verified_instructions", "20"),
            ("verified_mismatches", "2"),
            ("verified_windows", "1"),
            ("verified_with_bytes", "0"),
        ];
        check(&verified, &all);
    }
}
