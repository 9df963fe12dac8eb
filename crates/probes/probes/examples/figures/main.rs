//! The paper's Figures 9 to 14 and Tables 1 to 3 on this machine, as SVG: `cargo run --release -p probes --example figures -- DIRECTORY`.
//! The paper's measurements are drawn beside ours, or given in the second line where it states no figures.
//!
//! It takes about two minutes. Nothing is asserted: the pictures are for viewing.

mod programs;

use patch::{
    CallSite, CodeAddr, Encoding, Progress, Site, calibrate, exercise::Executor, near, patch_all, sys::ticks,
};
use probes::{ProbeId, ProbeKind, Provider, registry};
use report::svg::{Bar, Bars, Chart, ChartMark, ChartPoint, ChartSeries, short};
use std::{
    arch::asm,
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

fn main() {
    let out = std::env::args().nth(1).unwrap_or_else(|| "docs/figures".to_owned());
    let out = Path::new(&out);
    std::fs::create_dir_all(out).expect("the directory can be made");
    let write = |name: &str, svg: String| {
        std::fs::write(out.join(name), svg).expect("the figure can be written");
        eprintln!("{}", out.join(name).display());
    };
    write("figure09-tmax.svg", figure_9());
    write("figure10-costs.svg", figure_10());
    write("figure11-threads.svg", figure_11());
    write("figure12-toggle-rate.svg", figure_12());
    write("figure13-raw-patches.svg", figure_13());
    write("table2-costs.svg", table_2());
    for (name, svg) in programs::figures() {
        write(name, svg);
    }
}

fn mark(x: f64, words: &str) -> ChartMark {
    ChartMark { x, words: words.to_owned() }
}

/// The share of toggles that some execution saw torn, by the wait between the steps.
fn figure_9() -> String {
    let waits = [1, 100, 200, 400, 600, 800, 1_200, 1_600, 2_400, 3_200, 6_400, 12_800];
    let result = calibrate::calibrate(&waits, Duration::from_millis(250)).expect("own code can be patched");
    let mut lines: BTreeMap<(bool, u8), BTreeMap<u64, (u64, u64)>> = BTreeMap::new();
    for p in &result.points {
        let executor = match p.executor {
            Executor::Hot => 0,
            Executor::Cold => 1,
            Executor::TlbThrashed => 2,
        };
        let sums = lines.entry((p.page, executor)).or_default().entry(p.wait_ticks).or_default();
        sums.0 += p.torn;
        sums.1 += p.toggles;
    }
    let names = ["hot", "cold lines", "TLB thrashed"];
    let series = lines
        .iter()
        .map(|((page, executor), points)| ChartSeries {
            name: format!("{}, {}", if *page { "page" } else { "line" }, names[usize::from(*executor)]),
            // A floor for none: the axis is logarithmic.
            points: points
                .iter()
                .map(|(wait, (torn, toggles))| ChartPoint {
                    x: *wait as f64,
                    y: (*torn as f64 / (*toggles).max(1) as f64).max(1e-7),
                })
                .collect(),
        })
        .collect();
    Chart {
        title: "Figure 9: torn executions a toggle, by the wait between the steps of a straddler",
        subtitle: "Four splits joined; 1e-7 stands for none.\nThe paper: none from 400 to 600 ticks on; with two sockets it waits 3,000.",
        x: "wait, TSC ticks",
        y: "torn executions a toggle",
        x_log: true,
        y_log: true,
        steps: false,
        series,
        marks: vec![mark(400.0, "paper: i7-3770"), mark(600.0, "paper: all single-socket"), mark(3000.0, "paper: two sockets")],
    }
    .svg()
}

/// `nop5; ret` with the nop `before` bytes before the end of a cache line (0: inside one).
fn function(before: usize) -> usize {
    let place = near::allocate_near(function as *const () as usize, 192)
        .expect("room near the code")
        .next_multiple_of(64);
    let at = if before == 0 { place } else { place + 64 - before };
    let code = [0x0f, 0x1f, 0x44, 0, 0, 0xc3];
    // SAFETY: fresh executable memory of this program alone.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
    at
}

fn used<T>(value: T) {
    std::hint::black_box(value);
}

fn execute(at: usize) {
    // SAFETY: a function made by `function`; its probe saves all registers.
    unsafe { asm!("call {f}", f = in(reg) at, out("rax") _) };
}

/// `test eax, imm32`.
const TEST_EAX: u64 = 0x0001_0203_04a9;

fn percentile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// The distribution of the cost of single switches over 2,000 sites, one in ten a straddler.
fn figure_10() -> String {
    const SITES: usize = 2000;
    let places: Vec<usize> =
        (0..SITES).map(|i| function(if i % 10 == 0 { 1 + i / 10 % 4 } else { 0 })).collect();
    let sites: Vec<Site> =
        places.iter().map(|at| Site::open(CodeAddr(*at), 5).expect("own code can be opened")).collect();
    let nop = sites[1].bytes();
    let mut series = Vec::new();
    let mut add = |name: &str, mut costs: Vec<f64>| {
        costs.sort_by(f64::total_cmp);
        let points = costs
            .iter()
            .enumerate()
            .step_by(20)
            .map(|(i, c)| ChartPoint { x: c.max(10.0), y: 100.0 * i as f64 / costs.len() as f64 });
        series.push(ChartSeries {
            name: format!("{name} (median {})", short(percentile(&costs, 0.5))),
            points: points.collect(),
        });
    };
    let timed = |f: &mut dyn FnMut(usize)| -> Vec<f64> {
        (0..SITES)
            .map(|i| {
                let start = ticks();
                f(i);
                (ticks() - start) as f64
            })
            .collect()
    };
    // SAFETY: a nop and `test eax, imm32`, which nothing executes.
    let sync = |value| timed(&mut |i| used(unsafe { sites[i].patch(value) }));
    used(sync(TEST_EAX));
    add("wordpatch, synchronous", sync(nop));
    // SAFETY: a nop and `test eax, imm32`, which nothing executes.
    add("wordpatch, start only", timed(&mut |i| used(unsafe { sites[i].start(TEST_EAX) })));
    for site in &sites {
        while site.finish() != Progress::Finished {}
    }
    let start = ticks();
    let patches: Vec<(Site, u64)> = sites.iter().map(|site| (*site, nop)).collect();
    // SAFETY: a nop and `test eax, imm32`, which nothing executes.
    let results = unsafe { patch_all(&patches) };
    let batch = (ticks() - start) as f64 / results.len() as f64;
    let calls: Vec<ProbeId> = (0..SITES)
        .map(|i| {
            let at = CodeAddr(function(if i % 10 == 0 { 1 + i / 10 % 4 } else { 0 }));
            // SAFETY: the nop of a function made above.
            unsafe { registry::add_call_site(at, at, ProbeKind::Point, Provider::Manual) }
                .expect("room for a probe")
        })
        .collect();
    used(timed(&mut |i| used(registry::switch(calls[i], true))));
    add("callpatch, activate", timed(&mut |i| used(registry::switch(calls[i], true))));
    add("callpatch, deactivate", timed(&mut |i| used(registry::switch(calls[i], false))));
    Chart {
        title: "Figure 10: cost of switching one probe, cumulated; one site in ten is a straddler",
        subtitle: "The paper: two modes for synchronous wordpatch, 300 and 8,850;\none mode for asynchronous and callpatch, 315 to 432.",
        x: "TSC ticks",
        y: "per cent of the probes cost at most",
        x_log: true,
        y_log: false,
        steps: true,
        series,
        marks: vec![
            mark(300.0, "paper: in a line"),
            mark(8850.0, "paper: straddler"),
            mark(batch, "here: batch of 2,000, each"),
        ],
    }
    .svg()
}

extern "C" fn empty(_id: u32, _frame: *mut usize) {}
extern "C" fn other(_id: u32, _frame: *mut usize) {}

/// The middle of some tries.
fn throughput(at: usize, executors: usize, rate: f64, mut toggle: impl FnMut(u64)) -> f64 {
    let mut tries: Vec<f64> = (0..5).map(|_| one_throughput(at, executors, rate, &mut toggle)).collect();
    tries.sort_by(f64::total_cmp);
    tries[tries.len() / 2]
}

/// Seconds of processor time of the calling thread.
fn thread_cpu() -> f64 {
    // SAFETY: an all-zero timespec is valid, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Executions of the function at `at` by `executors` threads while `toggle` is called `rate` times a second: for each
/// thread a second of its own processor time, because other programs run as well; added.
fn one_throughput(at: usize, executors: usize, rate: f64, toggle: &mut dyn FnMut(u64)) -> f64 {
    let stop = AtomicBool::new(false);
    let sum = Mutex::new(0.0);
    let length = Duration::from_millis(60);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..executors {
            scope.spawn(|| {
                let (mut done, begin) = (0u64, thread_cpu());
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..64 {
                        execute(at);
                    }
                    done += 64;
                }
                *sum.lock().expect("no thread panics") += done as f64 / (thread_cpu() - begin).max(1e-9);
            });
        }
        let mut made = 0u64;
        while begin.elapsed() < length {
            if begin.elapsed().as_secs_f64() * rate > made as f64 {
                toggle(made);
                made += 1;
            } else if rate < 20_000.0 {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    sum.into_inner().expect("no thread panics")
}

const RATES: [f64; 7] = [10.0, 100.0, 1e3, 1e4, 1e5, 3e5, 1e6];

fn probe() -> (usize, ProbeId) {
    let at = function(0);
    // SAFETY: the nop of a function made above.
    let id =
        unsafe { registry::add_call_site(CodeAddr(at), CodeAddr(at), ProbeKind::Point, Provider::Manual) };
    let id = id.expect("room for a probe");
    registry::activate(id, empty).expect("one patcher");
    (at, id)
}

fn figure_11() -> String {
    let (at, id) = probe();
    let mut series = Vec::new();
    for rate in [0.0, 1e3, 1e5] {
        let on_on = (1..=4).map(|n| {
            let toggle =
                |i: u64| used(registry::set_handler(id, if i.is_multiple_of(2) { other } else { empty }));
            ChartPoint { x: n as f64, y: throughput(at, n, rate, toggle) }
        });
        series.push(ChartSeries {
            name: format!("handlers exchanged {}/s", short(rate)),
            points: on_on.collect(),
        });
    }
    for rate in [1e3, 1e5] {
        let on_off = (1..=4).map(|n| ChartPoint {
            x: n as f64,
            y: throughput(at, n, rate, |i| used(registry::switch(id, i % 2 == 1))),
        });
        series.push(ChartSeries { name: format!("off and on {}/s", short(rate)), points: on_off.collect() });
    }
    Chart {
        title: "Figure 11: calls through one probe, by executing threads",
        subtitle: "The paper (16 cores): linear in threads at every rate.\nThis machine has two processors: calls a second of each thread's processor time, added.",
        x: "executing threads",
        y: "calls a second of processor time",
        x_log: false,
        y_log: false,
        steps: false,
        series,
        marks: Vec::new(),
    }
    .svg()
}

fn figure_12() -> String {
    let (at, id) = probe();
    let series = [1, 2]
        .map(|n| ChartSeries {
            name: format!("{n} executing"),
            points: RATES
                .iter()
                .map(|r| ChartPoint {
                    x: *r,
                    y: throughput(at, n, *r, |i| used(registry::switch(id, i % 2 == 1))),
                })
                .collect(),
        })
        .into_iter()
        .collect();
    Chart {
        title: "Figure 12: calls through a probe that is switched off and on, by toggles a second",
        subtitle: "The paper: unaffected through 100,000 toggles a second, then falling.",
        x: "toggles a second asked for",
        y: "calls a second of processor time",
        x_log: true,
        y_log: false,
        steps: false,
        series,
        marks: vec![mark(1e5, "paper: falls from here")],
    }
    .svg()
}

fn figure_13() -> String {
    let mut series = Vec::new();
    for (name, before) in [("wordpatch in a line", 0), ("wordpatch straddler", 2)] {
        let at = function(before);
        let site = Site::open(CodeAddr(at), 5).expect("own code can be opened");
        let nop = site.bytes();
        let points = RATES.iter().map(|rate| {
            // SAFETY: a nop and `test eax, imm32`, without effect where they are executed.
            let toggle =
                |i: u64| used(unsafe { site.patch(if i.is_multiple_of(2) { TEST_EAX } else { nop }) });
            ChartPoint { x: *rate, y: throughput(at, 1, *rate, toggle) }
        });
        series.push(ChartSeries { name: name.to_owned(), points: points.collect() });
    }
    for (name, encoding) in
        [("callpatch, one byte", Encoding::OneByte), ("callpatch, paper's", Encoding::Paper)]
    {
        let at = function(2);
        let callee = CodeAddr(function(0) + 5);
        // SAFETY: the nop of a function made above; the callee is a `ret`.
        let call =
            unsafe { CallSite::prepare(CodeAddr(at), callee, encoding) }.expect("a nop can be prepared");
        let points = RATES.iter().map(|rate| {
            let toggle = |i: u64| used(if i.is_multiple_of(2) { call.activate() } else { call.deactivate() });
            ChartPoint { x: *rate, y: throughput(at, 1, *rate, toggle) }
        });
        series.push(ChartSeries { name: format!("{name}, straddler"), points: points.collect() });
    }
    Chart {
        title: "Figure 13: calls through a patched site, by patches a second",
        subtitle: "The paper: all fall at high rates, wordpatch on straddlers and Java's VolatileCallSite far more.",
        x: "patches a second asked for",
        y: "calls a second of processor time",
        x_log: true,
        y_log: false,
        steps: false,
        series,
        marks: Vec::new(),
    }
    .svg()
}

/// Medians of activation and invocation beside the paper's.
fn table_2() -> String {
    let median = |f: &mut dyn FnMut(u64)| {
        let mut all: Vec<f64> = (0..301)
            .map(|_| {
                let start = ticks();
                (0..100).for_each(&mut *f);
                (ticks() - start) as f64 / 100.0
            })
            .collect();
        all.sort_by(f64::total_cmp);
        percentile(&all, 0.5)
    };
    let (at, id) = probe();
    let bare = function(0);
    let base = median(&mut |_| execute(bare));
    let hit = median(&mut |_| execute(at)) - base;
    let toggle = median(&mut |i| used(registry::switch(id, i % 2 == 1)));
    let word = |before| {
        let site = Site::open(CodeAddr(function(before)), 5).expect("own code can be opened");
        let nop = site.bytes();
        // SAFETY: a nop and `test eax, imm32`; nothing executes them.
        median(&mut |i| used(unsafe { site.patch(if i.is_multiple_of(2) { TEST_EAX } else { nop }) }))
    };
    let paper = |name: &str, value: f64| Bar { label: format!("paper: {name}"), value, is_reference: true };
    let here = |name: &str, value: f64| Bar { label: name.to_owned(), value, is_reference: false };
    Bars {
        title: "Table 2: TSC ticks to switch a probe, and to hit it",
        subtitle: "Means in the paper, medians here.\nXRay, uprobes and retour on this machine: cargo xtask bench probes others.",
        note: "TSC ticks, logarithmic; blue: this machine, grey: the paper",
        log: true,
        bars: vec![
            here("switch a probe, callpatch", toggle),
            paper("activation, callpatch", 432.0),
            paper("deactivation, callpatch", 315.0),
            here("wordpatch in a line", word(0)),
            paper("activation in a line", 300.0),
            paper("deactivation in a line", 120.0),
            here("wordpatch of a straddler", word(2)),
            paper("activation of a straddler", 8850.0),
            paper("JVM VolatileCallSite", 995.0),
            paper("JVM MutableCallSite", 1432.0),
            paper("DTrace, activation", 70_771.0),
            paper("Dyninst, activation", 1_929_244.0),
            here("hit, empty handler", hit.max(1.0)),
            paper("invocation, fastinst", 35.0),
            paper("invocation, JVM VolatileCallSite", 55.0),
            paper("invocation, Dyninst", 320.0),
            paper("invocation, DTrace", 1176.0),
        ],
    }
    .svg()
}
