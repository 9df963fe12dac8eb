//! `retour`: a function hooked and unhooked. The same line as the other comparison programs, see `../ticks.h`.

use retour::RawDetour;
use std::{
    arch::x86_64::__rdtscp,
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

static TRAMPOLINE: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
extern "C" fn probed(value: u64) -> u64 {
    black_box(value).wrapping_mul(3) ^ black_box(5)
}

/// An empty probe: it goes on with the function's own code.
extern "C" fn hook(value: u64) -> u64 {
    // SAFETY: set before the hook is enabled, to the trampoline of a function of this type.
    let onward: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(TRAMPOLINE.load(Ordering::Relaxed)) };
    onward(value)
}

fn ticks() -> u64 {
    let mut cpu = 0;
    // SAFETY: reads the time stamp counter.
    unsafe { __rdtscp(&mut cpu) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn calls() -> f64 {
    let called: extern "C" fn(u64) -> u64 = black_box(probed);
    median(
        (0..301)
            .map(|_| {
                let start = ticks();
                for i in 0..1000 {
                    black_box(called(i));
                }
                (ticks() - start) as f64 / 1000.0
            })
            .collect(),
    )
}

fn toggles(detour: &RawDetour) -> (f64, f64) {
    let mut all = (Vec::new(), Vec::new());
    for _ in 0..300 {
        let start = ticks();
        // SAFETY: the hook has the function's type.
        unsafe { detour.enable() }.expect("it can be hooked");
        let middle = ticks();
        // SAFETY: the hook has the function's type.
        unsafe { detour.disable() }.expect("it can be unhooked");
        all.0.push((middle - start) as f64);
        all.1.push((ticks() - middle) as f64);
    }
    (median(all.0), median(all.1))
}

fn main() {
    // SAFETY: both have the same type.
    let detour = unsafe { RawDetour::new(probed as *const (), hook as *const ()) }.expect("it can be hooked");
    TRAMPOLINE.store(std::ptr::from_ref(detour.trampoline()) as usize, Ordering::Relaxed);
    let base = calls();
    // SAFETY: the hook has the function's type.
    unsafe { detour.enable() }.expect("it can be hooked");
    // SAFETY: the first byte of a function.
    assert_eq!(unsafe { (probed as *const u8).read() }, 0xe9, "a jump to the hook");
    let hit = calls() - base;
    // SAFETY: the hook has the function's type.
    unsafe { detour.disable() }.expect("it can be unhooked");
    let (on, off) = toggles(&detour);
    println!("retour (Rust)\t{on:.1}\t{off:.1}\t-\t{hit:.1}");
    // With another thread in the function it changes code under its feet: last, since it may crash.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let called: extern "C" fn(u64) -> u64 = black_box(probed);
            while !stop.load(Ordering::Relaxed) {
                black_box(called(1));
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (on, _) = toggles(&detour);
        stop.store(true, Ordering::Relaxed);
        println!("contended\t{on:.1}");
    });
}
