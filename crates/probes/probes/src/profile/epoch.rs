//! The epoch thread: opens windows that were shut, looks for new modules,
//! writes a snapshot now and then, and executes the decisions of the governor.
//!
//! It is itself exempt from probes and takes no signals. It switches probes
//! only while it holds off forks and, by the loader's own lock, unloading.

use super::{attached, discovery, dump, governor, helper, pass, processor_time, settings, window};
use crate::{
    ProbeId,
    module::{self, Generation},
    registry, thread_words,
};
use patch::sys;
use std::time::{Duration, Instant};

/// Epochs after which windows are opened again although the process has used less processor time than one.
const LONGEST_PAUSE: u32 = 9;
/// Between two looks at the loader and two snapshots.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
const SNAPSHOT: Duration = Duration::from_secs(1);

/// Starts the thread. `seen` are the loader's counts at the last look.
pub fn start(seen: Option<Generation>) {
    let quiet = sys::SignalsBlocked::for_helper();
    helper::set_present(true);
    let spawned = std::thread::Builder::new().name("memtap-probes".to_owned()).spawn(move || {
        thread_words::set_guard(thread_words::MUTED);
        run(seen);
        helper::set_present(false);
    });
    drop(quiet);
    if spawned.is_err() {
        helper::set_present(false);
    }
    // Without the thread probes stay off after their first window: the profile says so by its error.
    drop(spawned);
}

fn run(mut seen: Option<Generation>) {
    let Some(settings) = settings::current() else { return };
    let epoch = Duration::from_millis(settings.epoch_ms);
    let pause = if settings.sample.is_some() { epoch } else { HOUSEKEEPING };
    governor::start(settings.budget_percent);
    let mut waiting: Vec<u32> = Vec::new();
    let (mut since_look, mut since_snapshot) = (Duration::ZERO, Duration::ZERO);
    let (mut cpu_at_pass, mut skipped) = (processor_time::process_ns(), 0);
    loop {
        let asleep = Instant::now();
        if helper::sleep(pause) {
            let _pass = pass::hold();
            dump::write();
            helper::note_written();
            continue;
        }
        processor_time::note_sleep(pause, asleep.elapsed());
        if settings.controller != 0 && attached::end::is_over(settings.controller) {
            attached::end::switch_off();
            return;
        }
        since_look += pause;
        since_snapshot += pause;
        let _pass = pass::hold();
        if since_look >= HOUSEKEEPING {
            since_look = Duration::ZERO;
            if seen != Some(module::generation()) {
                seen = discovery::discover();
            }
        }
        waiting.extend(window::take_shut());
        // A process that waits, or shares its processor, is not measured more for the time that it did not run.
        let cpu = processor_time::process_ns();
        let is_idle = cpu.saturating_sub(cpu_at_pass) < settings.epoch_ms * (1_000_000 * 3 / 4);
        if is_idle && since_look.is_zero() && helper::is_alone() {
            dump::write();
            return;
        }
        if is_idle && skipped < LONGEST_PAUSE && since_snapshot < SNAPSHOT {
            skipped += 1;
            continue;
        }
        (cpu_at_pass, skipped) = (cpu, 0);
        let orders = governor::orders(&waiting);
        let mut due = orders.take_due(&mut waiting);
        let is_current = module::with_loader_locked(|generation| {
            let is_current = seen == Some(generation);
            if is_current {
                rearm(&due);
                governor::carry_out(&orders);
            }
            is_current
        });
        if !is_current {
            // Something was unloaded or loaded: first learn what, then switch.
            waiting.append(&mut due);
            since_look = HOUSEKEEPING;
        }
        if since_snapshot >= SNAPSHOT {
            since_snapshot = Duration::ZERO;
            dump::write();
        }
    }
}

/// Opens the windows of `due` again. Their exits are switched on first, or calls would be measured without end.
fn rearm(due: &[u32]) {
    let off: Vec<ProbeId> = due
        .iter()
        .flat_map(|function| registry::probes_of(*function))
        .filter(|id| !registry::is_active(*id))
        .collect();
    if !off.is_empty() {
        registry::switch_all(&off, true);
    }
    window::settle(due);
    due.iter().for_each(|function| window::arm(*function));
    pass::note_opened(due.len());
}
