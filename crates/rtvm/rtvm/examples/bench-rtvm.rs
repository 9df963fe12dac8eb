//! `cargo xtask bench rtvm`: the figures of docs/overhead.md, all in one run. Ratios may be compared within one run, but figures not
//! between two runs. Each figure is the median of rounds; the smallest round is printed as well, because other programs run too.

use std::alloc::Layout;
use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::time::Instant;

use rtvm::replay::{Action, ReplayOptions, Sizes, Synthetic, with_replay};
use rtvm::{
    AddressSpace, BitTrie, Counted, LayeredTree, Mmu, Page, PhysicalMemory, Random, Rights, RtHeap,
    SpaceWords, VirtualRegionsTree, munmap_ns,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

const ROUNDS: usize = 9;

/// Smallest and middle of the rounds.
fn rounds(mut round: impl FnMut() -> f64) -> (f64, f64) {
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[ROUNDS / 2])
}

fn time(what: impl FnOnce()) -> f64 {
    let start = Instant::now();
    what();
    start.elapsed().as_nanos() as f64
}

fn row(cells: &[&str]) {
    println!("| {} |", cells.join(" | "));
}

fn ns(value: (f64, f64)) -> String {
    format!("{:.1} ({:.1})", value.1, value.0)
}

const PAGES: u32 = 1 << 20;
const REGIONS: usize = 20_000;
const LOOKUPS: usize = 200_000;

/// find, split and union, in ns an operation.
fn tree_times<T: VirtualRegionsTree>(
    tree: &mut T,
    starts: &[u32],
    probes: &[u32],
    new: &[u32],
) -> [(f64, f64); 3] {
    for &start in starts {
        tree.split(start);
    }
    let find = rounds(|| {
        time(|| {
            for &page in probes {
                black_box(tree.find(page));
            }
        }) / probes.len() as f64
    });
    let mut unions = Vec::new();
    let split = rounds(|| {
        let split = time(|| {
            for &page in new {
                black_box(tree.split(page));
            }
        });
        unions.push(time(|| {
            for &page in new {
                black_box(tree.union(page));
            }
        }));
        split / new.len() as f64
    });
    unions.sort_by(f64::total_cmp);
    let per = |time: f64| time / new.len() as f64;
    [find, split, (per(unions[0]), per(unions[ROUNDS / 2]))]
}

/// A BTreeMap of regions, the ordinary way.
struct Map(BTreeMap<u32, u32>);

impl VirtualRegionsTree for Map {
    fn pages(&self) -> u32 {
        PAGES
    }
    fn find(&self, page: u32) -> Option<u32> {
        self.0.range(..=page).next_back().map(|(&start, _)| start)
    }
    fn split(&mut self, page: u32) -> bool {
        self.0.insert(page, 0).is_none()
    }
    fn union(&mut self, page: u32) -> bool {
        self.0.remove(&page).is_some()
    }
    fn is_start(&self, page: u32) -> bool {
        self.0.contains_key(&page)
    }
    fn bytes(&self) -> usize {
        0
    }
}

fn trees() {
    let mut random = Random::new(1);
    let mut some =
        |count: usize| -> Vec<u32> { (0..count).map(|_| random.below(PAGES.into()) as u32).collect() };
    let (starts, probes) = (some(REGIONS), some(LOOKUPS));
    let mut new = some(REGIONS);
    new.sort_unstable();
    new.dedup();
    new.retain(|page| !starts.contains(page));
    // Neither in order nor in the order of the first run.
    let mut shuffle = Random::new(2);
    for at in (1..new.len()).rev() {
        new.swap(at, shuffle.below(at as u64 + 1) as usize);
    }
    println!(
        "\nVirtual Regions Tree, 2^20 pages, {REGIONS} regions: ns an operation, median (smallest) of {ROUNDS} rounds\n"
    );
    row(&["structure", "bytes", "find", "split", "union"]);
    row(&["---"; 5]);
    let mut trie = BitTrie::new(vec![0; BitTrie::<Vec<u64>>::words_for(PAGES)], PAGES);
    let mut layered = LayeredTree::new(vec![0; LayeredTree::<Vec<u32>>::words_for(PAGES)], PAGES);
    let a = tree_times(&mut trie, &starts, &probes, &new);
    let b = tree_times(&mut layered, &starts, &probes, &new);
    let c = tree_times(&mut Map(BTreeMap::new()), &starts, &probes, &new);
    for (name, bytes, times) in [
        ("64-ary bit trie (default)", trie.bytes().to_string(), a),
        ("layered tree", layered.bytes().to_string(), b),
        ("BTreeMap", "-".to_owned(), c),
    ] {
        row(&[name, &bytes, &ns(times[0]), &ns(times[1]), &ns(times[2])]);
    }
    let ratio = |index: usize| format!("{:.1} x", c[index].1 / a[index].1);
    row(&["BTreeMap / trie", "", &ratio(0), &ratio(1), &ratio(2)]);
}

fn unmapping() {
    let pages = (1_u32 << 30) / rtvm::HOST_PAGE_BYTES as u32;
    let words = || vec![0_u32; pages as usize + 2];
    let rtvm = rounds(|| {
        let tree = BitTrie::new(vec![0; BitTrie::<Vec<u64>>::words_for(pages + 2)], pages + 2);
        let words = SpaceWords {
            cache: words(),
            helper: words(),
            stack: words(),
            table: words(),
            pointers: words(),
            region_pages: words(),
            region_starts: words(),
            region_frames: words(),
        };
        let mut space = AddressSpace::new(tree, words);
        let mut memory = PhysicalMemory::new(vec![0; pages as usize]);
        let first = Page(1);
        space.map_region(first, pages, Rights::READ_WRITE).expect("free");
        for page in 0..pages {
            space.access(Page(1 + page), Rights::WRITE, &mut memory).expect("a frame");
        }
        time(|| assert_eq!(space.unmap_region(first, &mut memory), Ok(pages)))
    });
    println!("\nUnmapping 1 GiB, every page of it mapped: ns, median (smallest) of {ROUNDS} rounds\n");
    row(&["what", "ns"]);
    row(&["---"; 2]);
    row(&["unmap_region", &ns(rtvm)]);
    match munmap_ns(1 << 30, 5) {
        Ok(linux) => {
            row(&["Linux munmap", &format!("{linux:.0}")]);
            row(&["ratio", &format!("{:.0} x", linux / rtvm.1)]);
        }
        Err(error) => row(&["Linux munmap", &format!("not measured: {error}")]),
    }
}

/// Touches of an address space and of a heap, in ns each: the constants of `Costs::MEASURED`.
fn touches() {
    const CALLS: usize = 20_000;
    let count = Cell::new(0);
    let zeros = || Counted::new(vec![0_u32; PAGES as usize], &count);
    let trie = || {
        let words = vec![0; BitTrie::<Vec<u64>>::words_for(PAGES)];
        BitTrie::new(Counted::new(words, &count), PAGES)
    };
    let words = SpaceWords {
        cache: zeros(),
        helper: zeros(),
        stack: zeros(),
        table: zeros(),
        pointers: zeros(),
        region_pages: zeros(),
        region_starts: zeros(),
        region_frames: zeros(),
    };
    let mut space = AddressSpace::new(trie(), words);
    let mut memory = PhysicalMemory::new(Counted::new(vec![0_u32; PAGES as usize], &count));
    let mut random = Random::new(4);
    let firsts: Vec<Page> = (0..CALLS).map(|n| Page(n as u32 * 50 + random.below(20) as u32)).collect();
    println!(
        "\nTouches in software, 2^20 pages, {CALLS} regions of 30 pages: median (smallest) of {ROUNDS} rounds\n"
    );
    row(&["operation", "touches", "ns", "ns a touch"]);
    row(&["---"; 4]);
    let mut all: [Vec<f64>; 4] = Default::default();
    let mut touched = [0; 4];
    for _ in 0..ROUNDS {
        let mut step = |which: usize, call: &mut dyn FnMut(Page)| {
            count.set(0);
            all[which].push(time(|| firsts.iter().for_each(|&first| call(first))) / CALLS as f64);
            touched[which] = count.get() / CALLS as u64;
        };
        step(0, &mut |first| space.map_region(first, 30, Rights::READ_WRITE).expect("free"));
        step(1, &mut |first| {
            space.access(Page(first.0 + 7), Rights::WRITE, &mut memory).expect("a frame");
        });
        step(2, &mut |first| {
            space.access(Page(first.0 + 7), Rights::WRITE, &mut memory).expect("a frame");
        });
        step(3, &mut |first| {
            space.unmap_region(first, &mut memory).expect("a region");
        });
    }
    for (which, name) in
        ["map_region", "access with a page fault", "access", "unmap_region"].iter().enumerate()
    {
        all[which].sort_by(f64::total_cmp);
        let (least, middle) = (all[which][0], all[which][ROUNDS / 2]);
        let each = format!("{:.2}", middle / touched[which] as f64);
        row(&[name, &touched[which].to_string(), &ns((least, middle)), &each]);
    }
}

/// An allocator of the comparison.
trait Heap {
    fn alloc(&mut self, bytes: usize) -> Option<NonNull<u8>>;
    fn free(&mut self, block: NonNull<u8>);
}

struct Ours(RtHeap);

impl Heap for Ours {
    fn alloc(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        self.0.malloc(bytes).ok()
    }
    fn free(&mut self, block: NonNull<u8>) {
        // SAFETY: the bench frees each block once, and uses it no more.
        unsafe { self.0.free(block) }.expect("a block");
    }
}

struct Rlsf<'p>(rlsf::Tlsf<'p, u32, u32, 28, 32>);

impl Heap for Rlsf<'_> {
    fn alloc(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        self.0.allocate(Layout::from_size_align(bytes, 16).ok()?)
    }
    fn free(&mut self, block: NonNull<u8>) {
        // SAFETY: the bench frees each block once, with the alignment that `alloc` asked for.
        unsafe { self.0.deallocate(block, 16) }
    }
}

/// The processor's clock in ns: reading `Instant` takes as long as a malloc, and counts in tens.
struct Clock {
    ns_per_tick: f64,
    /// What reading it twice takes, at least.
    own: f64,
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

impl Clock {
    fn new() -> Self {
        let (start, from) = (Instant::now(), ticks());
        while start.elapsed().as_millis() < 50 {}
        let ns_per_tick = start.elapsed().as_nanos() as f64 / (ticks() - from) as f64;
        let own = (0..10_000).map(|_| ticks().abs_diff(ticks())).min().unwrap_or(0) as f64 * ns_per_tick;
        Self { ns_per_tick, own }
    }

    fn ns(&self, from: u64, to: u64) -> f64 {
        ((to - from) as f64 * self.ns_per_tick - self.own).max(0.0)
    }
}

/// Quantiles 0.5, 0.99 and 0.9999 of the times of malloc and free.
fn heap_times(clock: &Clock, heap: &mut impl Heap, least: u64, most: u64, seed: u64) -> [[f64; 3]; 2] {
    const OPERATIONS: usize = 200_000;
    let mut random = Random::new(seed);
    let mut live = vec![None; 1000];
    let mut times = [Vec::with_capacity(OPERATIONS), Vec::with_capacity(OPERATIONS)];
    for _ in 0..OPERATIONS {
        let slot = &mut live[random.below(1000) as usize];
        match slot.take() {
            None => {
                let bytes = (least + random.below(most - least)) as usize;
                let start = ticks();
                let block = heap.alloc(bytes);
                times[0].push(clock.ns(start, ticks()));
                *slot = block;
            }
            Some(block) => {
                let start = ticks();
                heap.free(block);
                times[1].push(clock.ns(start, ticks()));
            }
        }
    }
    live.into_iter().flatten().for_each(|block| heap.free(block));
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [0.5, 0.99, 0.9999].map(|q| times[((times.len() - 1) as f64 * q) as usize])
    })
}

/// An arena whose pages are all present, as `crates/rtvm/rtvm-alloc` makes them: large ones where the kernel has them.
fn arena(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    const LARGE: usize = 2 << 20;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping that is never unmapped; zeroed bytes are bytes.
    unsafe {
        let base = mmap_anonymous(null_mut(), bytes + LARGE, rights, MapFlags::PRIVATE).expect("memory");
        let base = base.map_addr(|addr| addr.next_multiple_of(LARGE));
        // Without, the figures are those of small pages.
        let _ = madvise(base, bytes, Advice::LinuxHugepage);
        base.cast::<u8>().write_bytes(1, bytes);
        std::slice::from_raw_parts_mut(base.cast(), bytes)
    }
}

fn heaps() {
    const BYTES: usize = 512 << 20;
    let clock = Clock::new();
    let base = NonNull::from(arena(BYTES)).cast::<u8>();
    // SAFETY: the arena is this heap's own, aligned, and lives for ever.
    let mut ours = Ours(unsafe { RtHeap::new(base, BYTES, None) }.expect("an arena"));
    let mut other = Rlsf(rlsf::Tlsf::new());
    other.0.insert_free_block(arena(BYTES));
    println!("\nTLSF, prefaulted, 1,000 live blocks: ns of one call, median of {ROUNDS} rounds\n");
    row(&["sizes", "heap", "malloc p50", "p99", "p99.99", "free p50", "p99", "p99.99"]);
    row(&["---"; 8]);
    let mut p99 = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for (name, least, most) in [
        ("16 to 256", 16, 256),
        ("256 to 4k", 256, 4096),
        ("4k to 64k", 4096, 65536),
        ("64k to 512k", 65536, 524_288),
    ] {
        let mut all = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS as u64 {
            all[0].push(heap_times(&clock, &mut ours, least, most, round));
            all[1].push(heap_times(&clock, &mut other, least, most, round));
        }
        for (which, heap) in ["rtvm", "rlsf"].iter().enumerate() {
            let median = |call: usize, quantile: usize| {
                let mut values: Vec<f64> = all[which].iter().map(|t| t[call][quantile]).collect();
                values.sort_by(f64::total_cmp);
                values[ROUNDS / 2]
            };
            let cells: Vec<String> = (0..2)
                .flat_map(|call| (0..3).map(move |q| (call, q)))
                .map(|(c, q)| format!("{:.0}", median(c, q)))
                .collect();
            for (call, values) in p99[which].iter_mut().enumerate() {
                values.push(median(call, 1));
            }
            let mut line = vec![name, heap];
            line.extend(cells.iter().map(String::as_str));
            row(&line);
        }
    }
    for (which, heap) in ["rtvm", "rlsf"].iter().enumerate() {
        let ratio = |call: usize| {
            let (low, high) =
                p99[which][call].iter().fold((f64::MAX, 0.0_f64), |(l, h), &v| (l.min(v), h.max(v)));
            format!("{:.2}", high / low)
        };
        println!("\n{heap}: worst p99 over best p99 of the sizes: malloc {}, free {}", ratio(0), ratio(1));
    }
}

/// Blocks that are filled word after word, as programs do.
fn local(actions: usize) -> Vec<Action> {
    let mut random = Random::new(9);
    let mut all = Vec::with_capacity(actions + 4000);
    let mut id = 0;
    while all.len() < actions {
        let bytes = 16 + random.below(32 << 10);
        all.push(Action::Malloc { id, align_bits: 4, bytes });
        all.extend((0..bytes / 8).map(|word| Action::Access { id, store: word % 3 == 0, offset: word * 8 }));
        id = (id + 1) % 500;
        if all.len() > 300_000 {
            all.push(Action::Free { id });
        } else if id == 499 {
            id = 0;
            all.extend((0..499).map(|id| Action::Free { id }));
        }
    }
    // A number is used again only after its block is gone.
    let mut live = [false; 500];
    all.retain(|action| match *action {
        Action::Malloc { id, .. } => !std::mem::replace(&mut live[id as usize], true),
        Action::Free { id } => std::mem::replace(&mut live[id as usize], false),
        Action::Access { id, .. } => live[id as usize],
        _ => true,
    });
    all
}

fn replays() {
    println!(
        "\nReplay: million actions a second through both systems together, one core, median (best) of {ROUNDS} rounds\n"
    );
    row(&["workload", "actions", "million/s"]);
    row(&["---"; 3]);
    let synthetic: Vec<Action> = Synthetic::new(1, 1_000_000, Sizes::Uniform(8 << 20)).collect();
    for (name, actions) in [
        ("synthetic: almost every access is a page fault", synthetic),
        ("blocks filled word by word", local(4_000_000)),
    ] {
        let time = rounds(|| {
            with_replay(&ReplayOptions::default(), 1, |replay| {
                time(|| actions.chunks(8192).for_each(|a| replay.run(0, a)))
            })
            .expect("a model")
        });
        let rate = |ns: f64| actions.len() as f64 / ns * 1000.0;
        row(&[name, &actions.len().to_string(), &format!("{:.1} ({:.1})", rate(time.1), rate(time.0))]);
    }
}

fn footprints() {
    println!(
        "\nSynthetic workload, 10 seeds: worst release and footprint, conventional / RTMMU, smallest, median, largest\n"
    );
    row(&["sizes", "free touches", "pages", "RTMMU pages", "conventional pages"]);
    row(&["---"; 5]);
    for (name, sizes) in [
        ("uniform to 4 MiB", Sizes::Uniform(4 << 20)),
        ("uniform to 8 MiB", Sizes::Uniform(8 << 20)),
        ("log-uniform to 8 MiB", Sizes::LogUniform(8 << 20)),
    ] {
        let mut columns: [Vec<f64>; 4] = Default::default();
        for seed in 1..=10 {
            let actions: Vec<Action> = Synthetic::new(seed, 1_000_000, sizes).collect();
            with_replay(&ReplayOptions::default(), 1, |replay| {
                actions.chunks(8192).for_each(|a| replay.run(0, a));
                let (a, b) = (replay.rtmmu(), replay.conventional());
                columns[0].push(b.max_free_touches as f64 / a.max_free_touches as f64);
                columns[1].push(f64::from(b.peak_pages) / f64::from(a.peak_pages));
                columns[2].push(f64::from(a.peak_pages));
                columns[3].push(f64::from(b.peak_pages));
            })
            .expect("a model");
        }
        let cells = columns.map(|mut values| {
            values.sort_by(f64::total_cmp);
            format!("{:.0}, {:.0}, {:.0}", values[0], values[values.len() / 2], values[values.len() - 1])
        });
        row(&[name, &cells[0], &cells[1], &cells[2], &cells[3]]);
    }
}

fn main() {
    trees();
    unmapping();
    touches();
    heaps();
    replays();
    footprints();
}
