//! Address spaces compared with a naive model; Lemma 1; constant touches; frames that are free at once.

use std::cell::Cell;
use std::collections::BTreeMap;

use rtvm::{
    AddressSpace, BitTrie, Conventional, Counted, Error, FrameNumber, LayeredTree, Mmu, Page, PhysicalMemory,
    Random, Rights, SpaceWords, TwoLevel, VirtualRegionsTree, WordStore,
};

const RW: Rights = Rights::READ_WRITE;

fn trie(pages: u32) -> BitTrie<Vec<u64>> {
    BitTrie::new(vec![0; BitTrie::<Vec<u64>>::words_for(pages)], pages)
}

fn words(pages: u32, mut fill: impl FnMut() -> u32) -> SpaceWords<Vec<u32>> {
    let mut garbage = || (0..pages).map(|_| fill()).collect::<Vec<u32>>();
    SpaceWords {
        cache: garbage(),
        helper: garbage(),
        stack: garbage(),
        table: garbage(),
        pointers: vec![0; pages as usize],
        region_pages: garbage(),
        region_starts: garbage(),
        region_frames: garbage(),
    }
}

fn memory(frames: u32) -> PhysicalMemory<Vec<u32>> {
    PhysicalMemory::new(vec![0xdead_beef; frames as usize])
}

/// Regions by first page; pages by number.
#[derive(Default)]
struct Model {
    regions: BTreeMap<u32, (u32, Rights)>,
    pages: BTreeMap<u32, FrameNumber>,
}

impl Model {
    fn region_of(&self, page: u32) -> Option<(u32, u32, Rights)> {
        let (&first, &(pages, rights)) = self.regions.range(..=page).next_back()?;
        (page - first < pages).then_some((first, pages, rights))
    }

    fn free(&self, first: u32, pages: u32) -> bool {
        self.region_of(first).is_none() && self.regions.range(first..first + pages).next().is_none()
    }
}

/// One random operation on a space and its model.
fn step<M: Mmu>(
    space: &mut M,
    model: &mut Model,
    memory: &mut PhysicalMemory<Vec<u32>>,
    random: &mut Random,
) {
    let pages = u64::from(space.pages());
    let page = random.below(pages) as u32;
    match random.below(10) {
        0 => {
            let most = if random.below(4) == 0 { pages } else { 12 };
            let len = 1 + random.below(most) as u32;
            let rights = [RW, RW, Rights::READ, Rights::NONE][random.below(4) as usize];
            let fits = u64::from(page) + u64::from(len) <= pages && model.free(page, len);
            let result = space.map_region(Page(page), len, rights);
            assert_eq!(result.is_ok(), fits, "map {page} + {len}: {result:?}");
            if fits {
                model.regions.insert(page, (len, rights));
            }
        }
        1 => {
            // Half of the time a region that is there.
            let known = model.regions.range(page..).next().map(|(&first, _)| first);
            let first = if random.below(2) == 0 { known.unwrap_or(page) } else { page };
            let used = memory.used();
            let result = space.unmap_region(Page(first), memory);
            match model.regions.remove(&first) {
                None => assert_eq!(result, Err(Error::NotAStart { page: Page(first) })),
                Some((len, _)) => {
                    let gone: Vec<u32> =
                        model.pages.range(first..first + len).map(|(&page, _)| page).collect();
                    for page in &gone {
                        model.pages.remove(page);
                    }
                    assert_eq!(result, Ok(gone.len() as u32));
                    assert_eq!(memory.used(), used - gone.len() as u32);
                }
            }
        }
        _ => {
            let wanted = if random.below(2) == 0 { Rights::READ } else { Rights::WRITE };
            let before = model.pages.get(&page).copied();
            let full = memory.free() == 0;
            let result = space.access(Page(page), wanted, memory);
            match model.region_of(page) {
                None => assert_eq!(result, Err(Error::NoRegion { page: Page(page) })),
                Some((.., rights)) if !rights.allow(wanted) => {
                    assert_eq!(result, Err(Error::Denied { page: Page(page), wanted }));
                }
                Some(_) => match before {
                    Some(frame) => assert_eq!(result, Ok(frame)),
                    None if full => assert_eq!(result, Err(Error::OutOfFrames)),
                    None => {
                        let frame = result.expect("a frame was free");
                        assert!(!model.pages.values().any(|&f| f == frame), "a frame of two pages");
                        model.pages.insert(page, frame);
                    }
                },
            }
            assert_eq!(space.translate(Page(page), Rights::NONE), Ok(model.pages.get(&page).copied()));
        }
    }
    assert_eq!(space.mapped() as usize, model.pages.len());
}

fn run<M: Mmu>(space: &mut M, steps: u32, seed: u64) {
    let mut random = Random::new(seed);
    let mut model = Model::default();
    let mut memory = memory(60);
    for _ in 0..steps {
        step(space, &mut model, &mut memory, &mut random);
        assert_eq!(memory.used() as usize, model.pages.len(), "every frame in use has its page");
    }
}

#[test]
fn a_million_operations_agree_with_the_model() {
    let mut random = Random::new(7);
    run(&mut AddressSpace::new(trie(100), words(100, || random.below(130) as u32)), 1_000_000, 1);
    run(&mut Conventional::new(trie(100), vec![0; 100], vec![0; 100]), 1_000_000, 2);
}

#[test]
fn the_layered_tree_and_the_hierarchical_tables_do_as_well() {
    let tree = LayeredTree::new(vec![0; LayeredTree::<Vec<u32>>::words_for(100)], 100);
    run(&mut AddressSpace::new(tree, words(100, || 3)), 200_000, 3);
    let two = || TwoLevel::new(vec![0_u32; 13], vec![0_u32; 104], 3);
    let words = SpaceWords {
        cache: two(),
        helper: two(),
        stack: two(),
        table: two(),
        pointers: two(),
        region_pages: two(),
        region_starts: two(),
        region_frames: two(),
    };
    run(&mut AddressSpace::new(trie(100), words), 200_000, 4);
}

/// Lemma 1 with garbage that is as misleading as it can be: pages of the right size, so that each case occurs.
#[test]
fn all_cases_of_lemma_1_are_met_and_handled() {
    let mut seen = rtvm::Lookups::default();
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut garbage = Random::new(seed + 1000);
        let mut space = AddressSpace::new(trie(64), words(64, || garbage.below(66) as u32));
        let mut model = Model::default();
        let mut memory = memory(64);
        for _ in 0..20_000 {
            step(&mut space, &mut model, &mut memory, &mut random);
        }
        let l = space.lookups();
        seen.case_1 += l.case_1;
        seen.case_2_1 += l.case_2_1;
        seen.case_2_2_1 += l.case_2_2_1;
        seen.case_2_2_2_fault += l.case_2_2_2_fault;
        seen.case_2_2_2_hit += l.case_2_2_2_hit;
    }
    for (case, count) in [
        ("1", seen.case_1),
        ("2.1", seen.case_2_1),
        ("2.2.1", seen.case_2_2_1),
        ("2.2.2, fault", seen.case_2_2_2_fault),
        ("2.2.2, mapped", seen.case_2_2_2_hit),
    ] {
        assert!(count > 100, "case {case} was met {count} times");
    }
}

/// The words of Lemma 1's proof, one by one: `h` and `s` agree "by accident", as in Figure 1.
#[test]
fn an_accidental_link_beyond_the_stack_is_no_mapping() {
    let mut words = words(8, || 0);
    for page in 0..8 {
        words.cache[page as usize] = 0;
        words.helper[page as usize] = page;
        words.stack[page as usize] = page;
        words.table[page as usize] = 99;
    }
    let mut space = AddressSpace::new(trie(8), words);
    let mut memory = memory(8);
    space.map_region(Page(0), 8, RW).unwrap();
    for page in 0..8 {
        assert_eq!(space.translate(Page(page), RW), Ok(None), "page {page}");
    }
    assert_eq!(space.access(Page(5), RW, &mut memory), Ok(FrameNumber(0)));
    // The stack now has one place, 0, which is page 5's; page 0 claims it too.
    assert_eq!(space.translate(Page(0), RW), Ok(None));
    assert_eq!(space.translate(Page(5), RW), Ok(Some(FrameNumber(0))));
}

/// An address space all of whose words are counted.
fn counted<'c>(
    pages: u32,
    count: &'c Cell<u64>,
) -> AddressSpace<Counted<'c, Vec<u32>>, BitTrie<Counted<'c, Vec<u64>>>> {
    // Zeros that the kernel only makes where they are touched.
    let zeros = || Counted::new(vec![0_u32; pages as usize], count);
    let tree = vec![0; BitTrie::<Vec<u64>>::words_for(pages)];
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
    AddressSpace::new(BitTrie::new(Counted::new(tree, count), pages), words)
}

/// Touches of unmapping the region of `pages` pages at `first`, each `stride`-th of which is mapped; and how many that were.
fn unmap_touches(first: u32, pages: u32, stride: usize, space_pages: u32) -> (u64, u32) {
    let count = Cell::new(0);
    let mut space = counted(space_pages, &count);
    let frames = Counted::new(vec![0_u32; pages as usize / stride + 2], &count);
    let mut memory = PhysicalMemory::new(frames);
    space.map_region(Page(first), pages, RW).unwrap();
    for page in (first..first + pages).step_by(stride) {
        space.access(Page(page), RW, &mut memory).unwrap();
    }
    let mapped = space.mapped();
    count.set(0);
    assert_eq!(space.unmap_region(Page(first), &mut memory), Ok(mapped));
    let touches = count.get();
    assert_eq!(memory.used(), 0);
    (touches, mapped)
}

#[test]
fn unmapping_touches_as_many_words_for_one_page_as_for_2_to_the_27() {
    const ALL: u32 = 1 << 27;
    // With a free region on both sides.
    let (one, mapped) = unmap_touches(77, 1, 1, ALL);
    assert_eq!(mapped, 1);
    for (first, pages, stride) in
        [(1, 64, 1), (ALL - 1000, 77, 1), (64, 1 << 22, 1), (9, 1 << 26, 1 << 14), (1, ALL - 2, 1 << 16)]
    {
        let (touches, mapped) = unmap_touches(first, pages, stride, ALL);
        assert_eq!(mapped as usize, (pages as usize).div_ceil(stride));
        assert_eq!(touches, one, "{pages} pages at {first}, each {stride}-th mapped");
    }
    // With nothing on either side it is less, and the same again.
    assert_eq!(unmap_touches(0, 1, 1, 1).1, 1);
    assert_eq!(unmap_touches(0, ALL, 1 << 16, ALL).0, unmap_touches(0, ALL, ALL as usize, ALL).0);
    assert!(unmap_touches(0, ALL, 1 << 16, ALL).0 < one);
}

#[test]
fn unmapping_page_by_page_is_linear() {
    let cost = |pages: u32| {
        let count = Cell::new(0);
        let zeros = || Counted::new(vec![0_u32; 1 << 16], &count);
        let mut space = Conventional::new(trie(1 << 16), zeros(), zeros());
        let mut memory = memory(1 << 16);
        space.map_region(Page(0), pages, RW).unwrap();
        for page in 0..pages {
            space.access(Page(page), RW, &mut memory).unwrap();
        }
        count.set(0);
        assert_eq!(space.unmap_region(Page(0), &mut memory), Ok(pages));
        count.get()
    };
    let (small, large) = (cost(100), cost(10_000));
    assert_eq!((large - small) % 9_900, 0);
    assert!((large - small) / 9_900 >= 2, "a load and a store a page");
}

/// The most that any operation touches over many runs stays within what the structure says.
#[test]
fn no_operation_exceeds_its_bound() {
    let count = Cell::new(0);
    let pages = 1 << 12;
    let mut space = counted(pages, &count);
    let mut memory = PhysicalMemory::new(Counted::new(vec![0_u32; 500], &count));
    let levels = space.tree().levels() as u64;
    let mut random = Random::new(11);
    let mut most = [0_u64; 3];
    for _ in 0..300_000 {
        let page = Page(random.below(u64::from(pages)) as u32);
        count.set(0);
        let what = random.below(3) as usize;
        let _ = match what {
            0 => space.map_region(page, 1 + random.below(40) as u32, RW).is_ok(),
            1 => space.unmap_region(page, &mut memory).is_ok(),
            _ => space.access(page, RW, &mut memory).is_ok(),
        };
        most[what] = most[what].max(count.get());
    }
    let find = 2 * levels - 1;
    let change = 2 * levels;
    // What docs/rtvm.md states.
    let bounds = [find + 2 * change + 10, 2 * change + 15, find + 18];
    for (what, (most, bound)) in most.iter().zip(bounds).enumerate() {
        assert!(*most <= bound, "operation {what} touched {most} words, the bound is {bound}");
        assert!(
            *most + 2 * levels >= bound,
            "operation {what} touched {most} words, the bound {bound} is loose"
        );
    }
}

#[test]
fn frames_are_free_for_others_when_unmapping_returns() {
    let mut memory = memory(10);
    let mut a = AddressSpace::new(trie(64), words(64, || 1));
    let mut b = AddressSpace::new(trie(64), words(64, || 2));
    a.map_region(Page(3), 20, RW).unwrap();
    b.map_region(Page(40), 20, RW).unwrap();
    for page in 3..13 {
        a.access(Page(page), RW, &mut memory).unwrap();
    }
    assert_eq!(b.access(Page(41), RW, &mut memory), Err(Error::OutOfFrames));
    assert_eq!(b.mapped(), 0);
    assert_eq!(a.unmap_region(Page(3), &mut memory), Ok(10));
    for page in 40..50 {
        b.access(Page(page), RW, &mut memory).unwrap();
    }
    assert_eq!((a.mapped(), b.mapped(), memory.free()), (0, 10, 0));
}

#[test]
fn errors_are_values() {
    let mut memory = memory(4);
    let mut space = AddressSpace::new(trie(64), words(64, || 5));
    space.map_region(Page(8), 8, Rights::READ).unwrap();
    for (first, pages) in
        [(8, 1), (15, 1), (0, 9), (15, 9), (60, 5), (64, 1), (u32::MAX, 1), (20, 0), (1, u32::MAX)]
    {
        let wrong = Err(Error::Overlap { first: Page(first), pages });
        assert_eq!(space.map_region(Page(first), pages, RW), wrong);
    }
    for first in [0, 9, 16, 64, u32::MAX] {
        let wrong = Err(Error::NotAStart { page: Page(first) });
        assert_eq!(space.unmap_region(Page(first), &mut memory), wrong);
        assert_eq!(space.protect(Page(first), RW).unwrap_err(), Error::NotAStart { page: Page(first) });
    }
    for page in [0, 16, 64, u32::MAX] {
        assert_eq!(
            space.access(Page(page), Rights::READ, &mut memory),
            Err(Error::NoRegion { page: Page(page) })
        );
    }
    let denied = Error::Denied { page: Page(8), wanted: Rights::WRITE };
    assert_eq!(space.access(Page(8), Rights::WRITE, &mut memory), Err(denied));
    space.access(Page(8), Rights::READ, &mut memory).unwrap();
    assert_eq!(space.access(Page(8), Rights::WRITE, &mut memory), Err(denied), "mapped now");
    assert_eq!(denied.to_string(), "the region of page 8 does not allow to write");
    space.protect(Page(8), RW).unwrap();
    space.access(Page(8), Rights::WRITE, &mut memory).unwrap();
    assert_eq!(space.region(Page(8)).unwrap().0.pages, 8);
    space.unmap_region(Page(8), &mut memory).unwrap();
    assert!(space.unmap_region(Page(8), &mut memory).is_err(), "twice");
    assert_eq!(space.tree().find(63), Some(0), "one free region again");
}

#[test]
fn a_directory_takes_leaves_only_where_something_is_stored() {
    let mut store: TwoLevel<Vec<u32>, Vec<u32>> = TwoLevel::new(vec![0; 16], vec![0; 64], 4);
    assert_eq!(WordStore::<u32>::len(&store), 256);
    assert_eq!((WordStore::<u32>::load(&store, 200), store.leaves()), (0, 0));
    store.store(200, 7);
    store.store(201, 8);
    store.store(0, 9);
    assert_eq!((store.load(200), store.load(201), store.load(0), store.load(1)), (7_u32, 8, 9, 0));
    assert_eq!(store.leaves(), 2);
}
