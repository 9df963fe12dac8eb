//! `cargo xtask bench rtvm-alloc`: threads that allocate and release, under several mallocs, in one table.
//!
//! Each run is a separate process with the malloc under test in `LD_PRELOAD`. It has T threads, each with a live set of
//! blocks of random sizes up to S. A pair is: release a random block, request a new one, write to each of its pages.
//! Blocks are released by the thread that requested them (own), or are in one set for all threads, so that nearly every
//! block is released by another thread (foreign). One phase counts pairs over time, and a second one times each call. A
//! warm-up before them runs the same load for as long, which is more than twice the time for which rtmalloc keeps
//! released pages. Rounds alternate between the mallocs, since other programs run too; the table shows medians.
//!
//! `--threads 1,8 --sizes 400,4000 --frees own,foreign --rounds 3 --mallocs glibc,rtmalloc`; start reading at [`measure`].

use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use rtvm::{HOST_PAGE_BYTES, Random};

/// How long a phase is, and what comes before the first one.
const PHASE: Duration = Duration::from_millis(1200);
/// Blocks that live at a time at most, in all threads together, and in one.
const MOST_BLOCKS: usize = 8000;
const MOST_BLOCKS_A_THREAD: usize = 1000;
/// What a block's first word is its address with, to find blocks that two have.
const MARK: usize = 0x5a5a_a5a5_0f0f_f0f0;

/// Who releases a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frees {
    Own,
    Foreign,
}

impl Frees {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Foreign => "foreign",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Own, Self::Foreign].into_iter().find(|frees| frees.name() == name)
    }
}

/// What one run does.
#[derive(Clone, Copy, Debug)]
struct Load {
    threads: usize,
    largest: usize,
    frees: Frees,
}

impl Load {
    fn blocks_a_thread(self) -> usize {
        (MOST_BLOCKS / self.threads).min(MOST_BLOCKS_A_THREAD)
    }
}

/// What one run measured.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    pair_ns: f64,
    p9999_ticks: f64,
    user_ns: f64,
    system_ns: f64,
    resident_kib: f64,
}

impl Figures {
    fn line(&self) -> String {
        let Self { pair_ns, p9999_ticks, user_ns, system_ns, resident_kib } = self;
        format!("{pair_ns} {p9999_ticks} {user_ns} {system_ns} {resident_kib}")
    }

    fn of_line(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            pair_ns: next()?,
            p9999_ticks: next()?,
            user_ns: next()?,
            system_ns: next()?,
            resident_kib: next()?,
        })
    }
}

/// Times by size: exact below 64, then 64 steps to each power of two. It does not grow while it counts.
#[derive(Clone)]
struct Histogram(Vec<u64>);

impl Histogram {
    const STEPS: usize = 64;

    fn new() -> Self {
        Self(vec![0; Self::STEPS * 60])
    }

    fn add(&mut self, ticks: u64) {
        let log = ticks.max(1).ilog2().saturating_sub(Self::STEPS.ilog2());
        let at = (log as usize * Self::STEPS) + (ticks >> log) as usize;
        let last = self.0.len() - 1;
        self.0[at.min(last)] += 1;
    }

    /// The smallest time that this share of all is not above.
    fn quantile(&self, share: f64) -> u64 {
        let all: u64 = self.0.iter().sum();
        let mut left = (all as f64 * share) as u64;
        for (at, count) in self.0.iter().enumerate() {
            if *count > left {
                let log = (at / Self::STEPS).saturating_sub(1);
                return ((at - log * Self::STEPS) as u64) << log;
            }
            left -= count;
        }
        u64::MAX
    }
}

#[inline]
fn ticks() -> u64 {
    // SAFETY: both instructions are in every x86-64 processor. The fences keep what is measured between two readings.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

fn allocate(bytes: usize) -> *mut u8 {
    // SAFETY: a call of the C library's, or of what is preloaded.
    let block = unsafe { libc::malloc(bytes) }.cast::<u8>();
    assert!(!block.is_null(), "no memory");
    block
}

/// Uses a block as its owner does: each page, and the first word.
fn fill(block: *mut u8, bytes: usize) {
    for offset in (HOST_PAGE_BYTES..bytes).step_by(HOST_PAGE_BYTES) {
        // SAFETY: inside the block, which is this thread's.
        unsafe { block.add(offset).write_volatile(1) };
    }
    // SAFETY: each block has eight bytes at least, at a multiple of 16.
    unsafe { block.cast::<usize>().write_volatile(block as usize ^ MARK) };
}

fn release(block: *mut u8) {
    // SAFETY: `block` came from malloc, is released once, and nobody uses it any more.
    unsafe { libc::free(block.cast()) };
}

fn check(block: *mut u8) {
    // SAFETY: a live block, whose first word `fill` wrote.
    let first = unsafe { block.cast::<usize>().read_volatile() };
    assert_eq!(first, block as usize ^ MARK, "somebody else wrote into a block");
}

/// A thread's pairs.
struct Worker<'a> {
    random: Random,
    largest: u64,
    /// The live blocks that it picks from.
    set: &'a [AtomicPtr<u8>],
    frees: Frees,
}

impl<'a> Worker<'a> {
    fn bytes(&mut self) -> usize {
        8 + self.random.below(self.largest - 7) as usize
    }

    fn next_slot(&mut self) -> &'a AtomicPtr<u8> {
        let at = self.random.below(self.set.len() as u64) as usize;
        &self.set[at]
    }

    /// Puts a block, or none, into a place of the set, and returns what was there.
    fn exchange(&self, slot: &AtomicPtr<u8>, block: *mut u8) -> *mut u8 {
        match self.frees {
            Frees::Foreign => slot.swap(block, Ordering::AcqRel),
            // Nobody else knows the set: as cheap as a field.
            Frees::Own => {
                let old = slot.load(Ordering::Relaxed);
                slot.store(block, Ordering::Relaxed);
                old
            }
        }
    }

    /// Releases one block, then asks for another one: the order in which a live set stays as large as it is.
    fn pair(&mut self) {
        let bytes = self.bytes();
        let slot = self.next_slot();
        let old = self.exchange(slot, null_mut());
        if !old.is_null() {
            check(old);
            release(old);
        }
        let block = allocate(bytes);
        fill(block, bytes);
        // Another thread can have filled the place meanwhile.
        let beside = self.exchange(slot, block);
        if !beside.is_null() {
            release(beside);
        }
    }

    fn timed_pair(&mut self, times: &mut Histogram) {
        let bytes = self.bytes();
        let slot = self.next_slot();
        let old = self.exchange(slot, null_mut());
        if !old.is_null() {
            check(old);
            let start = ticks();
            release(old);
            times.add(ticks() - start);
        }
        let start = ticks();
        let block = allocate(bytes);
        times.add(ticks() - start);
        fill(block, bytes);
        let beside = self.exchange(slot, block);
        if !beside.is_null() {
            release(beside);
        }
    }
}

/// Processor time of this process so far, of the user and of the system.
fn processor_ns() -> [f64; 2] {
    // SAFETY: all zeros are such a structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is one structure of the kind that is written.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3)
}

fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(f64::NAN)
}

/// What all threads did in one phase.
struct Phase {
    pairs: f64,
    ns: f64,
    times: Histogram,
}

/// Has all threads make pairs for a while.
fn together(load: Load, sets: &[AtomicPtr<u8>], seed: u64, is_timed: bool) -> Phase {
    let barrier = &Barrier::new(load.threads + 1);
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| {
                let set = match load.frees {
                    Frees::Own => &sets[thread * load.blocks_a_thread()..][..load.blocks_a_thread()],
                    Frees::Foreign => sets,
                };
                let random = Random::new(seed * 1000 + thread as u64);
                let mut worker = Worker { random, largest: load.largest as u64, set, frees: load.frees };
                scope.spawn(move || {
                    let (mut times, mut pairs) = (Histogram::new(), 0_u64);
                    barrier.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        if is_timed {
                            worker.timed_pair(&mut times);
                        } else {
                            worker.pair();
                        }
                        pairs += 1;
                    }
                    (times, pairs)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        std::thread::sleep(PHASE);
        is_over.store(true, Ordering::Relaxed);
        let mut phase = Phase { pairs: 0.0, ns: 0.0, times: Histogram::new() };
        for thread in threads {
            let (times, pairs) = thread.join().expect("a thread of the bench");
            phase.pairs += pairs as f64;
            phase.times.0.iter_mut().zip(times.0).for_each(|(sum, count)| *sum += count);
        }
        phase.ns = start.elapsed().as_nanos() as f64;
        phase
    })
}

/// The run itself, in the process with the preloaded malloc.
fn measure(load: Load) -> Figures {
    let sets: Vec<AtomicPtr<u8>> =
        (0..load.blocks_a_thread() * load.threads).map(|_| AtomicPtr::new(null_mut())).collect();
    // Until the places are full, and the heap has the pages that it needs for that.
    together(load, &sets, 1, false);
    let before = processor_ns();
    let counted = together(load, &sets, 2, false);
    let after = processor_ns();
    let resident_kib = resident_kib();
    let timed = together(load, &sets, 3, true);
    sets.iter().map(|slot| slot.load(Ordering::Acquire)).filter(|block| !block.is_null()).for_each(release);
    Figures {
        pair_ns: counted.ns / counted.pairs,
        p9999_ticks: timed.times.quantile(0.9999) as f64,
        user_ns: (after[0] - before[0]) / counted.pairs,
        system_ns: (after[1] - before[1]) / counted.pairs,
        resident_kib,
    }
}

/// A malloc of the comparison, and the library that has it.
struct Malloc {
    name: &'static str,
    library: Option<PathBuf>,
}

/// Those that there are on this machine.
fn mallocs() -> Vec<Malloc> {
    let ours = std::env::current_exe().ok().and_then(|exe| {
        let path = exe.parent()?.parent()?.join("libmemtap_rtmalloc.so");
        path.exists().then_some(path)
    });
    let system = |name: &str| {
        let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
        folders.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.exists())
    };
    let mut mallocs = vec![Malloc { name: "glibc", library: None }];
    for (name, library) in [
        ("rtmalloc", ours),
        ("jemalloc", system("libjemalloc.so.2")),
        ("mimalloc", system("libmimalloc.so.2.0").or_else(|| system("libmimalloc.so.2"))),
    ] {
        match library {
            Some(path) => mallocs.push(Malloc { name, library: Some(path) }),
            None => eprintln!("{name} is not measured: its library was not found"),
        }
    }
    mallocs
}

fn run_in_child(malloc: &Malloc, load: Load) -> Figures {
    let exe = std::env::current_exe().expect("the name of this program");
    let mut command = Command::new(exe);
    command.args(["worker", &load.threads.to_string(), &load.largest.to_string(), load.frees.name()]);
    command.env_remove("LD_PRELOAD");
    if let Some(library) = &malloc.library {
        command.env("LD_PRELOAD", library);
    }
    let output = command.output().expect("this program starts itself");
    assert!(output.status.success(), "{}: {}", malloc.name, String::from_utf8_lossy(&output.stderr));
    Figures::of_line(&String::from_utf8_lossy(&output.stdout)).expect("a line of figures")
}

fn median(all: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = all.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What the command line asks for.
struct Options {
    threads: Vec<usize>,
    sizes: Vec<usize>,
    frees: Vec<Frees>,
    rounds: usize,
    mallocs: Vec<Malloc>,
}

impl Options {
    fn read(words: &[String]) -> Option<Self> {
        let mut options = Self {
            threads: vec![1, 2, 8, 64],
            sizes: vec![400, 1000, 4000, 16_000, 65_536],
            frees: vec![Frees::Own, Frees::Foreign],
            rounds: 5,
            mallocs: mallocs(),
        };
        let numbers = |list: &str| list.split(',').map(|word| word.parse().ok()).collect::<Option<Vec<_>>>();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return None };
            match name.as_str() {
                "--threads" => options.threads = numbers(value)?,
                "--sizes" => options.sizes = numbers(value)?,
                "--rounds" => options.rounds = value.parse().ok().filter(|rounds| *rounds > 0)?,
                "--frees" => options.frees = value.split(',').map(Frees::of).collect::<Option<_>>()?,
                "--mallocs" => {
                    options.mallocs.retain(|malloc| value.split(',').any(|name| name == malloc.name))
                }
                _ => return None,
            }
        }
        Some(options)
    }
}

fn table(options: &Options) {
    let names: Vec<&str> = options.mallocs.iter().map(|malloc| malloc.name).collect();
    println!("Cells: {}; medians of {} rounds.\n", names.join(" / "), options.rounds);
    println!(
        "| threads | bytes up to | frees | ns a pair | p99.99 of a call, ticks | processor ns a pair, user + system | resident MiB |"
    );
    println!("|---|---|---|---|---|---|---|");
    for &frees in &options.frees {
        for &threads in &options.threads {
            for &largest in &options.sizes {
                // One thread has no other.
                if frees == Frees::Foreign && threads == 1 {
                    continue;
                }
                let load = Load { threads, largest, frees };
                let mut runs = vec![Vec::new(); options.mallocs.len()];
                for _ in 0..options.rounds {
                    for (malloc, runs) in options.mallocs.iter().zip(&mut runs) {
                        runs.push(run_in_child(malloc, load));
                    }
                }
                let cell = |show: &dyn Fn(&[Figures]) -> String| {
                    runs.iter().map(|runs| show(runs)).collect::<Vec<_>>().join(" / ")
                };
                println!(
                    "| {threads} | {largest} | {} | {} | {} | {} | {} |",
                    frees.name(),
                    cell(&|runs| format!("{:.0}", median(runs, |run| run.pair_ns))),
                    cell(&|runs| format!("{:.0}", median(runs, |run| run.p9999_ticks))),
                    cell(&|runs| format!(
                        "{:.0} + {:.0}",
                        median(runs, |run| run.user_ns),
                        median(runs, |run| run.system_ns)
                    )),
                    cell(&|runs| format!("{:.1}", median(runs, |run| run.resident_kib) / 1024.0)),
                );
            }
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, threads, largest, frees] = words.as_slice()
        && first == "worker"
    {
        let load = Load {
            threads: threads.parse().expect("a number of threads"),
            largest: largest.parse().expect("bytes"),
            frees: Frees::of(frees).expect("own or foreign"),
        };
        println!("{}", measure(load).line());
        return;
    }
    match Options::read(&words) {
        Some(options) => table(&options),
        None => eprintln!("--threads LIST --sizes LIST --frees own,foreign --rounds N --mallocs LIST"),
    }
}
