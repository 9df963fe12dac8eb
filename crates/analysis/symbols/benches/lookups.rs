//! The cost of looking up blocks, variables and code by address.
#![allow(missing_docs, reason = "criterion's macros")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use memref::{AllocationKind, RegionChange, RegionKind, VirtAddr};
use support::{allocation, build, mapped, region};
use symbols::HeapMap;

const BASE: u64 = 0x7f00_0000_0000;
const BLOCKS: u64 = 1_000_000;
const LOOKUPS: usize = 100_000;

/// Addresses with locality: short walks through blocks picked at random.
fn addresses(blocks: u64, spread: u64) -> Vec<VirtAddr> {
    let mut state = 1u64;
    let mut out = Vec::with_capacity(LOOKUPS);
    while out.len() < LOOKUPS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let block = (state >> 33) % blocks;
        out.extend((0..spread).map(|step| VirtAddr(BASE + block * 64 + step * 8 % 48)));
    }
    out.truncate(LOOKUPS);
    out
}

fn filled(blocks: u64) -> HeapMap {
    let mut heap = HeapMap::new();
    for block in 0..blocks {
        heap.apply(&allocation(AllocationKind::Malloc, 0x1000 + block % 100, BASE + block * 64, 48));
    }
    heap
}

fn heap(c: &mut Criterion) {
    let mut group = c.benchmark_group("heap");
    let map = filled(BLOCKS);
    for (name, spread) in [("one access a block", 1), ("six accesses a block", 6)] {
        let addresses = addresses(BLOCKS, spread);
        group.throughput(Throughput::Elements(LOOKUPS as u64));
        group.bench_function(format!("get in a million blocks, {name}"), |b| {
            b.iter(|| addresses.iter().filter_map(|addr| map.get(black_box(*addr))).count());
        });
    }
    group.throughput(Throughput::Elements(2));
    group.bench_function("malloc and free", |b| {
        let mut map = filled(1000);
        let mut at = 0;
        b.iter(|| {
            at = (at + 1) % 1000;
            map.apply(&allocation(AllocationKind::Free, 0x1000, BASE + at * 64, 0));
            map.apply(&allocation(AllocationKind::Malloc, 0x1000, BASE + at * 64, 48))
        });
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("clone for a child, and its first malloc", |b| {
        b.iter_batched(
            || map.clone(),
            |mut child| child.apply(&allocation(AllocationKind::Malloc, 0x1000, BASE, 48)),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn resolver(c: &mut Criterion) {
    let source = "int a[64]; long b[4096]; double c[4096]; int d, e, f; int main(void) { return a[0]; }";
    let built = build("gcc", source, &["-g", "-O0"]);
    let (mut resolver, bias) = mapped(&built.path);
    resolver.apply_region(&region(2, RegionChange::Map, RegionKind::Heap, BASE, BLOCKS * 64));
    for block in 0..BLOCKS {
        resolver.apply_allocation(&allocation(AllocationKind::Malloc, 0x1000, BASE + block * 64, 48));
    }
    let at = |name: &str| bias + support::nm(&built.path, name);
    let (b_at, c_at, d_at) = (at("b"), at("c"), at("d"));
    let mut group = c.benchmark_group("resolver");
    group.throughput(Throughput::Elements(LOOKUPS as u64));
    let arrays: Vec<VirtAddr> = (0..LOOKUPS as u64)
        .map(|n| {
            VirtAddr(match n % 3 {
                0 => b_at + n / 3 % 4096 * 8,
                1 => c_at + n / 3 % 4096 * 8,
                _ => d_at,
            })
        })
        .collect();
    let blocks = addresses(20_000, 6);
    let mixed: Vec<VirtAddr> = arrays.iter().zip(&blocks).flat_map(|(a, b)| [*a, *b]).take(LOOKUPS).collect();
    for (name, addresses) in
        [("three variables", &arrays), ("20,000 blocks", &blocks), ("both in turn", &mixed)]
    {
        group.bench_function(format!("resolve_data, {name}"), |b| {
            b.iter(|| {
                addresses.iter().fold(0u64, |sum, addr| {
                    let name = resolver.resolve_data(black_box(*addr));
                    sum.wrapping_add(u64::from(name.variable.0) + name.offset)
                })
            });
        });
    }
    let main = at("main");
    group.bench_function("resolve_code, 1,000 instructions", |b| {
        b.iter(|| {
            (0..LOOKUPS as u64)
                .fold(0u64, |sum, n| sum + u64::from(resolver.resolve_code(VirtAddr(main + n * 7 % 1000)).0))
        });
    });
    group.finish();
}

fn module(c: &mut Criterion) {
    let mut group = c.benchmark_group("module");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let libc =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc.so"));
    for path in [libc, Some("/usr/bin/python3")].into_iter().flatten().map(std::path::Path::new) {
        if path.exists() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            group.bench_function(format!("open {name}"), |b| b.iter(|| support::open(black_box(path))));
        }
    }
    let built = build("rustc", "static mut S: u64 = 1; fn main() { unsafe { S += 1 } }", &["-g"]);
    group.bench_function(
        "all variables of a Rust program with its standard library's debug information",
        |b| {
            b.iter(|| support::open(&built.path).data_objects().len());
        },
    );
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(500)).measurement_time(std::time::Duration::from_secs(2));
    targets = heap, resolver, module
}
criterion_main!(benches);
