//! Exercises the protocols: patchers change sites while executors run them, and every execution is checked.
//!
//! A site is in a function whose legal outcomes are all known. Each version of the instruction loads another
//! register with another pattern, so an instruction fetched half old and half new shows up as a wrong pattern or
//! a wrong register, not only as a crash ([`code`]). Patches are paced ([`pace`]): each waits until an executor
//! is about to execute. Otherwise most patches would happen while executors cool their caches, and test nothing.
//!
//! It is used by the tests, the long stress run and [`crate::calibrate`]; it generates its own code and touches nothing else.

mod code;
mod pace;

use crate::{
    CodeAddr, Encoding, PatchError, Refusal, Site,
    barrier::{self, Separation},
    sys,
};
use code::TestedCode;
use pace::{Turns, Waiter};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// What the boundary in the middle of the site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// None: the site lies inside a line, at this offset.
    None {
        /// Offset in the line, 0..=59.
        offset: usize,
    },
    /// The end of a cache line.
    Line {
        /// Bytes before it, 1..=4.
        split: usize,
    },
    /// The end of a page.
    Page {
        /// Bytes before it, 1..=4.
        split: usize,
    },
}

/// What the executors do between two executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Nothing: the line stays in every cache.
    Hot,
    /// They flush the site's lines.
    Cold,
    /// They execute code on so many pages that the instruction TLB forgets the site's.
    TlbThrashed,
}

/// How the patchers change the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// [`Site::patch`].
    Patch,
    /// [`Site::start`] and [`Site::finish`].
    Asynchronous,
    /// [`crate::patch_all`] of several sites, which the executors run in turn.
    Batch,
    /// A call that is switched by [`crate::CallSite`].
    Callpatch(Encoding),
    /// Two plain stores without any protocol: what the protocol prevents.
    Unprotected,
}

impl Method {
    /// Sites that are patched together.
    fn sites(self) -> usize {
        if self == Self::Batch { 4 } else { 1 }
    }
}

/// One combination.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Where the site lies.
    pub boundary: Boundary,
    /// What executors do.
    pub executor: Executor,
    /// Threads that execute.
    pub executors: usize,
    /// Threads that patch.
    pub patchers: usize,
    /// How.
    pub method: Method,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Patches that were made, of one site each.
    pub toggles: u64,
    /// Patches that were refused because another patcher held the site.
    pub refused: u64,
    /// Rounds of patching that began while an executor was about to execute, with caches as the case wants them. All but those
    /// that the end of the run cut short.
    pub met: u64,
    /// Executions of a site.
    pub executions: u64,
    /// Executions whose outcome no version of the instruction has.
    pub torn: u64,
}

impl Outcome {
    /// How often a site was executed for each patch.
    #[must_use]
    pub fn executions_per_toggle(&self) -> f64 {
        self.executions as f64 / self.toggles.max(1) as f64
    }
}

/// Executions between two looks at whether anything else has to run, and between two additions to the common count.
const LOOK_EVERY: u64 = 64;

/// Toggles until `toggles` patches are made or `limit` has passed, while executors check.
pub fn run(case: Case, toggles: u64, limit: Duration) -> Result<Outcome, PatchError> {
    let code = TestedCode::build(case.boundary, case.method)?;
    let turns = Turns::new(case.executors);
    let stop = AtomicBool::new(false);
    let [made, refused, met, executions, torn] = [const { AtomicU64::new(0) }; 5];
    let deadline = Instant::now() + limit;
    let failure = std::thread::scope(|scope| {
        let executors: Vec<_> = (0..case.executors)
            .map(|executor| {
                let (code, turns, stop, executions, torn) = (&code, &turns, &stop, &executions, &torn);
                scope.spawn(move || {
                    let bad =
                        execute_until(code, case.executor, || turns.announce(executor), stop, executions);
                    torn.fetch_add(bad, Ordering::Relaxed);
                })
            })
            .collect();
        let patchers: Vec<_> = (0..case.patchers)
            .map(|patcher| {
                let (code, made, refused, met) = (&code, &made, &refused, &met);
                let mut waiter = turns.waiter(patcher);
                scope.spawn(move || {
                    let is_over = || made.load(Ordering::Relaxed) >= toggles || Instant::now() >= deadline;
                    patch_until(
                        code,
                        case.method,
                        patcher as u64,
                        &mut waiter,
                        &is_over,
                        [made, refused, met],
                    )
                })
            })
            .collect();
        let failure =
            patchers.into_iter().filter_map(|p| p.join().expect("patchers do not panic").err()).next();
        stop.store(true, Ordering::Relaxed);
        executors.into_iter().for_each(|e| e.join().expect("executors do not panic"));
        failure
    });
    match failure {
        Some(error) => Err(error),
        None => {
            let [toggles, refused, met, executions, torn] =
                [made, refused, met, executions, torn].map(AtomicU64::into_inner);
            Ok(Outcome { toggles, refused, met, executions, torn })
        }
    }
}

/// Executes and checks until it is told to stop, once at least; how many outcomes were illegal.
fn execute_until(
    code: &TestedCode,
    executor: Executor,
    announce: impl Fn(),
    stop: &AtomicBool,
    executions: &AtomicU64,
) -> u64 {
    let (mut round, mut bad, mut unchanged) = (0u64, 0, 0);
    let mut last = [0; 4];
    loop {
        if code.disturb(executor, round) {
            announce();
        }
        let outcome = code.execute(round);
        bad += u64::from(!code.is_legal(outcome));
        unchanged = if outcome == last { unchanged + 1 } else { 0 };
        last = outcome;
        round += 1;
        if round.is_multiple_of(LOOK_EVERY) {
            executions.fetch_add(LOOK_EVERY, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return bad;
            }
            if unchanged > LOOK_EVERY {
                // Nobody patches: maybe for want of a processor.
                unchanged = 0;
                sys::yield_now();
            }
        }
    }
}

fn patch_until(
    code: &TestedCode,
    method: Method,
    patcher: u64,
    waiter: &mut Waiter<'_>,
    is_over: &dyn Fn() -> bool,
    [made, refused, met]: [&AtomicU64; 3],
) -> Result<(), PatchError> {
    let mut index = patcher;
    // At least one round, also where a busy machine starts this thread late.
    while index == patcher || !is_over() {
        index += 1;
        if waiter.wait(&|| index > patcher + 1 && is_over()) {
            met.fetch_add(1, Ordering::Relaxed);
        }
        for result in patch_once(code, method, index) {
            match result {
                Ok(()) => made.fetch_add(1, Ordering::Relaxed),
                Err(e) if e.refusal == Refusal::Busy => {
                    sys::yield_now();
                    refused.fetch_add(1, Ordering::Relaxed)
                }
                Err(e) => return Err(e),
            };
        }
    }
    Ok(())
}

/// Brings the site, or each site of a batch, to its version `index`.
fn patch_once(code: &TestedCode, method: Method, index: u64) -> Vec<Result<(), PatchError>> {
    let (site, value) = (code.site(), code::version(index));
    let result = match method {
        // SAFETY: all versions are one instruction of five bytes that sets one register.
        Method::Patch => unsafe { site.patch(value).map(|_| ()) },
        Method::Asynchronous => start_and_finish(site, value),
        Method::Batch => {
            let patches: Vec<_> = code.sites().map(|site| (site, value)).collect();
            // SAFETY: all versions are one instruction of five bytes that sets one register.
            return unsafe { crate::patch_all(&patches) }.into_iter().map(|r| r.map(|_| ())).collect();
        }
        Method::Callpatch(_) => code.call().map_or(Ok(()), |call| match index.is_multiple_of(2) {
            true => call.activate(),
            false => call.deactivate(),
        }),
        Method::Unprotected => {
            write_halves(site.addr(), value);
            Ok(())
        }
    };
    vec![result]
}

fn start_and_finish(site: Site, value: u64) -> Result<(), PatchError> {
    // SAFETY: all versions are one instruction of five bytes that sets one register.
    unsafe { site.start(value) }?;
    while site.finish() != crate::Progress::Finished {
        core::hint::spin_loop();
    }
    Ok(())
}

/// Writes the bytes before and after the boundary one after the other, the wait of the current separation between.
fn write_halves(site: CodeAddr, value: u64) {
    let front = site.bytes_to_boundary(crate::LINE_BYTES).min(code::SITE_BYTES);
    for at in 0..code::SITE_BYTES {
        if at == front && matches!(barrier::separation(), Separation::Wait { .. }) {
            barrier::pass();
        }
        // SAFETY: the bytes of a function made by `TestedCode::build`, writable.
        unsafe { crate::store::store(site.0 + at, 1, value >> (8 * at)) };
    }
}
