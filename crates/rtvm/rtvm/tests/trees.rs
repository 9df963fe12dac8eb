//! Both trees and the initialisation-free array, compared with simple models.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rtvm::{BitTrie, InitFreeArray, LayeredTree, Random, VirtualRegionsTree};

fn trie(pages: u32) -> BitTrie<Vec<u64>> {
    BitTrie::new(vec![0; BitTrie::<Vec<u64>>::words_for(pages)], pages)
}

fn layered(pages: u32) -> LayeredTree<Vec<u32>> {
    LayeredTree::new(vec![0; LayeredTree::<Vec<u32>>::words_for(pages)], pages)
}

/// One operation on both, compared.
fn step<T: VirtualRegionsTree>(tree: &mut T, model: &mut BTreeSet<u32>, what: u8, page: u32) {
    match what % 4 {
        0 => assert_eq!(tree.split(page), model.insert(page), "split {page}"),
        1 => assert_eq!(tree.union(page), model.remove(&page), "union {page}"),
        2 => assert_eq!(tree.is_start(page), model.contains(&page), "start {page}"),
        _ => assert_eq!(tree.find(page), model.range(..=page).next_back().copied(), "find {page}"),
    }
}

/// A million operations around a few places, so that regions are both tiny and huge.
fn long_run<T: VirtualRegionsTree>(tree: &mut T, seed: u64) {
    let mut random = Random::new(seed);
    let mut model = BTreeSet::new();
    let pages = u64::from(tree.pages());
    for round in 0..1_000_000_u64 {
        let spread = [pages, 4096.min(pages), 70.min(pages)][random.below(3) as usize];
        let base = [0, pages - spread, (pages / 3) & !63][random.below(3) as usize].min(pages - spread);
        let page = (base + random.below(spread)) as u32;
        // Phases in which more regions begin than end, and the other way round.
        let what = random.below(4) as u8;
        let what = if what == 0 && (round / 100_000) % 2 == 1 { 1 } else { what };
        step(tree, &mut model, what, page);
    }
}

#[test]
fn a_million_operations_agree_with_the_model() {
    for (seed, pages) in [(1, 1 << 20), (2, 1 << 27), (3, 1000), (4, 1)] {
        long_run(&mut trie(pages), seed);
        long_run(&mut layered(pages), seed);
    }
}

#[test]
fn every_number_of_bits_works() {
    for bits in 0..=16 {
        let pages = 1 << bits;
        let (mut a, mut b) = (trie(pages), layered(pages));
        let mut random = Random::new(bits);
        let mut model = BTreeSet::new();
        for _ in 0..10_000 {
            let (what, page) = (random.below(4) as u8, random.below(u64::from(pages)) as u32);
            step(&mut a, &mut model.clone(), what, page);
            step(&mut b, &mut model, what, page);
        }
    }
}

#[test]
fn the_trees_take_no_more_than_the_papers() {
    assert_eq!(trie(1 << 20).bytes(), 133_160);
    assert_eq!(layered(1 << 20).bytes(), 143_508);
}

proptest! {
    #[test]
    fn short_runs_agree_too(pages in 1u32..5000, steps in prop::collection::vec((any::<u8>(), any::<u32>()), 1..400)) {
        let (mut a, mut b) = (trie(pages), layered(pages));
        let (mut model_a, mut model_b) = (BTreeSet::new(), BTreeSet::new());
        for (what, page) in steps {
            step(&mut a, &mut model_a, what, page % pages);
            step(&mut b, &mut model_b, what, page % pages);
        }
    }

    #[test]
    fn an_array_needs_no_initialisation(
        garbage in prop::collection::vec(any::<u32>(), 3 * 64),
        steps in prop::collection::vec((0u8..20, 0usize..64, any::<u32>()), 1..300),
    ) {
        // Garbage of the nastiest kind: half of it looks like places on the stack.
        let store = |from: usize| -> Vec<u32> {
            garbage[from..from + 64].iter().map(|&g| if g % 2 == 0 { g / 2 % 64 } else { g }).collect()
        };
        let mut array = InitFreeArray::new(store(0), store(64), store(128), u32::MAX);
        let mut model = BTreeMap::new();
        for (what, index, value) in steps {
            match what {
                0 => { array.reset(); model.clear(); }
                1..=9 => { array.set(index, value); model.insert(index, value); }
                _ => prop_assert_eq!(array.get(index), model.get(&index).copied().unwrap_or(u32::MAX)),
            }
            prop_assert_eq!(array.written(), model.len());
        }
    }
}
