//! The epoch thread: opens the windows that shut, looks for new modules, writes a snapshot now and then, and keeps the
//! cost inside the budget.
//!
//! It is muted itself and takes no signals. It switches probes only while it holds off forks and, by the loader's own
//! lock, unloading.

use super::{attached, discover, dump, helper, settings, window};
use crate::{
    ProbeId,
    module::{self, Generation},
    registry, trampoline,
};
use patch::sys;
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Held during a pass, and across a fork.
static PASS: Mutex<()> = Mutex::new(());
/// Probes switched on again, for the figures of a run.
static REARMED: AtomicU64 = AtomicU64::new(0);

/// What a sampled call costs, both ends, and what switching a probe off and on costs, in TSC ticks: the governor's
/// model (docs/probes.md says where the figures come from).
const CALL_TICKS: f64 = 200.0;
const TOGGLE_TICKS: f64 = 1_000.0;
/// Epochs after which windows are opened again although the process has used less processor time than one.
const LONGEST_PAUSE: u32 = 9;
/// Between two looks at the loader and two snapshots.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
const SNAPSHOT: Duration = Duration::from_secs(1);

/// How many times a window was opened again.
#[must_use]
pub fn rearmed() -> u64 {
    REARMED.load(Ordering::Relaxed)
}

/// Waits for a pass under way, and keeps the next one waiting.
pub fn hold() -> MutexGuard<'static, ()> {
    PASS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread. `seen` are the loader's counts at the last look.
pub fn start(seen: Option<Generation>) {
    let quiet = sys::SignalsBlocked::for_helper();
    helper::set_present(true);
    let spawned = std::thread::Builder::new().name("memtap-probes".to_owned()).spawn(move || {
        trampoline::set_guard(usize::MAX);
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
    let Some(settings) = settings() else { return };
    let epoch = Duration::from_millis(settings.epoch_ms);
    let pause = if settings.sample.is_some() { epoch } else { HOUSEKEEPING };
    let mut governor = Governor::new(settings.budget_percent);
    let mut waiting: Vec<u32> = Vec::new();
    let (mut since_look, mut since_snapshot) = (Duration::ZERO, Duration::ZERO);
    let (mut cpu_at_pass, mut skipped) = (cpu_ns(), 0);
    loop {
        if helper::sleep(pause) {
            let _pass = hold();
            dump::write();
            helper::note_written();
            continue;
        }
        if settings.controller != 0 && attached::is_over(settings.controller) {
            attached::end();
            return;
        }
        since_look += pause;
        since_snapshot += pause;
        let _pass = hold();
        if since_look >= HOUSEKEEPING {
            since_look = Duration::ZERO;
            if seen != Some(module::generation()) {
                seen = discover();
            }
        }
        waiting.extend(window::take_shut());
        // A process that waits, or shares its processor, is not measured more for the time that it did not run.
        let cpu = cpu_ns();
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
        let stride = governor.stride(waiting.len());
        let now = sys::ticks();
        let mut due = Vec::new();
        waiting.retain(|function| {
            let skip = !governor.is_due(*function, stride);
            if !skip {
                due.push(*function);
            }
            skip
        });
        let is_current = module::with_loader_locked(|generation| {
            let is_current = seen == Some(generation);
            if is_current {
                rearm(&due, now);
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

/// Opens the windows of `due` again and switches their probes on.
fn rearm(due: &[u32], now_ticks: u64) {
    let mut straddlers: Vec<ProbeId> = Vec::new();
    for function in due {
        window::settle(*function, now_ticks);
        window::arm(*function);
        for id in registry::probes_of(*function).filter(|id| !registry::is_active(*id)) {
            let is_straddler = registry::site_bytes(id, true).is_some_and(|(site, _)| site.split().is_some());
            if is_straddler {
                straddlers.push(id);
            } else {
                let _ = registry::switch(id, true);
            }
        }
        REARMED.fetch_add(1, Ordering::Relaxed);
    }
    registry::switch_all(&straddlers, true);
}

/// Keeps the cost of the probes inside the budget by opening only every nth shut window.
struct Governor {
    budget: Option<f64>,
    stride: u32,
    round: u32,
    last_cpu_ns: u64,
    last_ticks: u64,
}

impl Governor {
    fn new(budget_percent: Option<f64>) -> Self {
        Self {
            budget: budget_percent.map(|p| p / 100.0),
            stride: 1,
            round: 0,
            last_cpu_ns: cpu_ns(),
            last_ticks: sys::ticks(),
        }
    }

    /// Which share of `shut` windows may open: every nth.
    fn stride(&mut self, shut: usize) -> u32 {
        self.round = self.round.wrapping_add(1);
        let Some(budget) = self.budget else { return 1 };
        let (cpu, ticks) = (cpu_ns(), sys::ticks());
        let used_ns = cpu.saturating_sub(self.last_cpu_ns).max(1) as f64;
        let elapsed_ticks = ticks.saturating_sub(self.last_ticks) as f64;
        (self.last_cpu_ns, self.last_ticks) = (cpu, ticks);
        // Ticks of processor time: the clock's share of the epoch, in ticks.
        let epoch_ns = super::settings().map_or(10, |s| s.epoch_ms) as f64 * 1e6;
        let used_ticks = (elapsed_ticks * used_ns / epoch_ns).max(1.0);
        let samples = f64::from(super::settings().and_then(|s| s.sample).unwrap_or(10));
        let cost =
            shut as f64 / f64::from(self.stride) * (samples * CALL_TICKS + 2.0 * TOGGLE_TICKS) / used_ticks;
        if cost > budget {
            self.stride = (self.stride * 2).min(1 << 16);
        } else if cost < budget / 4.0 && self.stride > 1 {
            self.stride /= 2;
        }
        self.stride
    }

    fn is_due(&self, function: u32, stride: u32) -> bool {
        function.wrapping_add(self.round).is_multiple_of(stride)
    }
}

fn cpu_ns() -> u64 {
    // SAFETY: an all-zero timespec is valid, and the call fills it.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}
