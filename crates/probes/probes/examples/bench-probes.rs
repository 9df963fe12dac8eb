//! The figures of the probe layer on this machine, beside the paper's: `cargo run --release -p probes --example bench-probes`.
//!
//! All figures are in TSC ticks; they are medians of batches, so that a preempted batch does not count. The project's limits are in
//! the last column. Nothing is asserted: figures of a shared machine are for reading. A figure that is stated relative to a base is
//! measured in turns with that base. So is a second base, whose difference from the first shows how much a difference means.

use patch::{CallSite, CodeAddr, Encoding, Site, near, patch_all, sys::ticks};
use probes::{ProbeId, ProbeKind, Provider, registry};
use std::{
    arch::asm,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

const BATCHES: usize = 301;
/// `test eax, imm32`, five bytes.
const TEST_EAX: u64 = 0x0001_0203_04a9;

fn median(mut batch: impl FnMut() -> f64) -> f64 {
    let mut all: Vec<f64> = (0..BATCHES).map(|_| batch()).collect();
    all.sort_by(f64::total_cmp);
    all[BATCHES / 2]
}

/// The middle of the differences between two batches that follow each other.
fn above(mut base: impl FnMut() -> f64, mut batch: impl FnMut() -> f64) -> f64 {
    median(|| {
        let base = base();
        batch() - base
    })
}

/// Keeps the calling thread on one processor, where the machine has it.
fn stay_on(cpu: usize) {
    const SCHED_SETAFFINITY: i64 = 203;
    let set = 1_u64 << cpu;
    // SAFETY: the kernel reads eight bytes of a set that lives. A refusal changes nothing.
    unsafe { patch::sys::syscall(SCHED_SETAFFINITY, [0, 8, &raw const set as usize, 0, 0, 0]) };
}

fn used<T>(value: T) {
    std::hint::black_box(value);
}

fn per(count: usize, mut f: impl FnMut(usize)) -> f64 {
    let start = ticks();
    for index in 0..count {
        f(index);
    }
    (ticks() - start) as f64 / count as f64
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

fn execute(at: usize) {
    // SAFETY: a function made by `function`; its probe saves all registers.
    unsafe { asm!("call {f}", f = in(reg) at, out("rax") _) };
}

fn row(what: &str, measured: f64, paper: &str, limit: &str) {
    println!("| {what:<58} | {measured:>10.1} | {paper:>8} | {limit:>7} |");
}

extern "C" fn empty(_id: u32, _frame: *mut usize) {}

static mut STAMP: u64 = 0;

extern "C" fn stamp(_id: u32, _frame: *mut usize) {
    // SAFETY: this program hits it on one thread.
    unsafe { STAMP = ticks() };
}

fn main() {
    println!("| {:<58} | {:>10} | {:>8} | {:>7} |", "ticks", "measured", "paper", "limit");
    println!("|{:-<60}|{:->12}|{:->10}|{:->9}|", "", "", "", "");
    toggles();
    batch();
    initialisation();
    hits();
}

fn toggles() {
    let callee = CodeAddr(function(0) + 5);
    let call = |at: usize, encoding| {
        // SAFETY: the nop of a function made above; the callee is a `ret`.
        unsafe { CallSite::prepare(CodeAddr(at), callee, encoding) }.expect("a nop can be prepared")
    };
    let toggle = |site: CallSite| {
        median(|| {
            per(1000, |i| if i % 2 == 0 { site.activate() } else { site.deactivate() }.expect("one patcher"))
        })
    };
    row("toggle, one byte, no other thread", toggle(call(function(0), Encoding::OneByte)), "300-432", "150");
    row(
        "toggle, one byte, straddler, no other thread",
        toggle(call(function(2), Encoding::OneByte)),
        "300-432",
        "150",
    );
    row(
        "toggle, paper's encoding 1/4, no other thread",
        toggle(call(function(1), Encoding::Paper)),
        "315-432",
        "150",
    );
    row(
        "toggle, paper's encoding 3/2, no other thread",
        toggle(call(function(3), Encoding::Paper)),
        "315-432",
        "150",
    );
    let word = |at: usize| {
        let site = Site::open(CodeAddr(at), 5).expect("own code");
        let nop = site.bytes();
        // SAFETY: another nop of five bytes with the same effect: none.
        median(|| per(1000, |i| used(unsafe { site.patch(if i % 2 == 0 { nop | 0x01 << 32 } else { nop }) })))
    };
    row("wordpatch inside a line, no other thread", word(function(0)), "120-300", "150");
    let straddler = Site::open(CodeAddr(function(2)), 5).expect("own code");
    let nop = straddler.bytes();
    // SAFETY: a nop and `test eax, imm32`, both without effect here.
    let sync =
        || median(|| per(20, |i| used(unsafe { straddler.patch(if i % 2 == 0 { TEST_EAX } else { nop }) })));
    row("wordpatch of a straddler, no other thread", sync(), "8850", "-");

    let at = function(0);
    let hot = call(at, Encoding::OneByte);
    let stop = AtomicBool::new(false);
    // Written by the executor alone, relaxed: only that it moves is asked for.
    let executed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let executor = scope.spawn(|| {
            stay_on(1);
            while !stop.load(Ordering::Relaxed) {
                execute(at);
                executed.store(executed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        });
        stay_on(0);
        std::thread::sleep(std::time::Duration::from_millis(5));
        // On a busy machine the executor does not always have a processor: such batches say nothing.
        let mut seen = (0_u32, 0_u32);
        let mut meanwhile = |batch: &mut dyn FnMut() -> f64| loop {
            let before = executed.load(Ordering::Relaxed);
            let cost = batch();
            seen.1 += 1;
            if executed.load(Ordering::Relaxed) - before >= 100 {
                seen.0 += 1;
                return cost;
            }
        };
        let toggled = median(|| {
            meanwhile(&mut || {
                per(1000, |i| {
                    if i % 2 == 0 { hot.activate() } else { hot.deactivate() }.expect("one patcher")
                })
            })
        });
        row("toggle, one byte, another thread executes the site", toggled, "300-432", "350");
        let value = |i: usize| if i.is_multiple_of(2) { TEST_EAX } else { nop };
        // SAFETY: a nop and `test eax, imm32`, both without effect here.
        let patched = median(|| meanwhile(&mut || per(20, |i| used(unsafe { straddler.patch(value(i)) }))));
        row("wordpatch of a straddler, another thread runs", patched, "8850", "-");
        stop.store(true, Ordering::Relaxed);
        executor.join().expect("the executor does not panic");
        eprintln!("the other thread ran in {} of {} batches", seen.0, seen.1);
    });
}

fn batch() {
    let sites: Vec<Site> =
        (0..1000).map(|i| Site::open(CodeAddr(function(1 + i % 4)), 5).expect("own code")).collect();
    let nop = sites[0].bytes();
    let mut round = 0;
    let cost = median(|| {
        round += 1;
        let value = if round % 2 == 0 { nop } else { TEST_EAX };
        let patches: Vec<(Site, u64)> = sites.iter().map(|site| (*site, value)).collect();
        // SAFETY: a nop and `test eax, imm32`, both without effect here.
        per(1, |_| used(unsafe { patch_all(&patches) })) / 1000.0
    });
    row("batch of 1,000 straddlers, a site", cost, "-", "200");
}

fn add(at: usize) -> ProbeId {
    // SAFETY: the nop of a function made by `function`.
    unsafe { registry::add_call_site(CodeAddr(at), CodeAddr(at), ProbeKind::Point, Provider::Manual) }
        .expect("room for a probe")
}

fn initialisation() {
    let cost = median(|| {
        let places: Vec<usize> = (0..64).map(|_| function(0)).collect();
        per(64, |i| used(add(places[i])))
    });
    row("initialisation of a probe", cost, "18000", "2000");
}

fn hits() {
    let calls = |at: usize| move || per(10_000, |_| execute(at));
    let bare = function(0);
    row("call of a function with a five-byte nop (the base)", median(calls(bare)), "-", "-");
    row("a second such function, above the base", above(calls(bare), calls(function(0))), "-", "-");
    let at = function(0);
    let id = add(at);
    row("inactive probe, above the base", above(calls(bare), calls(at)), "1-4", "0");
    registry::activate(id, empty).expect("one patcher");
    row("hit, empty handler, above the base", above(calls(bare), calls(at)), "35", "10");
    registry::set_handler(id, stamp).expect("the probe exists");
    row("hit, handler takes a time stamp, above the base", above(calls(bare), calls(at)), "-", "30");
}
