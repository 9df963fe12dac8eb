//! The governor: keeps the cost of the probes within a budget, and reports what is not counted as a consequence.
//!
//! It adds up the cost: the time that handlers report, the way to them, counting and traps at the costs measured
//! on this machine ([`super::costs`]), and the processor time of the epoch thread. If an epoch exceeds its budget,
//! the next ones spend less, so that the share is kept over a run, and not only from one epoch to the next.
//!
//! It controls two things. Measuring is limited by opening fewer of the shut windows per epoch, in the order in which
//! they shut, and for fewer long calls ([`thrift`]). Counting costs a few ticks per call, which is a lot for a function
//! that does little and is called all the time. Such functions are switched off altogether for some epochs, and on
//! again for one. Their calls while switched off are estimated from the rates before and after, in processor time. The
//! error is the range between the lowest and the highest rate ever seen, since a burst may have come and gone.
//!
//! Without a budget no probe is ever switched off, and counts are exact. Measuring is still limited, to [`MEASURING_SHARE`].

use super::{
    costs::{self, KnownCosts},
    processor_time, window,
};
use crate::{ProbeId, registry, thread};
use patch::sys;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

/// The share of the processor time that the handlers of measured calls may take, with a budget maybe less.
const MEASURING_SHARE: f64 = 0.01;
/// How much more or less is measured from one epoch to the next, and the most that is left out.
const THRIFT_STEP: f64 = 1.25;
const MOST_THRIFT: f64 = 1000.0;
/// How many epochs of overspending are remembered, and how many of thrift.
const MOST_DEBT: f64 = 50.0;
const MOST_CREDIT: f64 = 2.0;
/// For how many epochs a function is switched off at first, and at most.
const OFF_EPOCHS: u32 = 4;
const MOST_OFF_EPOCHS: u32 = 64;

/// [`thrift`], in thousandths; 0: one. Written by the epoch thread.
static THRIFT: AtomicU32 = AtomicU32::new(0);

/// How many times less is measured than was asked for: at least 1.
pub(super) fn thrift() -> f64 {
    f64::from(THRIFT.load(Ordering::Relaxed).max(1000)) / 1000.0
}

static GOVERNOR: Mutex<Option<Governor>> = Mutex::new(None);

fn governor() -> MutexGuard<'static, Option<Governor>> {
    GOVERNOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls that were not counted, as an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Missed {
    /// How many.
    pub calls: f64,
    /// The variance of that.
    pub variance: f64,
}

/// A function that is, or was, switched off.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// Whether its probe is off now.
    is_off: bool,
    /// Epochs until it is switched on; how long the next pause will be.
    epochs_left: u32,
    epochs_next: u32,
    /// Calls a nanosecond of processor time before the pause.
    rate: f64,
    /// The lowest and the highest rate of an epoch while it was on.
    lowest: f64,
    highest: f64,
    /// When it was switched off or on, in processor time.
    since_ns: u64,
    /// Processor time of the pause that waits for the rate after it.
    waiting_ns: u64,
    missed: Missed,
}

impl Pause {
    /// What is missed with the pause under way, for which there is no rate after it.
    fn missed(&self, cpu_ns: u64) -> Missed {
        let off_ns = self.waiting_ns + if self.is_off { cpu_ns.saturating_sub(self.since_ns) } else { 0 };
        let calls = off_ns as f64 * self.rate;
        let error = calls.max(off_ns as f64 * self.highest);
        Missed { calls: self.missed.calls + calls, variance: self.missed.variance + error * error }
    }

    /// Notes the rate of an epoch.
    fn saw(&mut self, rate: f64) {
        self.lowest = self.lowest.min(rate);
        self.highest = self.highest.max(rate);
    }

    /// Books the pause that is over, now that `rate` after it is known.
    fn book(&mut self, rate: f64) {
        let off_ns = self.waiting_ns as f64;
        self.missed.calls += off_ns * (self.rate + rate) / 2.0;
        // Whatever the function was called at any other time it may have been called then: a burst can have come and gone.
        self.saw(rate);
        let chance = (off_ns * (self.rate + rate) / 2.0).sqrt();
        let difference = (off_ns * (self.highest - self.lowest)).max(chance);
        self.missed.variance += difference * difference;
        (self.waiting_ns, self.rate) = (0, rate);
    }
}

struct Governor {
    budget: Option<f64>,
    round: u32,
    last_cpu_ns: u64,
    last_ticks: u64,
    last_time: Instant,
    /// The processor time of the epoch thread, whose the governor is.
    last_own_ns: u64,
    last_handlers: u64,
    costs: KnownCosts,
    /// What was allowed so far and not spent, in ticks; below zero: the other way round.
    credit_ticks: f64,
    /// Calls by function at the last epoch.
    counts: Vec<u64>,
    pauses: BTreeMap<u32, Pause>,
}

/// A function's calls in an epoch.
struct Called {
    function: u32,
    calls: u64,
    /// What counting them took.
    ticks: f64,
}

/// What an epoch is to do.
#[derive(Default)]
pub(super) struct Orders {
    /// How many shut windows are opened.
    opened: usize,
    off: Vec<u32>,
    on: Vec<u32>,
    are_off: Vec<u32>,
}

impl Orders {
    /// Takes the functions out of `shut` whose windows are opened: those that have waited longest.
    pub(super) fn take_due(&self, shut: &mut Vec<u32>) -> Vec<u32> {
        let mut due = Vec::new();
        shut.retain(|function| {
            let opens = due.len() < self.opened && self.are_off.binary_search(function).is_err();
            due.extend(opens.then_some(*function));
            !opens
        });
        due
    }
}

/// Begins anew. Called by the epoch thread.
pub(super) fn start(budget_percent: Option<f64>) {
    THRIFT.store(0, Ordering::Relaxed);
    *governor() = Some(Governor {
        budget: budget_percent.map(|p| p / 100.0),
        round: 0,
        last_cpu_ns: processor_time::process_ns(),
        last_ticks: sys::ticks(),
        last_time: Instant::now(),
        last_own_ns: processor_time::thread_ns(),
        last_handlers: thread::handlers_timed(),
        costs: costs::measure(),
        credit_ticks: 0.0,
        counts: Vec::new(),
        pauses: BTreeMap::new(),
    });
}

/// Calls of a function that were not counted.
#[must_use]
pub fn missed(function: u32) -> Missed {
    let governor = governor();
    let pause = governor.as_ref().and_then(|g| g.pauses.get(&function));
    pause.map_or(Missed::default(), |pause| pause.missed(processor_time::process_ns()))
}

/// Looks at what the last epoch cost. `shut` are the windows that could be opened.
pub(super) fn orders(shut: &[u32]) -> Orders {
    let mut governor = governor();
    governor.as_mut().map_or_else(Orders::default, |g| g.orders(shut.len()))
}

/// Switches off and on what was ordered. To be called while no code can be unloaded.
pub(super) fn carry_out(orders: &Orders) {
    for (functions, on) in [(&orders.off, false), (&orders.on, true)] {
        let probes: Vec<ProbeId> = functions.iter().flat_map(|f| registry::probes_of(*f)).collect();
        if !probes.is_empty() {
            registry::switch_all(&probes, on);
        }
    }
}

/// What is left of `credit` after an epoch, in ticks. Bounded: a start that could not be known in advance is not paid for until the
/// end, and after a quiet time not everything is spent at once.
fn carried(credit: f64, allowed: f64, spent: f64) -> f64 {
    (credit + allowed - spent).clamp(-MOST_DEBT * allowed, MOST_CREDIT * allowed)
}

/// The thrift after an epoch that took `spent` of what was `allowed`, and has everybody know.
fn paced(thrift: f64, spent: f64, allowed: f64) -> f64 {
    let step = (spent / allowed.max(1.0)).clamp(1.0 / THRIFT_STEP, THRIFT_STEP);
    let thrift = (thrift * step).clamp(1.0, MOST_THRIFT);
    THRIFT.store((thrift * 1000.0) as u32, Ordering::Relaxed);
    thrift
}

/// How many of so many shut windows are opened.
fn opened(shut: usize, thrift: f64) -> usize {
    (shut as f64 / thrift).ceil() as usize
}

impl Governor {
    fn orders(&mut self, shut: usize) -> Orders {
        self.round = self.round.wrapping_add(1);
        let (cpu_ns, ticks, time) = (processor_time::process_ns(), sys::ticks(), Instant::now());
        let used_ns = cpu_ns.saturating_sub(self.last_cpu_ns).max(1);
        let elapsed_ns = time.duration_since(self.last_time).as_nanos().max(1) as f64;
        let ticks_per_ns = ticks.saturating_sub(self.last_ticks) as f64 / elapsed_ns;
        (self.last_cpu_ns, self.last_ticks, self.last_time) = (cpu_ns, ticks, time);
        let used_ticks = used_ns as f64 * ticks_per_ns;
        let in_handlers = self.in_handlers();
        let measuring_ticks = MEASURING_SHARE * used_ticks;
        let Some(budget) = self.budget else {
            let thrift = paced(thrift(), in_handlers, measuring_ticks);
            return Orders { opened: opened(shut, thrift), ..Orders::default() };
        };
        let calls = self.calls_of_epoch();
        let own_ticks = self.own_ns() * ticks_per_ns;
        let spent_ticks = in_handlers + own_ticks + calls.iter().map(|c| c.ticks).sum::<f64>();
        let allowed_ticks = budget * used_ticks;
        self.credit_ticks = carried(self.credit_ticks, allowed_ticks, spent_ticks);
        let half_ticks = ((allowed_ticks + self.credit_ticks) / 2.0).max(0.0);
        let thrift = paced(thrift(), in_handlers, (half_ticks - own_ticks).min(measuring_ticks));
        let mut orders = Orders { opened: opened(shut, thrift), ..Orders::default() };
        self.pause(&mut orders, calls, half_ticks, used_ns, cpu_ns);
        orders.are_off = self.pauses.iter().filter(|(_, p)| p.is_off).map(|(f, _)| *f).collect();
        orders
    }

    /// The functions that were called since the last epoch.
    fn calls_of_epoch(&mut self) -> Vec<Called> {
        let count = registry::function_count();
        self.counts.resize(count as usize, 0);
        let mut called = Vec::new();
        for function in 0..count {
            let now = thread::counted(function);
            let before = std::mem::replace(&mut self.counts[function as usize], now);
            let calls = now.saturating_sub(before);
            if calls > 0 {
                let is_trap = registry::probes_of(function).any(registry::is_trap);
                let trap_ticks = if is_trap { self.costs.trap_ticks } else { 0 };
                called.push(Called {
                    function,
                    calls,
                    ticks: (calls * (self.costs.counted_ticks + trap_ticks)) as f64,
                });
            }
        }
        called
    }

    /// What handlers took since the last epoch.
    fn in_handlers(&mut self) -> f64 {
        let handlers = thread::handlers_timed();
        handlers.saturating_sub(std::mem::replace(&mut self.last_handlers, handlers)) as f64
    }

    /// The processor time of this thread since the last epoch.
    fn own_ns(&mut self) -> f64 {
        let own_ns = processor_time::thread_ns();
        own_ns.saturating_sub(std::mem::replace(&mut self.last_own_ns, own_ns)) as f64
    }

    /// Which functions are switched off and on.
    fn pause(
        &mut self,
        orders: &mut Orders,
        mut called: Vec<Called>,
        allowed_ticks: f64,
        used_ns: u64,
        cpu_ns: u64,
    ) {
        let of = |function: u32| called.iter().find(|c| c.function == function).map_or(0, |c| c.calls);
        for (function, pause) in &mut self.pauses {
            if pause.is_off {
                pause.epochs_left = pause.epochs_left.saturating_sub(1);
                if pause.epochs_left == 0 {
                    pause.is_off = false;
                    pause.waiting_ns = cpu_ns.saturating_sub(pause.since_ns);
                    pause.since_ns = cpu_ns;
                    orders.on.push(*function);
                }
            } else if pause.waiting_ns > 0 {
                let on_ns = cpu_ns.saturating_sub(pause.since_ns).max(1);
                pause.book(of(*function) as f64 / on_ns as f64);
            }
        }
        called.sort_unstable_by(|a, b| b.ticks.total_cmp(&a.ticks));
        let mut cost = called.iter().map(|c| c.ticks).sum::<f64>();
        for Called { function, calls, ticks } in called {
            if cost <= allowed_ticks {
                break;
            }
            let pause = self.pauses.entry(function).or_default();
            if pause.is_off || pause.waiting_ns > 0 {
                continue;
            }
            pause.epochs_next = (pause.epochs_next * 2).clamp(OFF_EPOCHS, MOST_OFF_EPOCHS);
            pause.epochs_left = pause.epochs_next;
            pause.rate = calls as f64 / used_ns as f64;
            if pause.highest == 0.0 {
                // Before its first pause it was called less, or it would have been switched off: maybe not at all.
                pause.lowest = if self.round > 1 { 0.0 } else { pause.rate };
            }
            pause.saw(pause.rate);
            (pause.is_off, pause.since_ns) = (true, cpu_ns);
            orders.off.push(function);
            cost -= ticks;
        }
        // The stratum ends here: what is counted later is of other epochs.
        window::settle(&orders.off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_filled_from_both_sides() {
        let mut pause = Pause { is_off: true, rate: 0.002, since_ns: 1_000, ..Pause::default() };
        (pause.lowest, pause.highest) = (0.002, 0.002);
        let under_way = pause.missed(2_001_000);
        assert_eq!(under_way.calls, 4_000.0);
        assert_eq!(under_way.variance.sqrt(), 4_000.0, "nothing is known of what came after");
        (pause.is_off, pause.waiting_ns) = (false, 2_000_000);
        pause.book(0.001);
        assert_eq!(pause.missed(9_000_000), Missed { calls: 3_000.0, variance: 4e6 });
    }

    #[test]
    fn windows_open_in_the_order_in_which_they_shut() {
        let orders = Orders { opened: 2, are_off: vec![5], ..Orders::default() };
        let mut shut = vec![9, 5, 1, 7];
        assert_eq!((orders.take_due(&mut shut), shut), (vec![9, 1], vec![5, 7]));
        assert_eq!((opened(0, 8.0), opened(3, 8.0), opened(17, 8.0), opened(17, 1.0)), (0, 1, 3, 17));
    }

    #[test]
    fn measuring_takes_what_is_allowed_after_a_while() {
        // A hundred functions, all called all the time, cost ten times as much as is allowed if all windows open.
        let (mut thrift, mut spent) = (1.0, 0.0);
        for _ in 0..50 {
            spent = 10_000.0 * opened(100, thrift) as f64 / 100.0;
            thrift = paced(thrift, spent, 1000.0);
        }
        assert!((spent - 1000.0).abs() <= 300.0, "{spent}");
        assert_eq!(paced(1.0, 10.0, 1000.0), 1.0, "never more than was asked for");
    }

    #[test]
    fn what_was_spent_too_much_is_saved_later() {
        let (mut credit, mut spent) = (0.0, 0.0);
        // Every third epoch costs more than was allowed for it, whatever the governor does.
        for epoch in 0..300 {
            let target = f64::max(100.0 + credit, 0.0);
            let cost = if epoch % 3 == 0 { f64::max(target, 180.0) } else { target };
            credit = carried(credit, 100.0, cost);
            spent += cost;
        }
        assert!((spent / 300.0 - 100.0).abs() < 2.0, "{spent}");
        assert_eq!(carried(0.0, 100.0, 1e9), -5000.0);
        assert_eq!(carried(0.0, 100.0, 0.0), 100.0);
        assert_eq!(carried(150.0, 100.0, 0.0), 200.0);
    }

    #[test]
    fn a_steady_rate_leaves_the_error_of_chance() {
        let (rate, waiting_ns) = (0.01, 1_000_000);
        let mut pause = Pause { rate, waiting_ns, lowest: rate, highest: rate, ..Pause::default() };
        pause.book(0.01);
        assert_eq!(pause.missed, Missed { calls: 10_000.0, variance: 10_000.0 });
    }
}
